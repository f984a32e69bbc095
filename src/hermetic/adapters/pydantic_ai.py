"""A workspace backend for pydantic-ai, and the capability that gives one to an agent's runs.

    agent = Agent(model, capabilities=[HermeticWorkspaces("docker", image="python:3.12")])

The ref of a workspace is the task of its environment, which lives on after a run: `hermetic rm
TASK` ends it.
"""

import asyncio
import contextlib
import posixpath
import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import hermetic
from hermetic import Environment
from hermetic.adapters import opening
from hermetic.adapters.files import check_writable
from hermetic.adapters.frameworks import framework
from hermetic.adapters.results import MOST_OUTPUT, exit_code
from hermetic.contract.errors import EnvironmentUnavailable
from hermetic.contract.files import FileStatus

with framework("pydantic_ai"):
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.tools import RunContext
    from pydantic_ai.workspaces import (
        CommandResult,
        FileEntry,
        SupportsCommands,
        SupportsFilesystem,
        SupportsRealpath,
        WorkspaceBackend,
        WorkspaceRef,
        WorkspaceTimeoutError,
        WorkspaceUnavailableError,
    )
    from pydantic_ai.workspaces.protocol import WorkspaceOutputLimitError

PROVIDER = "hermetic"


class HermeticWorkspace(WorkspaceBackend, SupportsCommands, SupportsFilesystem, SupportsRealpath):
    """An environment of Hermetic: opened at its first use, or the one that `ref` names."""

    def __init__(
        self, kind: str = "sandbox", *, ref: WorkspaceRef | None = None, **options: Any
    ) -> None:
        self._kind, self._options = kind, options
        self._ref = ref
        self._opened: asyncio.Task[tuple[Environment, str]] | None = None

    def __repr__(self) -> str:
        return f"<HermeticWorkspace {self._kind} {self._ref}>"

    @property
    def ref(self) -> WorkspaceRef | None:
        """Its identity, once it exists."""
        return self._ref

    async def working_dir(self) -> str:
        """The directory in which commands start."""
        return (await self._open())[1]

    async def run(
        self,
        command: str | Sequence[str],
        *,
        shell: bool = False,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> CommandResult:
        """Runs a program, or with `shell` a shell text, in a shell of its own."""
        if shell != isinstance(command, str):
            raise TypeError("a text needs shell=True, a sequence of words shell=False")
        environment, directory = await self._open()
        argv = ["sh", "-c", command] if isinstance(command, str) else command
        with _unavailable():
            result = await environment.run(
                argv, cwd=directory, env=env, timeout=timeout, separate=True, limit=MOST_OUTPUT
            )
        output, errors = result.output, result.stderr or ""
        late = f"the command was ended after {timeout} s"
        code = exit_code(
            result,
            late=lambda: WorkspaceTimeoutError(late, stdout=output, stderr=errors),
            gone=WorkspaceUnavailableError,
        )
        if result.truncated:
            message = f"the command printed more than {MOST_OUTPUT} bytes"
            raise WorkspaceOutputLimitError(
                message, limit=MOST_OUTPUT, stdout=output, stderr=errors
            )
        return CommandResult(exit_code=code, stdout=output, stderr=errors)

    async def read_bytes(self, path: str) -> bytes:
        """The content of a file."""
        environment, _ = await self._open()
        with _unavailable():
            return await environment.read_bytes(path)

    async def write_bytes(self, path: str, data: bytes) -> None:
        """Writes a file and its directories, through a link."""
        environment, _ = await self._open()
        with _unavailable():
            await check_writable(environment, path)
            await environment.write_file(path, data)

    async def stat(self, path: str) -> FileEntry:
        """A file or directory, through a link."""
        environment, _ = await self._open()
        with _unavailable():
            return _entry(path, await environment.file_status(path))

    async def list_dir(self, path: str) -> Sequence[FileEntry]:
        """The entries of a directory."""
        environment, _ = await self._open()
        with _unavailable():
            names = [name.rstrip("/") for name in await environment.list_names(path)]
            return [await self._entry_of(environment, posixpath.join(path, name)) for name in names]

    async def make_dir(self, path: str) -> None:
        """Makes a directory and those above it."""
        status = await self._status(path)
        if status.kind not in ("missing", "directory"):
            raise FileExistsError(17, "File exists", path)
        done = await self.run(["mkdir", "-p", "--", path], env={"LC_ALL": "C"})
        if done.exit_code != 0:
            error = NotADirectoryError if "Not a directory" in done.stderr else PermissionError
            raise error(done.stderr.strip())

    async def remove(self, path: str) -> None:
        """Removes a file or a tree, but not the working directory or one above it."""
        within = posixpath.normpath(posixpath.join(await self.working_dir(), path))
        if posixpath.commonpath([within, await self.working_dir()]) == within:
            raise ValueError(f"{path} holds the working directory")
        done = await self.run(["rm", "-r", "--", within])
        if done.exit_code != 0:
            error = FileNotFoundError if not await self.exists(within) else PermissionError
            raise error(done.stderr.strip())

    async def exists(self, path: str) -> bool:
        """Whether something is there."""
        return (await self._status(path)).kind != "missing"

    async def realpath(self, path: str) -> str:
        """The path without links."""
        return (await self._status(path)).path

    async def _status(self, path: str) -> FileStatus:
        environment, _ = await self._open()
        with _unavailable():
            return await environment.file_status(path, missing=True)

    async def _entry_of(self, environment: Environment, path: str) -> FileEntry:
        """As `stat`; a link that leads nowhere is an entry too."""
        try:
            return _entry(path, await environment.file_status(path))
        except OSError:
            return FileEntry(name=posixpath.basename(path), path=path, is_dir=False, size=None)

    async def _open(self) -> tuple[Environment, str]:
        """The environment and its working directory; concurrent first calls share one, and
        cancelling keeps it.
        """
        if self._opened is None:
            self._opened = asyncio.create_task(self._open_now())
        try:
            return await asyncio.shield(self._opened)
        except BaseException:
            if self._opened is not None and self._opened.done():
                self._opened = None  # the next call tries again
            raise

    async def _open_now(self) -> tuple[Environment, str]:
        with _unavailable():
            if self._ref is not None:
                environment = await opening.attach(self._ref.id, self._options)
            else:
                task = f"workspace-{secrets.token_hex(6)}"
                environment = await hermetic.open(self._kind, task=task, **self._options)
                self._ref = WorkspaceRef(provider=PROVIDER, id=task)
            return environment, (await environment.run(["sh", "-c", "pwd -P"])).output.rstrip("\n")


class HermeticWorkspaces(AbstractCapability[Any]):
    """Gives each run a workspace of this kind, or the one that its conversation had."""

    def __init__(self, kind: str = "sandbox", **options: Any) -> None:
        self._kind, self._options = kind, options

    def get_workspace(
        self, ctx: RunContext[Any], *, ref: WorkspaceRef | None
    ) -> WorkspaceBackend | None:
        """The backend, unopened; None for a ref of another provider."""
        if ref is not None and ref.provider != PROVIDER:
            return None
        return HermeticWorkspace(self._kind, ref=ref, **self._options)


def _entry(path: str, status: FileStatus) -> FileEntry:
    is_directory = status.kind == "directory"
    return FileEntry(
        name=posixpath.basename(path),
        path=path,
        is_dir=is_directory,
        size=None if is_directory else status.size,
    )


@contextlib.contextmanager
def _unavailable() -> Iterator[None]:
    try:
        yield
    except EnvironmentUnavailable as error:
        raise WorkspaceUnavailableError(str(error)) from error
