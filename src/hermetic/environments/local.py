"""The machine we are on: the resident is a process beside us, reached by its Unix socket."""

import asyncio
import contextlib
import os
import secrets
import signal
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec

from hermetic.contract.environment import EnvironmentRecord, Isolation, ResidentConfig, Started
from hermetic.contract.errors import ConfigError, EnvironmentUnavailable, InvalidArgument
from hermetic.contract.limits import LEASE, LOGIN, START, UNATTENDED
from hermetic.contract.variables import fault_of, is_text
from hermetic.environments.child_environment import child_environment
from hermetic.environments.options import read_options
from hermetic.environments.starting import ended, is_resident, start_resident
from hermetic.environments.unix_socket import connect
from hermetic.link.archive import BOOT, build_archive, starting_input

PATIENCE = 2.0  # seconds for a resident that was told to end; it has nothing left to do then

LEAST_LEASE = 0.1  # seconds; a new resident has to live until its opener has attached

Lease = Annotated[float, msgspec.Meta(ge=LEAST_LEASE)]
Seconds = Annotated[float, msgspec.Meta(ge=0)]


class LocalOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of `local`."""

    cwd: str | None = None  # None: the opener's
    env: dict[str, str] = {}  # variables besides the opener's
    passthrough: tuple[str, ...] = ()  # names that are passed on though they look like credentials
    lease: Lease = LEASE.value
    unattended: Seconds = UNATTENDED.value
    login: bool = True  # take the user's profile in


class Local:
    """Commands run as the caller, on the caller's machine, with nothing in between."""

    kind = "local"
    option_shape = LocalOptions

    def __init__(self, options: Mapping[str, Any]) -> None:
        chosen = read_options(self.kind, LocalOptions, options)
        if fault := fault_of(chosen.env):
            raise ConfigError(fault, setting="env")
        self._options = msgspec.structs.replace(chosen, cwd=_whole_path(chosen.cwd or "."))

    @property
    def options(self) -> dict[str, Any]:
        """All options, defaults filled in."""
        return msgspec.structs.asdict(self._options)

    @property
    def isolation(self) -> Isolation:
        """None: what a command can do, it does to this machine."""
        return Isolation(kind=self.kind, shared_paths=("/",))

    async def start(self, *, id: str, directory: str, spool: str | None, token: bytes, label: str) -> Started:
        """Starts a resident beside us. Raises EnvironmentUnavailable."""
        options = self._options
        config = ResidentConfig(
            id=f"{id}.{secrets.token_hex(4)}",  # of this life: a task's next resident has another
            token=token, directory=directory, spool=spool, label=label, cwd=_directory(options.cwd or "."),
            environ=child_environment(os.environ, passthrough=options.passthrough, extra=options.env),
            lease=options.lease, unattended=options.unattended, login=options.login, login_timeout=LOGIN.value,
            guardian=True,
        )  # fmt: skip
        given = starting_input(build_archive(), msgspec.msgpack.encode(config))
        starting = asyncio.ensure_future(
            start_resident([_interpreter(), "-I", "-S", "-c", BOOT], given, seconds=START.value)
        )
        try:
            started = await asyncio.shield(starting)
        except asyncio.CancelledError:
            await _end_unwanted(starting)
            raise
        if Path(started.socket).parent != Path(directory):
            raise EnvironmentUnavailable(f"the resident listens at {started.socket}, not in {directory}")
        return started

    async def reach(self, record: EnvironmentRecord) -> socket.socket:
        """A socket connected to the resident's."""
        return await connect(record.socket)

    async def remove(self, record: EnvironmentRecord) -> None:
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


def _whole_path(path: str) -> str:
    try:
        whole = os.path.abspath(os.path.expanduser(path))
    except FileNotFoundError:
        raise ConfigError(
            "the current directory is gone; change to one that exists, or give the option cwd as a whole path",
            setting="cwd",
        ) from None
    if not is_text(whole):
        raise ConfigError(
            f"cwd {whole!r} is not valid UTF-8; open the environment elsewhere and pass this one to run(cwd=…)",
            setting="cwd",
        )
    return whole


def _directory(path: str) -> str:
    if not os.path.isdir(path):
        missing = "is not a directory" if os.path.exists(path) else "does not exist"
        raise InvalidArgument(f"cwd {path!r} {missing}; give a directory that exists", argument="cwd")
    return path


def _interpreter() -> str:
    if not sys.executable:
        raise EnvironmentUnavailable("this Python does not know its own program (sys.executable); start it by its path")
    return sys.executable
