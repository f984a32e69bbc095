"""Stops agents: their processes are frozen or ended, and their tool calls held, until a person
releases them.
"""

import asyncio
from collections.abc import Sequence

import msgspec

from hermetic.contract.environment import EnvironmentRecord
from hermetic.contract.errors import ExecutionError, UnknownProcess
from hermetic.contract.process import ProcessInfo
from hermetic.fleet.opening import attach_environment
from hermetic.link import answers
from hermetic.registry import holds
from hermetic.registry.holds import Mode
from hermetic.registry.records import Records
from hermetic.session.environment import Environment
from hermetic.session.keeping import link_of

ANSWER_SECONDS = 30.0  # for an environment to stop its processes


class Stopped(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one environment."""

    environment: str  # id
    task: str | None
    processes: int = 0  # that were frozen, ended, or go on
    # why its processes could not be reached; its calls are held or released all the same
    problem: str = ""


async def stop(
    records: Records, ids: Sequence[str] | None, mode: Mode, by: str = ""
) -> list[Stopped]:
    """Holds the tool calls of these environments first, then freezes or ends their processes.

    None: of all environments, also of those that are opened later. What a person started there runs
    on.
    """
    for id in [None] if ids is None else ids:
        holds.hold(id, mode, by)
    return await _each(records, ids, mode)


async def release(records: Records, ids: Sequence[str] | None) -> list[Stopped]:
    """Lets the processes of these environments go on, and their tool calls; None: of all."""
    for id in [None] if ids is None else ids:
        holds.release(id)
    return await _each(records, ids, None)


async def _each(records: Records, ids: Sequence[str] | None, mode: Mode | None) -> list[Stopped]:
    chosen = [record for record in records.all() if ids is None or record.id in ids]
    return list(await asyncio.gather(*(_reach(record, mode) for record in chosen)))


async def _reach(record: EnvironmentRecord, mode: Mode | None) -> Stopped:
    count, problem = 0, ""
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            environment = await attach_environment(record.id, patience=0, observes=True)
            try:
                count = await _act(environment, mode)
            finally:
                await environment.close()
    except (ExecutionError, TimeoutError) as error:
        problem = str(error) or f"it did not answer within {ANSWER_SECONDS:g} s"
    return Stopped(environment=record.id, task=record.task, processes=count, problem=problem)


async def _act(environment: Environment, mode: Mode | None) -> int:
    link = link_of(environment)
    if mode is None:
        return (await link.ask("thaw", answers.frozen))[0].processes
    processes = await environment.processes()
    if mode == "freeze":
        of_persons = (info.id for info in processes if info.is_of_person and info.is_running)
        spared = "\0".join(of_persons).encode()
        return (await link.ask("freeze", answers.frozen, spare=spared))[0].processes
    await link.ask("thaw", answers.frozen)  # what is frozen does not handle TERM
    running = [info for info in processes if info.is_running and not info.is_of_person]
    return sum(await asyncio.gather(*(_kill(environment, info) for info in running)))


async def _kill(environment: Environment, info: ProcessInfo) -> bool:
    try:
        await (await environment.process(info.id)).kill()
    except UnknownProcess:  # it ended by itself
        return False
    return True
