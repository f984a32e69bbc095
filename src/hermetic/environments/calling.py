"""Base class for environments that are reached by a blocking call alone, as the SDKs of clouds
offer it.

The resident runs there as in every environment; `calling_stream` carries its stream by calls.
"""

import asyncio
import os
import secrets
import socket
from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from hermetic.contract.environment import EnvironmentRecord, Isolation, ResidentConfig, Started
from hermetic.contract.errors import ConfigError, EnvironmentUnavailable, Unreachable
from hermetic.contract.limits import CALLED_START, LEASE, LIFETIME, LOGIN, UNATTENDED
from hermetic.contract.variables import fault_of
from hermetic.environments.calling_scripts import (
    LEAVE,
    PUT,
    RELAY,
    SAY,
    START,
    NoAnswer,
    NoPythonThere,
    packed,
    room,
    script,
    shell_script,
)
from hermetic.environments.calling_stream import BlockingCalls, carry
from hermetic.environments.child_environment import child_environment
from hermetic.environments.options import Lease, Seconds, read_options
from hermetic.environments.remote import REMOVE
from hermetic.environments.runtime.upload import UploadChoice
from hermetic.environments.starting import StartFailed
from hermetic.link.archive import BOOT, NO_PYTHON_CODE, build_archive, starting_input
from hermetic.link.readiness import NotReady, ready_in
from hermetic.registry.records import check_own, is_own_directory

ENDING_SECONDS = 60.0  # for removing the environment


class Gone(Exception):
    """Raised by `call`: the environment is gone for good."""


class CallingOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options that every such kind has."""

    cwd: str = "~"
    env: dict[str, str] = {}  # variables besides those of the environment
    startup: Seconds = CALLED_START  # for creating the environment and its first answer
    lifetime: Seconds = LIFETIME  # of the environment; `create` passes it on
    lease: Lease = LEASE
    unattended: Seconds = UNATTENDED
    login: bool = True  # take the profile there in
    # whose Python and bash: "image", "portable", a portable runtime's path, or as needed
    runtime: str = "auto"


class CallingBackend:
    """A kind of environment by one blocking method: `call`, which runs a script there.

    A subclass names its `kind` and, where it has options of its own, a subclass of CallingOptions;
    the chosen ones are `self.chosen`, and `self.place` is a unique name for the environment.
    Methods run on their own threads, also concurrently. See docs/how-to/add-a-backend.md.
    """

    kind: str
    options_type: ClassVar[type[CallingOptions]] = CallingOptions
    leaves_files = True
    # beginnings of names of variables that the SDK goes by
    variables: ClassVar[tuple[str, ...]] = ()
    notices_silence = True  # a call that takes too long counts as lost
    # characters; one argument of a program on Linux has a few more
    longest_script: ClassVar[int] = 128_000
    # seconds that a call waits for something to come from there
    longest_call: ClassVar[float] = 10.0
    # seconds without a call, after which a caller counts as gone there
    silence: ClassVar[float] = 20.0

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.chosen: Any = read_options(self.kind, self.options_type, options)
        if fault := fault_of(self.chosen.env):
            raise ConfigError(fault, setting="env")
        self.place = ""

    # -- methods of subclasses
    def create(self) -> None:
        """Creates the environment, if it has to be created."""

    def call(self, script: str) -> tuple[str, int]:
        """Runs a shell script there to its end; returns its output and exit code.

        Raise `Gone` when the environment is gone for good; any other exception counts as a broken
        transport.
        """
        raise NotImplementedError

    def cancel(self) -> None:
        """Cancels calls that have no waiter any more, if that is possible.

        Its errors are ignored.
        """

    def destroy(self) -> None:
        """Removes what `create` has created."""

    @property
    def isolation(self) -> Isolation:
        """Isolation of a command there from this machine; none unless a subclass states it."""
        return Isolation(kind=self.kind, shared_paths=("/",))

    # -- the backend
    @property
    def noticed_after(self) -> float:
        """Seconds after which the resident notices a killed caller; its lease begins then."""
        return self.longest_call + self.silence

    @property
    def answers_within(self) -> float:
        """How many seconds a living resident may take to answer a ping over calls."""
        return self.noticed_after

    @property
    def options(self) -> dict[str, Any]:
        """All options, defaults filled in."""
        return msgspec.structs.asdict(self.chosen)

    async def start(
        self, *, id: str, directory: str, spool: str | None, token: bytes, label: str
    ) -> Started:
        """Creates the environment and starts a resident there.

        Raises EnvironmentUnavailable, and leaves nothing.
        """
        chosen = self.chosen
        life = f"{id}.{secrets.token_hex(4)}"
        self.place = f"hermetic-{life.replace('.', '-')}"
        config = ResidentConfig(
            id=life,
            token=token,
            directory="",
            spool=None,
            label=label,
            cwd=chosen.cwd,
            environ=child_environment({}, extra=chosen.env),
            inherit=True,
            lease=chosen.lease,
            unattended=chosen.unattended,
            login=chosen.login,
            login_timeout=LOGIN,
            guardian=True,
            arrival=chosen.startup,
        )
        calls = self._calls()
        try:
            async with asyncio.timeout(chosen.startup) as limit:
                await calls.run(self.create)
                return await self._started(calls, config)
        except BaseException as error:
            await calls.give_up(self.destroy, ENDING_SECONDS)
            if limit.expired():
                raise EnvironmentUnavailable(
                    f"{self.place} was not ready within {chosen.startup:g} s"
                ) from None
            if isinstance(error, Exception) and not isinstance(error, EnvironmentUnavailable):
                raise EnvironmentUnavailable(
                    f"{self.place} did not come up: {_explained(error)}"
                ) from error
            raise

    async def _started(self, calls: BlockingCalls, config: ResidentConfig) -> Started:
        """Starts a resident there, by its own Python and bash or by those of an uploaded runtime."""

        async def ask(text: str, given: bytes) -> str:
            return await calls.output(shell_script(text, given))

        size = room(self.longest_script)
        choice = UploadChoice(
            self.chosen.runtime, repr(self.chosen), ask=ask, size=size, subject=self.place
        )
        while True:
            await choice.prepare()
            try:
                started = await self._sent(calls, choice.configured(config), choice)
                break
            except NoPythonThere as error:
                failed = StartFailed(str(error), "", exit_code=NO_PYTHON_CODE)
            except NotReady as error:
                failed = StartFailed(str(error), "", error=error.error)
            if not choice.learn(failed):
                raise failed
        choice.remember()
        own = os.path.dirname(started.socket)
        if os.path.basename(own) != config.id:
            raise EnvironmentUnavailable(
                f"{self.place}: the resident says that it is at {started.socket}"
            )
        place = {"name": self.place, "directory": own, "spool": started.spool or "", **choice.place}
        return msgspec.structs.replace(started, place=place)

    async def _sent(
        self, calls: BlockingCalls, config: ResidentConfig, choice: UploadChoice
    ) -> Started:
        """Sends the resident there in parts and starts it. Raises NotReady, NoAnswer."""
        file = _new_path(choice.place)
        whole = starting_input(build_archive(), msgspec.msgpack.encode(config))
        for part in packed(whole, room(self.longest_script)):
            await calls.ask(script(choice.python, PUT, file, given=part))
        return ready_in(await calls.ask(script(choice.python, START, file, BOOT)))

    async def reach(self, record: EnvironmentRecord) -> socket.socket:
        """A stream to the resident, carried by calls.

        Raises ConnectionRefusedError, Unreachable.
        """
        self.place = record.place["name"]
        calls, times = self._calls(), (self.longest_call, self.silence)
        python, relay = record.place.get("python", "python3"), _new_path(record.place)
        try:
            said = await calls.ask(script(python, RELAY, relay, record.socket, *map(str, times)))
        except Gone as error:
            raise ConnectionRefusedError(f"{self.place} is gone: {error}") from error
        except Exception as error:  # whatever an SDK raises
            raise Unreachable(
                f"{self.place} does not answer: {_explained(error)}", environment=record.id
            ) from error
        except asyncio.CancelledError:
            calls.tell(script(python, SAY, relay, LEAVE))
            raise
        if said != b"+":
            raise ConnectionRefusedError(
                f"no resident listens in {self.place}: {said.decode('ascii', 'replace')}"
            )
        return carry(calls, python, relay, room(self.longest_script))

    async def remove(self, record: EnvironmentRecord) -> str:
        """Returns when resident and environment are removed. Raises Unreachable."""
        self.place = record.place["name"]
        calls = self._calls()
        pids = [str(pid) for pid in (record.pid, record.guardian) if pid is not None]
        for path in filter(None, (record.place["directory"], record.place["spool"])):
            check_own(record, path, is_own_directory(record, path))
        words = (record.place["directory"], record.place["spool"], *pids)
        python = record.place.get("python", "python3")
        try:
            async with asyncio.timeout(ENDING_SECONDS):
                if type(self).destroy is CallingBackend.destroy:
                    await calls.ask(script(python, REMOVE + 'answer(b"")\n', *words))
                await calls.run(self.destroy)
        except Gone:
            return f"{self.place} was gone already"
        except Exception as error:
            raise Unreachable(
                f"{self.place} was not removed: {_explained(error)}", environment=record.id
            ) from error
        return f"ended process {' and '.join(pids)} in {self.place}, and removed it"

    def _calls(self) -> BlockingCalls:
        return BlockingCalls(self.call, self.cancel)


def _new_path(place: Mapping[str, str]) -> str:
    """A new path for a file there: in the directory of our runtime, which is private, or in /tmp,
    which all have.
    """
    return f"{place.get('prefix') or '/tmp'}/.hermetic-{secrets.token_hex(8)}"


def _explained(error: Exception) -> str:
    if isinstance(error, NoAnswer | NotReady):
        return str(error)
    return f"{type(error).__name__}: {error}"
