"""`hermetic stop` and `hermetic release`: hold agents and freeze or end what they run."""

import argparse

from hermetic.cli.command import (
    BAD_USAGE,
    FAILED,
    JSON,
    Command,
    did_you_mean,
    options,
    report_error,
    takes,
)
from hermetic.cli.interrupts import Interrupts, interruptible
from hermetic.cli.lookup import TASKS, find_record
from hermetic.cli.report import one_line, print_json, user_name
from hermetic.contract.errors import EnvironmentUnavailable
from hermetic.fleet.stopping import Stopped, release, stop
from hermetic.registry.holds import ALL, holds
from hermetic.registry.records import Records, id_for_task, is_id, runtime_root

_NAMES = options("--all  every environment of this user, also those opened later", JSON, TASKS)


@interruptible
async def _stop(arguments: argparse.Namespace, _: Interrupts) -> int:
    """Returns 1 when the processes of an environment could not be reached."""
    if bool(arguments.names) == arguments.all:
        return report_error(
            "name the tasks to stop, or give --all; `hermetic envs` lists them", BAD_USAGE
        )
    records, by = Records(runtime_root()), f"{user_name()}, hermetic stop"
    ids = {_id(records, name): name for name in arguments.names}
    done = await stop(
        records, None if arguments.all else [*ids], "end" if arguments.end else "freeze", by
    )
    verb, also = "ended" if arguments.end else "frozen", "calls are held until `hermetic release`"
    reached = {one.environment for one in done}
    for name in [name for id, name in ids.items() if id not in reached]:
        report_error(f"{name} has no environment; if it is to get one, its {also}", 0)
    if arguments.all and not done:
        report_error(f"no environment is known here; of those that are opened later, {also}", 0)
    return _report(done, verb, also, arguments.json)


@interruptible
async def _release(arguments: argparse.Namespace, _: Interrupts) -> int:
    if arguments.names and arguments.all:
        return report_error("name the tasks to release, or give --all", BAD_USAGE)
    records = Records(runtime_root())
    ids = {_id(records, name): name for name in arguments.names}
    held = {hold.environment for hold in holds()}
    done = await release(records, [*ids] or None)
    known = held | {one.environment for one in done}
    code = _report(done, "go on", "", arguments.json)
    for name in [name for id, name in ids.items() if not known & {id, ALL}]:
        near = did_you_mean(name, [record.task or record.id for record in records.all()])
        code = report_error(
            f"{name} has no environment and was not held; {near}`hermetic envs` lists them", FAILED
        )
    return code


def _id(records: Records, name: str) -> str:
    """The id of an environment; a task that has none yet is held before it has."""
    try:
        return find_record(records, name).id
    except EnvironmentUnavailable:
        return name if is_id(name) else id_for_task(name)


def _report(done: list[Stopped], verb: str, also: str, as_json: bool) -> int:
    code = 0
    if as_json:
        print_json(done)
    for one in done:
        name = one_line(one.task or one.environment)
        if one.problem:
            code = report_error(f"{name}: {one.problem}", FAILED)
        elif not as_json:
            print(f"{name}: {one.processes} processes {verb}{f'; {also}' if also else ''}")
    return code


COMMANDS = {
    "stop": Command(
        """\
Freezes (or ends) the processes of agents, and holds their tool calls until `hermetic release`. What a person started
with `hermetic run`, `hermetic shell` or the console runs on.

  hermetic stop web
  hermetic stop --all --end""",
        takes(_NAMES, options("--end  end the processes instead of freezing them")),
        _stop,
    ),
    "release": Command(
        """\
Lets what `hermetic stop` has frozen go on, and tool calls again; without a task: everywhere.

  hermetic release web
  hermetic release""",
        _NAMES,
        _release,
    ),
}
