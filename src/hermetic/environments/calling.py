"""Base class for environments that are reached by a blocking call alone, as the SDKs of clouds
offer it.

The resident runs there as in every environment; `calling_stream` carries its stream by calls.
"""

import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar

from hermetic.contract.environment import EnvironmentRecord, Isolation
from hermetic.contract.limits import CALLED_START, LIFETIME
from hermetic.environments.calling_scripts import (
    PUT,
    RELAY,
    START,
    NoAnswer,
    answered,
    packed,
    room,
    script,
    shell_script,
)
from hermetic.environments.calling_stream import BlockingCalls, CallStream
from hermetic.environments.clouds.hosted import ID, HostedBackend, NewSandbox, Ran
from hermetic.environments.clouds.hosted import Gone as Gone
from hermetic.environments.options import RuntimeOptions, Seconds
from hermetic.environments.remote import MARK, REMOVE
from hermetic.link.archive import BOOT
from hermetic.registry.records import check_own, is_own_directory


class CallingOptions(RuntimeOptions, frozen=True, kw_only=True):
    """The options that every such kind has."""

    cwd: str = "~"
    startup: Seconds = CALLED_START  # for creating the environment and its first answer
    lifetime: Seconds = LIFETIME  # of the environment; `create` passes it on


class CallingBackend(HostedBackend):
    """A kind of environment by one blocking method: `call`, which runs a script there.

    A subclass names its `kind` and, where it has options of its own, as `option_shape` a subclass of
    CallingOptions; the chosen ones are `self.chosen`, and `self.place` is a unique name for the
    environment. Methods run on their own threads, also concurrently. See
    docs/how-to/add-a-backend.md.
    """

    option_shape: ClassVar[type[CallingOptions]] = CallingOptions
    # beginnings of names of variables that the SDK goes by
    variables: ClassVar[tuple[str, ...]] = ()
    # characters; one argument of a program on Linux has a few more
    longest_script: ClassVar[int] = 128_000
    # seconds that a call waits for something to come from there
    longest_call: ClassVar[float] = 10.0
    # seconds without a call, after which a caller counts as gone there
    silence: ClassVar[float] = 20.0
    discard_seconds = 60.0

    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__(options)
        self.place = ""
        self._calls = BlockingCalls(self.call, self.cancel)

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

    # -- the service
    @property
    def noticed_after(self) -> float:
        """Seconds after which the resident notices a killed caller; its lease begins then."""
        return self.longest_call + self.silence

    @property
    def part_bytes(self) -> int:
        """As many as fit into a script."""
        return room(self.longest_script)

    @asynccontextmanager
    async def service(self) -> "AsyncIterator[CalledSandbox]":
        """The one environment of this name."""
        yield CalledSandbox(self, self._calls)

    async def ask(self, sandbox: "CalledSandbox", script: str, given: bytes) -> str:
        """By a call."""
        return (await self._calls.output(shell_script(script, given)))[0]

    async def boot(self, sandbox: "CalledSandbox", python: str, given: bytes) -> Ran:
        """Sends the resident in parts."""
        file = _new_path(python)
        for part in packed(given, self.part_bytes):
            ran = await self._ran(script(python, PUT, file, given=part))
            if ran.exit_code != 0:
                return ran
        ran = await self._ran(script(python, START, file, BOOT))
        return ran._replace(output=MARK + ran.output)

    async def run_python(
        self, sandbox: "CalledSandbox", python: str, code: str, *arguments: str
    ) -> Ran:
        """By a call."""
        return await self._ran(script(python, code, *arguments))

    async def connect(
        self, sandbox: "CalledSandbox", python: str, code: str, *arguments: str
    ) -> CallStream:
        """By a relay there, which runs the code."""
        relay = _new_path(python)
        words = (relay, str(self.longest_call), f"import os\nos.write(1, {MARK!r})\n{code}")
        await self._calls.ask(script(python, RELAY, *words, *arguments))
        return CallStream(self._calls, python, relay, self.part_bytes)

    async def discard(self, new: NewSandbox) -> None:
        """Cancels running calls and waits for their ends first: one of them may be `create`."""
        await self._calls.give_up(self.destroy)

    async def end_sandbox(
        self, sandbox: "CalledSandbox", record: EnvironmentRecord, kept_for: str | None
    ) -> None:
        """Destroys the environment; of one that is not created here, the resident."""
        own, spool = record.place["directory"], record.place["spool"]
        for path in filter(None, (own, spool)):
            check_own(record, path, is_own_directory(record, path))
        if type(self).destroy is CallingBackend.destroy:
            pids = [str(pid) for pid in (record.pid, record.guardian) if pid is not None]
            python = record.place.get("python", "python3")
            await self._calls.ask(script(python, REMOVE + 'answer(b"")\n', own, spool, *pids))
        await self._calls.run(self.destroy)

    async def _ran(self, text: str) -> Ran:
        said, code = await self._calls.output(text)
        try:
            return Ran(answered(said, code), "", code)
        except NoAnswer as error:
            return Ran(b"", str(error), code or 1)


class CalledSandbox:
    """The environment of a backend, as a service has it."""

    def __init__(self, backend: CallingBackend, calls: BlockingCalls) -> None:
        self._backend, self._calls = backend, calls

    @property
    def id(self) -> str:
        """Its name."""
        return self._backend.place

    async def create(self, new: NewSandbox, options: CallingOptions) -> "CalledSandbox":
        """Creates it."""
        self._backend.place = new.name
        await self._calls.run(self._backend.create)
        return self

    async def find(self, id: str) -> "CalledSandbox":
        """The environment of this name; a call finds out that it is gone."""
        self._backend.place = id
        return self

    async def tagged(self, tags: Mapping[str, str]) -> "Sequence[CalledSandbox]":
        """None is known but by its name."""
        return ()

    async def tags(self) -> Mapping[str, str]:
        """The id of the environment, which its name has."""
        return {ID: self.id.removeprefix("hermetic-").rpartition("-")[0]}


def _new_path(python: str) -> str:
    """A new path for a file there: in the directory of our runtime, which is private, or in /tmp,
    which all have.
    """
    prefix = python.removesuffix("/python/bin/python3") if python.startswith("/") else "/tmp"
    return f"{prefix}/.hermetic-{secrets.token_hex(8)}"
