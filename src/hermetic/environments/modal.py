"""Sandboxes of Modal: the resident runs beside the entrypoint, and an exec carries the stream to
it.

The entrypoint ends with the resident, and the sandbox with the entrypoint, also without any caller.
The files of a persistent task are kept as a snapshot of the file system, from which its next
sandbox starts.
"""

import asyncio
import logging
import math
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from hermetic.contract.concurrency import beside
from hermetic.contract.errors import ConfigError
from hermetic.environments.clouds.backend import PROXIES, CloudBackend, CloudOptions
from hermetic.environments.clouds.hosted import Gone, NewSandbox, Ran
from hermetic.environments.options import MissingOption, identity_of
from hermetic.environments.profile import data_directory
from hermetic.registry.file_lock import locked
from hermetic.registry.private import make_private

APP = "hermetic"  # that all sandboxes belong to
MEBIBYTE = 1 << 20
MOST_LIFETIME = 24 * 3600  # seconds, by Modal's documentation
SNAPSHOT_SECONDS = 55
SNAPSHOTS = "modal-snapshots.json"  # environment → image of its files
IMAGE_ID = "im-"  # begins the id of an image that Modal has

log = logging.getLogger("hermetic")

# The entrypoint, run as `sh -c ENTRYPOINT sh RESIDENT SECONDS`. The resident has so many seconds to
# come; its directory is removed when it ends.
ENTRYPOINT = """\
is_there() {
    for own in /tmp/hermetic-*/$1 /var/tmp/hermetic-*/run/$1 "$HOME"/.cache/hermetic/run/$1; do
        [ ! -d "$own" ] || return 0
    done
    return 1
}
left=$2
until is_there "$1" || [ "$left" -le 0 ]; do sleep 1; left=$((left - 1)); done
while is_there "$1"; do sleep 2; done
"""


class ModalOptions(CloudOptions, frozen=True, kw_only=True):
    """The options of `modal`."""

    gpu: str | None = None  # such as "T4" or "A100:2"
    region: str | None = None
    # further arguments of Sandbox.create
    create_arguments: dict[str, Any] = msgspec.field(default_factory=dict)


class Modal(CloudBackend):
    """Commands run in a sandbox of Modal."""

    kind = "modal"
    vendor = "Modal"
    credentials = "MODAL_TOKEN_ID and MODAL_TOKEN_SECRET"
    option_shape = ModalOptions
    identity = identity_of(ModalOptions)
    variables = ("MODAL_", *PROXIES)

    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__(options)
        if not self.chosen.image:
            raise MissingOption(self.kind, "image", "python:3.12")
        if self.chosen.lifetime > MOST_LIFETIME:
            raise ConfigError(
                f"a sandbox of Modal lives for at most {MOST_LIFETIME} s", setting="lifetime"
            )

    @classmethod
    def lacking(cls) -> str:
        """Variables, or the file that `modal token new` writes."""
        if os.environ.get("MODAL_TOKEN_ID") and os.environ.get("MODAL_TOKEN_SECRET"):
            return ""
        file = os.environ.get("MODAL_CONFIG_PATH") or os.path.expanduser("~/.modal.toml")
        if os.environ.get("MODAL_OAUTH_REFRESH_TOKEN") or os.path.isfile(file):
            return ""
        return f"{cls.credentials}, or run `modal token new`"

    @classmethod
    @asynccontextmanager
    async def api(cls) -> "AsyncIterator[ModalApi]":
        """The SDK; its own thread runs the calls."""
        yield ModalApi(await asyncio.to_thread(_sdk))

    @classmethod
    def is_refusal(cls, error: Exception) -> bool:
        """By the SDK's types."""
        types = _sdk().exception
        refusals = (
            types.AuthError,
            types.PermissionDeniedError,
            types.InvalidError,
            types.AlreadyExistsError,
            types.NotFoundError,
            types.ImageBuildError,
        )
        return isinstance(error, refusals)


def _sdk() -> Any:
    import modal
    import modal.exception

    return modal


class ModalApi:
    """Sandboxes of the one app."""

    def __init__(self, sdk: Any) -> None:
        self._sdk = sdk

    async def create(self, new: NewSandbox, options: ModalOptions) -> "ModalSandbox":
        """A new sandbox, with the files that were kept for its environment."""
        app = await self._app()
        seconds = math.ceil(options.startup)
        watched = ["sh", "-c", ENTRYPOINT, "sh", new.resident, str(seconds)]
        # The files of a kept one are saved after its resident has ended.
        words = ["sleep", "infinity"] if new.kept_for else watched
        arguments = {
            "app": app,
            "name": new.name,
            "tags": dict(new.tags),
            "timeout": math.ceil(options.lifetime),
            "block_network": not options.network,
            "region": options.region,
            "gpu": options.gpu,
            "cpu": options.cpu or None,
            "memory": math.ceil(options.memory_bytes / MEBIBYTE) or None,
            "idle_timeout": math.ceil(options.idle) or None,
            **options.create_arguments,
        }

        async def create(name: str) -> ModalSandbox:
            image = self._image(name)
            sandbox = await self._sdk.Sandbox.create.aio(*words, image=image, **arguments)
            return ModalSandbox(self._sdk, sandbox)

        snapshot = Snapshots().of(new.kept_for) if new.kept_for else None
        if snapshot is not None:
            try:
                return await create(snapshot)
            except self._sdk.exception.NotFoundError as error:
                log.warning(
                    "the files kept in %s are lost, so %s begins anew: %s",
                    snapshot,
                    new.name,
                    error,
                )
        return await create(options.image)

    async def find(self, id: str) -> "ModalSandbox":
        """The running sandbox with this id."""
        try:
            sandbox = await self._sdk.Sandbox.from_id.aio(id)
            if await sandbox.poll.aio() is None:
                return ModalSandbox(self._sdk, sandbox)
        except self._sdk.exception.NotFoundError as error:
            raise Gone(str(error)) from error
        raise Gone(f"{id} has ended")

    async def named(self, name: str) -> "ModalSandbox":
        """The running sandbox with this name."""
        try:
            return ModalSandbox(self._sdk, await self._sdk.Sandbox.from_name.aio(APP, name))
        except self._sdk.exception.NotFoundError as error:
            raise Gone(str(error)) from error

    async def tagged(self, tags: Mapping[str, str]) -> "Sequence[ModalSandbox]":
        """The running sandboxes with these tags."""
        app = await self._app()
        found = self._sdk.Sandbox.list.aio(app_id=app.app_id, tags=dict(tags))
        return [ModalSandbox(self._sdk, sandbox) async for sandbox in found]

    async def _app(self) -> Any:
        return await self._sdk.App.lookup.aio(APP, create_if_missing=True)

    def _image(self, name: str) -> Any:
        if name.startswith(IMAGE_ID):
            return self._sdk.Image.from_id(name)
        return self._sdk.Image.from_registry(name)


class ModalSandbox:
    """One sandbox."""

    def __init__(self, sdk: Any, sandbox: Any) -> None:
        self._sdk, self._sandbox = sdk, sandbox
        self.id: str = sandbox.object_id

    async def tags(self) -> Mapping[str, str]:
        """Its tags."""
        found: Mapping[str, str] = await self._sandbox.get_tags.aio()
        return found

    async def run(self, script: str, given: bytes, seconds: float) -> Ran:
        """By an exec of its own."""
        async with asyncio.timeout(seconds):
            process = await self._sandbox.exec.aio(
                "sh", "-c", script, text=False, timeout=math.ceil(seconds)
            )
            async with beside(self._feed(process, given)):
                output, errors = await asyncio.gather(
                    process.stdout.read.aio(), process.stderr.read.aio()
                )
                code = await process.wait.aio()
        return Ran(output, errors.decode("utf-8", "replace").strip(), code)

    @staticmethod
    async def _feed(process: Any, given: bytes) -> None:
        for at in range(0, len(given), ExecStream.size):
            process.stdin.write(given[at : at + ExecStream.size])
            await process.stdin.drain.aio()
        process.stdin.write_eof()
        await process.stdin.drain.aio()

    async def connect(self, script: str) -> "ExecStream":
        """By an exec that ends with its input."""
        return ExecStream(await self._sandbox.exec.aio("sh", "-c", script, text=False))

    async def end(self, kept_for: str | None) -> None:
        """Saves the files that are kept, then terminates it."""
        if kept_for is not None:
            image = await self._sandbox.snapshot_filesystem.aio(timeout=SNAPSHOT_SECONDS)
            await Snapshots().set(kept_for, image.object_id)
        with suppress(self._sdk.exception.NotFoundError, self._sdk.exception.ConflictError):
            await self._sandbox.terminate.aio()


class ExecStream:
    """The input and output of an exec."""

    size = 256 * 1024  # what the SDK itself writes at once

    def __init__(self, process: Any) -> None:
        self._process = process
        self._chunks = aiter(process.stdout)

    async def write(self, data: bytes) -> None:
        """One call of the service."""
        self._process.stdin.write(data)
        await self._process.stdin.drain.aio()

    async def read(self) -> bytes:
        """The next chunk."""
        return await anext(self._chunks, b"")

    async def close(self) -> None:
        """The end of its input, at which the bridge exits: no call ends an exec."""
        self._process.stdin.write_eof()
        await self._process.stdin.drain.aio()


class Snapshots:
    """Which image keeps the files of which environment; in a file of the data directory."""

    def __init__(self) -> None:
        self._path = Path(make_private(data_directory(), "HERMETIC_DATA_DIR"), SNAPSHOTS)

    def __repr__(self) -> str:
        return f"<Snapshots in {self._path}>"

    def of(self, environment: str) -> str | None:
        """The image; None where none is known."""
        return self._all().get(environment)

    async def set(self, environment: str, image: str) -> None:
        """Remembers the newest image, all at once or not at all."""
        async with locked(self._path.with_suffix(".lock")):
            aside = self._path.with_suffix(".new")
            aside.write_bytes(msgspec.json.encode({**self._all(), environment: image}))
            aside.rename(self._path)

    def _all(self) -> dict[str, str]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, str])
        except (OSError, msgspec.DecodeError):
            return {}
