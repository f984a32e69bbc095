"""A runtime and a deployment for SWE-ReX.

    deployment = HermeticDeployment("docker", image="python:3.12")
    await deployment.start()
    await deployment.runtime.create_session(CreateBashSessionRequest())

A bash session is a session of Hermetic. A timeout ends the command's process tree: there is nothing
to interrupt after it. Interactive programs run on a terminal.
"""

import asyncio
import logging
import os
import re
from typing import Any

import hermetic
from hermetic import Environment, Process, Result
from hermetic.adapters.frameworks import framework
from hermetic.adapters.results import MOST_OUTPUT, exit_code
from hermetic.contract.errors import ExecutionError
from hermetic.session.trees import upload_tree

with framework("swerex"):
    from swerex.deployment.abstract import AbstractDeployment
    from swerex.deployment.hooks.abstract import CombinedDeploymentHook, DeploymentHook
    from swerex.exceptions import (
        BashIncorrectSyntaxError,
        CommandTimeoutError,
        DeploymentNotStartedError,
        DeploymentStartupError,
        NonZeroExitCodeError,
        SessionDoesNotExistError,
        SessionExistsError,
        SwerexException,
    )
    from swerex.runtime.abstract import (
        AbstractRuntime,
        Action,
        BashAction,
        BashInterruptAction,
        BashObservation,
        CloseBashSessionResponse,
        CloseResponse,
        CloseSessionRequest,
        CloseSessionResponse,
        Command,
        CommandResponse,
        CreateBashSessionResponse,
        CreateSessionRequest,
        CreateSessionResponse,
        IsAliveResponse,
        Observation,
        ReadFileRequest,
        ReadFileResponse,
        UploadRequest,
        UploadResponse,
        WriteFileRequest,
        WriteFileResponse,
    )
    from swerex.utils.log import get_logger

ESCAPES = re.compile(rb"\x1b[@-_][0-?]*[ -/]*[@-~]")  # as the framework's own sessions remove them


class _Bash:
    """A bash session, and the interactive program that runs in it."""

    def __init__(self, environment: Environment, name: str) -> None:
        self._session = environment.session(name)
        self._program: Process | None = None
        self._read = 0  # offset of the program's output up to which it was returned

    async def start(self, sources: list[str], timeout: float) -> str:
        """The output of sourcing these files."""
        outputs = [
            (await self._session.run(f"source {path}", timeout=timeout)).output for path in sources
        ]
        return "".join(outputs)

    async def close(self) -> None:
        if self._program is not None:
            await self._program.kill()
        await self._session.close()

    async def run(self, action: BashAction | BashInterruptAction) -> BashObservation:
        if isinstance(action, BashInterruptAction):
            return await self._interrupt(action)
        if self._program is not None or action.is_interactive_command or action.expect:
            return await self._interact(action)
        return await self._command(action)

    async def _command(self, action: BashAction) -> BashObservation:
        checked = await self._session.run(["bash", "-n", "-c", action.command])
        if checked.exit_code != 0:
            raise BashIncorrectSyntaxError(
                checked.output, extra_info={"bash_stderr": checked.output}
            )
        result = await self._session.run(action.command, timeout=action.timeout, limit=MOST_OUTPUT)
        code = _exit_code(result, action.command, action.timeout)
        output = result.data.decode(errors="backslashreplace")
        if action.check == "raise" and code != 0:
            raise _failed(action.command, code, output, action.error_msg)
        return BashObservation(output=output, exit_code=None if action.check == "ignore" else code)

    async def _interact(self, action: BashAction) -> BashObservation:
        """Starts a program on a terminal, or types into the one that runs, and waits for a text or
        its end.
        """
        if self._program is None:
            self._program, self._read = await self._session.start(action.command, pty=True), 0
        else:
            await self._program.submit(action.command)
        return await self._output(self._program, action.expect, action.timeout, action.command)

    async def _interrupt(self, action: BashInterruptAction) -> BashObservation:
        if self._program is None:
            return BashObservation(exit_code=0)
        for _ in range(action.n_retry):
            await self._program.keys("ctrl-c")
            try:
                return await self._output(self._program, action.expect, action.timeout, "")
            except CommandTimeoutError:
                continue
        await self._program.kill()
        return await self._output(self._program, [], None, "")

    async def _output(
        self, program: Process, expected: list[str], timeout: float | None, typed: str
    ) -> BashObservation:
        """The program's output up to one of these patterns, or up to its end."""
        start, matched = self._read, ""
        try:
            if expected:
                pattern = "|".join(f"(?:{one})" for one in expected)
                at, end = await program.wait_for(pattern, timeout=timeout, pattern=True)
                found = (await program.read(at, limit=end - at)).data.decode(
                    errors="backslashreplace"
                )
                matched = next(one for one in expected if re.search(one, found))
                data = (await program.read(start, limit=at - start)).data if at > start else b""
                self._read = end
            else:
                await program.wait(timeout)
                raise EOFError
        except TimeoutError:
            raise CommandTimeoutError(
                f"timeout after {timeout} seconds while running command {typed!r}"
            ) from None
        except EOFError:
            data, self._program = (await program.read(start, limit=MOST_OUTPUT)).data, None
        text = ESCAPES.sub(b"", data).decode(errors="backslashreplace").replace("\r\n", "\n")
        return BashObservation(
            output=text.lstrip().removeprefix(typed).strip(), exit_code=0, expect_string=matched
        )


class HermeticRuntime(AbstractRuntime):
    """Sessions, commands and files in an environment of Hermetic."""

    def __init__(self, environment: Environment, *, logger: logging.Logger | None = None) -> None:
        self.logger = logger or get_logger("rex-runtime")
        self._environment = environment
        self._sessions: dict[str, _Bash] = {}

    async def is_alive(self, *, timeout: float | None = None) -> IsAliveResponse:
        """Whether the environment answers."""
        try:
            await self._environment.info()
        except ExecutionError as error:
            return IsAliveResponse(is_alive=False, message=str(error))
        return IsAliveResponse(is_alive=True)

    async def create_session(self, request: CreateSessionRequest) -> CreateSessionResponse:
        """Opens a session. Raises SessionExistsError."""
        if request.session in self._sessions:
            raise SessionExistsError(f"session {request.session} already exists")
        session = _Bash(self._environment, request.session)
        output = await session.start(request.startup_source, request.startup_timeout)
        self._sessions[request.session] = session
        return CreateBashSessionResponse(output=output)

    async def run_in_session(self, action: Action) -> Observation:
        """Runs a command in a session, which keeps directory and variables."""
        return await self._session(action.session).run(action)

    async def close_session(self, request: CloseSessionRequest) -> CloseSessionResponse:
        """Ends a session and what runs in it."""
        await self._session(request.session).close()
        del self._sessions[request.session]
        return CloseBashSessionResponse()

    async def execute(self, command: Command) -> CommandResponse:
        """Runs a command on its own."""
        words = [command.command] if isinstance(command.command, str) else command.command
        argv = ["sh", "-c", *words] if command.shell else words
        result = await self._environment.run(
            argv,
            cwd=command.cwd,
            env=command.env,
            timeout=command.timeout,
            separate=not command.merge_output_streams,
            limit=MOST_OUTPUT,
        )
        code = _exit_code(result, command.command, command.timeout)
        output = result.data.decode(errors="backslashreplace")
        errors = (result.stderr_data or b"").decode(errors="backslashreplace")
        if command.check and code != 0:
            raise _failed(command.command, code, output + errors, command.error_msg)
        return CommandResponse(stdout=output, stderr=errors, exit_code=code)

    async def read_file(self, request: ReadFileRequest) -> ReadFileResponse:
        """The text of a file."""
        data = await self._environment.read_bytes(request.path)
        return ReadFileResponse(
            content=data.decode(request.encoding or "utf-8", request.errors or "strict")
        )

    async def write_file(self, request: WriteFileRequest) -> WriteFileResponse:
        """Writes a file and its directories."""
        await self._environment.write_file(request.path, request.content)
        return WriteFileResponse()

    async def upload(self, request: UploadRequest) -> UploadResponse:
        """Copies a file or a directory of this machine into the environment."""
        if await asyncio.to_thread(os.path.isdir, request.source_path):
            await upload_tree(self._environment, request.source_path, request.target_path)
        else:
            await self._environment.upload(request.source_path, request.target_path)
        return UploadResponse()

    async def close(self) -> CloseResponse:
        """Ends the sessions."""
        for session in self._sessions.values():
            await session.close()
        self._sessions.clear()
        return CloseResponse()

    def _session(self, name: str) -> _Bash:
        if name not in self._sessions:
            raise SessionDoesNotExistError(f"session {name!r} does not exist")
        return self._sessions[name]


class HermeticDeployment(AbstractDeployment):
    """Opens an environment for a runtime, and ends it with `stop`."""

    def __init__(
        self, kind: str = "sandbox", *, logger: logging.Logger | None = None, **options: Any
    ) -> None:
        self.logger = logger or get_logger("rex-deploy")
        self._kind, self._options = kind, options
        self._hooks = CombinedDeploymentHook()
        self._environment: Environment | None = None
        self._runtime: HermeticRuntime | None = None

    def add_hook(self, hook: DeploymentHook) -> None:
        """Adds a hook that is called at the steps of a start."""
        self._hooks.add_hook(hook)

    async def is_alive(self, *, timeout: float | None = None) -> IsAliveResponse:
        """Whether the environment answers."""
        return await self.runtime.is_alive(timeout=timeout)

    async def start(self) -> None:
        """Opens the environment. Raises DeploymentStartupError."""
        self._hooks.on_custom_step("Opening the environment")
        try:
            self._environment = await hermetic.open(self._kind, **self._options)
        except ExecutionError as error:
            raise DeploymentStartupError(str(error)) from error
        self._runtime = HermeticRuntime(self._environment, logger=self.logger)

    async def stop(self) -> None:
        """Ends the environment and all that runs in it."""
        environment, self._environment, self._runtime = self._environment, None, None
        if environment is not None:
            await environment.close(remove=True)

    @property
    def runtime(self) -> HermeticRuntime:
        """The runtime. Raises DeploymentNotStartedError."""
        if self._runtime is None:
            raise DeploymentNotStartedError
        return self._runtime


def _exit_code(result: Result, command: object, timeout: float | None) -> int:
    late = f"timeout after {timeout} seconds while running command {command!r}"
    return exit_code(result, late=lambda: CommandTimeoutError(late), gone=SwerexException)


def _failed(command: object, code: int, output: str, message: str) -> NonZeroExitCodeError:
    text = f"Command {command!r} failed with exit code {code}. Here is the output:\n{output!r}"
    return NonZeroExitCodeError(f"{message}: {text}" if message else text)
