"""An environment for Harbor: `harbor run -e hermetic.adapters.harbor:HermeticEnvironment --ek
kind=podman`.

A task's image is built from its Dockerfile, or taken as it is. Commands run as the user of the
image, and where that is root, as any user.
"""

import asyncio
import re
import uuid
from pathlib import Path
from typing import Any

import hermetic
from hermetic import Environment
from hermetic.adapters.frameworks import framework
from hermetic.adapters.results import MOST_OUTPUT, exit_code
from hermetic.contract.errors import EnvironmentUnavailable
from hermetic.session.trees import download_tree, upload_tree
from hermetic.session.users import Users, users_of

with framework("harbor"):
    from harbor.environments.base import BaseEnvironment, ExecResult, SandboxBuildFailedError
    from harbor.environments.capabilities import (
        EnvironmentCapabilities,
        EnvironmentResourceCapabilities,
    )
    from harbor.environments.definition import (
        require_agent_environment_definition,
        should_use_prebuilt_docker_image,
    )
    from harbor.models.task.config import EnvironmentConfig
    from harbor.models.trial.paths import TrialPaths


class HermeticEnvironment(BaseEnvironment):
    """A container of Hermetic, of the kind docker or podman.

    Other arguments are options of the kind.
    """

    def __init__(
        self,
        environment_dir: Path,
        environment_name: str,
        session_id: str,
        trial_paths: TrialPaths,
        task_env_config: EnvironmentConfig,
        *,
        kind: str = "docker",
        options: dict[str, Any] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(
            environment_dir, environment_name, session_id, trial_paths, task_env_config, **more
        )
        if kind not in ("docker", "podman"):
            raise ValueError(
                f"kind must be docker or podman, not {kind!r}: a task needs an image and directories in /"
            )
        self._kind, self._options = kind, options or {}
        self._task = f"harbor-{session_id[:60]}-{uuid.uuid4().hex[:8]}"
        self._environment: Environment | None = None
        self._users = Users("", "")

    @staticmethod
    def type() -> str:
        """Its name in results."""
        return "hermetic"

    @classmethod
    def resource_capabilities(cls) -> EnvironmentResourceCapabilities:
        """Limits, and no reservations."""
        return EnvironmentResourceCapabilities(
            cpu_limit=True, memory_limit=True, fractional_cpus=True
        )

    @property
    def capabilities(self) -> EnvironmentCapabilities:
        """Network is on or off; no lists of hosts, no GPUs, no compose files."""
        return EnvironmentCapabilities(disable_internet=True)

    def _validate_definition(self) -> None:
        require_agent_environment_definition(
            self.environment_dir, docker_image=self.task_env_config.docker_image
        )

    async def start(self, force_build: bool) -> None:
        """Builds the image, if there is a Dockerfile for it, and opens the container."""
        image = await self._image(force_build)
        found = await self._engine("image", "inspect", "--format", "{{.Config.WorkingDir}}", image)
        options = {
            "image": image,
            "cwd": self.task_env_config.workdir or found.strip() or "/",
            "env": self._startup_env(),
            "network": not self._network_disabled,
        }
        if self._effective_cpus is not None:
            options["cpu"] = self._effective_cpus
        if self._effective_memory_mb is not None:
            options["memory_bytes"] = self._effective_memory_mb << 20
        self._environment = await hermetic.open(
            self._kind, task=self._task, **{**options, **self._options}
        )
        self._users = await users_of(self._environment)
        await self.ensure_dirs(self._mount_targets(writable_only=True))
        await self._upload_environment_dir_after_start()

    async def stop(self, delete: bool) -> None:
        """Ends the container; without `delete` it is left to its lease."""
        environment, self._environment = self._environment, None
        if environment is not None:
            await environment.close(remove=delete)

    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> ExecResult:
        """Runs a command in a shell of its own.

        Raises TimeoutError when its process tree was ended.
        """
        wanted = self._resolve_user(user)
        words = self._users.argv(wanted, ["bash", "-c", command])
        if words is None:
            raise PermissionError(f"commands here run as {self._users}, not as {wanted}")
        emit = self._output_callback()
        result = await self._open().run(
            words,
            cwd=cwd,
            env=self._merge_env(env),
            timeout=timeout_sec,
            separate=True,
            limit=MOST_OUTPUT,
        )
        code = exit_code(
            result,
            late=lambda: TimeoutError(f"Command timed out after {timeout_sec} seconds"),
            gone=lambda why: EnvironmentUnavailable(why, environment=self._task),
        )
        if emit is not None:
            await emit(result.output, "stdout")
            await emit(result.stderr or "", "stderr")
        return ExecResult(stdout=result.output, stderr=result.stderr, return_code=code)

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        """Copies a file into the container."""
        await self._open().upload(str(source_path), target_path)

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        """Copies a directory into the container."""
        await upload_tree(self._open(), str(source_dir), target_dir)

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        """Copies a file out of the container."""
        await self._open().download(source_path, str(target_path))

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        """Copies a directory out of the container."""
        await download_tree(self._open(), source_dir, str(target_dir))

    def _open(self) -> Environment:
        if self._environment is None:
            raise EnvironmentUnavailable(
                "the environment has not started, or was stopped", environment=self._task
            )
        return self._environment

    async def _image(self, force_build: bool) -> str:
        given: str | None = self.task_env_config.docker_image
        if given and should_use_prebuilt_docker_image(
            self.environment_dir, docker_image=given, force_build=force_build
        ):
            if not await self._engine("images", "--quiet", given):
                await self._engine("pull", "--quiet", given)
            return given
        name = re.sub(r"[^a-z0-9_.-]+", "-", self.environment_name.lower()).strip("-.")
        tag = f"hermetic-harbor-{name}:{self.environment_id[:12]}"
        if force_build or not await self._engine("images", "--quiet", tag):
            async with asyncio.timeout(self.task_env_config.build_timeout_sec):
                await self._engine("build", "--quiet", "--tag", tag, str(self.environment_dir))
        return tag

    async def _engine(self, *words: str) -> str:
        """What the engine's program prints. Raises SandboxBuildFailedError."""
        process = await asyncio.create_subprocess_exec(
            self._kind,
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            output, errors = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode != 0:
            raise SandboxBuildFailedError(
                f"{self._kind} {' '.join(words)}: {errors.decode(errors='replace').strip()}"
            )
        return output.decode()
