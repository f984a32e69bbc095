"""Environments by their Hermes names: local, docker, ssh and singularity, with all arguments, on
those of Hermetic.
"""

import asyncio
import contextlib
import logging
import os
import subprocess
import threading
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from hermetic.blocking.portal import Portal, in_portal
from hermetic.contract.command import Result
from hermetic.contract.endings import Cancelled, Lost, TimedOut
from hermetic.contract.errors import EnvironmentUnavailable, ExecutionError, InputClosed
from hermetic.contract.tool import Fields
from hermetic.contract.variables import fault_of
from hermetic.environments.containers.scratch import scratch_base
from hermetic.environments.containers.start import missing_limit
from hermetic.fleet.opening import open_environment
from hermetic.hermes.base import INTERRUPTED, BaseEnvironment, late, quote_directory, with_line
from hermetic.hermes.containers import find_docker
from hermetic.hermes.handles import KEPT, LOOK, ProcessHandle
from hermetic.hermes.host import profile
from hermetic.hermes.shared import shared
from hermetic.registry.private import make_private
from hermetic.session.environment import Environment
from hermetic.session.process import Process
from hermetic.session.session import Session

MEBIBYTE = 1 << 20
CANNOT_ENTER = 126
WORKSPACE = "/workspace"  # of every container

_log = logging.getLogger("hermetic.hermes")


class HermeticEnvironment(BaseEnvironment):
    """An environment of Hermetic by the methods of Hermes.

    The shell keeps its state; nothing is wrapped.
    """

    def __init__(
        self,
        kind: str,
        cwd: str,
        timeout: float,
        options: Mapping[str, Any],
        env: dict[str, str] | None = None,
        task: str | None = None,
    ) -> None:
        super().__init__(cwd, timeout, env)
        self._held: tuple[Portal, Environment] | None = None

        async def opened() -> Environment:
            return await open_environment(kind, task, options, replace=True, tolerated=("cwd",))

        try:
            self._held = in_portal(opened)
        except ExecutionError as error:
            raise RuntimeError(str(error)) from error
        portal, environment = self._held
        # A task that lives already has a shell of its own; so does each object.
        self._session: Session = (
            environment if task is None else environment.session(self._session_id)
        )
        self._snapshot_ready = True
        self.cwd = portal.call(self._session.state).cwd if task is None else self.cwd
        if task is not None:
            self._enter(cwd)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._session_id}{'' if self._held else ', cleaned up'}>"

    @property
    def environment(self) -> Environment:
        """The environment itself. Raises RuntimeError after `cleanup`."""
        return self._open()[1]

    def _open(self) -> tuple[Portal, Environment]:
        if self._held is None:
            raise RuntimeError("the environment was cleaned up; make another one")
        return self._held

    def execute(
        self,
        command: str,
        cwd: str = "",
        *,
        timeout: float | None = None,
        stdin_data: str | None = None,
        **_: Any,
    ) -> Fields:
        """Runs a command:

        `output`, with stderr in it, and `returncode`; 124 after a timeout, 130 when interrupted.
        """
        seconds = self._seconds(timeout)
        self._open()
        self._before_execute()
        if cwd and (problem := self._enter(cwd)):
            return {"output": problem, "returncode": CANNOT_ENTER}
        return self._shown(self._run(command, seconds, stdin_data))

    def _enter(self, directory: str) -> str:
        """Changes the session's directory; what bash says where that fails."""
        result = self._run(f"builtin cd -- {quote_directory(directory)}", self.timeout, None)
        return "" if result.exit_code == 0 else result.output or f"{directory} cannot be entered"

    def _run(self, command: str, seconds: float, stdin: str | None) -> Result:
        portal, _ = self._open()
        stop, caller = asyncio.Event(), shared.caller()
        call = portal.begin(
            self._session.run, command, timeout=seconds, stdin=stdin, cancel=stop, limit=KEPT
        )
        while not call.wait(LOOK):
            caller.beat()
            if caller.stop():
                portal.do(stop.set)
        result = call.result()
        self.cwd = result.cwd or self.cwd
        return result

    def _shown(self, result: Result) -> Fields:
        ending, line = result.ending, ""
        if isinstance(ending, TimedOut):
            line = late(ending.after)
        elif isinstance(ending, Cancelled):
            line = INTERRUPTED
        elif isinstance(ending, Lost):
            line = f"[{ending}]"
        return {
            "output": with_line(result.output, line),
            "returncode": -1 if result.exit_code is None else result.exit_code,
        }

    def _run_bash(
        self,
        cmd_string: str,
        *,
        login: bool = False,
        timeout: float = 120,
        stdin_data: str | None = None,
    ) -> ProcessHandle:
        """Starts bash with a script there, and returns at once."""
        portal, _ = self._open()
        words = ["bash", "-l", "-c", cmd_string] if login else ["bash", "-c", cmd_string]
        process = portal.call(
            self._session.start, words, stdin="null" if stdin_data is None else stdin_data
        )
        return SessionHandle(portal, process)

    def start_bash(self, command: str, cwd: str, timeout: float) -> ProcessHandle:
        """A handle for a command that runs on, with the variables of the session."""
        portal, _ = self._open()
        return SessionHandle(portal, portal.call(self._session.start, command, cwd=cwd or None))

    def init_session(self) -> None:
        """Nothing is to be done: the session's shell has read its profile."""

    def cleanup(self) -> None:
        """Ends the environment and all that runs in it."""
        self._close(remove=True)

    def _close(self, *, remove: bool) -> None:
        held, self._held = getattr(self, "_held", None), None
        if held is None or not held[0].is_open:
            return
        portal, environment = held
        try:
            portal.call(environment.close, remove=remove)
        finally:
            portal.close()


class SessionHandle:
    """A process of an environment as a handle: its output is a pipe that a thread fills."""

    def __init__(self, portal: Portal, process: Process) -> None:
        self._portal = portal
        self._process = process
        read, write = os.pipe()
        self.stdout = os.fdopen(read, "rb")
        self.pid = process.pid
        threading.Thread(
            target=self._fill, args=(write,), name="hermes-handle", daemon=True
        ).start()

    def __repr__(self) -> str:
        return f"<SessionHandle {self._process.id}>"

    @property
    def returncode(self) -> int | None:
        """The exit code; None while it runs."""
        ending = self._process.info.ending
        if ending is None:
            return None
        return -1 if ending.exit_code is None else ending.exit_code

    def poll(self) -> int | None:
        """The exit code now; None while it runs."""
        if self.returncode is None:
            try:
                self._portal.call(self._process.status)
            except EnvironmentUnavailable:
                return -1
        return self.returncode

    def kill(self) -> None:
        """Ends its process tree."""
        with contextlib.suppress(ExecutionError):
            self._portal.call(self._process.kill)

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, once it has ended. Raises subprocess.TimeoutExpired."""
        try:
            self._portal.call(self._process.wait, timeout)
        except TimeoutError:
            raise subprocess.TimeoutExpired(self._process.id, timeout or 0) from None
        code = self.poll()
        return -1 if code is None else code

    def write_input(self, text: str) -> None:
        """Writes to its input. Raises InputClosed."""
        self._portal.call(self._process.write, text)

    def close_input(self) -> None:
        """Ends its input."""
        with contextlib.suppress(InputClosed):
            self._portal.call(self._process.close_input)

    def _fill(self, write: int) -> None:
        at = 0
        with (
            contextlib.suppress(OSError, ExecutionError),
            os.fdopen(write, "wb", buffering=0) as pipe,
        ):
            while True:
                chunk = self._portal.call(self._process.read, at, wait=1.0)
                pipe.write(chunk.data)
                at = chunk.end
                if chunk.ended:
                    return


class LocalEnvironment(HermeticEnvironment):
    """Commands run on this machine, as this user."""

    def __init__(
        self, cwd: str = "", timeout: float = 60, env: dict[str, str] | None = None
    ) -> None:
        directory = os.path.expanduser(cwd) or os.getcwd()
        super().__init__("local", directory, timeout, {"cwd": directory, "env": env or {}}, env)


class DockerEnvironment(HermeticEnvironment):
    """Commands run in a hardened container of docker, or of podman where `find_docker` finds only
    that.

    With `persist_across_processes` the container belongs to the task: it outlives `cleanup` by its
    lease, and the next object of the task uses it, unless image, mounts, network or limits differ:
    then a new one takes its place. A limit of 0 is that of the kind: one core, 5 GiB.
    """

    def __init__(
        self,
        image: str,
        cwd: str = "/root",
        timeout: float = 60,
        cpu: float = 0,
        memory: int = 0,
        disk: int = 0,
        persistent_filesystem: bool = False,
        task_id: str = "default",
        volumes: Sequence[str] | None = None,
        forward_env: Sequence[str] | None = None,
        env: Mapping[str, Any] | None = None,
        network: bool = True,
        host_cwd: str | None = None,
        auto_mount_cwd: bool = False,
        run_as_host_user: bool = False,
        extra_args: Sequence[str] | None = None,
        persist_across_processes: bool = True,
    ) -> None:
        self._persistent = persistent_filesystem
        self._is_kept = persist_across_processes
        directory = "/root" if cwd == "~" else cwd
        options: dict[str, Any] = {"image": image, "cwd": directory, "network": network}
        options |= limits_of(cpu, memory, disk)
        options |= {"persistent": persistent_filesystem} if persistent_filesystem else {}
        options |= {"volumes": found} if (found := _volumes(volumes)) else {}
        options |= {"forward_env": found} if (found := _texts(forward_env, "forward_env")) else {}
        options |= {"env": variables} if (variables := _variables(env)) else {}
        options |= {"extra_args": found} if (found := _texts(extra_args, "extra_args")) else {}
        if auto_mount_cwd and host_cwd and os.path.isdir(host_cwd):
            options["host_cwd"] = os.path.abspath(host_cwd)
        if run_as_host_user:
            options["user"] = f"{os.geteuid()}:{os.getegid()}"
        kind = "podman" if os.path.basename(find_docker() or "") == "podman" else "docker"
        task = task_of(task_id, is_kept=persist_across_processes or persistent_filesystem)
        super().__init__(kind, directory, timeout, options, variables, task)
        notes = self.environment.isolation.notes
        for note in map(missing_limit, limits_of(cpu, memory, disk)):
            if note in notes:
                _log.warning("%s", note)
        # where nothing is mounted there
        self._run(f"mkdir -p {WORKSPACE} 2>/dev/null || true", timeout, None)

    def cleanup(self, *, force_remove: bool = False) -> None:
        """Leaves a container of a task to its lease; ends any other one, and with `force_remove`
        every one.
        """
        self._close(remove=force_remove or not self._is_kept)

    def wait_for_cleanup(self, timeout: float = 30.0) -> bool:
        """True: `cleanup` returns when it is done."""
        return True


class SSHEnvironment(HermeticEnvironment):
    """Commands run on another machine, by OpenSSH's own client.

    `settings` are further ones of ssh_config(5).
    """

    def __init__(
        self,
        host: str,
        user: str,
        cwd: str = "~",
        timeout: float = 60,
        port: int = 22,
        key_path: str = "",
        *,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        if not host or not user:
            raise ValueError("SSHEnvironment needs host and user")
        self.host, self.user, self.port, self.key_path = host, user, port, key_path
        options: dict[str, Any] = {
            "host": host,
            "user": user,
            "cwd": cwd,
            "settings": dict(settings or {}),
        }
        options |= {"port": port} if port != 22 else {}
        options |= {"key": key_path} if key_path else {}
        super().__init__("ssh", cwd, timeout, options)


class SingularityEnvironment(HermeticEnvironment):
    """Commands run in an image of Apptainer or Singularity, without root; `disk` cannot be limited."""

    def __init__(
        self,
        image: str,
        cwd: str = "/root",
        timeout: float = 60,
        cpu: float = 0,
        memory: int = 0,
        disk: int = 0,
        persistent_filesystem: bool = False,
        task_id: str = "default",
    ) -> None:
        directory = "/root" if cwd == "~" else cwd
        options: dict[str, Any] = {"image": image, "cwd": directory, **limits_of(cpu, memory, 0)}
        if disk > 0:
            _log.warning("no limit on disk: apptainer cannot set one")
        if persistent_filesystem:
            options["overlay"] = str(overlay_of(task_id))
        super().__init__("apptainer", directory, timeout, options)


def task_of(task_id: str, *, is_kept: bool) -> str | None:
    """The task whose environment or files outlive an object; None where they end with it."""
    return f"hermes-{profile()}-{task_id}" if is_kept else None


def overlay_of(task_id: str) -> Path:
    """The directory that keeps the written files of a task."""
    name = sha256(f"{profile()}/{task_id}".encode()).hexdigest()[:16]
    return make_private(scratch_base() / "hermes-overlays" / name, "TERMINAL_SCRATCH_DIR")


def limits_of(cpu: float, memory: int, disk: int) -> dict[str, Any]:
    """Options for limits in cores and mebibytes; those that are 0 are left to the kind."""
    found: dict[str, Any] = {"cpu": cpu} if cpu > 0 else {}
    found |= {"memory_bytes": memory * MEBIBYTE} if memory > 0 else {}
    return found | ({"disk_bytes": disk * MEBIBYTE} if disk > 0 else {})


def _volumes(given: object) -> list[str]:
    found = [one for one in _texts(given, "volumes") if ":" in one]
    for one in set(_texts(given, "volumes")) - set(found):
        _log.warning("the volume %r was left out: it names no directory inside", one)
    return found


def _texts(given: object, name: str) -> list[str]:
    """The texts in a list, each once; anything else is left out with a warning."""
    if given is not None and not isinstance(given, list | tuple):
        _log.warning("%s was left out: it is no list: %r", name, given)
        return []
    found = [one.strip() for one in given or () if isinstance(one, str) and one.strip()]
    if len(found) < len(given or ()):
        _log.warning("entries of %s that are no texts were left out", name)
    return found if name == "extra_args" else list(dict.fromkeys(found))


def _variables(given: Mapping[str, Any] | None) -> dict[str, str]:
    """Variables as texts; those with an invalid name or a value that is no plain one are left out
    with a warning.
    """
    found: dict[str, str] = {}
    for name, value in (given or {}).items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if (
            not isinstance(value, str | int | float)
            or not isinstance(name, str)
            or fault_of({name: text})
        ):
            _log.warning("the variable %r was left out: it has no valid name or value", name)
        else:
            found[name] = text
    return found
