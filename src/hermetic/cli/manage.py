"""`hermetic ps`, `envs`, `logs`, `kill`, `rm` and `gc`: the environments of this user and their
processes.
"""

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple

import msgspec

from hermetic.cli.command import BAD_USAGE, FAILED, JSON, Command, options, report_error
from hermetic.cli.copying import LogCopy
from hermetic.cli.interrupts import Interrupts, interruptible
from hermetic.cli.lookup import (
    IN,
    TASKS,
    KnownEnvironment,
    KnownProcess,
    attached,
    find_process,
    find_record,
    problems_of,
    process_in_use,
    processes_of,
)
from hermetic.cli.report import age, one_line, print_json, print_listing, size, span
from hermetic.cli.times import seconds_since
from hermetic.contract.environment import EnvironmentInfo, EnvironmentRecord
from hermetic.contract.errors import (
    EnvironmentUnavailable,
    ExecutionError,
    InvalidArgument,
    Unreachable,
    Unsupported,
)
from hermetic.contract.fleet import Removed
from hermetic.contract.limits import KILL_GRACE
from hermetic.environments import catalog
from hermetic.environments.unix_socket import is_listened_in
from hermetic.fleet.garbage import collect, end_damaged
from hermetic.fleet.opening import attach, attach_environment
from hermetic.registry.janitor_process import UNREACHABLE
from hermetic.registry.records import DamagedRecord, Records, id_for_task, is_id, runtime_root
from hermetic.session.environment import Environment, forget
from hermetic.session.keeping import disk_bytes, link_of
from hermetic.session.output import offset_since

Fields = dict[str, object]

TAIL_PIECE = 1 << 16  # bytes that are searched for lines at a time
MOST_SHOWN = 200  # characters of a line


@interruptible
async def _ps(arguments: argparse.Namespace, _: Interrupts) -> int:
    """Prints the processes, and on stderr why an environment could not be queried."""
    async with attached(arguments.within, observes=True) as environments:
        listed = await asyncio.gather(*map(processes_of, environments))
    found = [one for listing in listed for one in listing]
    chosen = [one for one in found if arguments.all or one.info.is_running]
    columns = "ID|ENVIRONMENT|PID|STATE|AGE|OUTPUT|COMMAND"
    print_listing(arguments.json, map(_process_data, chosen), columns, map(_process_row, chosen))
    for problem in problems_of(environments):
        report_error(problem, 0)
    return 0


def _process_row(found: KnownProcess) -> tuple[str, ...]:
    info, environment = found.info, found.environment
    ended = f"{info.ending}, {info.left} left" if info.left else str(info.ending)
    state = info.state if info.ending is None else ended
    name, output = environment.task or environment.id, size(info.out + (info.err or 0))
    return (info.id, name, str(info.pid or "-"), state, age(info.started), output, info.command)


def _process_data(found: KnownProcess) -> dict[str, object]:
    where = {
        "environment": found.environment.id,
        "task": found.environment.task,
        "kind": found.environment.kind,
    }
    fields: dict[str, object] = msgspec.to_builtins(found.info)
    return {"id": fields.pop("id"), **where, "process_kind": fields.pop("kind"), **fields}


class EnvironmentRow(NamedTuple):
    """An environment, with its resident's answer if it is alive."""

    known: KnownEnvironment
    info: EnvironmentInfo | None
    disk: int | None = None  # bytes


@interruptible
async def _envs(arguments: argparse.Namespace, _: Interrupts) -> int:
    """Prints the environments."""
    seen = await list_environments()
    columns = "ID|KIND|TASK|STATE|AGE|RUNNING|ATTACHED|MEMORY|DISK|LEASE"
    print_listing(
        arguments.json, map(_environment_data, seen), columns, map(_environment_row, seen)
    )
    for damaged in Records(runtime_root()).damaged():
        report_error(damaged, 0)
    return 0


async def list_environments() -> list[EnvironmentRow]:
    """Every recorded environment, queried concurrently."""
    async with attached(observes=True) as environments:
        return list(await asyncio.gather(*map(_query, environments)))


async def _query(known: KnownEnvironment) -> EnvironmentRow:
    if known.environment is None:
        return EnvironmentRow(known, None)
    try:
        info = await known.environment.info()
    except EnvironmentUnavailable:
        return EnvironmentRow(known, None)
    try:
        return EnvironmentRow(known, info, await disk_bytes(known.environment, info.spool_bytes))
    except EnvironmentUnavailable:  # the engine does not answer; the resident did
        return EnvironmentRow(known, info)


def state_of(seen: EnvironmentRow) -> str:
    """alive, gone, or the reason why it cannot be used now."""
    return "alive" if seen.info else "gone" if seen.known.environment else seen.known.state


def _environment_row(seen: EnvironmentRow) -> tuple[str, ...]:
    record, info = seen.known.record, seen.info
    known = (record.id, record.kind, record.task or "-", state_of(seen), age(record.created))
    if info is None:
        return (*known, *"-----")
    used = ("-" if amount is None else size(amount) for amount in (info.rss, seen.disk))
    return (*known, str(info.processes), str(info.clients), *used, span(info.lease))


def _environment_data(seen: EnvironmentRow) -> dict[str, object]:
    record = seen.known.record
    shown = {name: getattr(record, name) for name in ("id", "kind", "task", "created", "options")}
    answer = {
        "alive": seen.info is not None,
        "state": state_of(seen),
        "info": seen.info,
        "disk_bytes": seen.disk,
    }
    return {**shown, **answer, "notes": record.notes}


@interruptible
async def _logs(arguments: argparse.Namespace, interrupts: Interrupts) -> int:
    """Prints the log."""
    since = None if arguments.since is None else seconds_since(arguments.since)
    if arguments.tail is not None and arguments.tail < 0:
        raise InvalidArgument("--tail is a number of lines, 0 or more", argument="tail")
    async with process_in_use(arguments.id, arguments.within) as found:
        log = f"{found.info.id}/err" if arguments.stderr else found.info.id
        start = arguments.offset
        if since is not None:
            start = await _offset_since(found.environment, log, since)
        if arguments.tail is not None:
            written = found.info.err or 0 if arguments.stderr else found.info.out
            start = await _last_lines(found.environment, log, written, arguments.tail)
        copy = LogCopy(found.environment, log, lambda data: interrupts.write(1, data), start)
        await (copy.to_the_end() if arguments.follow else copy.to_now())
    if copy.dropped:
        sys.stderr.write(
            f"hermetic: {copy.dropped} bytes fell out of the log's cap and are not shown\n"
        )
    return 0


async def _offset_since(environment: Environment, log: str, age: float) -> int:
    try:
        return await offset_since(link_of(environment), log, age)
    except Unsupported:
        raise Unsupported(
            "the environment was opened by an older version, which does not know when output came; use --tail",
            capability="since",
        ) from None


async def _last_lines(environment: Environment, log: str, end: int, lines: int) -> int:
    """The offset at which the last lines before `end` begin."""
    position, missing = end, lines + 1  # line ends, with that of the line before them
    while position > 0:
        start = max(0, position - TAIL_PIECE)
        chunk = await environment.read_log(log, start, limit=position - start)
        data = chunk.data
        if position == end:
            data = data.removesuffix(b"\n") + b"\n"  # an unended last line is a line too
        if (found := data.count(b"\n")) >= missing:
            for _ in range(missing):
                data = data[: data.rindex(b"\n")]
            return min(end, start + len(data) + 1)
        if chunk.start > start:  # what comes before it fell out of the log
            return chunk.start
        position, missing = start, missing - found
    return 0


@interruptible
async def _kill(arguments: argparse.Namespace, _: Interrupts) -> int:
    """Returns 1 when one could not be ended."""
    async with attached(arguments.within, observes=True) as environments:
        return await _each(
            arguments.ids, lambda id: _kill_one(environments, id, arguments), arguments.json
        )


async def _each(
    names: Iterable[str], act: Callable[[str], Awaitable[tuple[str, Fields]]], as_json: bool
) -> int:
    """Prints what came of each, as a line or as fields; returns 1 if one failed."""
    code, done = 0, []
    for name in names:
        try:
            line, fields = await act(name)
            done.append(fields)
            if not as_json:
                print(one_line(line, MOST_SHOWN))
        except ExecutionError as error:
            done.append({"name": name, "error": str(error)})
            code = report_error(error, FAILED)
    if as_json:
        print_json(done)
    return code


async def _kill_one(
    environments: list[KnownEnvironment], wanted: str, arguments: argparse.Namespace
) -> tuple[str, Fields]:
    found = await find_process(environments, wanted)
    process = await found.environment.process(found.info.id)
    if arguments.signal is not None:
        name: str = arguments.signal
        await process.signal(int(name) if name.isdigit() else name)
        return f"{process.id}: sent {name}", {"name": wanted, "id": process.id, "signal": name}
    ending = await process.kill(arguments.grace)
    return f"{process.id}: {ending}", {"name": wanted, "id": process.id, "ending": ending}


@interruptible
async def _rm(arguments: argparse.Namespace, _: Interrupts) -> int:
    """Returns 1 when one could not be ended."""
    if bool(arguments.names) == arguments.all:
        return report_error(
            "name the tasks to remove, or give --all; `hermetic envs` lists them", BAD_USAGE
        )
    records = Records(runtime_root())
    known = [record.id for record in records.all()] + [
        damaged.environment for damaged in records.damaged()
    ]
    names = known if arguments.all else arguments.names
    session = arguments.session

    async def remove(name: str) -> tuple[str, Fields]:
        done = await (_remove(records, name) if session is None else _reset(records, name, session))
        return done, {"name": name, "removed": done}

    return await _each(dict.fromkeys(names), remove, arguments.json)


async def _remove(records: Records, name: str) -> str:
    """Ends an environment; returns its name, and how it was ended where its resident did not
    answer.
    """
    try:
        record = find_record(records, name)
    except DamagedRecord as error:
        return f"{name}: its record was damaged; {await end_damaged(records, error.environment)}"
    except EnvironmentUnavailable:
        id = name if is_id(name) else id_for_task(name)
        async with records.lock(id):  # another process may be opening it
            has_record = records.find(name) is not None
        if has_record or not await is_listened_in(records.root / id):
            raise
        return f"{name}: its record was missing; {await end_damaged(records, id)}"
    shown = record.task or record.id
    try:
        environment = await attach_environment(record.id, patience=0)
    except Unreachable as error:
        if error.state not in ("stalled", "full"):
            raise
        return f"{shown}: it was {error.state}; {await _end_from_outside(records, record)}"
    except EnvironmentUnavailable:
        await _end_from_outside(records, record)
    else:
        await environment.close(remove=True)
    return shown


async def _reset(records: Records, name: str, session_name: str) -> str:
    """Ends one session; returns the name of its environment."""
    record = find_record(records, name)
    async with attach(record.id) as environment:
        session = environment.session(session_name) if session_name else environment
        if not await session.reset():
            what = f"session {session_name!r}" if session_name else "default session"
            raise InvalidArgument(
                f"no {what} runs in {record.task or record.id}", argument="session"
            )
    return record.task or record.id


async def _end_from_outside(records: Records, record: EnvironmentRecord) -> str:
    """Ends an environment without its resident; returns what was done."""
    async with records.lock(record.id):
        done = await catalog.find(record.kind)(record.options).remove(record)
        forget(record, records)
    return done or "it was ended from outside"


@interruptible
async def _gc(arguments: argparse.Namespace, _: Interrupts) -> int:
    """Prints what was removed; returns UNREACHABLE when a named environment could not be queried, and
    FAILED when there is none of a name.
    """
    records = Records(runtime_root())
    problems: list[str] = []
    removed: list[Removed] = []
    unknown: list[ExecutionError] = []
    known: list[str] = []
    missing: dict[str, EnvironmentUnavailable] = {}  # by id
    for name in arguments.ids:  # all are looked up before anything is removed
        try:
            known.append(find_record(records, name).id)
        except DamagedRecord as error:
            unknown.append(error)
        except EnvironmentUnavailable as error:
            missing[name if is_id(name) else id_for_task(name)] = error
    for id in dict.fromkeys(known):
        removed += await collect(records, [id], problems)
    for id, absence in missing.items():  # an opener that was killed may have left something
        unanswered = len(problems)
        left = await collect(records, [id], problems)
        removed += left
        if not left and len(problems) == unanswered:
            unknown.append(absence)
    if not arguments.ids:
        removed = await collect(records, (), problems)
    if arguments.json:
        print_json(removed)
    else:
        for one in removed:
            print(f"{one.what:12} {one_line(one.name, 160)}")
    for problem in problems:
        report_error(problem, UNREACHABLE)
    for reason in unknown:
        report_error(reason, FAILED)
    if unknown:
        return FAILED
    return UNREACHABLE if problems and arguments.ids else 0


COMMANDS = {
    "ps": Command(
        """\
What runs in the environments of this user.

  hermetic ps
  hermetic ps --all --in web""",
        options("-a, --all  also what has ended, as long as its log is kept", JSON, IN),
        _ps,
    ),
    "envs": Command(
        """\
The environments of this user on this machine.

  hermetic envs
  hermetic envs --json""",
        options(JSON),
        _envs,
    ),
    "logs": Command(
        """\
The output of a process or command, as it was printed.

  hermetic logs -f --tail 20 web-server
  hermetic logs --since 5m web-server""",
        options(
            """\
-f, --follow           go on until the process has ended
--stderr               the separate stderr instead of stdout
| --offset N: int = 0  start at this byte
| --tail N: int        only the last N lines
| --since T            only output of the last 90s, 30m, 12h or 7d, or since a time:
                       2026-11-16T19:30""",
            IN,
            "id ID  an id from `hermetic ps -a`, or the start of one",
        ),
        _logs,
    ),
    "kill": Command(
        """\
Ends processes with their whole trees: TERM, then KILL to what is left after the grace.

  hermetic kill web-server
  hermetic kill --signal HUP web-server""",
        options(
            f"""\
--grace S: float = {KILL_GRACE}  seconds (default: %(default)s)
--signal NAME          only send this signal to the tree: INT, USR1, 9 …""",
            JSON,
            IN,
            "ids ID…  an id from `hermetic ps`, or the start of one",
        ),
        _kill,
    ),
    "rm": Command(
        """\
Ends environments: all that runs in them, and their records.

  hermetic rm web
  hermetic rm --all""",
        options(
            """\
--all           every environment of this user on this machine
--session NAME  end only this session: its next command starts afresh ('': the default one)""",
            JSON,
            TASKS,
        ),
        _rm,
    ),
    "gc": Command(
        """\
Removes what killed processes left: records, directories and containers of environments that are gone. What lives, or is
being opened, is left alone.

  hermetic gc
  hermetic gc web""",
        options("ids [ID…]  look at these environments alone", JSON),
        _gc,
    ),
}
