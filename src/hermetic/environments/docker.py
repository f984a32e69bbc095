"""Containers of docker and podman: the resident is the container's main process, and its end is the
container's.
"""

import asyncio
import contextlib
import os
import platform
import secrets
import socket
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any

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
    NotInstalled,
    State,
    Unreachable,
)
from hermetic.contract.limits import CONTAINER_START, LOGIN
from hermetic.environments.bridge import BRIDGE, bridged
from hermetic.environments.checkup import missing
from hermetic.environments.child_environment import child_environment
from hermetic.environments.containers.arguments import (
    BLACKHOLES,
    ContainerPlan,
    data_root,
    mounted_paths,
    reaches_host,
    shared_paths,
    spec_hash,
)
from hermetic.environments.containers.client import (
    EngineClient,
    client_of,
    find_client,
    no_new_pause,
    remove_abandoned,
    written_bytes,
)
from hermetic.environments.containers.options import (
    HOME,
    HOST,
    IDENTITY,
    RESIDENT,
    ContainerOptions,
    forwarded_variables,
    read_container_options,
)
from hermetic.environments.isolation.seccomp import docker_profile
from hermetic.environments.profile import credential_notes
from hermetic.environments.runtime.choice import RuntimeChoice
from hermetic.environments.runtime.store import ADVICE
from hermetic.environments.starting import StartFailed, start_resident, stderr_text
from hermetic.environments.unix_socket import SocketBackend, connect, passed_on
from hermetic.link.archive import BOOT, build_archive, starting_input
from hermetic.registry.file_lock import hold_directory
from hermetic.registry.records import check_own

SPOOL = "/var/tmp"  # inside: on the container's disk, writable for every user
PYTHON = ("-I", "-S", "-c")
BRIDGE_SECONDS = 12.0
ALIVE = ("running", "paused", "restarting")  # states of a container that has not ended
NO_CONTROLLER = "this engine cannot set one on its kernel"
WHY_NOT = {
    "disk_bytes": "this engine's storage driver cannot set one (docker: overlay2 on xfs with pquota, btrfs or zfs can)"
}
REACHED = {
    "metadata": "metadata services of a cloud",
    "neighbours": "other containers and the gateway",
}
# Architectures of images that a machine runs, by `uname -m`; the first is its own.
RUNS = {"x86_64": ("amd64", "386"), "aarch64": ("arm64", "arm")}
LOOK_SECONDS = 6.0  # of a start, before its engine is checked
SETTLE_SECONDS = 10.0  # for a cancelled start


class NoEngine(EnvironmentUnavailable):
    """The engine does not answer."""


class ChangedImage(EnvironmentUnavailable):
    """The image is another one than the one whose programs are known."""


class Docker(SocketBackend):
    """Commands run in a container of their own, made by docker."""

    kind = "docker"
    option_shape = ContainerOptions
    _options: ContainerOptions
    identity = IDENTITY
    leaves_files = True

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = read_container_options(self.kind, options)
        # to a resident that was just started; the first client uses it
        self._stream: socket.socket | None = None

    @property
    def isolation(self) -> Isolation:
        """Separate files and processes, and no network if it is off; the notes name what is shared."""
        options = self._options
        shared = shared_paths(options)
        if options.persistent:
            shared = (*shared, str(data_root()))
        notes = []
        if not options.disk_bytes:
            notes.append(
                "no limit on disk: what is written to the container's own files can fill the engine's disk"
            )
        if options.network is not False:
            notes.append("the network is on: what this machine can reach, a command can reach")
        notes += [
            f"commands can change all of {path}: look at what lies there before you run it, such as .git/hooks, "
            ".git/config, .envrc, .vscode, a Makefile"
            for path in shared
        ]
        notes += credential_notes(options.credential_files)
        if options.extra_args:
            notes.append(f"extra_args may have changed all of this: {' '.join(options.extra_args)}")
        return Isolation(
            kind=self.kind,
            separate_files=True,
            separate_processes=True,
            separate_user=not reaches_host(options),
            separate_network=options.network is False,
            shared_paths=shared,
            mounts=mounted_paths(options),
            notes=tuple(notes),
        )

    async def start(
        self, *, id: str, directory: str, spool: str | None, token: bytes, label: str
    ) -> Started:
        """Starts a container whose main process is the resident.

        Raises EnvironmentUnavailable, ConfigError.
        """
        if self._options.persistent and not id.startswith("t-"):
            raise ConfigError(
                "persistent keeps the files of a task; name a task for it", setting="persistent"
            )
        client = find_client(self.kind)
        plan = ContainerPlan(self._options, id=id, directory=directory, spool=spool)
        plan.make_directories()
        if self._options.profile is not None:
            await asyncio.to_thread(plan.resolve_profile)
        plan.profile.write_text(
            docker_profile(may_set_uid=plan.keeps_rights and not plan.reaches_host),
            encoding="utf-8",
        )
        config = self._config(plan, token, label)
        hold = hold_directory(directory)
        start = ContainerStart(client, plan, config, hold)
        try:
            started = await start.run()
            self._stream = start.stream
            return started
        finally:
            os.close(hold)
            plan.profile.unlink(missing_ok=True)

    def _config(self, plan: ContainerPlan, token: bytes, label: str) -> ResidentConfig:
        options = self._options
        forwarded = forwarded_variables(options.forward_env, options.profile)
        home = {"HOME": HOME} if plan.reaches_host and options.user is None else {}
        texts = {name: str(value) for name, value in options.env.items()}
        variables = {**home, **plan.variables, **forwarded, **texts}
        return ResidentConfig(
            id=f"{plan.id}.{secrets.token_hex(4)}",
            token=token,
            directory=RESIDENT,
            spool=SPOOL,
            label=label,
            spool_name=f"{SPOOL} of the container",
            cwd=str(options.cwd),
            make_cwd=True,
            home=HOME,
            environ=child_environment({}, extra=variables),
            inherit=True,
            lease=options.lease,
            unattended=options.unattended,
            login=options.login,
            login_timeout=LOGIN,
            guardian=False,
            foreground=True,
            opener=os.geteuid(),
            own_cgroup=True,
            shared=plan.lasting,
            keep_path=True,
        )

    async def reach(self, record: EnvironmentRecord) -> socket.socket:
        """The resident's socket if this machine can reach it, else a bridge through the engine."""
        stream, self._stream = self._stream, None
        if stream is not None or "bridge" not in record.place:
            return stream or await connect(record.socket)
        client = client_of(self.kind, record.place)
        python = record.place.get("python", "python3")
        words = [
            client.program,
            "exec",
            "-i",
            record.place["container"],
            python,
            *PYTHON,
            BRIDGE,
            record.socket,
        ]
        try:
            return await bridged(words, seconds=BRIDGE_SECONDS, environ=client.environ)
        except (EnvironmentUnavailable, FileNotFoundError) as error:
            if await self.is_gone(record):
                raise ConnectionRefusedError(
                    f"container {record.place['container']} is gone"
                ) from error
            state: State = "stalled" if isinstance(error, FileNotFoundError) else "broken"
            raise Unreachable(str(error), environment=record.id, state=state) from error

    async def is_gone(self, record: EnvironmentRecord) -> bool:
        """Whether the container has ended. Raises Unreachable when the engine does not answer."""
        return (
            await client_of(self.kind, record.place).state(record.place["container"]) not in ALIVE
        )

    async def is_paused(self, record: EnvironmentRecord) -> bool:
        """Whether the container is paused. Raises Unreachable when the engine does not answer."""
        return await client_of(self.kind, record.place).state(record.place["container"]) == "paused"

    async def remove(self, record: EnvironmentRecord) -> str:
        """Returns when the container is gone; the engine kills its processes."""
        if self._stream is not None:
            self._stream.close()
        name = record.place["container"]
        check_own(record, name, name.startswith(f"hermetic-{record.id}-"))
        await client_of(self.kind, record.place).remove(name)
        return f"killed and removed container {name}"

    @classmethod
    async def doctor(cls) -> Finding:
        """Whether the engine answers, and which limits it can set."""
        try:
            client = find_client(cls.kind)
        except NotInstalled as error:
            return missing(error)
        with no_new_pause(client.environ) if client.is_podman else contextlib.nullcontext():
            wrong = await client.diagnosis()
            lacking = set() if wrong is not None else await client.lacking_limits()
        if wrong is not None:
            return Finding(
                state="broken", found=f"{wrong.problem}: {wrong.said}", advice=wrong.advice
            )
        if lacking:
            found = f"{client.program} answers, without limits on {', '.join(sorted(lacking))}"
            return Finding(
                state="weak", found=found, advice="give the engine these cgroup controllers"
            )
        return Finding(state="ok", found=f"{client.program} answers")

    @classmethod
    async def collect(cls, root: str, abandoned: Abandoned) -> list[str]:
        """Removes containers that no record knows any more."""
        return await remove_abandoned(find_client(cls.kind), root, abandoned)

    async def disk_bytes(self, record: EnvironmentRecord) -> int:
        """Size of the files written in the container."""
        return await written_bytes(client_of(self.kind, record.place), record.place["container"])


class Podman(Docker):
    """Commands run in a container of their own, made by podman."""

    kind = "podman"


class ContainerStart:
    """One start of a container, retried without features that the engine turns out to lack."""

    def __init__(
        self, client: EngineClient, plan: ContainerPlan, config: ResidentConfig, hold: int
    ) -> None:
        self.client, self.plan, self.config = client, plan, config
        self.hold = hold  # while the client has it open, its mounts are not removed
        self.sees_host = not client.is_elsewhere()  # the engine mounts directories of this machine
        # Limits that its kernel cannot set; and blackhole routes if they fail, or if the engine is
        # on another machine.
        self.without: set[str] = set() if self.sees_host else {BLACKHOLES}
        self.choice = RuntimeChoice(plan.options.runtime, f"{client.place} {plan.options.image}")
        # the image's LD_PRELOAD, where the portable Python does not start with it
        self.preload = ""
        # connected to the new resident, where this machine reaches it
        self.stream: socket.socket | None = None

    def __repr__(self) -> str:
        return f"<ContainerStart of {self.plan.id} by {self.client.program}>"

    async def run(self) -> Started:
        """The resident of a new container; a container that does not come up is removed."""
        while True:
            name = f"hermetic-{self.plan.id}-{secrets.token_hex(3)}"
            errors = os.memfd_create("errors")
            try:
                started = await _supervised(self._once(name, errors), self.client.problem)
                return await self._described(started, name, stderr_text(errors))
            except NoEngine:  # a removal would hang too
                raise
            except BaseException as error:
                with contextlib.suppress(EnvironmentUnavailable):  # the first error is the cause
                    await self.client.remove(name)
                if not isinstance(error, EnvironmentUnavailable):
                    raise
                await self._adapt(error, stderr_text(errors))
            finally:
                os.close(errors)

    async def _once(self, name: str, errors: int) -> Started:
        if not self.sees_host:
            self.choice.do_without_ctypes()
        if self.choice.lacks and not self.sees_host:
            raise EnvironmentUnavailable(
                f"the engine runs on another machine, which cannot mount the portable runtime; {ADVICE}"
            )
        await self.choice.prepare()
        self.plan.runtime = self.choice.mounts
        words = self.plan.arguments(
            name, without=self.without, sees_host=self.sees_host, is_podman=self.client.is_podman
        )
        words = [
            "run",
            "--interactive",
            "--sig-proxy=false",
            *words,
            "--entrypoint",
            self.choice.python,
        ]
        words += [self.plan.options.image, *PYTHON, BOOT]
        environ = self.config.environ
        if self.preload:
            words[1:1] = ["--env", "LD_PRELOAD="]
            environ = environ if self.choice.bash else {"LD_PRELOAD": self.preload, **environ}
        fences = () if BLACKHOLES in self.without else self.plan.blackholes
        outside = os.stat("/proc/self/ns/net").st_ino
        config = msgspec.structs.replace(
            self.config,
            fences=fences,
            outside=outside,
            environ=environ,
            bash=self.choice.bash,
            runtime=self.choice.description,
            needs_ctypes=self.choice.needs_ctypes,
            host_socket=f"{HOST}/s" if self.sees_host else "",
        )
        given = starting_input(build_archive(), msgspec.msgpack.encode(config))
        remembered, identity = self.choice.identity, asyncio.create_task(self._identity())
        try:
            started = await self._started(name, words, given, errors)
            if await identity != remembered:
                self.choice.forget()
                raise ChangedImage(f"the image {self.plan.options.image!r} has changed")
            return started
        finally:
            identity.cancel()
            await asyncio.wait([identity])

    async def _identity(self) -> str:
        """The image's id, if that of its name is remembered: another image may have the name now."""
        return await self.client.image_id(self.plan.options.image) if self.choice.identity else ""

    async def _started(self, name: str, words: Sequence[str], given: bytes, errors: int) -> Started:
        async with (
            passed_on(str(self.plan.socket_directory / "s"))
            if self.sees_host
            else contextlib.nullcontext()
        ):
            return await start_resident(
                self.client.run_argv(self.plan.directory, name, words),
                given,
                seconds=CONTAINER_START,
                afterwards="is ended",
                environ=self.client.environ,
                errors=errors,
                passed=self.hold,
                # which has no daemon: the client itself makes the container
                gently=self.client.is_podman,
            )

    async def _described(self, started: Started, name: str, said: str) -> Started:
        """The same with the socket's path, the record's fields and notes."""
        if self.choice.is_new:
            self.choice.remember(await self.client.image_id(self.plan.options.image))
        place = {
            "container": name,
            "spec": spec_hash(self.plan.options),
            **self.client.place,
            **self.choice.place,
        }
        path = str(self.plan.socket_directory / "s")
        # An engine in a virtual machine shows the socket here, and no process of this machine
        # listens.
        with contextlib.suppress(OSError):
            self.stream = await connect(path) if self.sees_host else None
        if self.stream is None:
            path, place = f"{RESIDENT}/s", {**place, "bridge": "exec"}
        notes = [
            line.partition(" ")[2] for line in said.splitlines() if line.startswith("WARNING: ")
        ]
        lacking = sorted(self.without - {BLACKHOLES})
        notes += (*self._profile_notes(), *self.plan.made)
        if self.preload and self.choice.bash:
            notes.append(
                f"LD_PRELOAD={self.preload} of the image is not set: the portable bash cannot load it"
            )
        notes += [
            f"no limit on {option}: {WHY_NOT.get(option, NO_CONTROLLER)}" for option in lacking
        ]
        return msgspec.structs.replace(
            started, socket=path, place=place, notes=(*self._network_notes(), *notes)
        )

    def _network_notes(self) -> tuple[str, ...]:
        """Notes on network targets that are reachable inside."""
        if self.plan.options.network is False:
            return ()
        fences = () if BLACKHOLES in self.without else self.plan.blackholes
        answer = [name for kind, name in REACHED.items() if kind not in fences]
        return (f"{' and '.join(answer)} answer there",) if answer else ()

    def _profile_notes(self) -> tuple[str, ...]:
        """Notes on files of the profile that are not mounted."""
        if self.plan.shown.mounts and not self.sees_host:
            return (
                *self.plan.shown.notes,
                "the profile's files are not shown: the engine is on another machine",
            )
        return self.plan.shown.notes

    async def _adapt(self, error: EnvironmentUnavailable, said: str) -> None:
        """Changes the plan for another attempt.

        Raises the error for the caller if none can help.
        """
        image = self.plan.options.image
        if isinstance(error, ChangedImage):
            self.plan.attempt += 1
            self.plan.make_socket_directory()
            return
        if trouble := await self.client.problem():
            raise EnvironmentUnavailable(trouble) from error
        if (
            self.sees_host
            and str(self.plan.socket_directory) in said
            and self.plan.socket_directory.is_dir()
        ):
            self._go_elsewhere(error)
            return
        refused = error.error if isinstance(error, StartFailed) else ""
        if isinstance(error, StartFailed) and self.choice.learn(error):
            await self._check_architecture(error)
            return
        if self.choice.runtime is not None and not refused and not self.preload:
            self.preload = await self.client.image_variable(image, "LD_PRELOAD")
            if self.preload:
                return
        if refused == "MissingDirectory" and not self.plan.mounts_cwd:
            self.plan.mount_cwd()
            return
        if self.plan.blackholes and BLACKHOLES not in self.without and refused == "Unfenced":
            self.without.add(BLACKHOLES)
            return
        # Whether a storage driver can limit a container shows only when it is tried.
        lacking = (
            await self.client.lacking_limits() | {"disk_bytes"}
        ) & self.plan.limits - self.without
        if not lacking and not await self.client.image_id(image):
            raise EnvironmentUnavailable(
                f"the image {image!r} is not on this machine and could not be pulled; check its name and the network, "
                f"or get it first: {self.client.program} pull {image}. The engine said: {reason_in(said)}"
            ) from error
        if not lacking:
            await self._check_architecture(error)
            raise self.choice.explained(error) from error
        self.without |= lacking

    async def _check_architecture(self, error: EnvironmentUnavailable) -> None:
        """Raises EnvironmentUnavailable if the image is for machines of another architecture than
        this one.
        """
        image, machine = self.plan.options.image, platform.machine()
        found = await self.client.image_architecture(image) if self.sees_host else ""
        if found and found not in RUNS.get(machine, (found,)):
            raise EnvironmentUnavailable(
                f"the image {image!r} is for {found} machines, and this one is {machine}; use an image for it, such as "
                f"by {self.client.program} pull --platform linux/{RUNS[machine][0]} {image}, or an engine on a machine "
                "of that architecture"
            ) from error

    def _go_elsewhere(self, error: EnvironmentUnavailable) -> None:
        """The engine does not find directories of this machine, so it is on another one."""
        if self.plan.mounts_host:
            raise EnvironmentUnavailable(
                "the engine runs on another machine and cannot mount directories of this one; leave out volumes, "
                "host_cwd and persistent, or name volumes that the engine keeps"
            ) from error
        self.sees_host = False


def reason_in(said: str) -> str:
    """The last line of an engine's error output that names the error."""
    lines = [line.strip() for line in said.splitlines() if line.strip() and "--help" not in line]
    wrong = [line for line in lines if "error" in line.lower()]
    return (wrong or lines or ["nothing"])[-1]


async def _supervised(
    attempt: Coroutine[Any, Any, Started], trouble: Callable[[], Awaitable[str | None]]
) -> Started:
    """The result of the attempt. Checks every few seconds that the engine answers; a start may
    download an image.

    After a cancel the attempt continues for a while: an engine that is interrupted while it creates
    a container may finish it after the cleanup. Raises NoEngine.
    """
    task = asyncio.ensure_future(attempt)
    try:
        while not (await asyncio.wait([task], timeout=LOOK_SECONDS))[0]:
            if what := await trouble():
                raise NoEngine(what)
        return task.result()
    except asyncio.CancelledError:
        await asyncio.wait([task], timeout=SETTLE_SECONDS)
        raise
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # retrieved
