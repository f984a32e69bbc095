"""The service filesystem.Filesystem of envd, and its uploads and downloads."""

import asyncio
import base64
import binascii
import contextlib
import hashlib
import posixpath
import secrets
import stat
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request

from hermetic.serve.e2b.connect import Message, RpcError
from hermetic.serve.e2b.sandboxes import Sandbox

MOST_UPLOAD = 256 << 20  # bytes of one request
MOST_LISTED = 32 << 20  # bytes of names and numbers
DEEP = 100  # levels of a directory that is watched with all below it
SECONDS = 60.0  # for one operation
PAUSE = 1.0  # seconds between two looks of a watched directory
HELPER = "e2b"  # name of the session that looks at files
# One entry: mode, size, time, owner, group, path. No path holds the end of an entry.
ENTRY, END = "%f %s %Y %U %G %n//", "//\n"


class Entry(NamedTuple):
    """A file, a directory or a link."""

    path: str
    mode: int
    size: int
    modified: int  # seconds since 1970
    owner: str
    group: str
    target: str = ""  # of a link


async def status_of(sandbox: Sandbox, message: Message) -> Message:
    """One entry."""
    return {"entry": view(await _entry(sandbox, resolve(sandbox, message.get("path"))))}


async def list_directory(sandbox: Sandbox, message: Message) -> Message:
    """What is in a directory, and below it down to a depth."""
    path, depth = resolve(sandbox, message.get("path")), int(message.get("depth") or 1)
    if not stat.S_ISDIR((await _entry(sandbox, path)).mode):
        raise RpcError("invalid_argument", f"path is not a directory: {path}")
    return {"entries": [view(entry) for entry in await _below(sandbox, path, depth)]}


async def make_directory(sandbox: Sandbox, message: Message) -> Message:
    """Makes a directory and those above it."""
    path = resolve(sandbox, message.get("path"))
    with contextlib.suppress(FileNotFoundError):
        entry = await _entry(sandbox, path)
        kind = "already_exists" if stat.S_ISDIR(entry.mode) else "invalid_argument"
        raise RpcError(kind, f"there is a file or directory already: {path}")
    await _run(sandbox, "mkdir", "-p", "--", path)
    return {"entry": view(await _entry(sandbox, path))}


async def move(sandbox: Sandbox, message: Message) -> Message:
    """Renames a file or a directory."""
    source, target = (
        resolve(sandbox, message.get("source")),
        resolve(sandbox, message.get("destination")),
    )
    await _entry(sandbox, source)
    await _run(sandbox, "mkdir", "-p", "--", posixpath.dirname(target))
    await _run(sandbox, "mv", "--", source, target)
    return {"entry": view(await _entry(sandbox, target))}


async def remove(sandbox: Sandbox, message: Message) -> Message:
    """Removes a file, or a directory with all in it."""
    path = resolve(sandbox, message.get("path"))
    await _entry(sandbox, path)
    await _run(sandbox, "rm", "-rf", "--", path)
    return {}


class Watcher:
    """Changes of a directory between two looks."""

    def __init__(self, sandbox: Sandbox, message: Message) -> None:
        self._sandbox = sandbox
        self._path = resolve(sandbox, message.get("path"))
        self._depth = DEEP if message.get("recursive") else 1
        self._known: dict[str, Entry] | None = None

    async def changes(self) -> list[Message]:
        """What was created, written and removed since the last look; the first look has none."""
        found = {
            entry.path: entry for entry in await _below(self._sandbox, self._path, self._depth)
        }
        before, self._known = self._known, found
        if before is None:
            return []
        kinds = [(path, "EVENT_TYPE_CREATE") for path in found if path not in before]
        kinds += [(path, "EVENT_TYPE_REMOVE") for path in before if path not in found]
        for path in found.keys() & before.keys():
            if found[path][2:4] != before[path][2:4]:
                kinds.append((path, "EVENT_TYPE_WRITE"))
            elif found[path] != before[path]:
                kinds.append((path, "EVENT_TYPE_CHMOD"))
        return [
            {"name": posixpath.relpath(path, self._path), "type": kind}
            for path, kind in sorted(kinds)
        ]


async def create_watcher(sandbox: Sandbox, message: Message) -> Message:
    """Begins to watch a directory."""
    watcher = Watcher(sandbox, message)
    await list_directory(sandbox, message)
    await watcher.changes()
    id = secrets.token_hex(8)
    sandbox.watchers[id] = watcher
    return {"watcherId": id}


async def watcher_events(sandbox: Sandbox, message: Message) -> Message:
    """What has changed since the last call."""
    watcher = sandbox.watchers.get(str(message.get("watcherId")))
    if watcher is None:
        raise RpcError("not_found", "there is no such watcher")
    return {"events": await watcher.changes()}


async def remove_watcher(sandbox: Sandbox, message: Message) -> Message:
    """Ends a watcher."""
    sandbox.watchers.pop(str(message.get("watcherId")), None)
    return {}


async def watch(sandbox: Sandbox, message: Message, _: Headers) -> AsyncIterator[Message]:
    """Passes changes of a directory on, at most a second after they happen."""
    watcher = Watcher(sandbox, message)
    await list_directory(sandbox, message)
    await watcher.changes()
    yield {"start": {}}
    while True:
        await asyncio.sleep(PAUSE)
        for change in await watcher.changes():
            yield {"filesystem": change}


CALLS: Mapping[str, Callable[[Sandbox, Message], Awaitable[Message]]] = {
    "Stat": status_of,
    "ListDir": list_directory,
    "MakeDir": make_directory,
    "Move": move,
    "Remove": remove,
    "CreateWatcher": create_watcher,
    "GetWatcherEvents": watcher_events,
    "RemoveWatcher": remove_watcher,
}
STREAMS: Mapping[str, Callable[[Sandbox, Message, Headers], AsyncIterator[Message]]] = {
    "WatchDir": watch
}


async def download(sandbox: Sandbox, path: str | None) -> bytes:
    """A file's content. Raises OSErrors."""
    return await sandbox.environment.read_bytes(resolve(sandbox, path))


async def upload(sandbox: Sandbox, request: Request) -> list[Message]:
    """Writes the files of a form, or the one that is the body. Raises OSErrors, RpcError."""
    body, path = await _body(request), request.query_params.get("path")
    kind = request.headers.get("content-type", "")
    files = list(form_files(kind, body)) if kind.lower().startswith("multipart/") else [("", body)]
    written = []
    for name, data in files:
        target = resolve(sandbox, path or name)
        await sandbox.environment.write_file(target, data)
        written.append({"name": posixpath.basename(target), "path": target, "type": "file"})
    return written


def is_signed(sandbox: Sandbox, query: Mapping[str, str], operation: str) -> bool:
    """Whether a URL was signed with the token of the sandbox, and has not expired."""
    expires = query.get("signature_expiration", "")
    if expires and not (expires.isdigit() and int(expires) >= time.time()):
        return False
    text = f"{query.get('path', '')}:{operation}:{query.get('username', '')}:{sandbox.token}"
    digest = hashlib.sha256((f"{text}:{expires}" if expires else text).encode()).digest()
    expected = f"v1_{base64.b64encode(digest).rstrip(b'=').decode()}"
    return secrets.compare_digest(expected.encode(), query.get("signature", "").encode())


def form_files(kind: str, body: bytes) -> Iterator[tuple[str, bytes]]:
    """The files of multipart/form-data: name and content of each. Raises RpcError."""
    _, _, boundary = kind.partition("boundary=")
    boundary = boundary.partition(";")[0].strip().strip('"')
    if not boundary:
        raise RpcError("invalid_argument", "the form has no boundary")
    for part in (b"\r\n" + body).split(b"\r\n--" + boundary.encode())[1:]:
        head, found, content = part.partition(b"\r\n\r\n")
        if not found:
            continue  # the end
        for line in head.decode(errors="replace").split("\r\n"):
            if line.lower().startswith("content-disposition:") and 'filename="' in line:
                yield (
                    line.partition('filename="')[2].rpartition('"')[0].replace("%22", '"'),
                    content,
                )


def resolve(sandbox: Sandbox, path: object) -> str:
    """An absolute path; a relative one begins at the sandbox's directory."""
    text = str(path or "")
    if text == "~" or text.startswith("~/"):
        text = sandbox.home + text[1:]
    return posixpath.normpath(posixpath.join(sandbox.home, text))


def view(entry: Entry) -> Message:
    """An entry as the protocol has it."""
    is_link = stat.S_ISLNK(entry.mode)
    kind = "SYMLINK" if is_link else "DIRECTORY" if stat.S_ISDIR(entry.mode) else "FILE"
    fields: dict[str, Any] = {
        "name": posixpath.basename(entry.path),
        "type": f"FILE_TYPE_{kind}",
        "path": entry.path,
        "size": str(entry.size),
        "mode": stat.S_IMODE(entry.mode),
        "permissions": stat.filemode(entry.mode),
        "owner": entry.owner,
        "group": entry.group,
        "modifiedTime": datetime.fromtimestamp(entry.modified, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    return {**fields, "symlinkTarget": entry.target} if is_link else fields


async def _entry(sandbox: Sandbox, path: str) -> Entry:
    """Raises FileNotFoundError."""
    result = await sandbox.environment.session(HELPER).run(
        ["stat", "-c", ENTRY, "--", path], timeout=SECONDS, separate=True
    )
    entries = _parsed(result.output)
    if not entries:
        raise FileNotFoundError(f"path not found: {path}")
    return (await _with_targets(sandbox, entries))[0]


async def _below(sandbox: Sandbox, path: str, depth: int) -> list[Entry]:
    names = [f"{path.rstrip('/')}/", "-mindepth", "1", "-maxdepth", str(depth)]
    text = await _run(
        sandbox, "find", *names, "-exec", "stat", "-c", ENTRY, "{}", "+", is_partial=True
    )
    return sorted(await _with_targets(sandbox, _parsed(text)))


async def _with_targets(sandbox: Sandbox, entries: list[Entry]) -> list[Entry]:
    links = [entry.path for entry in entries if stat.S_ISLNK(entry.mode)]
    if not links:
        return entries
    text = await _run(
        sandbox, "sh", "-c", 'for p; do readlink "$p"; echo //; done', "sh", *links, is_partial=True
    )
    targets = dict(zip(links, text.split("\n//\n"), strict=False))
    return [entry._replace(target=targets.get(entry.path, "")) for entry in entries]


def _parsed(text: str) -> list[Entry]:
    entries = []
    for line in text.split(END)[:-1]:
        mode, size, modified, owner, group, path = line.split(" ", 5)
        path = path.replace("//", "/")
        entries.append(Entry(path, int(mode, 16), int(size), int(modified), owner, group))
    return entries


async def _run(sandbox: Sandbox, *argv: str, is_partial: bool = False) -> str:
    """The output of a program of the sandbox.

    Raises OSError; a partial answer is one too if that is enough.
    """
    result = await sandbox.environment.session(HELPER).run(
        list(argv), timeout=SECONDS, separate=True, limit=MOST_LISTED
    )
    if result.exit_code and not is_partial:
        raise OSError((result.stderr or "").strip() or f"{argv[0]} failed")
    return result.output


async def _body(request: Request) -> bytes:
    packed = request.headers.get("content-encoding", "").lower() == "gzip"
    unpack = zlib.decompressobj(zlib.MAX_WBITS | 16) if packed else None
    received = bytearray()
    with contextlib.suppress(ClientDisconnect):
        async for chunk in request.stream():
            try:
                received += chunk if unpack is None else unpack.decompress(chunk, MOST_UPLOAD)
            except (zlib.error, binascii.Error):
                raise RpcError("invalid_argument", "the body is not gzip") from None
            if len(received) > MOST_UPLOAD:
                raise RpcError("invalid_argument", f"an upload has at most {MOST_UPLOAD} bytes")
    return bytes(received)
