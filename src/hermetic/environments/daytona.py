"""Sandboxes of Daytona: the resident runs in one, and a terminal in raw mode carries the stream to
it.

The sandbox of a persistent task is stopped instead of deleted, and started again for the task's
next environment.
"""

import asyncio
import base64
import contextlib
import math
import os
import secrets
import shlex
import warnings
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any

import msgspec

from hermetic.contract.errors import ConfigError, EnvironmentUnavailable
from hermetic.environments.clouds.backend import PROXIES, CloudBackend, CloudOptions
from hermetic.environments.clouds.hosted import KEPT, Gone, NewSandbox, Ran
from hermetic.environments.clouds.stream import CLOSING_SECONDS
from hermetic.environments.options import MissingOption, identity_of

API_URL = "https://app.daytona.io/api"
GIBIBYTE = 1 << 30
MOST_DISK = 10  # GiB, by Daytona's limits
# states of a sandbox without processes, which can be started again
SETTLED = ("stopped", "archived", "paused")
DESTROYED = ("destroyed", "destroying")
FAILED = ("error", "build_failed")  # it stays until it is deleted

# Run as `sh -c RUN sh FILE SCRIPT`: runs the script with the file as its input, and prints its
# output, its exit code and the end of its errors. The output ends when all processes have closed
# it.
RUN = """\
umask 077
[ -e "$1" ] || : >"$1"
{ sh -c "$2" <"$1" 2>"$1.err"; echo $? >"$1.code"; } | base64
echo .
cat "$1.code"
tail -c 4000 "$1.err" | base64
rm -f "$1" "$1.code" "$1.err"
"""


class DaytonaOptions(CloudOptions, frozen=True, kw_only=True):
    """The options of `daytona`."""

    # of Daytona, instead of an image; it decides the size of the sandbox
    snapshot: str | None = None
    disk_bytes: Annotated[int, msgspec.Meta(ge=0)] = 0  # 0: the vendor's default
    name: str | None = None  # of the sandbox that keeps the files of a persistent task
    labels: dict[str, str] = msgspec.field(default_factory=dict)  # besides our own


class Daytona(CloudBackend):
    """Commands run in a sandbox of Daytona."""

    kind = "daytona"
    vendor = "Daytona"
    credentials = "DAYTONA_API_KEY"
    option_shape = DaytonaOptions
    identity = identity_of(DaytonaOptions)
    variables = ("DAYTONA_", *PROXIES)

    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__(options)
        chosen = self.chosen
        if not chosen.image and not chosen.snapshot:
            raise MissingOption(self.kind, "image", "python:3.12")
        if chosen.image and chosen.snapshot:
            raise ConfigError(
                "image and snapshot exclude each other; leave one out", setting="snapshot"
            )
        if chosen.snapshot and (chosen.cpu or chosen.memory_bytes or chosen.disk_bytes):
            sizes = "cpu, memory_bytes and disk_bytes"
            raise ConfigError(
                f"a snapshot decides the size of its sandboxes; leave out {sizes}",
                setting="snapshot",
            )

    @classmethod
    def lacking(cls) -> str:
        """A key, or a token of an organization."""
        has_token = os.environ.get("DAYTONA_JWT_TOKEN") and os.environ.get(
            "DAYTONA_ORGANIZATION_ID"
        )
        return "" if os.environ.get("DAYTONA_API_KEY") or has_token else "DAYTONA_API_KEY"

    @classmethod
    @asynccontextmanager
    async def api(cls) -> "AsyncIterator[DaytonaApi]":
        """A client of this event loop.

        Its settings are whole, so that no .env file of the directory adds to them.
        """
        sdk = await asyncio.to_thread(_sdk)
        environ = os.environ
        key = environ.get("DAYTONA_API_KEY")
        config = sdk.DaytonaConfig(
            api_key=key,
            jwt_token=None if key else environ.get("DAYTONA_JWT_TOKEN"),
            organization_id=environ.get("DAYTONA_ORGANIZATION_ID"),
            target=environ.get("DAYTONA_TARGET"),
            api_url=environ.get("DAYTONA_API_URL", API_URL),
            **_without_events(sdk.DaytonaConfig),
        )
        with warnings.catch_warnings():
            # of the option that turns events off
            warnings.simplefilter("ignore", DeprecationWarning)
            client = sdk.AsyncDaytona(config)
        try:
            yield DaytonaApi(sdk, client)
        finally:
            await _closed(client)

    @classmethod
    def is_refusal(cls, error: Exception) -> bool:
        """By the SDK's types."""
        errors = _sdk().common.errors
        refusals = (
            errors.DaytonaAuthenticationError,
            errors.DaytonaForbiddenError,
            errors.DaytonaConflictError,
            errors.DaytonaBadRequestError,
            errors.DaytonaUnprocessableEntityError,
        )
        return isinstance(error, refusals)

    def sandbox_name(self, resident: str) -> str:
        """The same for all sandboxes of a persistent task."""
        if not self.chosen.persistent:
            return super().sandbox_name(resident)
        return self.chosen.name or f"hermetic-{resident.partition('.')[0]}"


def _without_events(shape: Any) -> dict[str, bool]:
    """The setting by which the SDK opens no websocket for events, where it has one.

    The state of a sandbox is read by requests then. Closing that websocket while its user is
    cancelled leaves it open.
    """
    name = "use_deprecated_polling"
    return {name: True} if name in shape.model_fields else {}


async def _closed(client: Any) -> None:
    """Returns when the client is closed, also where its user is cancelled meanwhile."""
    try:
        await client.close()
    except asyncio.CancelledError:
        async with asyncio.timeout(CLOSING_SECONDS):
            await client.close()  # goes on where the first one was
        raise


def _sdk() -> Any:
    import daytona
    import daytona.common.errors

    return daytona


class DaytonaApi:
    """Sandboxes of an account."""

    def __init__(self, sdk: Any, client: Any) -> None:
        self._sdk, self._client = sdk, client

    async def create(self, new: NewSandbox, options: DaytonaOptions) -> "DaytonaSandbox":
        """A new sandbox, or the one that was stopped with the files of its environment."""
        labels = {**options.labels, **new.tags}
        if new.kept_for is not None:
            with contextlib.suppress(self._sdk.common.errors.DaytonaNotFoundError):
                sandbox = await self._client.get(new.name)
                if _state(sandbox) in SETTLED:
                    await sandbox.start(timeout=options.startup)
                await sandbox.set_labels(labels)
                return DaytonaSandbox(self._sdk, sandbox)
        # Of a kept one only its processes end: it is stopped.
        clock = (
            {"auto_stop_interval": _minutes(options.idle or options.lifetime)}
            if new.kept_for
            else {
                "auto_stop_interval": _minutes(options.idle),
                "auto_delete_interval": 0,
                "ttl_minutes": _minutes(options.lifetime),
            }
        )
        common = {
            "name": new.name,
            "labels": labels,
            "network_block_all": not options.network,
            **clock,
        }
        if options.snapshot:
            wanted = self._sdk.CreateSandboxFromSnapshotParams(snapshot=options.snapshot, **common)
        else:
            resources = self._sdk.Resources(
                cpu=math.ceil(options.cpu) or None,
                memory=math.ceil(options.memory_bytes / GIBIBYTE) or None,
                disk=min(math.ceil(options.disk_bytes / GIBIBYTE), MOST_DISK) or None,
            )
            wanted = self._sdk.CreateSandboxFromImageParams(
                image=options.image, resources=resources, **common
            )
        try:
            return DaytonaSandbox(
                self._sdk, await self._client.create(wanted, timeout=options.startup)
            )
        except self._sdk.DaytonaError as error:
            with contextlib.suppress(self._sdk.common.errors.DaytonaNotFoundError):
                if _state(await self._client.get(new.name)) in FAILED:
                    what = options.snapshot or options.image
                    message = (
                        f"Daytona could not start a sandbox of {what}: {error}; check that name"
                    )
                    raise EnvironmentUnavailable(message) from error
            raise

    async def find(self, id: str) -> "DaytonaSandbox":
        """The sandbox with this id or name. Raises Gone for one whose processes have ended."""
        try:
            sandbox = await self._client.get(id)
        except self._sdk.common.errors.DaytonaNotFoundError as error:
            raise Gone(str(error)) from error
        if _state(sandbox) in (*SETTLED, *DESTROYED, *FAILED):
            raise Gone(f"{id} is {_state(sandbox)}")
        return DaytonaSandbox(self._sdk, sandbox)

    async def named(self, name: str) -> "DaytonaSandbox":
        """The sandbox with this name, also one that failed to start."""
        try:
            return DaytonaSandbox(self._sdk, await self._client.get(name))
        except self._sdk.common.errors.DaytonaNotFoundError as error:
            raise Gone(str(error)) from error

    async def tagged(self, tags: Mapping[str, str]) -> "Sequence[DaytonaSandbox]":
        """The sandboxes with these labels that run, or failed and keep no files."""
        found = [
            one async for one in self._client.list(self._sdk.ListSandboxesQuery(labels=dict(tags)))
        ]
        sandboxes = [
            await self._client.get(one.id)
            for one in found
            if _state(one) not in (*SETTLED, *DESTROYED)
        ]
        wanted = [one for one in sandboxes if _state(one) not in FAILED or KEPT not in one.labels]
        return [DaytonaSandbox(self._sdk, one) for one in wanted]


def _state(sandbox: Any) -> str:
    return str(getattr(sandbox.state, "value", sandbox.state))


def _minutes(seconds: float) -> int:
    return math.ceil(seconds / 60)


class DaytonaSandbox:
    """One sandbox."""

    def __init__(self, sdk: Any, sandbox: Any) -> None:
        self._sdk, self._sandbox = sdk, sandbox
        self.id: str = sandbox.id

    async def tags(self) -> Mapping[str, str]:
        """Its labels."""
        labels: Mapping[str, str] = self._sandbox.labels
        return labels

    async def run(self, script: str, given: bytes, seconds: float) -> Ran:
        """By one command, with an uploaded file as its input."""
        file = f"/tmp/.hermetic-{secrets.token_hex(8)}"
        async with asyncio.timeout(seconds):
            if given:
                await self._sandbox.fs.upload_file(given, file)
            command = shlex.join(["sh", "-c", RUN, "sh", file, script])
            answer = await self._sandbox.process.exec(command, timeout=math.ceil(seconds))
        output, _, rest = answer.result.rpartition(".\n")
        code, _, errors = rest.partition("\n")
        if not code.isdigit():
            return Ran(b"", answer.result, answer.exit_code)  # no sh, or no base64
        return Ran(
            base64.b64decode(output),
            base64.b64decode(errors).decode("utf-8", "replace").strip(),
            int(code),
        )

    async def connect(self, script: str) -> "TerminalStream":
        """By a terminal whose shell becomes the script's program."""
        stream = TerminalStream()
        await stream.open(self._sandbox.process, script)
        return stream

    async def end(self, kept_for: str | None) -> None:
        """Stops one whose files are kept, and deletes any other."""
        with contextlib.suppress(self._sdk.common.errors.DaytonaNotFoundError):
            await (self._sandbox.delete() if kept_for is None else self._sandbox.stop())


class TerminalStream:
    """A terminal in raw mode, so that all bytes pass unchanged."""

    size = 32 * 1024  # bytes; the daemon closes a connection that sends 64 KiB at once

    def __init__(self) -> None:
        # one: a slow reader stops the websocket
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue(1)
        self._terminal: Any = None
        self._watching: asyncio.Task[None] | None = None

    async def open(self, process: Any, script: str) -> None:
        """Types the script.

        The space keeps it out of the shell's history. One that fails leaves no terminal.
        """
        name = f"hermetic-{secrets.token_hex(6)}"
        creating = asyncio.ensure_future(process.create_pty_session(name, on_data=self._chunks.put))
        try:
            self._terminal = await asyncio.shield(creating)
            self._watching = asyncio.create_task(self._watch())
            await self._terminal.send_input(f" stty raw -echo; {script}\n")
        except BaseException:
            await self._abandon(creating)
            raise

    async def _abandon(self, creating: "asyncio.Future[Any]") -> None:
        """Ends the terminal, also one that is not yet created: the SDK forgets it when that is
        cancelled.
        """
        with contextlib.suppress(Exception):
            async with asyncio.timeout(CLOSING_SECONDS):
                self._terminal = await creating
                await self.close()

    async def _watch(self) -> None:
        with contextlib.suppress(Exception):  # whatever the SDK raises when the connection breaks
            await self._terminal.wait()
        await self._chunks.put(b"")

    async def write(self, data: bytes) -> None:
        """One message of the websocket."""
        await self._terminal.send_input(data)

    async def read(self) -> bytes:
        """The next message."""
        return await self._chunks.get()

    async def close(self) -> None:
        """Ends the terminal: it would outlive its connection."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        try:
            with contextlib.suppress(Exception):  # it may have ended
                await self._terminal.kill()
        finally:
            await self._terminal.disconnect()
