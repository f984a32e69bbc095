"""One start of a container by docker or podman, repeated without what the engine or the image turns
out to lack.
"""

import asyncio
import contextlib
import os
import platform
import secrets
import socket
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

import msgspec

from hermetic.contract.concurrency import beside
from hermetic.contract.environment import ResidentConfig, Started
from hermetic.contract.errors import EnvironmentUnavailable
from hermetic.contract.limits import CONTAINER_START
from hermetic.environments.containers.arguments import BLACKHOLES, ContainerPlan, spec_hash
from hermetic.environments.containers.client import EngineClient
from hermetic.environments.containers.options import HOST, RESIDENT
from hermetic.environments.runtime.choice import RuntimeChoice
from hermetic.environments.runtime.store import ADVICE
from hermetic.environments.starting import (
    BOOT_ARGUMENTS,
    StartFailed,
    resident_input,
    start_resident,
    stderr_text,
)
from hermetic.environments.unix_socket import connect, passed_on

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


def missing_limit(option: str) -> str:
    """The note on an option whose limit the engine cannot set."""
    return f"no limit on {option}: {WHY_NOT.get(option, NO_CONTROLLER)}"


class NoEngine(EnvironmentUnavailable):
    """The engine does not answer."""


class ChangedImage(EnvironmentUnavailable):
    """The image is another one than the one whose programs are known."""


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
        words = ["run", "--interactive", "--sig-proxy=false", *words]
        words += ["--entrypoint", self.choice.python, self.plan.options.image, *BOOT_ARGUMENTS]
        environ = self.config.environ
        if self.preload:
            words[1:1] = ["--env", "LD_PRELOAD="]
            environ = environ if self.choice.bash else {"LD_PRELOAD": self.preload, **environ}
        fences = () if BLACKHOLES in self.without else self.plan.blackholes
        outside = os.stat("/proc/self/ns/net").st_ino
        config = msgspec.structs.replace(
            self.choice.configured(self.config),
            fences=fences,
            outside=outside,
            environ=environ,
            host_socket=f"{HOST}/s" if self.sees_host else "",
        )
        given = resident_input(config)
        remembered = self.choice.identity
        async with beside(self._identity()) as identity:
            started = await self._started(name, words, given, errors)
            if await identity != remembered:
                self.choice.forget()
                raise ChangedImage(f"the image {self.plan.options.image!r} has changed")
            return started

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
        notes += map(missing_limit, lacking)
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
                f"the image {image!r} is not on this machine and could not be pulled; check its name{_registry(image)} and "
                f"the network, or get it first: {self.client.program} pull {image}. The engine said: {reason_in(said)}"
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
    async with beside(attempt) as task:
        try:
            while not (await asyncio.wait([task], timeout=LOOK_SECONDS))[0]:
                if what := await trouble():
                    raise NoEngine(what)
            return task.result()
        except asyncio.CancelledError:
            await asyncio.wait([task], timeout=SETTLE_SECONDS)
            raise


def _registry(image: str) -> str:
    """Advice on a name without a registry, which podman takes only where its settings name one."""
    host, slash, _ = image.partition("/")
    has_registry = slash and ("." in host or ":" in host or host == "localhost")
    return "" if has_registry else f" (podman may need REGISTRY/{image})"
