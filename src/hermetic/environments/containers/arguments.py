"""Arguments of `docker run` and `podman run`: hardening, limits, labels, mounts; no secrets."""

import hashlib
import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from hermetic.contract.errors import ConfigError
from hermetic.environments.containers.options import (
    HOME,
    HOST,
    IDENTITY,
    RESIDENT,
    WORKSPACE,
    ContainerOptions,
    Volume,
    limit_arguments,
    read_volume,
)
from hermetic.environments.profile import ProfileMounts, data_directory, name_of, resolve_mounts
from hermetic.environments.runtime.choice import Mount
from hermetic.registry.records import tag_of

MIB = 1 << 20
# Capabilities of root inside, for installing packages. A user of a container with host mounts has
# none.
ROOT_CAPABILITIES = ("DAC_OVERRIDE", "CHOWN", "FOWNER", "SETUID", "SETGID")
LABEL = "hermetic"
LEAST_INODES, BYTES_PER_INODE = 4096, 4096  # of file systems in memory; podman takes no such limit
BLACKHOLES = "blackhole routes"  # a name in `without`: no blackhole routes


class ContainerPlan:
    """The plan of a container: mounts, user, limits, and the arguments that follow."""

    def __init__(
        self, options: ContainerOptions, *, id: str, directory: str, spool: str | None
    ) -> None:
        self.options = options
        self.id = id
        self.directory = directory
        self.volumes = [read_volume(text) for text in options.volumes]
        self.kept = data_root() / id if options.persistent else None
        self.shown = ProfileMounts()  # of a profile; set by `resolve_profile`
        # counts containers whose resident was ready; one that was given up leaves its socket
        self.attempt = 1
        self.runtime: Sequence[Mount] = ()  # mounts of the portable runtime
        self.mounts_cwd = False  # the image has no such directory, and its user cannot make one
        self._temporary = Path(spool or directory)

    def __repr__(self) -> str:
        return f"<ContainerPlan of {self.id}: {self.options.image}>"

    @property
    def socket_directory(self) -> Path:
        """The only part of the environment's directory that is mounted inside, read-only: it holds
        the socket.
        """
        return Path(self.directory, "c" * self.attempt)

    @property
    def profile(self) -> Path:
        """The seccomp profile, a file that exists while the client runs."""
        return Path(self.directory, "seccomp.json")

    @property
    def reaches_host(self) -> bool:
        """True when what is written inside can stay on this machine."""
        return reaches_host(self.options)

    @property
    def user(self) -> str | None:
        """The user it runs as; None: the image's."""
        if self.options.user is None and self.reaches_host:
            return f"{os.geteuid()}:{os.getegid()}"
        return self.options.user

    @property
    def limits(self) -> set[str]:
        """The names of options that set a limit."""
        return {
            name
            for name in ("cpu", "memory_bytes", "pids", "disk_bytes")
            if getattr(self.options, name)
        }

    @property
    def mounts_host(self) -> bool:
        """True when directories of this machine are wanted inside, writable or not."""
        options = self.options
        return bool(
            options.persistent or options.host_cwd or any(volume.is_path for volume in self.volumes)
        )

    @property
    def lasting(self) -> tuple[str, ...]:
        """Directories inside whose files outlive the container."""
        targets = [volume.target for volume in self.volumes if volume.is_writable]
        if self.kept is not None:
            targets += [volume.target for volume in self._own_mounts()]
        if self.options.host_cwd is not None:
            targets.append(WORKSPACE)
        return tuple(dict.fromkeys(targets))

    @property
    def keeps_rights(self) -> bool:
        """True when the container runs as root with the capabilities for installing packages."""
        return self.user is None or self.options.user in ("root", "root:root", "0", "0:0")

    @property
    def blackholes(self) -> tuple[str, ...]:
        """Blackhole routes of the resident: cloud metadata and, unless the network was chosen by
        name, neighbours.

        Only root in the container's own network namespace can set them.
        """
        network, extra = self.options.network, self.options.extra_args
        is_own = network is True or (
            network is not False and network != "host" and ":" not in network
        )
        if not (is_own and self.keeps_rights) or any(
            word.startswith(("--net", "--priv")) for word in extra
        ):
            return ()
        return ("metadata", "neighbours") if network is True else ("metadata",)

    def make_directories(self) -> None:
        """Makes the directories that are mounted. Raises ConfigError for a missing source."""
        for volume in self.volumes:
            if volume.is_path and not os.path.exists(volume.source):
                raise ConfigError(
                    f"{volume.source} does not exist; make it before it is mounted",
                    setting="volumes",
                )
        if self.options.host_cwd is not None and not os.path.isdir(self.options.host_cwd):
            raise ConfigError(
                f"host_cwd {self.options.host_cwd!r} is no directory; give one", setting="host_cwd"
            )
        for volume in self._own_mounts():
            self._make_own(Path(volume.source))
        self.make_socket_directory()

    def make_socket_directory(self) -> None:
        """The container's user may have any uid; the parent directory is closed to all but the
        opener.
        """
        self.socket_directory.mkdir()
        self.socket_directory.chmod(0o755)

    def _make_own(self, path: Path) -> None:
        """A directory for the container's user; those above it are closed to all but the opener."""
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.options.user is None or self.keeps_rights:
            return
        uid, _, gid = self.options.user.partition(":")
        if os.geteuid() == 0 and uid.isdigit() and (gid or "0").isdigit():
            os.chown(path, int(uid), int(gid or 0))
        else:
            path.chmod(0o777)

    def mount_cwd(self) -> None:
        """Mounts a directory of the container's user at cwd, which the image lacks."""
        self.mounts_cwd = True
        self._make_own(self._temporary / "cwd")

    @property
    def made(self) -> tuple[str, ...]:
        """Notes on directories that were made for the container's user."""
        own = [] if self.kept is not None else [volume.target for volume in self._own_mounts()]
        return tuple(
            f"{path} was made for user {self.user}, and goes with the environment" for path in own
        )

    def resolve_profile(self) -> None:
        """Resolves the profile's mounts. Raises ConfigError for a link out of the profile."""
        self.shown = resolve_mounts(self.options.selected_profile, self._temporary)

    def _own_mounts(self) -> Iterator[Volume]:
        """Directories that are made here because they are mounted."""
        explicit = {volume.target for volume in self.volumes}
        if self.options.host_cwd is not None:
            explicit.add(WORKSPACE)
        if self.kept is not None:
            for name, target in (("home", HOME), ("workspace", WORKSPACE)):
                if target not in explicit:
                    yield Volume(str(self.kept / name), target, ())
        elif not self.keeps_rights and self.user not in ("0:0", None) and HOME not in explicit:
            yield Volume(str(self._temporary / "home"), HOME, ())  # the image's own is root's alone
        if self.mounts_cwd:
            yield Volume(str(self._temporary / "cwd"), str(self.options.cwd), ())

    def arguments(
        self, name: str, *, without: Collection[str], sees_host: bool, is_podman: bool
    ) -> list[str]:
        """The arguments between `run` and the image's name; limits in `without` are left out."""
        # The resident makes a cwd that is missing, as its own user; the engine would make it as
        # root.
        words = ["--rm", "--name", name, "--log-driver", "none", "--workdir", "/"]
        words += [
            *self._labels(),
            *self._security(is_podman),
            *self._mounts(sees_host, is_podman),
            *self._limits(without),
        ]
        if self.blackholes and BLACKHOLES not in without:
            words += ["--cap-add", "NET_ADMIN"]  # the resident gives it up before anything runs
        return [*words, *self.options.extra_args]

    def _labels(self) -> Iterator[str]:
        labels = {
            LABEL: "1",
            f"{LABEL}.id": self.id,
            f"{LABEL}.runtime": tag_of(Path(self.directory).parent),
            f"{LABEL}.user": str(os.geteuid()),
            f"{LABEL}.spec": spec_hash(self.options),
            f"{LABEL}.profile": name_of(self.options.profile),
        }
        for name, value in labels.items():
            yield from ("--label", f"{name}={value}")

    def _security(self, is_podman: bool) -> Iterator[str]:
        yield from ("--cap-drop", "ALL", "--security-opt", "no-new-privileges")
        yield from ("--security-opt", f"seccomp={self.profile}")
        if self.keeps_rights:
            for capability in ROOT_CAPABILITIES:
                yield from ("--cap-add", capability)
        if self.user is not None:
            yield from ("--user", self.user)
        if is_podman and self.reaches_host and self.options.user is None and os.geteuid() != 0:
            yield "--userns=keep-id"  # without it our files would belong to `nobody` inside

    def _mounts(self, sees_host: bool, is_podman: bool) -> Iterator[str]:
        for path, size, mode in self._in_memory():
            inodes = "" if is_podman else f",nr_inodes={max(LEAST_INODES, size // BYTES_PER_INODE)}"
            yield from ("--tmpfs", f"{path}:rw,nosuid,nodev,size={size}{inodes},{mode}")
        if sees_host:
            yield from ("--mount", f"{_bind(str(self.socket_directory), HOST)},readonly")
        for source, target in self.runtime:
            yield from ("--mount", f"{_bind(source, target)},readonly")
        for volume in self._own_mounts():
            if sees_host:
                yield from ("--mount", _bind(volume.source, volume.target))
            else:
                yield from ("--tmpfs", f"{volume.target}:rw,nosuid,nodev,exec,mode=1777")
        if self.options.host_cwd is not None and WORKSPACE not in {
            volume.target for volume in self.volumes
        }:
            yield from ("--mount", _bind(self.options.host_cwd, WORKSPACE))
        for text in self.options.volumes:
            yield from ("--volume", text)
        for source, target in self.shown.in_home(HOME) if sees_host else ():
            yield from ("--mount", f"{_bind(source, target)},readonly")

    def _in_memory(self) -> Iterator[tuple[str, int, str]]:
        """Directories in memory, together below a quarter of the memory limit, so that filling them
        kills nothing.
        """
        memory = self.options.memory_bytes or 1 << 62
        yield "/tmp", min(512 * MIB, memory // 8), "exec,mode=1777"
        yield "/run", min(64 * MIB, memory // 32), "noexec,mode=0755"
        yield RESIDENT, MIB, "exec,mode=1777"  # sudo runs the askpass program there

    def _limits(self, without: Collection[str]) -> Iterator[str]:
        options = self.options
        yield from ("--shm-size", str(min(64 * MIB, (options.memory_bytes or 1 << 62) // 16)))
        yield from limit_arguments(options, without)
        if options.memory_bytes and "memory_bytes" not in without:
            yield from ("--memory-swap", str(options.memory_bytes))  # no swap on top
        if options.disk_bytes and "disk_bytes" not in without:
            yield from ("--storage-opt", f"size={options.disk_bytes}")
        if options.network is not True:
            yield from ("--network", options.network or "none")


def reaches_host(options: ContainerOptions) -> bool:
    """True when what is written inside can stay on this machine."""
    return bool(options.persistent or options.host_cwd is not None or shared_paths(options))


def shared_paths(options: ContainerOptions) -> tuple[str, ...]:
    """Paths of this machine that can be written inside, as far as options name them."""
    volumes = [read_volume(text) for text in options.volumes]
    paths = [volume.source for volume in volumes if volume.is_path and volume.is_writable]
    if options.host_cwd is not None and WORKSPACE not in {volume.target for volume in volumes}:
        paths.append(options.host_cwd)
    return tuple(paths)


def mounted_paths(options: ContainerOptions) -> tuple[str, ...]:
    """Paths inside with files of this machine or of a named volume; `/` if extra_args are given."""
    if options.extra_args:
        return ("/",)
    own = () if options.host_cwd is None else (WORKSPACE,)
    return (*own, *(read_volume(text).target for text in options.volumes))


def spec_hash(options: ContainerOptions) -> str:
    """A hash of the options that identify a container."""
    chosen: dict[str, Any] = {name: getattr(options, name) for name in IDENTITY}
    return hashlib.sha256(msgspec.json.encode(chosen, order="sorted")).hexdigest()


def data_root() -> Path:
    """The directory with the files of persistent tasks: one directory each, named by the task's id."""
    return data_directory() / "containers"


def _bind(source: str, target: str) -> str:
    """A mount as one field list: names may hold colons and, quoted, commas."""
    fields = ("type=bind", f"source={source}", f"target={target}")
    return ",".join(map(_quoted, fields))


def _quoted(field: str) -> str:
    doubled = field.replace('"', '""')
    return f'"{doubled}"' if set(field) & set(',"\n') else field
