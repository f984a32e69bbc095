"""The command line client of docker or podman: finding it, running it, reading its output."""

import asyncio
import os
import shutil
import signal
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from hermetic.contract.environment import Abandoned
from hermetic.contract.errors import EnvironmentUnavailable, NotInstalled, Unreachable
from hermetic.environments.containers.arguments import LABEL
from hermetic.environments.starting import run_program
from hermetic.registry.host_process import end, is_scarce, spawn
from hermetic.registry.records import tag_of

ANSWER_SECONDS = 12.0  # for a quick request
REMOVAL_SECONDS = 25.0
LOOK_SECONDS = 2.0  # before a removal is requested again
HANGS = "the engine does not answer; restart it, then try again"

DOCKER_SOCKET = "/var/run/docker.sock"

# Which program is the client, by kind: the first that is set, then the first that is found.
SETTINGS = {
    "docker": ("HERMETIC_DOCKER_BINARY", "HERMES_DOCKER_BINARY"),
    "podman": ("HERMETIC_PODMAN_BINARY",),
}
PROGRAMS = {
    "docker": (
        "docker",
        "podman",
        "/usr/local/bin/docker",
        "/opt/homebrew/bin/docker",
        "/Applications/Docker.app/Contents/Resources/bin/docker",
    ),
    "podman": ("podman",),
}

# Variables by which the client finds the engine.
_PREFIXES = ("DOCKER_", "CONTAINER_", "CONTAINERS_", "STORAGE_", "XDG_")
_NAMES = str.split("""
    HOME TMPDIR SSH_AUTH_SOCK DBUS_SESSION_BUS_ADDRESS REGISTRY_AUTH_FILE
    HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy no_proxy
""")
# Those of them that name the engine itself; a later client of the same container needs the same
# values.
_WHICH_ENGINE = ("DOCKER_HOST", "DOCKER_CONTEXT", "CONTAINER_HOST", "CONTAINER_CONNECTION")


# Runs a client in the directory $1 (podman leaves a file in its own when memory runs out). If it
# fails, removes the container $2, since the caller may have been killed. On SIGTERM the shell waits
# for the client.
_RUN_OR_REMOVE = """\
trap : TERM; cd -- "$1" || exit; name=$2; shift 2
"$@" && exit
code=$?
"$1" {removal} "$name" </dev/null >/dev/null 2>&1
exit "$code"
"""


class EngineHangs(EnvironmentUnavailable):
    """The engine's client did not end in time."""


class ClientResult(NamedTuple):
    """The result of one run of the client."""

    code: int
    output: str
    errors: str


class Diagnosis(NamedTuple):
    """Why an engine cannot be used."""

    problem: str
    advice: str
    said: str  # the client's error output


class EngineClient:
    """One engine and its client program."""

    def __init__(self, program: str, environ: Mapping[str, str]) -> None:
        self.program = program
        self.environ = environ

    def __repr__(self) -> str:
        return f"<EngineClient {self.program}>"

    @property
    def is_podman(self) -> bool:
        """True for podman's client, whatever kind it serves."""
        return Path(self.program).name.startswith("podman")

    @property
    def place(self) -> dict[str, str]:
        """Fields of a record by which another process finds the same engine."""
        return {
            "client": self.program,
            **{name: self.environ[name] for name in _WHICH_ENGINE if name in self.environ},
        }

    def is_elsewhere(self) -> bool:
        """True when the engine is known to run on another machine, which sees neither our files nor
        our sockets.
        """
        setting = self.environ.get("CONTAINER_HOST" if self.is_podman else "DOCKER_HOST", "")
        return bool(setting) and not setting.startswith(("unix://", "fd://", "/"))

    def run_argv(self, directory: str, container: str, words: Sequence[str]) -> list[str]:
        """The client with these arguments, in a script that removes the container if the client
        fails.
        """
        script = _RUN_OR_REMOVE.format(removal=" ".join(self._removal))
        return ["/bin/sh", "-c", script, "sh", directory, container, self.program, *words]

    @property
    def _removal(self) -> tuple[str, ...]:
        return ("rm", "--force", "--time", "0", "--ignore") if self.is_podman else ("rm", "-f")

    async def run(self, *words: str, seconds: float = ANSWER_SECONDS) -> ClientResult:
        """Runs the client to its end.

        Raises EnvironmentUnavailable when it does not get there in time.
        """
        try:
            done = await run_program([self.program, *words], seconds=seconds, environ=self.environ)
        except TimeoutError:
            raise EngineHangs(
                f"`{self.program} {words[0]}` did not end within {seconds:g} s: {HANGS}"
            ) from None
        except OSError as error:
            if is_scarce(error):
                raise
            raise EnvironmentUnavailable(
                f"{self.program} cannot be run: {error.strerror}; repair it"
            ) from error
        output = done.output.decode("utf-8", "replace").strip()
        return ClientResult(done.code, output, done.errors)

    async def remove(self, container: str) -> None:
        """Returns when the container is gone. Raises EnvironmentUnavailable."""
        began = time.time()
        while True:
            answer = await self.run(*self._removal, container, seconds=REMOVAL_SECONDS)
            if answer.code == 0:
                return
            if trouble := await self.problem():
                raise EnvironmentUnavailable(trouble)
            if not await self.state(container):
                return
            if time.time() - began > REMOVAL_SECONDS:
                raise EnvironmentUnavailable(
                    f"container {container} cannot be removed: {answer.errors}"
                )
            # Another removal is in progress: wait for the engine's event, then retry.
            await self._wait_for_removal(container, since=began)

    async def _wait_for_removal(self, container: str, since: float) -> None:
        """Returns at the engine's removal event, at the latest after a few seconds."""
        event = "event=remove" if self.is_podman else "event=destroy"
        words = ["--since", f"{since - 1:.0f}", "--until", f"{time.time() + LOOK_SECONDS:.0f}"]
        words += ["--filter", f"container={container}", "--filter", event]
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)
            fd, argv = theirs.fileno(), [self.program, "events", *words]
            client = spawn(argv, fd, fd, fd, self.environ)
            theirs.close()
            try:
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_SECONDS * 2):
                        await asyncio.get_running_loop().sock_recv(ours, 1)
            finally:
                end(client)

    async def state(self, container: str) -> str:
        """The state of a container: running, paused, exited …; "" if there is none.

        Raises Unreachable.
        """
        # One request: between a list and an inspection the container can go.
        listed = await self._output(
            "ps", "--all", "--filter", f"name=^/?{container}$", "--format", "{{json .}}"
        )
        found = msgspec.json.decode(listed or "[]")  # an object of docker, a list of podman
        entry = found[0] if isinstance(found, list) and found else found or {}
        return str(entry.get("State", ""))

    async def _output(self, *words: str) -> str:
        """The client's output. Raises Unreachable when it fails."""
        try:
            answer = await self.run(*words)
        except EnvironmentUnavailable as error:
            raise Unreachable(str(error)) from error
        if answer.code != 0:
            raise Unreachable(f"`{self.program} {words[0]}` failed: {answer.errors or answer.code}")
        return answer.output

    async def problem(self) -> str | None:
        """Why the engine cannot be used, and what to do; None if it answers."""
        found = await self.diagnosis()
        return found and f"{found.problem}; {found.advice}. It said: {found.said}"

    async def diagnosis(self) -> "Diagnosis | None":
        """The same in its parts."""
        words = (
            "version",
            "--format",
            f"{{{{.{'Client' if self.is_podman else 'Server'}.Version}}}}",
        )
        try:
            answer = await self.run(*words, seconds=ANSWER_SECONDS)
        except EnvironmentUnavailable as error:
            said, hangs = str(error), isinstance(error, EngineHangs)
        else:
            if answer.code == 0:
                return None
            said, hangs = answer.errors or answer.output or f"exit code {answer.code}", False
        if closed := self._closed_socket():
            problem = f"you may not use {self.program}: {closed} is closed to your user"
            return Diagnosis(
                problem, "join the group that owns it (usually docker), then log in again", said
            )
        advice = "restart it, or set DOCKER_HOST" if hangs else "start it, or set DOCKER_HOST"
        return Diagnosis(f"the engine behind {self.program} does not answer", advice, said)

    def _closed_socket(self) -> str | None:
        """The path of the engine's socket if this user may not write to it."""
        setting = self.environ.get("CONTAINER_HOST" if self.is_podman else "DOCKER_HOST", "")
        path = setting.removeprefix("unix://") or ("" if self.is_podman else DOCKER_SOCKET)
        return path if os.path.exists(path) and not os.access(path, os.W_OK) else None

    async def image_id(self, image: str) -> str:
        """The id of an image; empty if the engine does not have it."""
        return await self._image(image, "{{.Id}}")

    async def image_architecture(self, image: str) -> str:
        """The architecture that an image is for, such as amd64; empty if the engine does not know
        it.
        """
        return await self._image(image, "{{.Architecture}}")

    async def image_variable(self, image: str, name: str) -> str:
        """The value that an image gives a variable; empty if none."""
        pairs = msgspec.json.decode(await self._image(image, "{{json .Config.Env}}") or "[]") or []
        return str(dict(pair.split("=", 1) for pair in pairs).get(name, ""))

    async def _image(self, image: str, wanted: str) -> str:
        answer = await self.run("image", "inspect", "--format", wanted, image)
        return answer.output if answer.code == 0 else ""

    async def lacking_limits(self) -> set[str]:
        """Which of the options cpu, memory_bytes and pids this engine cannot set limits for on its
        kernel.
        """
        answer = await self.run("info", "--format", "{{json .}}")
        try:
            facts = msgspec.json.decode(answer.output)
        except msgspec.DecodeError:
            return set()
        return _podman_lacks(facts) if self.is_podman else _docker_lacks(facts)


def _docker_lacks(facts: Mapping[str, Any]) -> set[str]:
    told = {"cpu": "CpuCfsQuota", "memory_bytes": "MemoryLimit", "pids": "PidsLimit"}
    return {option for option, name in told.items() if facts.get(name) is False}


def _podman_lacks(facts: Mapping[str, Any]) -> set[str]:
    controllers = facts.get("host", {}).get("cgroupControllers")
    wanted = {"cpu": "cpu", "memory_bytes": "memory", "pids": "pids"}
    return {
        option
        for option, name in wanted.items()
        if controllers is not None and name not in controllers
    }


def find_client(kind: str) -> EngineClient:
    """The client for a kind. Raises NotInstalled."""
    environ = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(_PREFIXES) or name in _NAMES
    }
    for setting in SETTINGS[kind]:
        if chosen := os.environ.get(setting):
            if not os.path.isfile(chosen):
                raise NotInstalled(
                    f"{setting}={chosen} does not exist", "set it to the engine's client"
                )
            if not os.access(chosen, os.X_OK):
                raise NotInstalled(
                    f"{setting}={chosen} is no program that may be run", "chmod +x it"
                )
            return EngineClient(os.path.abspath(chosen), environ)
    for name in PROGRAMS[kind]:
        if found := shutil.which(name):
            return EngineClient(found, environ)
    advice = f"install {kind}, or set {SETTINGS[kind][0]} to its client"
    raise NotInstalled(f"no {kind} on PATH; nothing was run elsewhere instead", advice)


def client_of(kind: str, place: Mapping[str, str]) -> EngineClient:
    """The client for the engine of a record, whatever the variables are now.

    Raises EnvironmentUnavailable.
    """
    now = find_client(kind)
    others = {name: value for name, value in now.environ.items() if name not in _WHICH_ENGINE}
    chosen = {name: place[name] for name in _WHICH_ENGINE if name in place}
    return EngineClient(place.get("client", now.program), {**others, **chosen})


NAME = "hermetic-"  # a container's name is this, its environment's id, and something random


async def remove_abandoned(client: EngineClient, root: str, abandoned: Abandoned) -> list[str]:
    """Removes the containers made for a runtime directory that no record knows; their names."""
    wanted = f"label={LABEL}.runtime={tag_of(root)}"
    answer = await client.run(
        "ps", "--all", "--no-trunc", "--filter", wanted, "--format", "{{.Names}}"
    )
    if answer.code != 0:
        raise EnvironmentUnavailable(f"the containers cannot be listed: {answer.errors}")
    removed = []
    for name in answer.output.split():
        async with abandoned(name.removeprefix(NAME).rpartition("-")[0]) as it_is:
            if it_is:
                await client.remove(name)
                removed.append(f"container {name}")
    return removed


async def written_bytes(client: EngineClient, container: str) -> int:
    """Size of the files written in a container. Raises EnvironmentUnavailable."""
    answer = await client.run(
        "inspect", "--size", "--type", "container", "--format", "{{.SizeRw}}", container
    )
    if answer.code != 0 or not answer.output.isdigit():
        raise EnvironmentUnavailable(
            f"container {container} tells no size: {answer.errors or answer.output}"
        )
    return int(answer.output)


@contextmanager
def no_new_pause(environ: Mapping[str, str]) -> Iterator[None]:
    """Ends a pause process that began in the block, unless containers or other clients share its
    namespace.
    """
    files = [] if os.geteuid() == 0 else _pid_files(environ)
    before = {file: _pid(file) for file in files}
    try:
        yield
    finally:
        for file in files:
            pid = _pid(file)
            if pid is not None and pid != before[file] and not _is_shared(pid):
                with suppress(OSError):  # another client was quicker
                    os.kill(pid, signal.SIGKILL)
                    file.unlink()


def _pid_files(environ: Mapping[str, str]) -> list[Path]:
    """Possible pid files of podman's pause process."""
    uid = os.geteuid()
    homes = [
        environ.get("XDG_RUNTIME_DIR", ""),
        f"/run/user/{uid}",
        f"/tmp/podman-run-{uid}",
        f"/tmp/run-{uid}",
    ]
    return [Path(home, "libpod", "tmp", "pause.pid") for home in dict.fromkeys(filter(None, homes))]


def _pid(file: Path) -> int | None:
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None


def _is_shared(pid: int) -> bool:
    """Whether another process is in the pause process' user namespace; True if that is not known."""
    namespaces = {other: _namespace(other) for other in os.listdir("/proc") if other.isdigit()}
    own = namespaces.pop(str(pid), None)
    return own is None or own in namespaces.values() or own == _namespace("self")


def _namespace(pid: str) -> str | None:
    try:
        return os.readlink(f"/proc/{pid}/ns/user")
    except OSError:
        return None
