"""Base of kinds whose environment is a sandbox of a service, reached by the service's API alone.

It starts a resident in a new sandbox, connects to it, and ends the sandbox.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

import msgspec

from hermetic.contract.environment import EnvironmentRecord, NewEnvironment, ResidentConfig, Started
from hermetic.contract.errors import EnvironmentUnavailable, ExecutionError, Unreachable
from hermetic.contract.limits import START
from hermetic.environments.clouds.stream import BRIDGE, SILENCE, Carrier, answer_after, carried
from hermetic.environments.options import OptionsBackend, resident_config
from hermetic.environments.remote import (
    ANSWER,
    ENDED_CODE,
    MARK,
    PART_BYTES,
    UPLOAD_SECONDS,
    liveness_words,
    python_line,
)
from hermetic.environments.runtime.upload import UploadChoice
from hermetic.environments.starting import StartFailed
from hermetic.link.archive import BOOT
from hermetic.link.readiness import NotReady, ready_in
from hermetic.registry.records import check_own, runtime_root, tag_of

ENDING_SECONDS = 60.0  # for ending a sandbox
# Tags of every sandbox. By the second `hermetic gc` finds those of a runtime directory.
ID, ROOT, KEPT = "hermetic-id", "hermetic-runtime", "hermetic-persistent"

T = TypeVar("T")


class Gone(Exception):
    """The sandbox does not exist any more."""


class Ran(NamedTuple):
    """The end of a program there."""

    output: bytes
    errors: str
    exit_code: int


class NewSandbox(NamedTuple):
    """What a new sandbox is created with, besides the options."""

    name: str
    tags: Mapping[str, str]
    resident: str  # the id of the resident that will run there
    kept_for: str | None  # the environment whose files it keeps


class CloudSandbox(Protocol):
    """A sandbox by the vendor's SDK. Methods raise the SDK's errors."""

    @property
    def id(self) -> str:
        """What finds it again."""

    async def tags(self) -> Mapping[str, str]:
        """Its tags."""

    async def run(self, script: str, given: bytes, seconds: float) -> Ran:
        """Runs a script by sh there, with that input."""

    async def connect(self, script: str) -> Carrier:
        """Starts a script by sh there whose input and output are a stream."""

    async def end(self, kept_for: str | None) -> None:
        """Ends it; its files stay for that environment. One that has ended is no error."""


class CloudApi(Protocol):
    """A vendor's SDK. Methods raise its errors."""

    async def create(self, new: NewSandbox, options: Any) -> CloudSandbox:
        """A new sandbox, or the one that keeps the files of an environment."""

    async def find(self, id: str) -> CloudSandbox:
        """The sandbox with this id. Raises Gone."""

    async def named(self, name: str) -> CloudSandbox:
        """The sandbox with this name. Raises Gone."""

    async def tagged(self, tags: Mapping[str, str]) -> Sequence[CloudSandbox]:
        """The running sandboxes with all of these tags."""


class HostedBackend(OptionsBackend):
    """A kind whose environment is a sandbox of a service."""

    vendor: ClassVar[str] = "the service"  # its name
    credentials: ClassVar[str] = ""  # where they are found
    variables: ClassVar[tuple[str, ...]] = ()
    leaves_files = True
    notices_silence = True  # see clouds/stream.py
    silence: ClassVar[float] = SILENCE  # seconds without a message that end a stream
    discard_seconds: ClassVar[float] = 15.0  # for ending the sandbox of a failed start

    # -- parts of a service
    def service(self) -> AbstractAsyncContextManager[Any]:
        """The API for the options of this environment, as CloudApi has it."""
        raise NotImplementedError

    @classmethod
    def is_refusal(cls, error: Exception) -> bool:
        """Whether the service refuses the caller or the request; else a retry may help."""
        return False

    def check_start(self, id: str) -> None:
        """Raises ConfigError or NotInstalled where the environment `id` cannot be started."""

    def sandbox_name(self, resident: str) -> str:
        """The name of a new sandbox."""
        return f"hermetic-{resident.replace('.', '-')}"

    @property
    def part_bytes(self) -> int:
        """Most bytes of one part of an upload."""
        return PART_BYTES

    @property
    def image_key(self) -> str:
        """A text that is the same for sandboxes with the same programs."""
        return repr(self.chosen)

    def resident_config(self, new: NewEnvironment) -> ResidentConfig:
        """The configuration of a new resident."""
        return resident_config(self.chosen, new, arrival=self.chosen.startup)

    async def ask(self, sandbox: Any, script: str, given: bytes) -> str:
        """Runs a script of an upload; its output."""
        ran: Ran = await sandbox.run(script, given, UPLOAD_SECONDS)
        return ran.output.decode("utf-8", "replace")

    async def boot(self, sandbox: Any, python: str, given: bytes) -> Ran:
        """Starts a resident, which detaches itself, by this Python and with this input."""
        ran: Ran = await sandbox.run(python_line(BOOT, python=python), given, START)
        return ran

    async def run_python(self, sandbox: Any, python: str, code: str, *arguments: str) -> Ran:
        """Runs Python code there."""
        ran: Ran = await sandbox.run(python_line(code, *arguments, python=python), b"", ANSWER)
        return ran

    async def connect(self, sandbox: Any, python: str, code: str, *arguments: str) -> Carrier:
        """Starts Python code there whose input and output are a stream."""
        carrier: Carrier = await sandbox.connect(python_line(code, *arguments, python=python))
        return carrier

    async def discard(self, new: NewSandbox) -> None:
        """Ends what a failed start has created, also where its answer was not received."""
        async with self.service() as api:
            await (await api.named(new.name)).end(new.kept_for)

    async def found_to_end(self, api: Any, record: EnvironmentRecord) -> Any:
        """The sandbox of a record, to be ended. Raises Gone."""
        return await api.find(record.place["sandbox"])

    async def end_sandbox(
        self, sandbox: Any, record: EnvironmentRecord, kept_for: str | None
    ) -> None:
        """Ends the sandbox of a record."""
        await sandbox.end(kept_for)

    # -- the backend
    @property
    def noticed_after(self) -> float:
        """Seconds after which the resident notices a killed caller; its lease begins then."""
        return self.silence

    @property
    def answers_within(self) -> float:
        """How many seconds a living resident may take to answer a ping."""
        return self.noticed_after

    async def start(self, new: NewEnvironment) -> Started:
        """Creates a sandbox and starts a resident there.

        Raises EnvironmentUnavailable, and leaves nothing.
        """
        self.check_start(new.id)
        config, startup = self.resident_config(new), self.chosen.startup
        kept_for = self._kept_for(new.id)
        tags = {ID: new.id, ROOT: tag_of(runtime_root()), **({KEPT: new.id} if kept_for else {})}
        wanted = NewSandbox(self.sandbox_name(config.id), tags, config.id, kept_for)
        try:
            async with asyncio.timeout(startup) as limit, self._mapped(), self.service() as api:
                await self._end_earlier(api, wanted)
                sandbox = await _noticing_cancel(api.create(wanted, self.chosen))
                return await self._start_there(sandbox, config, wanted.name)
        except BaseException as error:
            await asyncio.shield(asyncio.ensure_future(self._discard(wanted)))
            if isinstance(error, TimeoutError) and limit.expired():
                message = f"{self.vendor}: {wanted.name} was not ready within {startup:g} s"
                raise EnvironmentUnavailable(f"{message}; raise the option startup") from None
            if isinstance(error, Gone):
                raise EnvironmentUnavailable(
                    f"{self.vendor}: {wanted.name} ended before it was ready: {error}"
                ) from error
            raise

    def _kept_for(self, id: str) -> str | None:
        return id if getattr(self.chosen, "persistent", False) else None

    async def _end_earlier(self, api: CloudApi, new: NewSandbox) -> None:
        """Ends sandboxes of a task whose openers were killed.

        The lock of the record is held: no living one has it.
        """
        if not new.tags[ID].startswith("t-"):
            return
        used_again = ""
        if new.kept_for is not None:
            with contextlib.suppress(Gone):
                used_again = (await api.named(new.name)).id
        for sandbox in await api.tagged({ID: new.tags[ID], ROOT: new.tags[ROOT]}):
            if sandbox.id != used_again:
                await sandbox.end((await sandbox.tags()).get(KEPT))

    async def _discard(self, new: NewSandbox) -> None:
        # the first error is the cause; `hermetic gc` finds what is left
        with contextlib.suppress(Exception):
            async with asyncio.timeout(self.discard_seconds):
                await self.discard(new)

    async def _start_there(
        self, sandbox: CloudSandbox, config: ResidentConfig, name: str
    ) -> Started:
        """Starts a resident, by the image's Python and bash or by those of an uploaded runtime."""

        async def ask(script: str, given: bytes) -> str:
            return await self.ask(sandbox, script, given)

        async def boot(python: str, given: bytes) -> Started:
            ran = await self.boot(sandbox, python, given)
            try:
                return ready_in(ran.output.partition(MARK)[2])
            except NotReady as error:
                code = ran.exit_code
                raise StartFailed(
                    str(error), ran.errors, error=error.error, exit_code=code
                ) from error

        wanted, size = self.chosen.runtime, self.part_bytes
        choice = UploadChoice(wanted, self.image_key, ask=ask, size=size, subject=name)
        try:
            started = await choice.start(config, boot)
        except StartFailed as error:
            raise choice.explained(error) from error
        place = {**started.place, "sandbox": sandbox.id, "name": name}
        return msgspec.structs.replace(started, place=place)

    async def reach(self, record: EnvironmentRecord) -> socket.socket:
        """A stream to the resident.

        Raises ConnectionRefusedError, FileNotFoundError, Unreachable.
        """
        name, said = record.place["name"], b""
        words = (BRIDGE, record.socket, f"{self.noticed_after:.0f}")
        try:
            async with (
                asyncio.timeout(ANSWER + self.noticed_after),
                self._mapped(record.id),
                AsyncExitStack() as opened,
            ):
                api = await opened.enter_async_context(self.service())
                sandbox = await api.find(record.place["sandbox"])
                carrier = await self.connect(sandbox, _python(record), *words)
                try:
                    said, came = await answer_after(carrier, MARK)
                finally:
                    if said != b"+":
                        await carrier.close()
                if said == b"+":
                    return carried(carrier, opened.pop_all().aclose, came, self.noticed_after)
        except Gone as error:
            raise ConnectionRefusedError(f"{name} is gone: {error}") from error
        except TimeoutError:
            raise Unreachable(
                f"{self.vendor}: {name} does not answer", environment=record.id
            ) from None
        if said == b"-":
            raise ConnectionRefusedError(f"no resident listens in {name}")
        if said == b"?":
            raise FileNotFoundError(f"{name} has no socket {record.socket}")
        raise Unreachable(
            f"{self.vendor}: the bridge in {name} did not open", environment=record.id
        )

    async def is_gone(self, record: EnvironmentRecord) -> bool:
        """Whether the sandbox, or the resident's process there, has ended. Raises Unreachable."""
        words = liveness_words(record)
        try:
            async with self._mapped(record.id), self.service() as api:
                sandbox = await api.find(record.place["sandbox"])
                ran = await self.run_python(sandbox, _python(record), *words)
                return ran.exit_code == ENDED_CODE
        except Gone:
            return True

    async def remove(self, record: EnvironmentRecord) -> str:
        """Returns when the sandbox has ended; the service kills its processes.

        Raises Unreachable.
        """
        name, kept_for = record.place["name"], self._kept_for(record.id)
        try:
            async with (
                asyncio.timeout(ENDING_SECONDS),
                self._mapped(record.id),
                self.service() as api,
            ):
                sandbox = await self.found_to_end(api, record)
                check_own(record, name, (await sandbox.tags()).get(ID) == record.id)
                await self.end_sandbox(sandbox, record, kept_for)
        except Gone:
            return f"sandbox {name} was gone already"
        except TimeoutError:
            raise Unreachable(
                f"{self.vendor}: {name} was not ended in time", environment=record.id
            ) from None
        return f"ended sandbox {name}" + ("; its files are kept" if kept_for else "")

    @classmethod
    @asynccontextmanager
    async def _mapped(cls, environment: str = "") -> AsyncIterator[None]:
        """Maps errors of the service's SDK to ours."""
        try:
            yield
        except (ExecutionError, Gone):
            raise
        except Exception as error:  # whatever an SDK raises
            said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            if cls.is_refusal(error):
                raise EnvironmentUnavailable(
                    f"{cls.vendor} refuses: {said}; check the options, and the credentials in {cls.credentials}",
                    environment=environment,
                ) from error
            raise Unreachable(
                f"{cls.vendor} does not answer as it should: {said}", environment=environment
            ) from error


def _python(record: EnvironmentRecord) -> str:
    return record.place.get("python", "python3")


async def _noticing_cancel(call: Awaitable[T]) -> T:
    """The result of a call, unless its caller was cancelled.

    SDKs use `asyncio.wait_for`, which before Python 3.12 swallows a cancellation that comes with
    the result.
    """
    task = asyncio.current_task()
    before = task.cancelling() if task is not None else 0
    result = await call
    if task is not None and task.cancelling() > before:
        raise asyncio.CancelledError
    return result
