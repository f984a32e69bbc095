"""Base of kinds whose environment is a sandbox of a cloud vendor, by the vendor's own SDK.

Keys of the vendor stay on this machine: the SDK reads them here, and nothing of them is sent to a
sandbox. The SDK is imported on first use, on a thread: that takes seconds.
"""

import asyncio
import contextlib
import importlib.metadata
import importlib.util
import os
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Annotated, Any, ClassVar, NamedTuple, Protocol, TypeVar

import msgspec

from hermetic.contract.environment import (
    Abandoned,
    EnvironmentRecord,
    Finding,
    Isolation,
    ResidentConfig,
    Started,
)
from hermetic.contract.errors import (
    ConfigError,
    EnvironmentUnavailable,
    ExecutionError,
    NotInstalled,
    Unreachable,
)
from hermetic.contract.limits import CALLED_START, LEASE, LIFETIME, LOGIN, UNATTENDED
from hermetic.contract.limits import START as RESIDENT_START
from hermetic.contract.variables import fault_of
from hermetic.environments.checkup import missing
from hermetic.environments.child_environment import child_environment
from hermetic.environments.clouds.stream import BRIDGE, SILENCE, Carrier, answer_after, carried
from hermetic.environments.local_resident import new_resident_id
from hermetic.environments.options import Lease, Seconds, read_options, synced_directories
from hermetic.environments.profile import credential_notes, select_profile, unsent_notes
from hermetic.environments.remote import (
    ANSWER,
    ENDED_CODE,
    IS_ALIVE,
    MARK,
    PART_BYTES,
    UPLOAD_SECONDS,
    python_line,
)
from hermetic.environments.runtime.upload import UploadChoice
from hermetic.environments.starting import StartFailed
from hermetic.link.archive import BOOT, build_archive, starting_input
from hermetic.link.readiness import NotReady, ready_in
from hermetic.registry.records import check_own, runtime_root, tag_of

ENDING_SECONDS = 60.0  # for ending a sandbox
DISCARD_SECONDS = 15.0  # for ending that of a failed start
PROXIES = (
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
)
# Tags of every sandbox. By the second `hermetic gc` finds those of a runtime directory.
ID, ROOT, KEPT = "hermetic-id", "hermetic-runtime", "hermetic-persistent"

Amount = Annotated[float, msgspec.Meta(ge=0)]
T = TypeVar("T")


class SandboxOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of all kinds whose environment is created by a service."""

    image: str = ""
    cwd: str = "~"
    env: dict[str, str] = {}  # variables besides the image's
    cpu: Amount = 0  # cores; 0: the vendor's default
    memory_bytes: Annotated[int, msgspec.Meta(ge=0)] = 0  # 0: the vendor's default
    network: bool = True
    sync: dict[str, str] = {}  # directories here → there: sent before commands, taken back at close
    # of the profile: sent to ~/.hermetic there, and never back
    credential_files: tuple[str, ...] = ()
    # profile whose files and skills are copied: a name, or an absolute path
    profile: str | None = None
    startup: Seconds = CALLED_START  # for creating the sandbox and its first answer
    lifetime: Annotated[float, msgspec.Meta(ge=60)] = LIFETIME  # after which the vendor ends it
    lease: Lease = LEASE
    unattended: Seconds = UNATTENDED
    login: bool = True  # take the profile there in
    setup: str | None = None  # run once in the new environment's own shell
    # whose Python and bash: "image", "portable", a portable runtime's path, or as needed
    runtime: str = "auto"


class CloudOptions(SandboxOptions, frozen=True, kw_only=True):
    """The options that all kinds of vendors have."""

    persistent: bool = False  # the files of a task outlive its sandboxes
    idle: Seconds = 0  # seconds without activity, after which the vendor ends it; 0: never


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


class CloudBackend:
    """A kind whose environment is a sandbox of a vendor."""

    kind: str  # also the name of its extra
    package: ClassVar[str] = ""  # the SDK's; empty: that of the kind
    vendor: ClassVar[str]
    credentials: ClassVar[str]  # the variables that hold them
    option_shape: ClassVar[type[SandboxOptions]] = CloudOptions
    identity: ClassVar[tuple[str, ...]] = (
        "image",
        "cpu",
        "memory_bytes",
        "network",
        "persistent",
        "credential_files",
        "profile",
    )
    variables: ClassVar[tuple[str, ...]] = ()
    leaves_files = True
    orphans = True  # what a start has created outlives an opener that was killed
    noticed_after = SILENCE
    notices_silence = True  # see clouds/stream.py
    answers_within = SILENCE

    def __init__(self, options: Mapping[str, Any]) -> None:
        chosen = read_options(self.kind, self.option_shape, options)
        if fault := fault_of(chosen.env):
            raise ConfigError(fault, setting="env")
        self._profile = select_profile(chosen.profile, chosen.credential_files)
        self.chosen: Any = msgspec.structs.replace(
            chosen,
            sync=synced_directories(chosen.sync),
            profile=self._profile.directory,
            credential_files=self._profile.credential_files,
        )

    # -- parts of a vendor
    @classmethod
    def api(cls) -> AbstractAsyncContextManager[CloudApi]:
        """The vendor's SDK, imported."""
        raise NotImplementedError

    def service(self) -> AbstractAsyncContextManager[CloudApi]:
        """The SDK for the options of this environment."""
        return self.api()

    @classmethod
    def lacking(cls) -> str:
        """The variables to set where there are no credentials; empty where there are."""
        raise NotImplementedError

    @classmethod
    def is_refusal(cls, error: Exception) -> bool:
        """Whether the service refuses the caller or the request; else a retry may help."""
        raise NotImplementedError

    # -- the backend
    def __str__(self) -> str:
        return f"a sandbox of {self.vendor}"

    @property
    def options(self) -> dict[str, Any]:
        """All options, defaults filled in."""
        return msgspec.structs.asdict(self.chosen)

    @property
    def isolation(self) -> Isolation:
        """Another machine; the vendor's isolation is not checked."""
        notes = [
            f"{self.vendor} runs the commands and can read their files; its isolation is not checked"
        ]
        if self.chosen.network:
            notes.append(
                f"the network is on: what a sandbox of {self.vendor} can reach, a command can reach"
            )
        return Isolation(
            kind=self.kind,
            separate_files=True,
            separate_processes=True,
            separate_user=True,
            separate_network=not self.chosen.network,
            shared_paths=tuple(self.chosen.sync),
            notes=(*notes, *credential_notes(self.chosen.credential_files)),
        )

    @classmethod
    def no_package(cls) -> NotInstalled | None:
        """The SDK, where it is not installed."""
        package = cls.package or cls.kind
        if importlib.util.find_spec(package) is not None:
            return None
        return NotInstalled(f"no {package} package", f"pip install 'hermetic[{cls.kind}]'")

    @classmethod
    def problem(cls) -> NotInstalled | None:
        """What is missing on this machine; the service is not asked."""
        if (problem := cls.no_package()) is not None:
            return problem
        if lacking := cls.lacking():
            return NotInstalled(f"no credentials of {cls.vendor}", f"set {lacking}")
        return None

    def own_problem(self) -> NotInstalled | None:
        """What is missing for these options."""
        return self.problem()

    @classmethod
    async def doctor(cls) -> Finding:
        """Checks the package and the credentials; connects to no host."""
        if problem := cls.problem():
            return missing(problem)
        package = cls.package or cls.kind
        version = importlib.metadata.version(package)
        return Finding(
            state="ok", found=f"{package} {version}, with credentials; the service was not asked"
        )

    async def start(
        self, *, id: str, directory: str, spool: str | None, token: bytes, label: str
    ) -> Started:
        """Creates a sandbox and starts a resident there.

        Raises EnvironmentUnavailable, and leaves nothing.
        """
        chosen = self.chosen
        if self._is_persistent and not id.startswith("t-"):
            raise ConfigError(
                "persistent keeps the files of a task; name a task for it", setting="persistent"
            )
        if problem := self.own_problem():
            raise problem
        life = new_resident_id(id)
        kept_for = id if self._is_persistent else None
        tags = {ID: id, ROOT: tag_of(runtime_root()), **({KEPT: id} if kept_for else {})}
        new = NewSandbox(self.sandbox_name(life), tags, life, kept_for)
        config = self.resident_config(life, token, label)
        try:
            async with (
                asyncio.timeout(chosen.startup) as limit,
                self._mapped(),
                self.service() as api,
            ):
                await self._end_earlier(api, new)
                sandbox = await _noticing_cancel(api.create(new, chosen))
                started = await self._start_there(sandbox, config, new.name)
                return msgspec.structs.replace(started, notes=unsent_notes(self._profile))
        except BaseException as error:
            await asyncio.shield(asyncio.ensure_future(self._discard(new)))
            if isinstance(error, TimeoutError) and limit.expired():
                message = f"{self.vendor}: {new.name} was not ready within {chosen.startup:g} s"
                raise EnvironmentUnavailable(f"{message}; raise the option startup") from None
            if isinstance(error, Gone):
                raise EnvironmentUnavailable(
                    f"{self.vendor}: {new.name} ended before it was ready: {error}"
                ) from error
            raise

    def resident_config(self, id: str, token: bytes, label: str) -> ResidentConfig:
        """What a new resident is told."""
        chosen = self.chosen
        return ResidentConfig(
            id=id,
            token=token,
            directory="",
            spool=None,
            label=label,
            cwd=chosen.cwd,
            make_cwd=True,
            environ=child_environment({}, extra=chosen.env),
            inherit=True,
            lease=chosen.lease,
            unattended=chosen.unattended,
            login=chosen.login,
            login_timeout=LOGIN,
            guardian=True,
            arrival=chosen.startup,
        )

    @property
    def _is_persistent(self) -> bool:
        return getattr(self.chosen, "persistent", False)

    def sandbox_name(self, resident: str) -> str:
        """The name of a new sandbox."""
        return f"hermetic-{resident.replace('.', '-')}"

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
        """Ends what a failed start has created, also where its answer was not received."""
        # the first error is the cause; `hermetic gc` finds what is left
        with contextlib.suppress(Exception):
            async with asyncio.timeout(DISCARD_SECONDS), self.service() as api:
                await (await api.named(new.name)).end(new.kept_for)

    async def _start_there(
        self, sandbox: CloudSandbox, config: ResidentConfig, name: str
    ) -> Started:
        """Starts a resident, by the image's Python and bash or by those of an uploaded runtime."""

        async def ask(script: str, given: bytes) -> str:
            return (await sandbox.run(script, given, UPLOAD_SECONDS)).output.decode(
                "utf-8", "replace"
            )

        image = f"{self.kind} {self.chosen.image} {os.environ.get('USER', '')}"
        choice = UploadChoice(self.chosen.runtime, image, ask=ask, size=PART_BYTES, subject=name)
        while True:
            await choice.prepare()
            given = starting_input(
                build_archive(), msgspec.msgpack.encode(choice.configured(config))
            )
            ran = await self.boot(sandbox, python_line(BOOT, python=choice.python), given)
            try:
                started = ready_in(ran.output.partition(MARK)[2])
                break
            except NotReady as error:
                failed = StartFailed(
                    str(error), ran.errors, error=error.error, exit_code=ran.exit_code
                )
            if not choice.learn(failed):
                raise choice.explained(failed)
        choice.remember()
        own = os.path.dirname(started.socket)
        if os.path.basename(own) != config.id:
            raise EnvironmentUnavailable(
                f"{name}: the resident says that it is at {started.socket}"
            )
        return msgspec.structs.replace(
            started, place={"sandbox": sandbox.id, "name": name, **choice.place}
        )

    async def boot(self, sandbox: Any, line: str, given: bytes) -> Ran:
        """Runs the line that starts a resident, which detaches itself."""
        ran: Ran = await sandbox.run(line, given, RESIDENT_START)
        return ran

    async def reach(self, record: EnvironmentRecord) -> socket.socket:
        """A stream to the resident.

        Raises ConnectionRefusedError, FileNotFoundError, Unreachable.
        """
        name, said = record.place["name"], b""
        try:
            async with (
                asyncio.timeout(ANSWER + SILENCE),
                self._mapped(record.id),
                AsyncExitStack() as opened,
            ):
                api = await opened.enter_async_context(self.service())
                sandbox = await api.find(record.place["sandbox"])
                line = self._line(record, BRIDGE, record.socket, f"{SILENCE:.0f}")
                carrier = await sandbox.connect(line)
                try:
                    said, came = await answer_after(carrier, MARK)
                finally:
                    if said != b"+":
                        await carrier.close()
                if said == b"+":
                    return carried(carrier, opened.pop_all().aclose, came)
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
        age = max(0.0, time.time() - record.created)
        try:
            async with self._mapped(record.id), self.service() as api:
                sandbox = await api.find(record.place["sandbox"])
                ran = await sandbox.run(
                    self._line(record, IS_ALIVE, str(record.pid), f"{age:.0f}"), b"", ANSWER
                )
                return ran.exit_code == ENDED_CODE
        except Gone:
            return True

    async def remove(self, record: EnvironmentRecord) -> str:
        """Returns when the sandbox has ended; the vendor kills its processes.

        Raises Unreachable.
        """
        name = record.place["name"]
        kept_for = record.id if self._is_persistent else None
        try:
            async with (
                asyncio.timeout(ENDING_SECONDS),
                self._mapped(record.id),
                self.service() as api,
            ):
                sandbox = await self.found_to_end(api, record)
                check_own(record, name, (await sandbox.tags()).get(ID) == record.id)
                await sandbox.end(kept_for)
        except Gone:
            return f"sandbox {name} was gone already"
        except TimeoutError:
            raise Unreachable(
                f"{self.vendor}: {name} was not ended in time", environment=record.id
            ) from None
        return f"ended sandbox {name}" + ("; its files are kept" if kept_for else "")

    async def found_to_end(self, api: Any, record: EnvironmentRecord) -> Any:
        """The sandbox of a record, to be ended. Raises Gone."""
        return await api.find(record.place["sandbox"])

    @classmethod
    async def collect(cls, root: str, abandoned: Abandoned) -> list[str]:
        """Ends sandboxes made for a runtime directory that no record knows.

        Raises EnvironmentUnavailable, but only after all others have ended.
        """
        if cls.problem() is not None:
            return []
        ended, problems = [], []
        async with cls._mapped(), cls.api() as api:
            for sandbox in await api.tagged({ROOT: tag_of(root)}):
                name = f"{cls.kind} sandbox {sandbox.id}"
                try:
                    async with asyncio.timeout(ENDING_SECONDS), cls._mapped():
                        tags = await sandbox.tags()
                        async with abandoned(tags.get(ID, "")) as it_is:
                            if it_is:
                                await sandbox.end(tags.get(KEPT))
                                ended.append(name)
                except (EnvironmentUnavailable, TimeoutError) as error:
                    problems.append(f"{name} was not ended: {error or 'no answer in time'}")
        if problems:
            raise Unreachable("; ".join([*problems, *(f"{name} was ended" for name in ended)]))
        return ended

    @staticmethod
    def _line(record: EnvironmentRecord, code: str, *arguments: str) -> str:
        return python_line(code, *arguments, python=record.place.get("python", "python3"))

    @classmethod
    @asynccontextmanager
    async def _mapped(cls, environment: str = "") -> AsyncIterator[None]:
        """Maps errors of the SDK to ours."""
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
