"""The workspace of an environment: where it is, and what may be read of it."""

import io
import tarfile
import zlib

from hermetic.contract.concurrency import in_thread
from hermetic.contract.errors import ExecutionError
from hermetic.contract.files import Bounds
from hermetic.serve.views import OURS
from hermetic.session.environment import Environment
from hermetic.session.keeping import link_of, record_of
from hermetic.tools.files.access import PROCESSES, VARIABLES, write_bounds

MOST_SNAPSHOT = 8 << 20  # bytes of all files together
MOST_FILES = 2000
# Small files below the directory; not those that tools generate in great number.
_PACK = f"""\
find . -xdev \\( -name .git -o -name node_modules -o -name .venv -o -name __pycache__ \\) -prune -o \\
  -type f -size -128 -print | head -n {MOST_FILES + 1} | tar -cf - -T -"""
GIT = [
    "git",
    "-c",
    "core.quotePath=false",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.hooksPath=/dev/null",
]
GIT_VARIABLES = {"GIT_OPTIONAL_LOCKS": "0", "GIT_PAGER": "cat", "LC_ALL": "C"}


async def root_of(environment: Environment) -> str:
    """The directory that its agent works in."""
    options = record_of(environment).options
    for name in ("workspace", "cwd"):
        if isinstance(path := options.get(name), str) and path.startswith("/"):
            return path
    return (await environment.state()).cwd


def readable(root: str, *, secrets: bool) -> Bounds:
    """What may be shown: files below the root, no credentials, and files of variables only with
    `secrets`.
    """
    deny = (*write_bounds(None).deny, *PROCESSES, *(() if secrets else VARIABLES))
    return Bounds(root=root, deny=deny)


async def is_repository(environment: Environment, path: str) -> bool:
    """Whether a directory belongs to a git repository."""
    return (
        await output_of(environment, [*GIT, "rev-parse", "--is-inside-work-tree"], path, 100)
        is not None
    )


async def output_of(environment: Environment, argv: list[str], cwd: str, most: int) -> bytes | None:
    """The output of a program of ours that no list shows; None when it failed or is missing."""
    process = await environment.start(
        argv, cwd=cwd, stdin="null", tag=OURS, separate=True, env=GIT_VARIABLES
    )
    try:
        pieces: list[bytes] = []
        at = 0
        while at < most:
            chunk = await process.read(at, limit=most - at, wait=30)
            pieces.append(chunk.data)
            at = chunk.end
            if chunk.ended or not chunk.data:
                break
        if at >= most:
            await process.kill(0)
            return b"".join(pieces)
        return b"".join(pieces) if (await process.wait(30)).exit_code == 0 else None
    finally:
        link_of(environment).mention("kill", process=process.id, grace=0.0)
        link_of(environment).mention("forget", process=process.id)


class Snapshot:
    """The small files of a directory at one moment, compressed."""

    def __init__(self, taken: float, packed: bytes) -> None:
        self.taken = taken  # seconds since 1970
        self._packed = packed

    def __repr__(self) -> str:
        return f"<Snapshot of {len(self._packed)} bytes>"

    def files(self) -> dict[str, bytes]:
        """Path below the directory → content."""
        return _unpack(zlib.decompress(self._packed))


async def take_snapshot(environment: Environment, root: str, now: float) -> Snapshot | None:
    """The present state of a directory; None where it is too large, or has no `tar`."""
    try:
        archive = await output_of(environment, ["sh", "-c", _PACK], root, MOST_SNAPSHOT)
        if archive is None or len(archive) >= MOST_SNAPSHOT:
            return None
        if len(await in_thread(lambda: _unpack(archive))) > MOST_FILES:
            return None
    except (ExecutionError, tarfile.TarError):
        return None
    return Snapshot(now, zlib.compress(archive, 1))


def _unpack(archive: bytes) -> dict[str, bytes]:
    """Its files. Raises TarError, also for more bytes than the archive could hold: a sparse file in it
    has any size.
    """
    found: dict[str, bytes] = {}
    room = MOST_SNAPSHOT
    with tarfile.open(fileobj=io.BytesIO(archive)) as entries:
        for entry in entries:
            room -= max(0, entry.size)
            if room < 0:
                raise tarfile.ReadError("too many bytes")
            content = entries.extractfile(entry) if entry.isreg() else None
            if content is not None:
                found[entry.name.removeprefix("./")] = content.read()
    return found
