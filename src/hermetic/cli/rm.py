"""`hermetic rm`: ends environments and all that runs in them, or one session of theirs."""

import argparse
import asyncio
from typing import TYPE_CHECKING

from hermetic.cli.command import BAD_USAGE, FAILED, complain
from hermetic.cli.places import find_record
from hermetic.cli.report import one_line
from hermetic.contract.environment import EnvironmentRecord
from hermetic.contract.errors import EnvironmentUnavailable, ExecutionError, InvalidArgument, Unreachable
from hermetic.environments import catalog
from hermetic.environments.unix_socket import is_listened_in
from hermetic.fleet.garbage import end_damaged
from hermetic.fleet.opening import attach, attach_environment
from hermetic.registry.records import DamagedRecord, Records, id_for_task, is_id, runtime_root
from hermetic.session.environment import forget

if TYPE_CHECKING:
    from hermetic.cli.command import SubParsers

MOST_SHOWN = 200  # characters


def add_parser(subparsers: "SubParsers") -> None:
    """Declares the arguments."""
    parser = subparsers.add_parser("rm", description="Ends environments: all that runs in them, and their records.")
    parser.add_argument("--all", action="store_true", help="every environment of this user on this machine")
    parser.add_argument(
        "--session", metavar="NAME", help="end only this session: its next command starts afresh ('': the default one)"
    )
    parser.add_argument("names", nargs="*", metavar="TASK", help="a task, an id, or the start of an id")


def run(arguments: argparse.Namespace) -> int:
    """Ends them; 1 when one could not be."""
    if bool(arguments.names) == arguments.all:
        return complain("name the tasks to remove, or give --all; `hermetic envs` lists them", BAD_USAGE)
    records = Records(runtime_root())
    known = [record.id for record in records.all()] + [damaged.environment for damaged in records.damaged()]
    names = known if arguments.all else arguments.names
    return asyncio.run(_remove_all(records, names, arguments.session))


async def _remove_all(records: Records, names: list[str], session: str | None) -> int:
    code = 0
    for name in dict.fromkeys(names):
        try:
            done = await (_remove(records, name) if session is None else _reset(records, name, session))
            print(one_line(done, MOST_SHOWN))
        except ExecutionError as error:
            code = complain(error, FAILED)
    return code


async def _remove(records: Records, name: str) -> str:
    """What was ended, and how where its resident did not help."""
    try:
        record = find_record(records, name)
    except DamagedRecord as error:
        return f"{name}: its record was damaged; {await end_damaged(records, error.environment)}"
    except EnvironmentUnavailable:
        id = name if is_id(name) else id_for_task(name)
        async with records.lock(id):  # it may be being opened
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
        return f"{shown}: it was {error.state}; {await _end(records, record)}"
    except EnvironmentUnavailable:
        await _end(records, record)
    else:
        await environment.close(remove=True)
    return shown


async def _reset(records: Records, name: str, session_name: str) -> str:
    """Ends one session; its environment, by name."""
    record = find_record(records, name)
    async with attach(record.id) as environment:
        session = environment.session(session_name) if session_name else environment
        if not await session.reset():
            what = f"session {session_name!r}" if session_name else "default session"
            raise InvalidArgument(f"no {what} runs in {record.task or record.id}", argument="session")
    return record.task or record.id


async def _end(records: Records, record: EnvironmentRecord) -> str:
    """Ends an environment without its resident's help; what was done."""
    async with records.lock(record.id):
        done = await catalog.find(record.kind)(record.options).remove(record)
        forget(record, records)
    return done or "it was ended from outside"
