"""`hermetic rm`: ends environments and all that runs in them, or one session of theirs."""

import argparse
import asyncio
from typing import TYPE_CHECKING

from hermetic.cli.dispatch import BAD_USAGE, FAILED, complain
from hermetic.cli.places import find_record
from hermetic.cli.report import one_line
from hermetic.contract.environment import EnvironmentRecord
from hermetic.contract.errors import EnvironmentUnavailable, ExecutionError, InvalidArgument
from hermetic.environments import catalog
from hermetic.environments.records import Records, runtime_root
from hermetic.environments.starting import is_resident
from hermetic.session.environment import forget
from hermetic.session.opening import attach

if TYPE_CHECKING:
    from hermetic.cli.dispatch import SubParsers


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
    names = [record.id for record in records.all()] if arguments.all else arguments.names
    return asyncio.run(_remove_all(records, names, arguments.session))


async def _remove_all(records: Records, names: list[str], session: str | None) -> int:
    code = 0
    for name in dict.fromkeys(names):
        try:
            record = find_record(records, name)
            if session is None:
                await _remove(records, record)
            else:
                await _reset(record, session)
            print(one_line(record.task or record.id))
        except ExecutionError as error:
            code = complain(error, FAILED)
    return code


async def _remove(records: Records, record: EnvironmentRecord) -> None:
    try:
        environment = await attach(record.id)
    except EnvironmentUnavailable:
        await _forget(records, record)
    else:
        await environment.close(remove=True)


async def _reset(record: EnvironmentRecord, name: str) -> None:
    async with attach(record.id) as environment:
        session = environment.session(name) if name else environment
        if not await session.reset():
            what = f"session {name!r}" if name else "default session"
            raise InvalidArgument(f"no {what} runs in {record.task or record.id}", argument="session")


async def _forget(records: Records, record: EnvironmentRecord) -> None:
    """Takes away the record of an environment that is gone."""
    if is_resident(record.pid, born_before=record.created):
        raise EnvironmentUnavailable(
            f"environment {record.id} does not answer; end its resident with: kill {record.pid}", environment=record.id
        )
    async with records.lock(record.id):
        await catalog.find(record.kind)(record.options).remove(record)
        forget(record, records)
