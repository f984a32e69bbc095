"""The environments of this user on this machine, and the processes in them, found by task, id or the start of one."""

import argparse
import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

from hermetic.cli.command import did_you_mean
from hermetic.contract.environment import EnvironmentRecord
from hermetic.contract.errors import (
    EnvironmentUnavailable,
    ExecutionError,
    InvalidArgument,
    UnknownProcess,
    Unreachable,
)
from hermetic.contract.process import ProcessInfo
from hermetic.fleet.opening import attach_environment
from hermetic.registry.records import Records, runtime_root
from hermetic.session.environment import Environment


class Place(NamedTuple):
    """A remembered environment; attached to where it answers, else with the reason."""

    record: EnvironmentRecord
    environment: Environment | None
    problem: str = ""
    state: str = "alive"  # or "gone", or why it cannot be used now, as Unreachable says it

    @property
    def name(self) -> str:
        """What a person calls it."""
        return self.record.task or self.record.id


class Found(NamedTuple):
    """A process and where it is."""

    environment: Environment
    info: ProcessInfo


def add_place_option(parser: argparse.ArgumentParser) -> None:
    """Declares --in."""
    parser.add_argument("--in", metavar="ENV", dest="place", help="look only in this environment: a task or an id")


@asynccontextmanager
async def attached(wanted: str | None = None) -> AsyncIterator[list[Place]]:
    """Every remembered environment, or the wanted one, attached to at once; let go of at the end."""
    records = Records(runtime_root())
    chosen = records.all() if wanted is None else [find_record(records, wanted)]
    places = await asyncio.gather(*map(_attach, chosen))
    try:
        yield places
    finally:
        await asyncio.gather(*(place.environment.close() for place in places if place.environment))


def find_record(records: Records, wanted: str) -> EnvironmentRecord:
    """The record of a task, or with an id that begins so. Raises EnvironmentUnavailable, InvalidArgument."""
    if record := records.find(wanted):
        return record
    matching = [record for record in records.all() if wanted and record.id.startswith(wanted)]
    if len(matching) > 1:
        ids = ", ".join(record.id for record in matching)
        raise InvalidArgument(f"{wanted!r} is the start of several ids: {ids}; give more of it", argument="task")
    if not matching:
        near = did_you_mean(wanted, [record.task or record.id for record in records.all()])
        raise EnvironmentUnavailable(f"no environment {wanted!r} is known here; {near}`hermetic envs` lists them")
    return matching[0]


async def find_process(places: list[Place], wanted: str) -> Found:
    """The process with an id that is, or begins with, `wanted`. Raises UnknownProcess, InvalidArgument."""
    known = [found for place in places for found in await processes_of(place)]
    matching = [found for found in known if found.info.id == wanted]
    matching = matching or [found for found in known if wanted and found.info.id.startswith(wanted)]
    if not matching:
        unseen = "".join(f"; {problem}" for problem in problems_of(places))
        near = did_you_mean(wanted, [found.info.id for found in known])
        message = f"no process {wanted!r} is known here; {near}`hermetic ps -a` lists them{unseen}"
        raise UnknownProcess(message, process_id=wanted)
    if len(matching) > 1:
        ids = ", ".join(f"{found.info.id} in {found.environment.task or found.environment.id}" for found in matching)
        raise InvalidArgument(f"{wanted!r} fits several processes: {ids}; give more of it, or --in ENV", argument="id")
    return matching[0]


def problems_of(places: list[Place]) -> list[str]:
    """Why some environments that may live could not be looked into."""
    return [place.problem for place in places if place.state not in ("alive", "gone")]


async def processes_of(place: Place) -> list[Found]:
    """What runs in a place, and what has ended there; nothing where it went away meanwhile."""
    if place.environment is None:
        return []
    try:
        return [Found(place.environment, info) for info in await place.environment.processes()]
    except EnvironmentUnavailable:
        return []


async def _attach(record: EnvironmentRecord) -> Place:
    try:
        return Place(record, await attach_environment(record.id, patience=0))
    except Unreachable as error:
        return Place(record, None, str(error), error.state)
    except ExecutionError as error:
        return Place(record, None, str(error), "gone")
