"""A resident that runs as a process of this machine: starting and ending it."""

import asyncio
import contextlib
import os
import signal
import sys
import time
from pathlib import Path

import msgspec

from hermetic.contract.concurrency import shielded
from hermetic.contract.environment import EnvironmentRecord, ResidentConfig, Started
from hermetic.contract.errors import EnvironmentUnavailable
from hermetic.contract.limits import START
from hermetic.environments.starting import start_resident
from hermetic.link.archive import BOOT, build_archive, starting_input
from hermetic.registry.host_process import (
    comm_of,
    end_descendants,
    ended,
    is_resident,
    is_stopped,
    parent_of,
)

GUARDIAN = "hermetic-guardian"[:15]  # as the kernel names its process
PATIENCE = 2.0  # seconds for a resident that was asked to end


async def start_local_resident(config: ResidentConfig) -> Started:
    """Starts a resident on this machine. Raises EnvironmentUnavailable."""
    given = starting_input(build_archive(for_this_python=True), msgspec.msgpack.encode(config))
    starting = asyncio.ensure_future(
        start_resident([_interpreter(), "-I", "-S", "-c", BOOT], given, seconds=START)
    )
    try:
        started = await asyncio.shield(starting)
    except asyncio.CancelledError:
        await shielded(_end_unwanted(starting))
        raise
    if Path(started.socket).parent != Path(config.directory):
        raise EnvironmentUnavailable(
            f"the resident listens at {started.socket}, not in {config.directory}"
        )
    return started


async def end_local_resident(record: EnvironmentRecord) -> str:
    """Returns when the resident and its guardian have ended; the text says which signal was needed."""
    done = await _ensure_ended(record.pid, record.created)
    if record.guardian is not None:
        await _ensure_ended(record.guardian, record.created)
    return done


async def end_listener(pid: int) -> None:
    """Ends a resident that is known by its socket alone, and its guardian.

    Raises EnvironmentUnavailable.
    """
    now = time.time()
    guardian = parent_of(pid)
    if not is_resident(pid, born_before=now):
        raise EnvironmentUnavailable(
            f"process {pid} listens there and is no resident of ours; end it yourself"
        )
    try:
        await _ensure_ended(pid, now, patience=0.0)
    except PermissionError as error:
        raise EnvironmentUnavailable(
            f"process {pid} listens there and may not be ended: {error.strerror}"
        ) from error
    if guardian is not None and is_resident(guardian, born_before=now):
        await _ensure_ended(guardian, now)


def has_local_resident_ended(record: EnvironmentRecord) -> bool:
    """True when the process of the resident has ended. Raises OSError where that cannot be seen."""
    return not is_resident(record.pid, born_before=record.created)


async def _end_unwanted(starting: "asyncio.Future[Started]") -> None:
    """Ends a resident whose start was cancelled after it had detached."""
    with contextlib.suppress(EnvironmentUnavailable, ProcessLookupError):
        started = await starting
        os.kill(started.pid, signal.SIGTERM)
        await ended(started.pid)
        if started.guardian is not None:
            await ended(started.guardian)


async def _ensure_ended(pid: int, born_before: float, patience: float = PATIENCE) -> str:
    """Returns when a resident or guardian has ended, by itself or after growing force; the text
    says what was done.

    A guardian that has to be killed is killed with its descendants, which would be orphans
    otherwise.
    """
    done = f"process {pid} had ended"
    for number, seconds in ((0, patience), (signal.SIGTERM, PATIENCE), (signal.SIGKILL, PATIENCE)):
        if not is_resident(pid, born_before=born_before):
            return done
        if number and is_stopped(pid):
            number = signal.SIGKILL
        if number:
            done = f"sent {signal.Signals(number).name} to process {pid}"
        with contextlib.suppress(ProcessLookupError):
            if number == signal.SIGKILL and comm_of(pid).startswith(GUARDIAN):
                end_descendants(pid)
            os.kill(pid, number)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await ended(pid)
    return done


def _interpreter() -> str:
    if not sys.executable:
        raise EnvironmentUnavailable(
            "this Python does not know its own program (sys.executable); start it by its path"
        )
    return sys.executable
