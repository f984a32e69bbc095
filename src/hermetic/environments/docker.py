"""Containers of docker and podman: the resident is the container's main process, and its end is the
container's.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Mapping
from typing import Any

from hermetic.contract.environment import (
    Abandoned,
    EnvironmentRecord,
    Finding,
    Isolation,
    NewEnvironment,
    ResidentConfig,
    Started,
)
from hermetic.contract.errors import (
    EnvironmentUnavailable,
    NotInstalled,
    State,
    Unreachable,
)
from hermetic.environments.bridge import BRIDGE, bridged
from hermetic.environments.checkup import missing
from hermetic.environments.child_environment import child_environment
from hermetic.environments.containers.arguments import (
    ContainerPlan,
    data_root,
    mounted_paths,
    reaches_host,
    shared_paths,
)
from hermetic.environments.containers.client import (
    client_of,
    find_client,
    no_new_pause,
    remove_abandoned,
    written_bytes,
)
from hermetic.environments.containers.options import (
    HOME,
    IDENTITY,
    RESIDENT,
    ContainerOptions,
    forwarded_variables,
    read_container_options,
)
from hermetic.environments.containers.start import ContainerStart
from hermetic.environments.isolation.seccomp import docker_profile
from hermetic.environments.options import check_persistent, resident_config
from hermetic.environments.profile import credential_notes
from hermetic.environments.unix_socket import SocketBackend, connect
from hermetic.registry.file_lock import hold_directory
from hermetic.registry.records import check_own

SPOOL = "/var/tmp"  # inside: on the container's disk, writable for every user
BRIDGE_SECONDS = 12.0
ALIVE = ("running", "paused", "restarting")  # states of a container that has not ended


class Docker(SocketBackend):
    """Commands run in a container of their own, made by docker."""

    kind = "docker"
    option_shape = ContainerOptions
    chosen: ContainerOptions
    identity = IDENTITY
    leaves_files = True

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.chosen = read_container_options(self.kind, options)
        # to a resident that was just started; the first client uses it
        self._stream: socket.socket | None = None

    @property
    def isolation(self) -> Isolation:
        """Separate files and processes, and no network if it is off; the notes name what is shared."""
        options = self.chosen
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

    async def start(self, new: NewEnvironment) -> Started:
        """Starts a container whose main process is the resident.

        Raises EnvironmentUnavailable, ConfigError.
        """
        check_persistent(self.chosen.persistent, new.id)
        client = find_client(self.kind)
        plan = ContainerPlan(self.chosen, id=new.id, directory=new.directory, spool=new.spool)
        plan.make_directories()
        if self.chosen.profile is not None:
            await asyncio.to_thread(plan.resolve_profile)
        plan.profile.write_text(
            docker_profile(may_set_uid=plan.keeps_rights and not plan.reaches_host),
            encoding="utf-8",
        )
        config = self._config(plan, new)
        hold = hold_directory(new.directory)
        start = ContainerStart(client, plan, config, hold)
        try:
            started = await start.run()
            self._stream = start.stream
            return started
        finally:
            os.close(hold)
            plan.profile.unlink(missing_ok=True)

    def _config(self, plan: ContainerPlan, new: NewEnvironment) -> ResidentConfig:
        options = self.chosen
        forwarded = forwarded_variables(options.forward_env, options.profile)
        home = {"HOME": HOME} if plan.reaches_host and options.user is None else {}
        variables: dict[str, Any] = {
            **home,
            **plan.shown.variables(HOME),
            **forwarded,
            **options.env,
        }
        return resident_config(
            options,
            new,
            directory=RESIDENT,
            spool=SPOOL,
            spool_name=f"{SPOOL} of the container",
            environ=child_environment({}, extra=variables),
            make_cwd=True,
            home=HOME,
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
        words = [client.program, "exec", "-i", record.place["container"]]
        words += [python, "-I", "-S", "-c", BRIDGE, record.socket]
        try:
            return await bridged(words, seconds=BRIDGE_SECONDS, environ=client.environ)
        except (EnvironmentUnavailable, FileNotFoundError) as error:
            if await self.is_gone(record):
                raise ConnectionRefusedError(
                    f"container {record.place['container']} is gone"
                ) from error
            state: State = "stalled" if isinstance(error, FileNotFoundError) else "broken"
            raise Unreachable(str(error), environment=record.id, state=state) from error

    async def has_image(self) -> bool:
        """Whether the engine need not pull the image. Raises EnvironmentUnavailable."""
        return bool(await find_client(self.kind).image_id(self.chosen.image))

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
