"""Options of docker and podman, validated before anything is started."""

import os
import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec

from hermetic.contract.errors import ConfigError
from hermetic.contract.variables import fault_of
from hermetic.environments.isolation.workspace import fault_of_shared
from hermetic.environments.options import (
    MissingOption,
    ProfileOptions,
    identity_of,
    read_options,
)
from hermetic.environments.profile import settings_directory
from hermetic.registry.records import runtime_path

GIB = 1 << 30
HOME = "/root"
WORKSPACE = "/workspace"
RESIDENT = "/run/hermetic"  # the resident's own directory, inside
HOST = f"{RESIDENT}/host"  # read-only: the socket that callers on this machine connect to

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(?::[A-Za-z0-9_][A-Za-z0-9_.-]*)?")
_MOUNT_WORDS = str.split("""
    ro rw z Z U exec noexec nosuid nodev nocopy cached delegated
""")
_TAKEN = ("/", "/proc", "/sys", "/dev", "/run", RESIDENT)  # paths that a volume must not hide

Limit = Annotated[int, msgspec.Meta(ge=0)]


class ContainerOptions(ProfileOptions, frozen=True, kw_only=True):
    """The options of `docker` and `podman`."""

    image: str = ""
    cwd: str | None = None  # None: /root, or /workspace where host_cwd is mounted there
    cpu: Annotated[float, msgspec.Meta(ge=0)] = 1.0  # cores; 0: no limit
    memory_bytes: Limit = 5 * GIB  # 0: no limit
    pids: Limit = 256  # processes and threads; 0: no limit
    # of the container's own files, where the engine's storage driver can; 0: no limit
    disk_bytes: Limit = 0
    network: bool | str = True  # False: none; text: the name of one of the engine's networks
    # "HOST:PLACE" or "HOST:PLACE:ro"; HOST is a path or the name of a volume
    volumes: tuple[str, ...] = ()
    # as text once they are read; True is `true`
    env: dict[str, str | bool | int | float] = msgspec.field(default_factory=dict)  # type: ignore[assignment]
    # names of variables that are passed on: the opener's, else of the env file
    forward_env: tuple[str, ...] = ()
    user: str | None = None  # None: the caller's if host directories are mounted, else the image's
    persistent: bool = False  # /root and /workspace of a task outlive its containers
    host_cwd: str | None = None  # a directory of this machine that is mounted on /workspace
    extra_args: tuple[str, ...] = ()  # arguments for the engine's client, after all others


# Options that identify a container: one that runs with other values of these is not reused.
IDENTITY = identity_of(ContainerOptions)


# Flags of docker, podman and apptainer for the options that limit a container.
LIMIT_FLAGS = {"cpu": "--cpus", "memory_bytes": "--memory", "pids": "--pids-limit"}


def limit_arguments(options: Any, without: Collection[str] = ()) -> Iterator[str]:
    """The flags of the limits that are set."""
    for name, flag in LIMIT_FLAGS.items():
        value = getattr(options, name)
        if value and name not in without:
            yield from (flag, f"{value:g}" if isinstance(value, float) else str(value))


class Volume(NamedTuple):
    """A mount of the container, in the engine's syntax."""

    source: str
    target: str
    words: tuple[str, ...]

    @property
    def is_path(self) -> bool:
        """False for the name of a volume that the engine keeps."""
        return self.source.startswith("/")

    @property
    def is_writable(self) -> bool:
        """True unless it is mounted read-only."""
        return "ro" not in self.words


def read_container_options(kind: str, options: Mapping[str, Any]) -> ContainerOptions:
    """The options, checked, paths whole. Raises ConfigError."""
    given = read_options(kind, ContainerOptions, options)
    _check_image(kind, given.image)
    volumes = [read_volume(text) for text in given.volumes]
    _check_targets(volume.target for volume in volumes)
    _check_network(given.network)
    if given.user is not None and not _USER.fullmatch(given.user):
        raise ConfigError(
            f"user {given.user!r} is no user; give a name, a number, or UID:GID", setting="user"
        )
    return msgspec.structs.replace(
        given,
        cwd=_whole_cwd(given),
        forward_env=_names(given.forward_env),
        volumes=tuple(
            ":".join(filter(None, (one.source, one.target, ",".join(one.words)))) for one in volumes
        ),
        host_cwd=None if given.host_cwd is None else _project(given.host_cwd),
    )


def read_volume(text: str) -> Volume:
    """A volume by its parts. Raises ConfigError."""
    source, *rest = text.split(":")
    words = tuple(filter(None, rest[1].split(","))) if len(rest) == 2 else ()
    if (
        not source
        or len(rest) not in (1, 2)
        or not rest[0].startswith("/")
        or set(words).difference(_MOUNT_WORDS)
    ):
        raise ConfigError(
            f"volume {text!r} cannot be mounted; write HOST:PLACE or HOST:PLACE:ro, PLACE as a whole path inside",
            setting="volumes",
        )
    if source.startswith(("/", "~", ".")):
        source = os.path.realpath(os.path.expanduser(source))  # links are resolved
        if ":" in source:
            raise ConfigError(
                f"volume {text!r} leads to {source}, whose colon no engine takes", setting="volumes"
            )
    elif not _NAME.fullmatch(source):
        raise ConfigError(
            f"volume {text!r}: {source!r} is neither a path (/…, ~/…, ./…) nor the name of a volume",
            setting="volumes",
        )
    return Volume(source, posixpath.normpath(rest[0]), words)


def _check_image(kind: str, image: str) -> None:
    if not image:
        raise MissingOption(kind, "image", "python:3.12")
    if image.startswith("-") or any(char.isspace() or char == "\0" for char in image):
        raise ConfigError(
            f"image {image!r} is no name of an image; give one such as python:3.12", setting="image"
        )


def _check_targets(targets: Iterable[str]) -> None:
    seen: set[str] = set()
    for target in targets:
        if target in _TAKEN or target.startswith(RESIDENT + "/"):
            raise ConfigError(
                f"nothing can be mounted on {target}; choose another path for it", setting="volumes"
            )
        if target in seen:
            raise ConfigError(
                f"two volumes are mounted on {target}; leave one out", setting="volumes"
            )
        seen.add(target)


def _check_network(network: bool | str) -> None:
    if isinstance(network, bool):
        return
    if network == "host" or not _NAME.fullmatch(network):
        raise ConfigError(
            f"network {network!r} cannot be used: give True, False, or the name of a network of the engine "
            "(the machine's own, `host`, would not isolate)",
            setting="network",
        )


def _whole_cwd(given: ContainerOptions) -> str:
    cwd = given.cwd or (HOME if given.host_cwd is None else WORKSPACE)
    cwd = HOME + cwd[1:] if cwd == "~" or cwd.startswith("~/") else cwd
    if not cwd.startswith("/") or "\0" in cwd:
        raise ConfigError(
            f"cwd {cwd!r} must be a whole path inside the container, such as {HOME}", setting="cwd"
        )
    return posixpath.normpath(cwd)


def _names(forwarded: Iterable[str]) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in forwarded))
    if fault := fault_of(dict.fromkeys(names, "")):
        raise ConfigError(fault, setting="forward_env")
    return names


def _project(path: str) -> str:
    """The real path of a directory that may be mounted whole.

    Raises ConfigError for one that is, is in, or contains a system or private directory.
    """
    whole = os.path.realpath(os.path.expanduser(path))
    settings = settings_directory()
    private = [str(runtime_path()), *([str(settings)] if settings else [])]
    if fault := fault_of_shared(whole, private):
        raise ConfigError(
            f"host_cwd {whole!r} {fault}; give the directory of one project", setting="host_cwd"
        )
    return whole


ENV_FILE = ".env"  # in the profile's directory, else in that of the settings
MOST_BYTES = 1 << 20
_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*?)\s*")
_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\", "$": "$"}


def forwarded_variables(names: Iterable[str], profile: str | None) -> dict[str, str]:
    """Values of the names that have one. An empty variable of this process counts as none."""
    names = tuple(names)
    found = {name: os.environ[name] for name in names if os.environ.get(name)}
    if missing := [name for name in names if name not in found]:
        kept = read_env_file(profile)
        found |= {name: kept[name] for name in missing if kept.get(name)}
    return {name: found[name] for name in names if name in found}


def read_env_file(profile: str | None) -> dict[str, str]:
    """The variables of the env file; empty if it cannot be read."""
    directory = settings_directory() if profile is None else Path(profile)
    if directory is None:
        return {}
    try:
        with open(directory / ENV_FILE, encoding="utf-8", errors="replace") as file:
            lines = file.read(MOST_BYTES).splitlines()
    except OSError:
        return {}
    return {match[1]: _value(match[2]) for line in lines if (match := _LINE.fullmatch(line))}


def _value(text: str) -> str:
    """As a shell would take it, without expansions: quotes go, and so does a comment behind an
    unquoted value.
    """
    if text[:1] == "'" and (end := text.find("'", 1)) > 0:
        return text[1:end]
    if quoted := re.match(r'"((?:[^"\\]|\\.)*)"', text):
        return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[0]), quoted[1])
    return re.split(r"(?:^|\s)#", text, maxsplit=1)[0].rstrip()
