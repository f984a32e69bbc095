"""Files of an environment's workspace, and what changed in it: /files, /file and /changes."""

import asyncio
import fnmatch
import posixpath
import time
from typing import Literal

import msgspec
from starlette.responses import Response

from hermetic.contract.concurrency import in_thread
from hermetic.contract.errors import ExecutionError
from hermetic.contract.files import Bounds
from hermetic.serve.api.processes import BYTES_HEADERS
from hermetic.serve.refusals import Refused
from hermetic.serve.routes import Call, Resource
from hermetic.serve.workspace import (
    GIT,
    Snapshot,
    is_repository,
    output_of,
    readable,
    root_of,
    take_snapshot,
)
from hermetic.session.environment import Environment
from hermetic.tools.edits.diff import unified_diff

AT = "/environments/{environment}"
MOST_ENTRIES = 1000
MOST_FILE = 32 << 20  # bytes of one download
MOST_DIFF = 2 << 20  # bytes of all diffs together
MOST_FILE_DIFF = 128 << 10  # bytes of a file that is shown as new
MOST_CHANGED = 500  # files
COMPARE_SECONDS = 3.0  # for all files of a snapshot
# in git; the base where there are no commits
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

DIFF = [*GIT, "diff", "--no-ext-diff", "--no-textconv", "--no-color", "--no-renames"]


class Where(msgspec.Struct, frozen=True, kw_only=True):
    """A path; a relative one begins at the workspace."""

    path: str = "."


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One name in a directory."""

    name: str
    type: Literal["file", "directory", "other"]
    size: int  # bytes
    modified: float  # seconds since 1970


class Directory(msgspec.Struct, frozen=True, kw_only=True):
    """A directory; directories come first."""

    path: str  # absolute
    root: str  # the workspace
    entries: tuple[Entry, ...]
    truncated: bool = False


class ChangedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that differs from the base."""

    path: str  # below the workspace
    status: Literal["added", "modified", "deleted"]
    added: int | None = None  # lines; None: binary, or not known
    removed: int | None = None
    diff: str = ""  # unified; empty where it is too long or binary


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """What differs from git's HEAD, or else what was written since the environment was opened."""

    base: Literal["HEAD", "opened"]
    root: str
    files: tuple[ChangedFile, ...]
    truncated: bool = False


async def _place(call: Call) -> tuple[Environment, str, Bounds]:
    environment = await call.console.environments.attached(call.path("environment"))
    root = await root_of(environment)
    return environment, root, readable(root, secrets=call.grant.allows("drive"))


async def _files(call: Call) -> Directory:
    environment, root, bounds = await _place(call)
    path = posixpath.normpath(posixpath.join(root, call.query(Where).path))
    if path == posixpath.normpath(root):  # nothing is below itself
        bounds = msgspec.structs.replace(bounds, root=None)
    status = await environment.file_status(path, bounds=bounds)
    names = await environment.list_names(path, bounds=bounds)
    entries = await asyncio.gather(
        *(_entry(environment, status.path, name) for name in names[:MOST_ENTRIES])
    )
    found = sorted(filter(None, entries), key=lambda entry: (entry.type != "directory", entry.name))
    return Directory(
        path=status.path, root=root, entries=tuple(found), truncated=len(names) > MOST_ENTRIES
    )


async def _entry(environment: Environment, folder: str, name: str) -> Entry | None:
    try:
        status = await environment.file_status(posixpath.join(folder, name))
    except (OSError, ExecutionError):  # a link to nowhere, or gone meanwhile
        return Entry(name=name, type="other", size=0, modified=0.0)
    kind = "other" if status.kind == "missing" else status.kind
    return Entry(name=name, type=kind, size=status.size, modified=status.mtime)


async def _file(call: Call) -> Response:
    environment, root, bounds = await _place(call)
    path = posixpath.join(root, call.query(Where).path)
    status = await environment.file_status(path, bounds=bounds)
    if status.kind != "file":
        raise Refused(400, "no_file", f"{status.path} is no file.")
    if status.size > MOST_FILE:
        raise Refused(
            413,
            "too_large",
            f"The file has {status.size} bytes.",
            f"Run: hermetic cp TASK:{path} .",
        )
    content = await environment.read_content(path, bounds=bounds)
    return Response(content.data, media_type="application/octet-stream", headers=BYTES_HEADERS)


async def _changes(call: Call) -> Changes:
    environment, root, bounds = await _place(call)
    if await is_repository(environment, root):
        return await _against_head(environment, root, bounds)
    known = await call.console.environments.get(environment.id)
    before = await call.console.environments.snapshot(known, environment, root)
    return await _since(environment, root, bounds, known.record.created, before)


# -- against git's HEAD
async def _against_head(environment: Environment, root: str, bounds: Bounds) -> Changes:
    has_commits = await output_of(
        environment, [*GIT, "rev-parse", "--verify", "-q", "HEAD"], root, 100
    )
    base = "HEAD" if has_commits else EMPTY_TREE
    counts, text, names = await asyncio.gather(
        output_of(
            environment, [*DIFF, "--numstat", "-z", "--relative", base, "--", "."], root, MOST_DIFF
        ),
        output_of(environment, [*DIFF, "--relative", base, "--", "."], root, MOST_DIFF),
        output_of(
            environment, [*GIT, "ls-files", "--others", "--exclude-standard", "-z"], root, MOST_DIFF
        ),
    )
    diffs = {
        path: diff for path, diff in _split(text or b"").items() if not _is_hidden(path, bounds)
    }
    files = [
        _tracked(line, diffs)
        for line in (counts or b"").decode("utf-8", "replace").split("\0")
        if line
    ]
    new = [name for name in (names or b"").decode("utf-8", "replace").split("\0") if name]
    room = max(0, MOST_CHANGED - len(files))
    files += await asyncio.gather(
        *(_new_file(environment, root, name, bounds) for name in new[:room])
    )
    is_cut = len(files) > MOST_CHANGED or len(new) > room
    return Changes(base="HEAD", root=root, files=tuple(files[:MOST_CHANGED]), truncated=is_cut)


def _tracked(line: str, diffs: dict[str, str]) -> ChangedFile:
    """A file of `git diff --numstat`: added, removed, path, separated by tabs; binary files have
    dashes.
    """
    added, removed, path = line.split("\t", 2)
    diff = diffs.get(path, "")
    status: Literal["added", "modified", "deleted"] = "modified"
    if "\nnew file mode " in diff:
        status = "added"
    elif "\ndeleted file mode " in diff:
        status = "deleted"
    return ChangedFile(
        path=path, status=status, added=_count(added), removed=_count(removed), diff=diff
    )


def _count(text: str) -> int | None:
    return int(text) if text.isdigit() else None


def _split(text: bytes) -> dict[str, str]:
    """The diff of each file by its path."""
    found: dict[str, str] = {}
    for piece in ("\n" + text.decode("utf-8", "replace")).split("\ndiff --git ")[1:]:
        first = piece.partition("\n")[0]
        half = len(first) // 2  # a/PATH b/PATH: without renames both are the same
        found[first[half + 3 :]] = f"diff --git {piece}"
    return found


async def _new_file(environment: Environment, root: str, name: str, bounds: Bounds) -> ChangedFile:
    """A file that the base does not have, with all its lines as added."""
    unread = ChangedFile(path=name, status="added")
    path = posixpath.join(root, name)
    try:
        status = await environment.file_status(path, bounds=bounds)
        if status.kind != "file" or status.size > MOST_FILE_DIFF:
            return unread
        text = (await environment.read_content(path, bounds=bounds)).data.decode()
    except (OSError, ExecutionError, UnicodeDecodeError):
        return unread
    lines = text.splitlines()
    body = "".join(f"+{line}\n" for line in lines)
    diff = f"--- /dev/null\n+++ b/{name}\n@@ -0,0 +1,{len(lines)} @@\n{body}" if lines else ""
    return ChangedFile(path=name, status="added", added=len(lines), removed=0, diff=diff)


# -- without git
async def _since(
    environment: Environment, root: str, bounds: Bounds, opened: float, before: Snapshot | None
) -> Changes:
    """What differs from the snapshot, and which other files were written since the environment was
    opened.
    """
    files: dict[str, ChangedFile] = {}
    now = None if before is None else await take_snapshot(environment, root, time.time())
    if before is not None and now is not None:
        files = await in_thread(lambda: _differences(before.files(), now.files(), bounds))
    find = ["find", ".", "-xdev", "-type", "f", "-newermt", f"@{opened:.3f}", "-print0"]
    names = (
        (await output_of(environment, find, root, MOST_DIFF) or b"")
        .decode("utf-8", "replace")
        .split("\0")
    )
    written = sorted(name.removeprefix("./") for name in names if name)
    unseen = [name for name in written if name not in files][: max(0, MOST_CHANGED - len(files))]
    for file in await asyncio.gather(
        *(_new_file(environment, root, name, bounds) for name in unseen)
    ):
        is_old = before is not None and file.path in before.files()
        files[file.path] = ChangedFile(path=file.path, status="modified") if is_old else file
    is_cut = len(files) > MOST_CHANGED or len(written) > len(files) + len(unseen)
    return Changes(
        base="opened", root=root, files=tuple(files.values())[:MOST_CHANGED], truncated=is_cut
    )


def _differences(
    old: dict[str, bytes], new: dict[str, bytes], bounds: Bounds
) -> dict[str, ChangedFile]:
    """The files that differ, by path; those that there was no time to compare without a diff."""
    until = time.monotonic() + COMPARE_SECONDS
    return {
        path: _compared(path, old.get(path), new.get(path), shows=time.monotonic() < until)
        for path in sorted(old.keys() | new.keys())
        if old.get(path) != new.get(path) and not _is_hidden(path, bounds)
    }


def _compared(path: str, old: bytes | None, new: bytes | None, *, shows: bool) -> ChangedFile:
    """A file whose content before and now is known; None: it did not exist."""
    status: Literal["added", "modified", "deleted"] = (
        "added" if old is None else "deleted" if new is None else "modified"
    )
    try:
        before, after = ((side or b"").decode() for side in (old, new))
    except UnicodeDecodeError:
        return ChangedFile(path=path, status=status)
    if not shows:
        return ChangedFile(path=path, status=status)
    sides = None if old is None else path, None if new is None else path
    diff = unified_diff(*sides, before, after)
    lines = diff.split("\n")[2:]
    added = sum(line.startswith("+") for line in lines)
    removed = sum(line.startswith("-") for line in lines)
    return ChangedFile(path=path, status=status, added=added, removed=removed, diff=diff)


def _is_hidden(path: str, bounds: Bounds) -> bool:
    """Whether a pattern denies the content of a file; the resident checks those that are read from
    it.
    """
    return any(fnmatch.fnmatchcase(f"{bounds.root}/{path}", pattern) for pattern in bounds.deny)


ROUTES = (
    Resource(
        "GET",
        AT + "/files",
        "view",
        _files,
        "Names in a directory of the workspace.",
        Directory,
        query=Where,
    ),
    Resource("GET", AT + "/file", "view", _file, "The bytes of a file.", query=Where),
    Resource("GET", AT + "/changes", "view", _changes, "What changed in the workspace.", Changes),
)
