"""Containers of docker and podman: the resident is the container's main process, and its end is the container's."""

import asyncio
import contextlib
import os
import re
import secrets
import socket
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

import msgspec

from hermetic.contract.environment import Abandoned, EnvironmentRecord, Finding, Isolation, ResidentConfig, Started
from hermetic.contract.errors import ConfigError, EnvironmentUnavailable, NotInstalled, State, Unreachable
from hermetic.contract.limits import CONTAINER_START, LOGIN
from hermetic.environments.bare import BASH, is_bare, start_bare
from hermetic.environments.beside import end_beside, is_gone_beside
from hermetic.environments.bridge import BRIDGE, bridged
from hermetic.environments.checkup import missing
from hermetic.environments.child_environment import child_environment
from hermetic.environments.containers.arguments import (
    FENCES,
    Plan,
    data_root,
    mounted_paths,
    reaches_host,
    shared_paths,
    spec_hash,
)
from hermetic.environments.containers.client import Client, client_of, find_client
from hermetic.environments.containers.env_file import forwarded_variables
from hermetic.environments.containers.options import (
    HOME,
    IDENTITY,
    RESIDENT,
    ContainerOptions,
    read_container_options,
)
from hermetic.environments.containers.podman_pause import no_new_pause
from hermetic.environments.containers.upkeep import remove_abandoned, written_bytes
from hermetic.environments.isolation.seccomp import docker_profile
from hermetic.environments.profile import told
from hermetic.environments.starting import StartFailed, said_in, start_resident
from hermetic.environments.unix_socket import connect
from hermetic.link.archive import BOOT, build_archive, starting_input
from hermetic.registry.file_lock import hold_directory
from hermetic.registry.records import check_own

SPOOL = "/var/tmp"  # inside: on the container's disk, and everybody's
PYTHON = ("-I", "-S", "-c")
BRIDGE_SECONDS = 12.0
ALIVE = ("running", "paused", "restarting")  # states of a container that has not ended
NO_CONTROLLER = "this engine cannot set one on its kernel"
WHY_NOT = {
    "disk_bytes": "this engine's storage driver cannot set one (docker: overlay2 on xfs with pquota, btrfs or zfs can)"
}
REACHED = {"metadata": "metadata services of a cloud", "neighbours": "other containers and the gateway"}
LOOK_SECONDS = 6.0  # of a start, before its engine is asked whether it answers
SETTLE_SECONDS = 10.0  # for a start that nobody wants any more

_NO_PYTHON = re.compile(r"python3\S*[ :].*(?:not found|no such file)|not found.*python3", re.IGNORECASE)


class NoEngine(EnvironmentUnavailable):
    """The engine does not answer."""


class NoPython(EnvironmentUnavailable):
    """The image has no python3 for a resident."""


class Docker:
    """Commands run in a container of their own, made by docker."""

    kind = "docker"
    option_shape = ContainerOptions
    identity = IDENTITY
    leaves_files = True

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = read_container_options(self.kind, options)
        self._stream: socket.socket | None = None  # to a resident that was just started; the first client uses it

    @property
    def options(self) -> dict[str, Any]:
        """All options, defaults filled in."""
        return msgspec.structs.asdict(self._options)

    @property
    def isolation(self) -> Isolation:
        """Files, processes and, where it is off, the network; what is shared is named."""
        options = self._options
        shared = shared_paths(options)
        if options.persistent:
            shared = (*shared, str(data_root()))
        notes = []
        if not options.disk_bytes:
            notes.append("no limit on disk: what is written to the container's own files can fill the engine's disk")
        if options.network is not False:
            notes.append("the network is on: what this machine can reach, a command can reach")
        notes += [
            f"commands can change all of {path}: look at what lies there before you run it, such as .git/hooks, "
            ".git/config, .envrc, .vscode, a Makefile"
            for path in shared
        ]
        notes += told(options.credential_files)
        if options.extra_args:
            notes.append(f"extra_args may have changed all of this: {' '.join(options.extra_args)}")
        return Isolation(
            kind=self.kind, separate_files=True, separate_processes=True, separate_user=not reaches_host(options),
            separate_network=options.network is False, shared_paths=shared, mounts=mounted_paths(options),
            notes=tuple(notes),
        )  # fmt: skip

    async def start(self, *, id: str, directory: str, spool: str | None, token: bytes, label: str) -> Started:
        """Makes a container whose main process is the resident. Raises EnvironmentUnavailable, ConfigError."""
        if self._options.persistent and not id.startswith("t-"):
            raise ConfigError("persistent keeps the files of a task; name a task for it", setting="persistent")
        client = find_client(self.kind)
        plan = Plan(self._options, id=id, directory=directory, spool=spool)
        plan.make_directories()
        if self._options.profile is not None:
            await asyncio.to_thread(plan.look_at_profile)
        plan.profile.write_text(docker_profile(may_set_uid=not plan.reaches_host), encoding="utf-8")
        config = self._config(plan, token, label)
        hold = hold_directory(directory)
        start = Start(client, plan, config, hold)
        try:
            started = await start.run()
            self._stream = start.stream
            return started
        except NoPython:
            return await start.run_bare(msgspec.structs.replace(config, directory=directory, spool=spool))
        finally:
            os.close(hold)
            plan.profile.unlink(missing_ok=True)

    def _config(self, plan: Plan, token: bytes, label: str) -> ResidentConfig:
        options = self._options
        forwarded = forwarded_variables(options.forward_env, options.profile)
        home = {"HOME": HOME} if plan.reaches_host and options.user is None else {}
        texts = {name: str(value) for name, value in options.env.items()}
        variables = {**home, **plan.variables, **forwarded, **texts}
        return ResidentConfig(
            id=f"{plan.id}.{secrets.token_hex(4)}", token=token, directory=RESIDENT, spool=SPOOL, label=label,
            spool_name=f"{SPOOL} of the container", cwd=str(options.cwd), make_cwd=True, home=HOME,
            environ=child_environment({}, extra=variables), inherit=True,
            lease=options.lease, unattended=options.unattended, login=options.login, login_timeout=LOGIN,
            guardian=False, foreground=True, opener=os.geteuid(), own_cgroup=True, shared=plan.lasting, keep_path=True,
        )  # fmt: skip

    async def reach(self, record: EnvironmentRecord) -> socket.socket:
        """The resident's socket where this machine sees it, else a way through the engine."""
        stream, self._stream = self._stream, None
        if stream is not None or "bridge" not in record.place:
            return stream or await connect(record.socket)
        client = client_of(self.kind, record.place)
        words = [client.program, "exec", "-i", record.place["container"], "python3", *PYTHON, BRIDGE, record.socket]
        try:
            return await bridged(words, seconds=BRIDGE_SECONDS, environ=client.environ)
        except (EnvironmentUnavailable, FileNotFoundError) as error:
            if await self.is_gone(record):
                raise ConnectionRefusedError(f"container {record.place['container']} is gone") from error
            state: State = "stalled" if isinstance(error, FileNotFoundError) else "broken"
            raise Unreachable(str(error), environment=record.id, state=state) from error

    async def is_gone(self, record: EnvironmentRecord) -> bool:
        """Whether the container has ended. Raises Unreachable when the engine cannot be asked."""
        if is_bare(record) and not is_gone_beside(record):
            return False
        return await client_of(self.kind, record.place).state(record.place["container"]) not in ALIVE

    async def is_paused(self, record: EnvironmentRecord) -> bool:
        """Whether its engine was told to hold the container. Raises Unreachable when the engine cannot be asked."""
        return await client_of(self.kind, record.place).state(record.place["container"]) == "paused"

    async def remove(self, record: EnvironmentRecord) -> str:
        """Returns when the container is gone; the engine kills what runs in it."""
        if self._stream is not None:
            self._stream.close()
        name = record.place["container"]
        check_own(record, name, name.startswith(f"hermetic-{record.id}-"))
        if is_bare(record):
            await end_beside(record)
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
            return Finding(state="broken", found=f"{wrong.problem}: {wrong.said}", advice=wrong.advice)
        if lacking:
            found = f"{client.program} answers, without limits on {', '.join(sorted(lacking))}"
            return Finding(state="weak", found=found, advice="give the engine these cgroup controllers")
        return Finding(state="ok", found=f"{client.program} answers")

    @classmethod
    async def collect(cls, root: str, abandoned: Abandoned) -> list[str]:
        """Removes containers that no record knows any more."""
        return await remove_abandoned(find_client(cls.kind), root, abandoned)

    async def disk_bytes(self, record: EnvironmentRecord) -> int:
        """What was written to the container's own files."""
        return await written_bytes(client_of(self.kind, record.place), record.place["container"])


class Podman(Docker):
    """Commands run in a container of their own, made by podman."""

    kind = "podman"


class Start:
    """One start: tried as asked, then again without what this engine turns out not to have."""

    def __init__(self, client: Client, plan: Plan, config: ResidentConfig, hold: int) -> None:
        self.client, self.plan, self.config = client, plan, config
        self.hold = hold  # as long as the client has it, nobody takes away what it mounts
        self.sees_host = not client.is_elsewhere()  # the engine mounts directories of this machine
        # Limits that its kernel cannot set, and fences that cannot be put up or would be on a machine we do not know.
        self.without: set[str] = set() if self.sees_host else {FENCES}
        self.stream: socket.socket | None = None  # connected to the new resident, where this machine reaches it

    def __repr__(self) -> str:
        return f"<Start of {self.plan.id} by {self.client.program}>"

    async def run(self) -> Started:
        """The resident of a new container; nothing is left of one that did not come up."""
        while True:
            name = f"hermetic-{self.plan.id}-{secrets.token_hex(3)}"
            errors = os.memfd_create("errors")
            try:
                started = await _to_its_end(self._once(name, errors), self.client.trouble)
                return await self._described(started, name, said_in(errors))
            except NoEngine:  # it would not answer a removal either
                raise
            except BaseException as error:
                with contextlib.suppress(EnvironmentUnavailable):  # the engine is gone; the first error says so
                    await self.client.remove(name)
                if not isinstance(error, EnvironmentUnavailable):
                    raise
                await self._learn(error, said_in(errors))
            finally:
                os.close(errors)

    async def run_bare(self, config: ResidentConfig) -> Started:
        """A resident on this machine for a container that has bash and no python3; its keeper is the main process."""
        name, client = f"hermetic-{self.plan.id}-{secrets.token_hex(3)}", self.client
        self.without.add(FENCES)  # there is no resident inside to put them up
        words = self.plan.words(name, without=self.without, sees_host=self.sees_host, is_podman=client.is_podman)
        words = ["run", "--interactive", "--sig-proxy=false", *words, "--workdir", str(self.plan.options.cwd)]
        words += ["--entrypoint", BASH[0]]
        words += [self.plan.options.image, *BASH[1:]]
        try:
            started = await start_bare(
                [client.program, "exec", "-i", name, *BASH], config, environ={**os.environ, **client.environ},
                keeper=client.carefully(self.plan.directory, name, words),
                farewell=client.removal(name), seconds=CONTAINER_START,
            )  # fmt: skip
        except BaseException as error:
            with contextlib.suppress(EnvironmentUnavailable):
                await client.remove(name)
            if isinstance(error, EnvironmentUnavailable):
                advice = f"image {self.plan.options.image!r} has no python3, and bare mode failed; use another"
                raise NoPython(f"{advice}: {error}") from error
            raise
        place = {"container": name, "spec": spec_hash(self.plan.options), **client.place}
        notes = (*self._beyond_reach(), *self._not_shown())
        return msgspec.structs.replace(started, place={**started.place, **place}, notes=notes)

    async def _once(self, name: str, errors: int) -> Started:
        words = self.plan.words(name, without=self.without, sees_host=self.sees_host, is_podman=self.client.is_podman)
        words = ["run", "--interactive", "--sig-proxy=false", *words, "--entrypoint", "python3"]
        words += [self.plan.options.image, *PYTHON, BOOT]
        fences = () if FENCES in self.without else self.plan.fences
        outside = os.stat("/proc/self/ns/net").st_ino
        config = msgspec.structs.replace(self.config, fences=fences, outside=outside)
        given = starting_input(build_archive(), msgspec.msgpack.encode(config))
        return await start_resident(
            self.client.carefully(self.plan.directory, name, words), given, seconds=CONTAINER_START,
            afterwards="is ended", environ=self.client.environ, errors=errors, passed=self.hold,
            gently=self.client.is_podman,  # which has no daemon: the client itself makes the container
        )  # fmt: skip

    async def _described(self, started: Started, name: str, said: str) -> Started:
        """With where it is found, and what the engine warned of."""
        place = {"container": name, "spec": spec_hash(self.plan.options), **self.client.place}
        path = str(self.plan.socket_directory / "s")
        # An engine in a virtual machine shows the socket here, and no process of this machine listens.
        with contextlib.suppress(OSError):
            self.stream = await connect(path) if self.sees_host else None
        if self.stream is None:
            path, place = f"{RESIDENT}/s", {**place, "bridge": "exec"}
        notes = [line.partition(" ")[2] for line in said.splitlines() if line.startswith("WARNING: ")]
        lacking = sorted(self.without - {FENCES})
        notes += (*self._not_shown(), *self.plan.made)
        notes += [f"no limit on {option}: {WHY_NOT.get(option, NO_CONTROLLER)}" for option in lacking]
        return msgspec.structs.replace(started, socket=path, place=place, notes=(*self._beyond_reach(), *notes))

    def _beyond_reach(self) -> tuple[str, ...]:
        """What of the network answers though nobody asked for it."""
        if self.plan.options.network is False:
            return ()
        fences = () if FENCES in self.without else self.plan.fences
        answer = [name for kind, name in REACHED.items() if kind not in fences]
        return (f"{' and '.join(answer)} answer there",) if answer else ()

    def _not_shown(self) -> tuple[str, ...]:
        """What of the profile is missing inside."""
        if self.plan.shown.mounts and not self.sees_host:
            return (*self.plan.shown.notes, "the profile's files are not shown: the engine is on another machine")
        return self.plan.shown.notes

    async def _learn(self, error: EnvironmentUnavailable, said: str) -> None:
        """Returns when another try can go better. Raises what the caller should hear otherwise."""
        image = self.plan.options.image
        if _NO_PYTHON.search(said):
            raise NoPython(f"image {image!r} has no python3, which the resident needs; use one that has") from error
        if trouble := await self.client.trouble():
            raise EnvironmentUnavailable(trouble) from error
        if self.sees_host and str(self.plan.socket_directory) in said and self.plan.socket_directory.is_dir():
            self._go_elsewhere(error)
            return
        refused = error.error if isinstance(error, StartFailed) else ""
        if refused == "MissingDirectory" and not self.plan.mounts_cwd:
            self.plan.mount_cwd()
            return
        if self.plan.fences and FENCES not in self.without and refused == "Unfenced":
            self.without.add(FENCES)
            return
        # Whether a storage driver can limit a container shows only when it is tried.
        lacking = (await self.client.lacking_limits() | {"disk_bytes"}) & self.plan.limits - self.without
        if not lacking and not await self.client.has_image(image):
            raise EnvironmentUnavailable(
                f"the image {image!r} is not on this machine and could not be pulled; check its name and the network, "
                f"or get it first: {self.client.program} pull {image}. The engine said: {reason_in(said)}"
            ) from error
        if not lacking:
            raise error
        self.without |= lacking

    def _go_elsewhere(self, error: EnvironmentUnavailable) -> None:
        """The engine does not find our directories, so it is on another machine."""
        if self.plan.mounts_host:
            raise EnvironmentUnavailable(
                "the engine runs on another machine and cannot mount directories of this one; leave out volumes, "
                "host_cwd and persistent, or name volumes that the engine keeps"
            ) from error
        self.sees_host = False


def reason_in(said: str) -> str:
    """The last line of an engine's complaint that says what is wrong, not where to read about the command."""
    lines = [line.strip() for line in said.splitlines() if line.strip() and "--help" not in line]
    wrong = [line for line in lines if "error" in line.lower()]
    return (wrong or lines or ["nothing"])[-1]


async def _to_its_end(attempt: Coroutine[Any, Any, Started], trouble: Callable[[], Awaitable[str | None]]) -> Started:
    """What the attempt gives. While it takes long, as the download of an image does, the engine is asked whether it
    answers at all. Cancelled, it is let go on for a while: an engine that is cut off while it makes a container may
    finish it after everybody has looked. Raises NoEngine."""
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
            task.exception()  # seen
