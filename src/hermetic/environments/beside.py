"""A resident on this machine: started beside us, and seen to its end."""

import asyncio
import contextlib
import os
import secrets
import signal
import sys
from pathlib import Path

import msgspec

from hermetic.contract.environment import EnvironmentRecord, ResidentConfig, Started
from hermetic.contract.errors import EnvironmentUnavailable
from hermetic.contract.limits import START
from hermetic.environments.starting import ended, is_resident, start_resident
from hermetic.link.archive import BOOT, build_archive, starting_input

PATIENCE = 2.0  # seconds for a resident that was told to end; it has nothing left to do then


def new_life(id: str) -> str:
    """The id of one life of an environment's resident: a task's next resident has another."""
    return f"{id}.{secrets.token_hex(4)}"


async def start_beside(config: ResidentConfig, boot: str | None = None, *, seconds: float = START.value) -> Started:
    """Starts a resident beside us. Raises EnvironmentUnavailable."""
    given = starting_input(build_archive(), msgspec.msgpack.encode(config))
    starting = asyncio.ensure_future(
        start_resident([_interpreter(), "-I", "-S", "-c", boot or BOOT], given, seconds=seconds)
    )
    try:
        started = await asyncio.shield(starting)
    except asyncio.CancelledError:
        await _end_unwanted(starting)
        raise
    if Path(started.socket).parent != Path(config.directory):
        raise EnvironmentUnavailable(f"the resident listens at {started.socket}, not in {config.directory}")
    return started


async def end_beside(record: EnvironmentRecord) -> None:
    """Returns when the resident and its guardian have ended."""
    for pid in (record.pid, record.guardian):
        if pid is not None:
            await _see_ended(pid, record.created)


async def _end_unwanted(starting: "asyncio.Future[Started]") -> None:
    """Ends a resident that stands on its own by the time its opener no longer wants it."""
    with contextlib.suppress(EnvironmentUnavailable, ProcessLookupError):
        started = await starting
        os.kill(started.pid, signal.SIGTERM)
        await ended(started.pid)
        if started.guardian is not None:
            await ended(started.guardian)


async def _see_ended(pid: int, born_before: float) -> None:
    """Returns when a resident or guardian has ended: by itself, or because we help."""
    for help_with in (0, signal.SIGTERM, signal.SIGKILL):
        if not is_resident(pid, born_before=born_before):
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, help_with)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                await ended(pid)
                return


def _interpreter() -> str:
    if not sys.executable:
        raise EnvironmentUnavailable("this Python does not know its own program (sys.executable); start it by its path")
    return sys.executable
