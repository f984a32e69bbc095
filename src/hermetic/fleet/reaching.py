"""Attaching to the environment of a record.

Only proof counts as gone; every other failure may pass.
"""

import asyncio
import resource
import socket
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from hermetic.contract.concurrency import in_background
from hermetic.contract.environment import Backend, EnvironmentRecord
from hermetic.contract.errors import EnvironmentUnavailable, State, Unreachable
from hermetic.contract.limits import LEASE, REACH, SILENCE, STALL, UNATTENDED
from hermetic.environments import catalog
from hermetic.link.connection import Silent, Unanswered
from hermetic.link.link import Link
from hermetic.registry.host_process import is_scarce
from hermetic.registry.janitor import JanitorClient, liveness_check
from hermetic.registry.records import Records

LONGEST_PAUSE = 0.5  # seconds between two tries


class Attached(NamedTuple):
    """An environment that answers."""

    backend: Backend
    record: EnvironmentRecord
    link: Link


async def reach(
    record: EnvironmentRecord,
    records: Records,
    patience: float | None = None,
    *,
    observes: bool = False,
) -> Attached | None:
    """Attaches to the environment of a record; None with proof that it is gone. One that observes
    prolongs no lease.

    Proof is an ended process or container, a socket without listener, or the answer of another
    resident. Raises Unreachable after `patience` seconds if it may live: it is stalled, full or
    busy.
    """
    backend = catalog.find(record.kind)(record.options)
    link = link_to(backend, record, records, observes=observes)
    until, pause = time.monotonic() + (REACH if patience is None else patience), 0.02
    while True:
        try:
            await link.open()
            break
        except ConnectionRefusedError:
            return None
        except (OSError, EnvironmentUnavailable) as error:
            if isinstance(error, FileNotFoundError | Unanswered | Silent) and await _is_gone(
                backend, record, error
            ):
                return None
            problem = unreachable(error, record, records.stalled_since(record.id))
            is_passing = isinstance(problem, Unreachable) and problem.state != "broken"
            if not is_passing or time.monotonic() + pause > until:
                if isinstance(problem, Unreachable) and problem.state == "stalled":
                    await Stall(records, record, backend).noticed()
                raise problem from error
        await asyncio.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE)
    if link.hello.resident != record.resident:
        await link.close()
        return None
    records.set_stalled(record.id, False)
    return Attached(backend, record, link)


def check_of(
    backend: Backend, id: str, options: Mapping[str, Any], slack: float = 0.0
) -> dict[str, Any]:
    """The check by which the janitor finds out whether a resident that this host cannot see has
    ended.
    """
    lease, unattended = options.get("lease", LEASE), options.get("unattended", UNATTENDED)
    orphans = getattr(backend, "orphans", False)
    return liveness_check(
        id, lease + slack, unattended, getattr(backend, "variables", ()), orphans=orphans
    )


Connected = Callable[[socket.socket], object]


def link_to(
    backend: Backend,
    record: EnvironmentRecord,
    records: Records,
    on_connect: Connected = lambda stream: None,
    *,
    observes: bool = False,
) -> Link:
    """A link to the resident of a record, not yet open; `on_connect` is called with each new
    stream.
    """

    async def dial() -> socket.socket:
        stream = await backend.reach(record)
        on_connect(stream)
        return stream

    silence = getattr(backend, "answers_within", STALL)
    stall = Stall(records, record, backend)
    return Link(
        dial,
        record.token,
        environment=record.id,
        silence=silence,
        on_stall=stall.changed,
        observes=observes,
        keepalive=max(SILENCE, 2 * silence),
        drops=not getattr(backend, "notices_silence", False),
    )


class Stall:
    """Notes on this host that an environment does not answer, and registers it with the janitor."""

    def __init__(self, records: Records, record: EnvironmentRecord, backend: Backend) -> None:
        self._records, self._record, self._backend = records, record, backend

    def changed(self, is_stalled: bool) -> None:
        """The environment stalled, or answers again."""
        if not is_stalled:
            self._records.set_stalled(self._record.id, False)
            return
        in_background(self.noticed())

    async def noticed(self) -> None:
        """The environment stalled."""
        id, options = self._record.id, self._record.options
        if self._records.stalled_since(id) is not None:
            return
        self._records.set_stalled(id, True)
        check = check_of(self._backend, id, options)
        async with JanitorClient(self._records, id, is_wanted=True, check=check) as janitor:
            janitor.made()
            janitor.stalled()


async def _is_gone(backend: Backend, record: EnvironmentRecord, error: Exception) -> bool:
    """Whether the resident's process or container has ended; kinds that cannot see it take a
    missing socket for it.
    """
    see = getattr(backend, "is_gone", None)
    try:
        return isinstance(error, FileNotFoundError) if see is None else bool(await see(record))
    except (OSError, Unreachable):
        return False


def unreachable(
    error: Exception, record: EnvironmentRecord, since: float | None
) -> EnvironmentUnavailable:
    """The error for an environment that may live: its state, since when, and advice."""
    name = record.task or record.id
    seen = "" if since is None else f" (seen first {time.time() - since:.0f} s ago)"
    advice: dict[State, str] = {
        "stalled": f"its resident does not answer{seen}: wait and try again, or end it: hermetic rm {name}",
        "full": "close one of its clients, then try again",
        "busy": _scarcity(),
    }
    if isinstance(error, Unreachable) and error.state != "broken":
        state: State = error.state
    elif isinstance(error, FileNotFoundError | BlockingIOError | Unanswered):
        state = "stalled"
    elif is_scarce(error):
        state = "busy"
    elif isinstance(error, EnvironmentUnavailable):
        return error
    else:
        return Unreachable(f"environment {name} cannot be reached: {error}", environment=record.id)
    message = f"environment {name} is {state} ({error}); {advice.get(state, '')}. Nothing was ended"
    return Unreachable(message, environment=record.id, state=state)


def scarce(error: OSError) -> Unreachable | None:
    """The error for a lack of descriptors or memory; None for another one."""
    if not is_scarce(error):
        return None
    return Unreachable(
        f"no environment can be opened now: {error.strerror}; {_scarcity()}", state="busy"
    )


def _scarcity() -> str:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return f"this program may have {soft} files open: close some, or raise the limit (ulimit -n), then try again"
