"""Finds environments and processes of this user by task, id or the start of an id."""

import asyncio
import shlex
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
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


class KnownEnvironment(NamedTuple):
    """A recorded environment: attached, or with the reason why it is not."""

    record: EnvironmentRecord
    environment: Environment | None
    problem: str = ""
    state: str = "alive"  # or "gone", or the state of Unreachable

    @property
    def name(self) -> str:
        """Its task, else its id."""
        return self.record.task or self.record.id


class KnownProcess(NamedTuple):
    """A process and its environment."""

    environment: Environment
    info: ProcessInfo


IN = "--in ENV -> within  look only in this environment: a task or an id"
PROCESS = "id ID  an id from `hermetic ps`, or the start of one"
TASKS = "names [TASK…]  a task, an id, or the start of an id"


@asynccontextmanager
async def attached(
    wanted: str | None = None, *, observes: bool = False
) -> AsyncIterator[list[KnownEnvironment]]:
    """Attaches to every recorded environment, or to the wanted one; releases them at the end.

    A command that only looks `observes`: it prolongs no lease.
    """
    records = Records(runtime_root())
    chosen = records.all() if wanted is None else [find_record(records, wanted)]
    environments = await asyncio.gather(
        *(attach_known(record, observes=observes) for record in chosen)
    )
    try:
        yield environments
    finally:
        await asyncio.gather(
            *(known.environment.close() for known in environments if known.environment)
        )


def find_record(records: Records, wanted: str) -> EnvironmentRecord:
    """The record of a task, or with an id of this prefix.

    Raises EnvironmentUnavailable, InvalidArgument.
    """
    if record := records.find(wanted):
        return record
    matching = [record for record in records.all() if wanted and record.id.startswith(wanted)]
    if len(matching) > 1:
        ids = ", ".join(record.id for record in matching)
        raise InvalidArgument(
            f"{wanted!r} is the start of several ids: {ids}; give more of it", argument="task"
        )
    if not matching:
        near = did_you_mean(wanted, [record.task or record.id for record in records.all()])
        raise EnvironmentUnavailable(
            f"no environment {wanted!r} is known here; {near}`hermetic envs` lists them"
        )
    return matching[0]


async def find_process(environments: list[KnownEnvironment], wanted: str) -> KnownProcess:
    """The process with an id that is, or begins with, `wanted`.

    Raises UnknownProcess, InvalidArgument.
    """
    processes = [found for one in environments for found in await processes_of(one)]
    matching = [found for found in processes if found.info.id == wanted]
    matching = matching or [
        found for found in processes if wanted and found.info.id.startswith(wanted)
    ]
    if not matching:
        unseen = "".join(f"; {problem}" for problem in problems_of(environments))
        if wanted in [name for one in environments for name in (one.record.id, one.record.task)]:
            name = shlex.quote(wanted)
            raise UnknownProcess(
                f"{wanted!r} is an environment; `hermetic ps -a --in {name}` lists its processes",
                process_id=wanted,
            )
        near = did_you_mean(wanted, [found.info.id for found in processes])
        message = f"no process {wanted!r} is known here; {near}`hermetic ps -a` lists them{unseen}"
        raise UnknownProcess(message, process_id=wanted)
    if len(matching) > 1:
        ids = ", ".join(
            f"{found.info.id} in {found.environment.task or found.environment.id}"
            for found in matching
        )
        raise InvalidArgument(
            f"{wanted!r} fits several processes: {ids}; give more of it, or --in ENV", argument="id"
        )
    return matching[0]


@asynccontextmanager
async def process_in_use(wanted: str, within: str | None = None) -> AsyncIterator[KnownProcess]:
    """The process with an id that is, or begins with, `wanted`, for a block that prolongs the lease
    of its environment, and of no other.

    Raises UnknownProcess, InvalidArgument.
    """
    async with AsyncExitStack() as block:
        async with attached(within, observes=True) as environments:
            found = await find_process(environments, wanted)
            used = await attach_environment(found.environment.id, patience=0)
            await block.enter_async_context(used)
        yield KnownProcess(used, found.info)


def problems_of(environments: list[KnownEnvironment]) -> list[str]:
    """The reasons why environments that may be alive could not be queried."""
    return [known.problem for known in environments if known.state not in ("alive", "gone")]


async def processes_of(known: KnownEnvironment) -> list[KnownProcess]:
    """Running and ended processes of an environment; none where it is gone."""
    if known.environment is None:
        return []
    try:
        return [
            KnownProcess(known.environment, info) for info in await known.environment.processes()
        ]
    except EnvironmentUnavailable:
        return []


async def attach_known(record: EnvironmentRecord, *, observes: bool = False) -> KnownEnvironment:
    """A recorded environment; a client that `observes` does not prolong its lease."""
    try:
        return KnownEnvironment(
            record, await attach_environment(record.id, patience=0, observes=observes)
        )
    except Unreachable as error:
        return KnownEnvironment(record, None, str(error), error.state)
    except ExecutionError as error:
        return KnownEnvironment(record, None, str(error), "gone")
