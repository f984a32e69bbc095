"""Portable runtimes in the user's cache: built once under a lock, named by their content, verified
before use.

Beside each runtime, `DIGEST.used` has the time of its last use, which is also that of the last
verification of the directory that it names. `KEY.key` holds the digest of what was built from certain programs, and which
of their libraries it was built with. `DIGEST.old-*` is a damaged runtime, which containers may
still use.
"""

import asyncio
import contextlib
import errno
import hashlib
import logging
import os
import platform
import shutil
import sys
import sysconfig
import tempfile
import time
import uuid
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from hermetic.contract.errors import ConfigError, EnvironmentUnavailable
from hermetic.environments.runtime.elf import Unsuitable
from hermetic.registry.file_lock import locked, locked_at_once, locked_in_thread
from hermetic.registry.private import cache_directory, make_private
from hermetic.resident.lazy import Lazy

if TYPE_CHECKING:
    from hermetic.environments.runtime import build
else:
    build = Lazy("hermetic.environments.runtime.build")

PREFIX = "/.hermetic"  # where environments see it
BASH, PYTHON = "bin/bash", "python/bin/python3"
MANIFEST = "runtime.json"
BUILDING = ".building-"  # begins the name of a directory that is being built, or removed
OLD = ".old-"  # in the name of a damaged runtime
CLOCK_STEP = 0.05  # seconds by which the time of a change to a file may lag
# after its last use, a runtime that no environment names is removed
UNUSED_SECONDS = 7 * 24 * 3600.0
ADVICE = (
    "use an environment with python3 >= 3.8 and bash >= 4.4, or run `hermetic runtime build` on a machine like it, "
    "copy the directory that it prints, and give that as the option runtime"
)

log = logging.getLogger("hermetic")


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a runtime was built for, and its files."""

    prefix: str
    lean: bool
    machine: str  # as `uname -m` says it
    python: str  # version
    files: dict[str, tuple[int, str]]  # size and SHA-256, by path


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """The digest of a runtime, and size and time of change of each file that it was built from."""

    digest: str
    sources: dict[str, tuple[int, int]]


class Runtime(msgspec.Struct, frozen=True, kw_only=True):
    """A verified runtime."""

    directory: str  # on this machine
    prefix: str  # where it has to be inside
    digest: str  # SHA-256 of its manifest, which has those of its files
    lean: bool
    version: str  # of its Python
    size: int  # bytes

    @property
    def python(self) -> str:
        """The path of its Python inside."""
        return f"{self.prefix}/{PYTHON}"

    @property
    def bash(self) -> str:
        """The path of its bash inside."""
        return f"{self.prefix}/{BASH}"


class CannotBuild(EnvironmentUnavailable):
    """No portable runtime can be built from the programs of this machine, at least for that prefix."""


class Damaged(EnvironmentUnavailable):
    """A runtime is not what its manifest says, or does not fit this machine."""


def runtime_cache() -> Path:
    """The directory of this user's runtimes. Raises ConfigError."""
    base = cache_directory()
    if base is None:
        raise ConfigError(
            "this user has no home directory for a cache; set XDG_CACHE_HOME to a directory of yours",
            setting="XDG_CACHE_HOME",
        )
    return make_private(base / "runtime", "XDG_CACHE_HOME")


async def portable(*, lean: bool = False, prefix: str = PREFIX) -> Runtime:
    """The runtime of this machine's Python and bash, built if need be; it takes seconds then.

    Raises EnvironmentUnavailable.
    """
    base = runtime_cache()
    with _explained(base):
        key = source_key(lean, prefix)
        if found := await asyncio.to_thread(_find, base, key):
            return found
        log.info("building the portable runtime, once for this Python and bash")
        async with locked(base / f"{key}.lock"):
            return await asyncio.to_thread(
                lambda: _find(base, key) or _build(base, key, lean, prefix)
            )


@contextlib.contextmanager
def _explained(base: Path) -> Iterator[None]:
    """Raises EnvironmentUnavailable, with advice, for what fails in the cache."""
    try:
        yield
    except Unsuitable as error:
        is_noexec = os.statvfs(base).f_flag & os.ST_NOEXEC
        advice = (
            f"no program runs in {base} (noexec): set XDG_CACHE_HOME to another directory"
            if is_noexec
            else ADVICE
        )
        raise CannotBuild(f"no portable runtime can be built here: {error}; {advice}") from error
    except OSError as error:
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise EnvironmentUnavailable(
            f"the portable runtime cannot be written to {base}: {error.strerror or error}; "
            f"{'free 60 MB there, or ' if is_full else ''}set XDG_CACHE_HOME to another directory"
        ) from error


async def runtime_at(path: str, machine: str | None = None) -> Runtime:
    """A runtime that was built here or elsewhere, for this machine's architecture or another.

    Raises Damaged.
    """
    return await asyncio.to_thread(
        lambda: _verified(Path(path).expanduser().absolute(), runtime_cache(), machine)
    )


def runtimes() -> list[Runtime]:
    """The runtimes in the cache that are whole."""
    found = []
    for path in sorted(runtime_cache().iterdir()):
        with contextlib.suppress(Damaged):
            if path.is_dir() and not path.name.startswith("."):
                found.append(_in_cache(path, None))
    return found


async def collect(in_use: Collection[str]) -> list[str]:
    """Removes runtimes that were not used for a week, except those with these digests, and
    unfinished builds.
    """
    base, removed = runtime_cache(), []
    for path in sorted(base.iterdir()):
        owner = path.name.removeprefix(BUILDING).partition(".")[0]  # names its lock
        if _is_stray(path, owner, in_use):
            async with locked_at_once(base / f"{owner}.lock") as is_ours:
                if is_ours and _is_stray(path, owner, in_use):  # it may have been used since
                    if path.is_dir():
                        removed.append(str(path))
                    _remove(path, base / f"{BUILDING}{owner}.{uuid.uuid4().hex}")
    return removed


def _is_stray(path: Path, owner: str, in_use: Collection[str]) -> bool:
    """Whether a file or directory of the cache may be removed."""
    try:
        if path.name.startswith(BUILDING):
            return True
        if path.is_dir():
            return owner not in in_use and time.time() - _last_use(path) > UNUSED_SECONDS
        digest = _origin(path).digest if path.suffix == ".key" else owner
        return path.suffix != ".lock" and not (path.parent / digest).exists()
    except FileNotFoundError:
        return False
    except msgspec.DecodeError:
        return True


def _remove(path: Path, aside: Path) -> None:
    """Removes a file or directory.

    A directory is renamed first, so that no process finds a part of it.
    """
    if path.is_dir():
        shutil.rmtree(path.rename(aside), ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def source_key(lean: bool, prefix: str) -> str:
    """Identifies the programs and libraries that a runtime is built from."""
    python, bash = build.source_files()
    files = [
        python,
        bash,
        Path(sysconfig.get_path("stdlib")),
        Path(sysconfig.get_path("stdlib"), "lib-dynload"),
    ]
    stamps = [(str(path), *_stamp(path)) for path in files]
    libc = os.confstr("CS_GNU_LIBC_VERSION") if "CS_GNU_LIBC_VERSION" in os.confstr_names else None
    searched = os.environ.get(build.LIBRARY_PATH)
    can_strip = bool(shutil.which("strip"))
    what = (
        build.VERSION,
        lean,
        prefix,
        platform.machine(),
        sys.version,
        libc,
        searched,
        can_strip,
        stamps,
    )
    return hashlib.sha256(repr(what).encode()).hexdigest()[:32]


def _find(base: Path, key: str) -> Runtime | None:
    """What was built for the key, if it is still there and whole."""
    try:
        origin = _origin(base / f"{key}.key")
        has_changed = any(_stamp(path) != stamp for path, stamp in origin.sources.items())
        return None if has_changed else _in_cache(base / origin.digest, base)
    except (FileNotFoundError, msgspec.DecodeError):
        return None
    except Damaged as error:
        log.warning("%s; it is built again", error)
        return None


def _origin(path: Path) -> Origin:
    return msgspec.json.decode(path.read_bytes(), type=Origin)


def _stamp(path: str | Path) -> tuple[int, int]:
    """Size and time of change of a file, which identify its content."""
    found = os.stat(path)
    return found.st_size, found.st_mtime_ns


def _in_cache(directory: Path, base: Path | None) -> Runtime:
    """The runtime in a directory of the cache, which is named by its content. Raises Damaged."""
    found = _verified(directory, base)
    if found.digest != directory.name:
        raise Damaged(f"the portable runtime at {directory} is not the one of that name; {ADVICE}")
    return found


def _verified(directory: Path, base: Path | None, machine: str | None = None) -> Runtime:
    """The runtime in a directory; its use is noted in the cache `base`. Raises Damaged.

    Contents are read unless every file is older than the last verification.
    """
    try:
        text = (directory / MANIFEST).read_bytes()
        manifest = msgspec.json.decode(text, type=Manifest)
    except (OSError, msgspec.DecodeError) as error:
        raise Damaged(f"{directory} holds no portable runtime ({error}); {ADVICE}") from error
    machine = machine or platform.machine()
    if manifest.machine != machine:
        raise Damaged(
            f"the runtime at {directory} is for {manifest.machine}, not {machine}; {ADVICE}"
        )
    digest = hashlib.sha256(text).hexdigest()
    used = None if base is None else base / f"{digest}.used"
    now = time.time() - CLOCK_STEP
    owner = f"{directory} {directory.stat().st_ino}"
    is_owner = used is not None and used.exists() and used.read_bytes() == os.fsencode(owner)
    last_use = used.stat().st_mtime if used is not None and is_owner else 0.0
    for name, (size, sha256) in manifest.files.items():
        path = directory / name
        try:
            seen = path.stat()
            is_same = seen.st_size == size and (seen.st_ctime < last_use or _sha256(path) == sha256)
        except OSError:
            is_same = False
        if not is_same:
            raise Damaged(
                f"the portable runtime at {directory} is damaged: {name} is not as it was built; {ADVICE}"
            )
    if used is not None:
        if not is_owner:
            used.write_bytes(os.fsencode(owner))
        os.utime(used, (now, now))
    size = sum(size for size, _ in manifest.files.values())
    return Runtime(
        directory=str(directory),
        prefix=manifest.prefix,
        digest=digest,
        lean=manifest.lean,
        version=manifest.python,
        size=size,
    )


def _build(base: Path, key: str, lean: bool, prefix: str) -> Runtime:
    began = time.monotonic()
    work = Path(tempfile.mkdtemp(prefix=f"{BUILDING}{key}.", dir=base))
    try:
        built = build.build(work / "root", prefix=prefix, lean=lean)
        tree = work / "root" / prefix[1:]
        files = {}
        for path in sorted(tree.rglob("*")):
            # for every user inside
            path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
            if path.is_file():
                files[str(path.relative_to(tree))] = (path.stat().st_size, _sha256(path))
        manifest = Manifest(
            prefix=prefix, lean=lean, machine=platform.machine(), python=built.version, files=files
        )
        text = msgspec.json.encode(manifest)
        (tree / MANIFEST).write_bytes(text)
        tree.chmod(0o755)
        (tree / MANIFEST).chmod(0o644)
        found = _install(tree, base / hashlib.sha256(text).hexdigest(), base)
        origin = Origin(
            digest=found.digest, sources={str(path): _stamp(path) for path in built.sources}
        )
        (work / "key").write_bytes(msgspec.json.encode(origin))
        (work / "key").rename(base / f"{key}.key")
        log.info(
            "built the portable runtime in %.1f s: %.0f MB",
            time.monotonic() - began,
            found.size / 1e6,
        )
        return found
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _install(tree: Path, target: Path, base: Path) -> Runtime:
    """Moves a runtime to its place in the cache, unless it is there already: containers may be
    using that one.
    """
    with locked_in_thread(base / f"{target.name}.lock"):
        if target.exists():
            with contextlib.suppress(Damaged):
                return _in_cache(target, base)
            old = target.rename(base / f"{target.name}{OLD}{uuid.uuid4().hex}")
            os.utime(old)
        tree.rename(target)
        return _in_cache(target, base)


def _last_use(path: Path) -> float:
    used = path.with_name(f"{path.name}.used")
    return (used if used.exists() else path).stat().st_mtime


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
