"""`hermetic wait`, `inspect` and `events`: what a process or an environment is, and when that
changes.
"""

import argparse
import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator

import msgspec

from hermetic.cli.colours import shown_state
from hermetic.cli.command import FAILED, JSON, Command, options, report_error
from hermetic.cli.interrupts import Interrupts, interruptible
from hermetic.cli.lookup import (
    IN,
    PROCESS,
    KnownEnvironment,
    attached,
    find_process,
    find_record,
    process_in_use,
)
from hermetic.cli.report import one_line, print_json
from hermetic.contract.errors import EnvironmentUnavailable, UnknownProcess
from hermetic.contract.process import ProcessEvent, ProcessInfo
from hermetic.registry.records import Records, runtime_root

NOT_ENDED = 124  # as after a timeout of `hermetic run`


@interruptible
async def _wait(arguments: argparse.Namespace, _: Interrupts) -> int:
    """The exit code of the process."""
    async with process_in_use(arguments.id, arguments.within) as found:
        process = await found.environment.process(found.info.id)
        ending = None
        with contextlib.suppress(TimeoutError):
            ending = await process.wait(arguments.timeout)
    code = None if ending is None else ending.exit_code
    if arguments.json:
        print_json({"id": process.id, "ending": ending, "exit_code": code})
    elif ending is not None:
        print(f"{process.id}: {shown_state(one_line(str(ending)), sys.stdout)}")
    if ending is None:
        return report_error(f"{process.id} still runs after {arguments.timeout:g} s", NOT_ENDED)
    return FAILED if code is None else code


@interruptible
async def _inspect(arguments: argparse.Namespace, _: Interrupts) -> int:
    """Prints one JSON object."""
    print_json(await _describe(arguments.within, arguments.name))
    return 0


async def _describe(within: str | None, name: str) -> object:
    async with attached(within, observes=True) as environments:
        try:
            found = await find_process(environments, name)
        except UnknownProcess:
            record = find_record(Records(runtime_root()), name)
            return await _describe_environment(
                next(known for known in environments if known.record.id == record.id)
            )
        process = await found.environment.process(found.info.id)
        status = await process.status()
        fields = msgspec.to_builtins(process.info)
        return {
            "environment": found.environment.id,
            **fields,
            "waiting_for_input": status.waiting_for_input,
        }


async def _describe_environment(known: KnownEnvironment) -> object:
    record = msgspec.to_builtins(known.record)
    del record["token"]  # a client with it is let in
    if known.environment is None:
        return {**record, "state": known.state, "problem": known.problem}
    info, processes = await asyncio.gather(known.environment.info(), known.environment.processes())
    isolation = known.environment.isolation
    return {
        **record,
        "state": "alive",
        "isolation": isolation,
        "info": info,
        "processes": processes,
    }


@interruptible
async def _events(arguments: argparse.Namespace, _: Interrupts) -> int:
    """Prints events until Ctrl-C or the end of the environments."""
    async with (
        attached(arguments.within, observes=True) as environments,
        asyncio.TaskGroup() as group,
    ):
        for known in environments:
            if known.environment is not None:
                group.create_task(_print_from(known, known.environment.events(), arguments.json))
    return 0


async def _print_from(
    known: KnownEnvironment, events: AsyncIterator[ProcessEvent], as_json: bool
) -> None:
    try:
        async for event in events:
            _print_event(known, event.event, event.process, as_json)
    except EnvironmentUnavailable:
        _print_event(known, "gone", None, as_json)


def _print_event(
    known: KnownEnvironment, event: str, process: ProcessInfo | None, as_json: bool
) -> None:
    if as_json:
        where = {"environment": known.record.id, "task": known.record.task}
        print(
            msgspec.json.encode({**where, "event": event, "process": process}).decode(), flush=True
        )
        return
    text = f"{known.name}  {event}"
    if process is not None:
        text += f"  {process.id}  {process.ending or process.state}  {process.command}"
    print(one_line(text), flush=True)


COMMANDS = {
    "wait": Command(
        """\
Waits until a process has ended; prints how, and exits with its code. 124: it still runs after --timeout.

  hermetic wait --timeout 600 build""",
        options(
            "--timeout S: float  give up after so many seconds; the process runs on",
            JSON,
            IN,
            PROCESS,
        ),
        _wait,
    ),
    "inspect": Command(
        """\
All that is known of an environment or a process, as JSON.

  hermetic inspect web""",
        options(
            "--json  as without it",
            IN,
            "name NAME  a task, or the id of an environment or process, or its start",
        ),
        _inspect,
    ),
    "events": Command(
        """\
Starts and ends of processes in the environments that live now, as they happen, until Ctrl-C.

  hermetic events --json --in web""",
        options("--json  one JSON object per line", IN),
        _events,
    ),
}
