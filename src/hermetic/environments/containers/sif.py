"""SIF images for apptainer: built from other sources, once for all processes of this user."""

import asyncio
import contextlib
import hashlib
import logging
import os
import re
import signal
import tarfile
from pathlib import Path
from typing import NamedTuple

from hermetic.contract.errors import ConfigError, EnvironmentUnavailable
from hermetic.contract.limits import BUILD
from hermetic.environments.containers.scratch import image_cache
from hermetic.registry.file_lock import locked
from hermetic.registry.janitor_process import remove_tree

SOURCES = ("docker://", "oras://", "library://", "shub://", "http://", "https://", "docker-daemon:")
FILES = ("docker-archive:", "oci-archive:", "oci:")  # sources that name a path of this machine
# Files that apptainer starts as they are: SIF, squashfs, ext3, by bytes at an offset.
MAGIC = ((32, b"SIF_MAGIC"), (0, b"hsqs"), (1080, b"\x53\xef"))
ADVICE = "give a .sif, an archive of `docker save`, a directory with a root file system, or docker://NAME"
SAID_LINES = 8  # of a failed build's output that go into the error

# Outlives a killed caller. Holds the lock (its stdin) until it has built the image and cleaned up.
BUILDER = """\
part=$1 work=$2 sif=$3
shift 3
"$@" && mv -f -- "$part" "$sif"
code=$?
chmod -R u+rwX -- "$work"
rm -rf -- "$part" "$work"
exit $code
"""

# Arguments of `apptainer exec` for a container that sees nothing of the host and has no privileges.
SEPARATE = ("--userns", "--containall", "--no-privs", "--no-mount", "bind-paths,sys")
NO_NETWORK = ["--net", "--network", "none"]
HOME = "/root"  # inside, for every user: the path of the real home is not shown there

log = logging.getLogger("hermetic")


class ImageSource(NamedTuple):
    """The source of an image."""

    address: str  # as apptainer takes it
    content: str  # identifies the content


def whole_name(image: str) -> str:
    """The image with an absolute path."""
    if image.startswith(SOURCES):
        return image
    kind, path = _split(image)
    return kind + os.path.abspath(os.path.expanduser(path))


async def find_sif(program: str, image: str) -> str:
    """Path of an image that can be started, built if need be.

    Raises ConfigError, EnvironmentUnavailable.
    """
    source = await asyncio.to_thread(_source, image)
    if source is None:
        return image
    sif = _built_at(image, source)
    if not _is_there(sif):
        log.info("%s is not built yet; building it, or waiting for who does", image)
        async with locked(sif.with_suffix(".lock")) as lock:
            if not _is_there(sif):
                await _build(program, source.address, sif, lock)
    return str(sif)


def has_sif(image: str) -> bool:
    """Whether the image can be started without building it. Raises ConfigError."""
    source = _source(image)
    return source is None or _is_there(_built_at(image, source))


def _built_at(image: str, source: ImageSource) -> Path:
    digest = hashlib.sha256(source.content.encode()).hexdigest()[:16]
    return image_cache() / f"{_readable(image)}-{digest}.sif"


def _is_there(path: Path) -> bool:
    return path.exists()


def _source(image: str) -> ImageSource | None:
    """The source to build from; None for an image that starts as it is. Raises ConfigError."""
    if image.startswith(SOURCES):
        return ImageSource(image, image)
    kind, path = _split(image)
    if not os.path.exists(path):
        raise ConfigError(f"there is no image at {path}; {ADVICE}", setting="image")
    if not kind and (os.path.isdir(path) or _is_startable(path)):
        return None
    return ImageSource((kind or _archive(path)) + path, f"{image}\n{_stamp(os.stat(path))}")


def _split(image: str) -> tuple[str, str]:
    kind = next(filter(image.startswith, FILES), "")
    return kind, image[len(kind) :]


def _is_startable(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            head = file.read(2048)
    except OSError as error:
        raise ConfigError(
            f"the image {path} cannot be read: {error.strerror}", setting="image"
        ) from error
    return any(head.startswith(magic, offset) for offset, magic in MAGIC)


def _archive(path: str) -> str:
    """The kind of an archive, by its members."""
    try:
        with tarfile.open(path) as archive:
            names = {member.name.removeprefix("./") for member in archive}
    except (tarfile.TarError, OSError, EOFError):
        names = set()
    if "manifest.json" in names:
        return "docker-archive:"
    if "oci-layout" in names:
        return "oci-archive:"
    raise ConfigError(f"{path} is no image that apptainer knows; {ADVICE}", setting="image")


def _stamp(seen: os.stat_result) -> str:
    return f"{seen.st_ino} {seen.st_size} {seen.st_mtime_ns}"


def _readable(image: str) -> str:
    return (
        re.sub(r"[^A-Za-z0-9._]+", "-", image.rstrip("/").rpartition("/")[2])[-40:].strip("-.")
        or "image"
    )


async def _build(program: str, address: str, sif: Path, lock: int) -> None:
    """Builds while the builder holds the lock, also if this process is killed."""
    part, work = sif.with_suffix(".part"), sif.with_suffix(".work")
    _discard(part, work)  # of one that was killed
    work.mkdir(mode=0o700)
    environ = {**os.environ, "APPTAINER_TMPDIR": str(work), "SINGULARITY_TMPDIR": str(work)}
    command = [program, "build", "--force", str(part), address]
    # In its own task: a cancel during the start would kill the shell and leave its children.
    starting = asyncio.create_task(
        asyncio.create_subprocess_exec(
            "/bin/sh",
            "-c",
            BUILDER,
            "sh",
            str(part),
            str(work),
            str(sif),
            *command,
            stdin=lock,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=environ,
            start_new_session=True,
        )
    )
    said: list[str] = []
    try:
        async with asyncio.timeout(BUILD):
            process = await asyncio.shield(starting)
            await _tell(process, said)
            code = await process.wait()
    except BaseException as error:
        process = await starting
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        _discard(part, work)
        if isinstance(error, TimeoutError):
            raise _failure(address, f"it took longer than {BUILD:g} s", said) from None
        raise
    if code != 0:
        raise _failure(address, f"exit code {code}", said)


async def _tell(process: asyncio.subprocess.Process, said: list[str]) -> None:
    """Logs the builder's output as it arrives, and keeps the last lines."""
    assert process.stdout is not None, "it is a pipe"
    while piece := await process.stdout.read(65536):
        for line in re.split(r"[\r\n]+", piece.decode("utf-8", "replace")):
            if words := re.sub(r"\x1b\[[0-9;]*m", "", line).strip():
                log.info("apptainer: %s", words)
                said.append(words)
        del said[:-SAID_LINES]


def _discard(part: Path, work: Path) -> None:
    part.unlink(missing_ok=True)
    remove_tree(str(work))


def _failure(address: str, reason: str, said: list[str]) -> EnvironmentUnavailable:
    told = "; it said:\n" + "\n".join(said) if said else ""
    return EnvironmentUnavailable(f"the image {address} could not be built: {reason}{told}")
