"""A sandbox provider for Inspect: `sandbox=("hermetic", HermeticConfig(kind="docker",
image="python:3.12"))`.

Each sample gets an environment of its own, which ends with the sample, and a working directory in
it.
"""

import posixpath
from collections.abc import Mapping
from typing import Any, Literal, overload

import msgspec

import hermetic
from hermetic import Environment
from hermetic.adapters import opening
from hermetic.adapters.files import check_writable
from hermetic.adapters.frameworks import framework
from hermetic.adapters.results import exit_code
from hermetic.contract.errors import EnvironmentUnavailable
from hermetic.session.users import Users, users_of

with framework("inspect_ai"):
    from inspect_ai.util import (
        ExecResult,
        OutputLimitExceededError,
        SandboxEnvironment,
        SandboxEnvironmentConfigType,
        SandboxEnvironmentLimits,
        SandboxUnavailableError,
        SandboxUserUnsupportedError,
        sandboxenv,
    )
    from pydantic import BaseModel, field_validator

NOT_EXECUTABLE = 126  # the exit code of a program that may not be run


class HermeticConfig(BaseModel, frozen=True):
    """The kind of environment and its options, as for `hermetic.open`.

    Options are kept as JSON, to be hashable.
    """

    kind: str = "sandbox"
    image: str = ""
    user: str = ""
    options: str = "{}"

    @field_validator("options", mode="before")
    @classmethod
    def _as_json(cls, value: object) -> object:
        return msgspec.json.encode(value).decode() if isinstance(value, Mapping) else value

    def opening(self) -> dict[str, Any]:
        """The arguments of `hermetic.open` beside the kind."""
        named = {"image": self.image, "user": self.user}
        options: dict[str, Any] = msgspec.json.decode(self.options)
        return {**options, **{name: value for name, value in named.items() if value}}


@sandboxenv(name="hermetic")
class HermeticSandbox(SandboxEnvironment):
    """An environment of Hermetic as a sample sees it."""

    def __init__(
        self, environment: Environment, directory: str, users: Users, own: str = ""
    ) -> None:
        super().__init__()
        self._environment = environment
        self._directory = directory
        self._own = own  # a directory of this machine that was made for the sample
        self._users = users

    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> ExecResult[str]:
        """Runs a program.

        A command that timed out is not repeated: its whole process tree has been ended.
        """
        words = self._users.argv(user, cmd)
        if words is None:
            raise SandboxUserUnsupportedError(
                f"commands here run as {self._users}, not as {user}; set `user` in the sandbox's config"
            )
        most = SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE
        try:
            result = await self._environment.run(
                words,
                stdin=input,
                cwd=self._path(cwd or "."),
                env=env,
                timeout=timeout,
                separate=True,
                limit=most,
            )
        except EnvironmentUnavailable as error:
            raise SandboxUnavailableError(str(error)) from error
        if result.truncated:
            raise OutputLimitExceededError(
                SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE_STR, result.output
            )
        late = TimeoutError(f"the command was ended after {timeout} s")
        late.truncated_output = result.output  # type: ignore[attr-defined]  # Inspect reads it
        code = exit_code(result, late=lambda: late, gone=SandboxUnavailableError)
        errors = result.stderr or ""
        if code == NOT_EXECUTABLE and ("ermission denied" in errors or "Is a directory" in errors):
            raise PermissionError(errors.strip())
        return ExecResult(code == 0, code, result.output, errors)

    async def write_file(self, file: str, contents: str | bytes) -> None:
        """Writes a file, and its directories.

        Raises PermissionError where the file itself may not be written.
        """
        path = self._path(file)
        await check_writable(self._environment, path)
        await self._environment.write_file(path, contents)

    @overload
    async def read_file(self, file: str, text: Literal[True] = True) -> str: ...

    @overload
    async def read_file(self, file: str, text: Literal[False]) -> bytes: ...

    async def read_file(self, file: str, text: bool = True) -> str | bytes:
        """The content of a file."""
        path = self._path(file)
        status = await self._environment.file_status(path)
        if status.size > SandboxEnvironmentLimits.MAX_READ_FILE_SIZE:
            raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR, None)
        data = await self._environment.read_bytes(path)
        return data.decode() if text else data

    @classmethod
    async def sample_init(
        cls, task_name: str, config: SandboxEnvironmentConfigType | None, metadata: dict[str, str]
    ) -> dict[str, SandboxEnvironment]:
        """Opens the environment of a sample."""
        chosen = config if isinstance(config, HermeticConfig) else HermeticConfig()
        options, own = opening.with_directory(chosen.kind, chosen.opening())
        environment = None
        try:
            environment = await hermetic.open(chosen.kind, **options)
            users, directory = await users_of(environment), (await environment.state()).cwd
        except BaseException:
            await opening.end(environment, own)
            raise
        return {"default": cls(environment, directory, users, own)}

    @classmethod
    async def sample_cleanup(
        cls,
        task_name: str,
        config: SandboxEnvironmentConfigType | None,
        environments: dict[str, SandboxEnvironment],
        interrupted: bool,
    ) -> None:
        """Ends the environments of a sample and all that runs in them."""
        for one in environments.values():
            sandbox = one.as_type(cls)
            await opening.end(sandbox._environment, sandbox._own)

    @classmethod
    def config_deserialize(cls, config: dict[str, Any]) -> BaseModel:
        """The config as it is stored in a log."""
        return HermeticConfig(**config)

    def _path(self, path: str) -> str:
        return posixpath.join(self._directory, path)
