"""A sandbox client for the OpenAI Agents SDK, and an executor for its shell tool.

    client = HermeticSandboxClient("docker", image="python:3.12")
    await Runner.run(agent, "go", run_config=RunConfig(sandbox=SandboxRunConfig(client=client)))

Each session is a task of Hermetic, which ends when the client deletes the session. `resume`
attaches to it.
"""

import asyncio
import codecs
import contextlib
import io
import os
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any, Literal, cast

import hermetic
from hermetic import Environment, Process
from hermetic.adapters import opening
from hermetic.adapters.frameworks import framework
from hermetic.adapters.results import MOST_OUTPUT, exit_code
from hermetic.contract.endings import TimedOut
from hermetic.contract.errors import EnvironmentUnavailable, ExecutionError, NotPermitted
from hermetic.session.trees import pack_inside, unpack_inside

with framework("agents"):
    from agents import ShellCallOutcome, ShellCommandOutput, ShellCommandRequest, ShellResult
    from agents.sandbox.errors import (
        ExecTimeoutError,
        ExecTransportError,
        WorkspaceArchiveReadError,
        WorkspaceArchiveWriteError,
        WorkspaceReadNotFoundError,
        WorkspaceStartError,
    )
    from agents.sandbox.manifest import Manifest
    from agents.sandbox.session import SandboxSession, SandboxSessionState
    from agents.sandbox.session.base_sandbox_session import BaseSandboxSession
    from agents.sandbox.session.pty_types import (
        PtyExecUpdate,
        allocate_pty_process_id,
        clamp_pty_yield_time_ms,
        resolve_pty_write_yield_time_ms,
        truncate_text_by_tokens,
    )
    from agents.sandbox.session.sandbox_client import BaseSandboxClient, BaseSandboxClientOptions
    from agents.sandbox.session.workspace_payloads import coerce_write_payload
    from agents.sandbox.snapshot import SnapshotBase, SnapshotSpec, resolve_snapshot
    from agents.sandbox.types import ExecResult, ExposedPortEndpoint, User
    from agents.sandbox.util.tar_utils import UnsafeTarMemberError, validate_tar_bytes
    from pydantic import Field

EXEC_YIELD_MS = 10_000  # as the SDK's own clients
WRITE_YIELD_MS = 250


def shell_executor(
    environment: Environment,
) -> Callable[[ShellCommandRequest], Awaitable[ShellResult]]:
    """An executor for `ShellTool`: commands share the environment's default session."""

    async def execute(request: ShellCommandRequest) -> ShellResult:
        action = request.data.action
        outputs: list[ShellCommandOutput] = []
        for command in action.commands:
            outputs.append(
                await _run_in_shell(environment, command, (action.timeout_ms or 0) / 1000 or None)
            )
            if outputs[-1].outcome.type == "timeout":
                break
        return ShellResult(output=outputs, max_output_length=action.max_output_length)

    return execute


async def _run_in_shell(
    environment: Environment, command: str, timeout: float | None
) -> ShellCommandOutput:
    try:
        result = await environment.run(command, timeout=timeout, separate=True)
    except NotPermitted as refused:  # an environment with a policy; the model may do something else
        outcome = ShellCallOutcome(type="exit", exit_code=1)
        return ShellCommandOutput(
            stderr=f"not permitted: {refused}", outcome=outcome, command=command
        )
    is_late = isinstance(result.ending, TimedOut)
    outcome = ShellCallOutcome(
        type="timeout" if is_late else "exit", exit_code=None if is_late else result.exit_code
    )
    return ShellCommandOutput(
        stdout=result.output, stderr=result.stderr or "", outcome=outcome, command=command
    )


class HermeticSandboxClientOptions(BaseSandboxClientOptions):
    """The kind of environment and its options, as for `hermetic.open`."""

    type: Literal["hermetic"] = "hermetic"
    kind: str = "sandbox"
    options: dict[str, Any] = Field(default_factory=dict)
    exposed_ports: tuple[int, ...] = ()


class HermeticSandboxSessionState(SandboxSessionState):
    """What is needed to resume a session."""

    type: Literal["hermetic"] = "hermetic"
    kind: str
    options: dict[str, Any] = Field(default_factory=dict)
    task: str
    own: str = ""
    """The directory of this machine that was made for the session."""


class _Terminal:
    """A process that the model may read on and write to, and how far its output was read."""

    def __init__(self, process: Process, *, tty: bool) -> None:
        self.process = process
        self.tty = tty
        self._offset = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    async def read(self, seconds: float) -> tuple[str, bool]:
        """Its output within so many seconds, and whether it has ended."""
        until, text, ended = time.monotonic() + seconds, "", False
        while not ended and (rest := until - time.monotonic()) > 0:
            chunk = await self.process.read(self._offset, wait=rest)
            self._offset, ended = chunk.end, chunk.ended
            text += self._decoder.decode(chunk.data, ended)
        return text, ended


class HermeticSandboxSession(BaseSandboxSession):
    """An environment of Hermetic as the SDK sees it."""

    state: HermeticSandboxSessionState

    def __init__(self, state: HermeticSandboxSessionState) -> None:
        self.state = state
        self._environment: Environment | None = None
        # without links, once the session has started
        self._root = PurePosixPath(state.manifest.root)
        self._terminals: dict[int, _Terminal] = {}

    async def _ensure_backend_started(self) -> None:
        if self._environment is not None:
            return
        is_living = await opening.is_living(self.state.task)
        if self.state.own:  # removed with an earlier session
            os.makedirs(self.state.own, exist_ok=True)
        self._environment = await hermetic.open(
            self.state.kind, task=self.state.task, **self.state.options
        )
        self.state.workspace_root_ready &= is_living
        self._set_start_state_preserved(is_living)

    async def _prepare_backend_workspace(self) -> None:
        root = self.state.manifest.root
        made = await self._open().run(["mkdir", "-p", "--", root], cwd="/")
        if made.exit_code != 0:
            raise WorkspaceStartError(path=Path(root), message=made.output.strip())
        self._root = PurePosixPath((await self._open().file_status(root)).path)

    def _wrap_start_error(self, error: Exception) -> Exception:
        if isinstance(error, ExecutionError):
            error = WorkspaceStartError(
                path=Path(self.state.manifest.root), message=str(error), cause=error
            )
        return error

    async def _shutdown_backend(self) -> None:
        """Detaches: the client's `delete` ends the environment, or its lease does."""
        if self._environment is not None:
            await self._environment.close()
            self._environment = None

    async def running(self) -> bool:
        """Whether the environment answers."""
        if self._environment is None:
            return False
        with contextlib.suppress(ExecutionError):
            await self._environment.info()
            return True
        return False

    async def _exec_internal(
        self, *command: str | Path, timeout: float | None = None
    ) -> ExecResult:
        return await self._run([str(word) for word in command], timeout=timeout)

    async def _run(
        self, argv: list[str], *, timeout: float | None = None, stdin: bytes | None = None
    ) -> ExecResult:
        env = await self.state.manifest.environment.resolve()
        root = self.state.manifest.root
        try:
            result = await self._open().run(
                argv,
                cwd=root,
                env=env,
                stdin=stdin,
                timeout=timeout,
                separate=True,
                limit=MOST_OUTPUT,
            )
        except ExecutionError as error:
            raise ExecTransportError(command=argv, message=str(error), cause=error) from error
        code = exit_code(
            result,
            late=lambda: ExecTimeoutError(command=argv, timeout_s=timeout),
            gone=lambda why: ExecTransportError(command=argv, message=why),
        )
        if result.truncated:
            raise ExecTransportError(
                command=argv, message=f"the command printed more than {MOST_OUTPUT} bytes"
            )
        return ExecResult(stdout=result.data, stderr=result.stderr_data or b"", exit_code=code)

    def supports_pty(self) -> bool:
        """Terminals, and processes that continue after a call."""
        return True

    async def pty_exec_start(
        self,
        *command: str | Path,
        timeout: float | None = None,
        shell: bool | list[str] = True,
        user: str | User | None = None,
        tty: bool = False,
        yield_time_s: float | None = None,
        max_output_tokens: int | None = None,
    ) -> PtyExecUpdate:
        """Starts a process, and returns its output until it ends or `yield_time_s` is over."""
        argv = self._prepare_exec_command(*command, shell=shell, user=user)
        env = await self.state.manifest.environment.resolve()
        try:
            process = await self._open().start(
                argv,
                pty=tty,
                cwd=self.state.manifest.root,
                env=env,
                stdin="pipe" if tty else "null",
            )
        except ExecutionError as error:
            raise ExecTransportError(command=argv, message=str(error), cause=error) from error
        id = allocate_pty_process_id(set(self._terminals))
        self._terminals[id] = _Terminal(process, tty=tty)
        wait = EXEC_YIELD_MS if yield_time_s is None else int(yield_time_s * 1000)
        return await self._update(id, clamp_pty_yield_time_ms(wait), max_output_tokens)

    async def pty_write_stdin(
        self,
        *,
        session_id: int,
        chars: str,
        yield_time_s: float | None = None,
        max_output_tokens: int | None = None,
    ) -> PtyExecUpdate:
        """Types into a terminal, and returns what the process printed since the last call."""
        terminal = self._resolve_pty_session_entry(
            pty_processes=self._terminals, session_id=session_id
        )
        if chars and not terminal.tty:
            # the SDK compares this text
            raise RuntimeError("stdin is not available for this process")
        if chars:
            with contextlib.suppress(hermetic.InputClosed):
                await terminal.process.write(chars)
        wait = WRITE_YIELD_MS if yield_time_s is None else int(yield_time_s * 1000)
        wait = resolve_pty_write_yield_time_ms(yield_time_ms=wait, input_empty=not chars)
        return await self._update(session_id, wait, max_output_tokens)

    async def pty_terminate_all(self) -> None:
        """Ends the processes that the model has started."""
        terminals = list(self._terminals.values())
        self._terminals.clear()
        if self._environment is not None:
            await asyncio.gather(*(one.process.kill() for one in terminals), return_exceptions=True)

    async def _update(self, id: int, milliseconds: int, max_tokens: int | None) -> PtyExecUpdate:
        terminal = self._terminals[id]
        text, ended = await terminal.read(milliseconds / 1000)
        code = None
        if ended:
            code = (await terminal.process.wait()).exit_code
            self._terminals.pop(id, None)
        text, tokens = truncate_text_by_tokens(text, max_tokens)
        return PtyExecUpdate(None if ended else id, text.encode("utf-8", "replace"), code, tokens)

    async def read(self, path: Path, *, user: str | User | None = None) -> io.IOBase:
        """The content of a file, read by Hermetic or as `user`."""
        found = await self._validate_path_access(path)
        if user is not None:
            await self._check_read_with_exec(path, user=user)
        with _file_errors(path, WorkspaceArchiveReadError):
            return io.BytesIO(await self._open().read_bytes(str(found)))

    async def write(self, path: Path, data: io.IOBase, *, user: str | User | None = None) -> None:
        """Writes a file and its directories, as `user` if given."""
        content = coerce_write_payload(path=path, data=data).stream.read()
        target = str(await self._validate_path_access(path, for_write=True))
        if user is None:
            with _file_errors(path, WorkspaceArchiveWriteError):
                await self._open().write_file(target, content)
            return
        script = ["sh", "-c", 'mkdir -p "$(dirname "$1")" && cat > "$1"', "sh", target]
        done = await self._run(
            self._prepare_exec_command(*script, shell=False, user=user), stdin=content
        )
        if not done.ok():
            raise WorkspaceArchiveWriteError(
                path=path, message=done.stderr.decode("utf-8", "replace").strip()
            )

    async def persist_workspace(self) -> io.IOBase:
        """The workspace as a tar archive, without what the manifest calls ephemeral."""
        root = self.state.manifest.root
        skipped = sorted(
            path.as_posix() for path in self._persist_workspace_skip_relpaths() if path.parts
        )
        try:
            archive = await pack_inside(self._open(), root, without=skipped)
        except ExecutionError as error:
            raise WorkspaceArchiveReadError(
                path=Path(root), context={"reason": str(error)}, cause=error
            ) from error
        return cast(io.IOBase, archive)

    async def hydrate_workspace(self, data: io.IOBase) -> None:
        """Unpacks such an archive.

        Raises WorkspaceArchiveWriteError for members that would leave the workspace.
        """
        root, archive = self.state.manifest.root, data.read()
        try:
            validate_tar_bytes(archive, allow_external_symlink_targets=False)
            await unpack_inside(self._open(), io.BytesIO(archive), root)
        except (UnsafeTarMemberError, ExecutionError) as error:
            raise WorkspaceArchiveWriteError(
                path=Path(root), message=str(error), cause=error
            ) from error

    async def _validate_path_access(self, path: Path | str, *, for_write: bool = False) -> Path:
        """The path, unless it or a link in it leads out of the workspace and the granted paths."""
        wanted: Path = self.normalize_path(path, for_write=for_write)
        real = PurePosixPath((await self._open().file_status(str(wanted), missing=True)).path)
        if not real.is_relative_to(self._root):
            self.normalize_path(real, for_write=for_write)
        return wanted

    async def _resolve_exposed_port(self, port: int) -> ExposedPortEndpoint:
        # the ports of other kinds are not reachable from this machine
        if self.state.kind != "local":
            return await super()._resolve_exposed_port(port)
        return ExposedPortEndpoint(host="127.0.0.1", port=port, tls=False)

    def _open(self) -> Environment:
        if self._environment is None:
            raise EnvironmentUnavailable(
                "the session has not started, or was shut down", environment=self.state.task
            )
        return self._environment


class HermeticSandboxClient(BaseSandboxClient[HermeticSandboxClientOptions | None]):
    """Makes sandbox sessions of this kind; the options of a run override it."""

    backend_id = "hermetic"
    supports_default_options = True

    def __init__(self, kind: str = "sandbox", **options: Any) -> None:
        self._default = HermeticSandboxClientOptions(kind=kind, options=options)

    async def create(
        self,
        *,
        snapshot: SnapshotSpec | SnapshotBase | None = None,
        manifest: Manifest | None = None,
        options: HermeticSandboxClientOptions | None = None,
    ) -> SandboxSession:
        """A session, which opens its environment when it starts."""
        chosen = options or self._default
        manifest = self._validate_manifest_for_create(manifest or Manifest())
        opened, own = dict(chosen.options), ""
        if manifest.root == Manifest().root and chosen.kind in opening.HERE:
            opened, own = opening.with_directory(chosen.kind, opened)
            manifest = manifest.model_copy(
                update={"root": opened[opening.HERE[chosen.kind]]}, deep=True
            )
        elif chosen.kind == "sandbox":
            opened.setdefault("workspace", manifest.root)
        id = uuid.uuid4()
        state = HermeticSandboxSessionState(
            session_id=id,
            manifest=manifest,
            snapshot=resolve_snapshot(snapshot, str(id)),
            exposed_ports=chosen.exposed_ports,
            kind=chosen.kind,
            options=opened,
            task=f"agents-{id.hex}",
            own=own,
        )
        return self._wrap_session(HermeticSandboxSession(state))

    async def resume(self, state: SandboxSessionState) -> SandboxSession:
        """The session again: in its environment if that lives, else in a new one."""
        if not isinstance(state, HermeticSandboxSessionState):
            raise TypeError(f"{type(state).__name__} is the state of another client")
        state.assert_path_grants_rebound()
        return self._wrap_session(HermeticSandboxSession(state))

    async def delete(self, session: SandboxSession) -> SandboxSession:
        """Ends the session's environment and all that runs in it."""
        state = session.state
        if not isinstance(state, HermeticSandboxSessionState):
            raise TypeError(f"{type(state).__name__} is the state of another client")
        await session.shutdown()
        environment = None
        with contextlib.suppress(EnvironmentUnavailable):
            environment = await hermetic.attach(state.task)
        await opening.end(environment, state.own)
        return session

    def deserialize_session_state(self, payload: dict[str, object]) -> SandboxSessionState:
        """A state that was stored as JSON."""
        return self._deserialize_session_state_payload(payload, HermeticSandboxSessionState)


@contextlib.contextmanager
def _file_errors(path: Path, error: type[Exception]) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as missing:
        raise WorkspaceReadNotFoundError(path=path, cause=missing) from missing
    except (OSError, ExecutionError) as problem:
        raise error(path=path, context={"reason": str(problem)}, cause=problem) from problem  # type: ignore[call-arg]
