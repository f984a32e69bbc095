"""Files of a place without Python: one bash for each request, and the answer to whoever asked."""

from __future__ import annotations

import os
import stat

from ..files.changes import MISSING, FileLocks
from ..files.worker import WorkerPool
from ..lazy import Lazy
from ..wire import frames
from ..wire.fields import Refusal
from . import fields as take
from . import file_scripts as scripts
from .line import ERR, Complaints, Line
from .scripts import order

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..life.server import Request
    from ..wire.frames import Fields
    from . import search
    from .requests import BareRequests
    from .resident import BareResident

    # An answer from what a script told; None where one comes later.
    Shape = Callable[[Fields, str, bytes], "tuple[Fields, bytes] | None"]
else:
    search = Lazy(".search", __package__)


# The kernel's names for what a script refuses.
_NUMBERS = {
    "FileNotFoundError": "ENOENT",
    "IsADirectoryError": "EISDIR",
    "NotADirectoryError": "ENOTDIR",
    "PermissionError": "EACCES",
}
HEAD_BYTES = 64  # of a file, that come before its lines


class BareFileDesk:
    """Serves requests about files through a bash."""

    resident: BareResident

    def __init__(self, requests: BareRequests) -> None:
        self.resident, self.loop = requests.resident, requests.resident.loop
        self.locks = FileLocks()
        self.workers = WorkerPool(self.loop)
        self.searches: Any = None

    def read_file(self, request: Request) -> None:
        offset = take.number(request.fields, "offset")
        limit = take.number(request.fields, "limit", frames.FRAME_BODY, 0, frames.FRAME_BODY)
        self._begin(request, scripts.READ, "", (b"%d" % offset, b"%d" % limit))

    def read_lines(self, request: Request) -> None:
        first = take.number(request.fields, "first", 1, 1)
        lines = take.number(request.fields, "lines", 500, 0, frames.FRAME_ITEMS)
        width = take.number(request.fields, "width", 8000, 2) // 2 * 2
        asked = take.number(request.fields, "budget", frames.FRAME_BODY, 1, frames.FRAME_BODY)
        budget = min(asked, frames.FRAME_BODY - HEAD_BYTES)

        def shape(answer: Fields, counts: str, data: bytes) -> tuple[Fields, bytes]:
            return _page(answer, counts, data, first, width, budget)

        more = (b"%d" % first, b"%d" % lines, b"%d" % (width + 1), b"%d" % budget)
        self._begin(request, scripts.LINES, "", more, shape=shape)

    def search_files(self, request: Request) -> None:
        if self.searches is None:
            self.searches = search.BareSearches(self)
        self.searches.search_files(request)

    def list_names(self, request: Request) -> None:
        most = take.number(request.fields, "most", 10000, 1, frames.FRAME_ITEMS)

        def shape(answer: Fields, counts: str, data: bytes) -> tuple[Fields, bytes]:
            names = [os.fsdecode(name) for name in data.split(b"\0")[:-1]]
            return answer, frames.pack(sorted(names))

        self._begin(request, scripts.NAMES, "", (b"%d" % most,), shape=shape)

    def file_status(self, request: Request) -> None:
        missing = b"1" if take.flag(request.fields, "missing") else b""

        def shape(answer: Fields, counts: str, data: bytes) -> tuple[Fields, bytes]:
            is_missing = answer["mode"] == 0 and answer["kind"] == "other" and answer["signature"] == "-"
            return dict(answer, kind="missing", signature=MISSING) if is_missing else answer, b""

        self._begin(request, scripts.STATUS, "", (missing,), shape=shape)

    def write_file(self, request: Request) -> None:
        blob = take.text(request.fields, "blob") if request.fields.get("blob") is not None else None
        mode = take.number(request.fields, "mode", 0o666, 0, 0o7777) if request.fields.get("mode") is not None else None
        how = "m" if take.flag(request.fields, "parents", True) else ""
        source = None if blob is None else request.client.take_blob("blob", blob)
        size = len(request.body) if source is None else os.fstat(source).st_size
        more = (b"%d" % size, b"" if mode is None else b"%o" % mode, os.urandom(8).hex().encode())
        self._begin(request, scripts.WRITE, how, more, source, changes=["path"])

    def delete_file(self, request: Request) -> None:
        self._begin(request, scripts.DELETE, "l", (), changes=["path"])

    def move_file(self, request: Request) -> None:
        session = self.resident.session(take.text(request.fields, "session"))
        given = take.path(request.fields, "target", "")
        replace = b"r" if take.flag(request.fields, "replace") else b""
        target = os.fsencode(self.resident.resolve_path(session, given))
        self._begin(request, scripts.MOVE, "l", (target, replace), changes=["path", "target"])

    def change_files(self, request: Request) -> None:
        message = "no python3 in this place, so files are changed one after the other"
        raise Refusal("Unsupported", message, capability="change_files")

    def path(self, request: Request, field: str = "path") -> str:
        session = self.resident.session(take.text(request.fields, "session"))
        return self.resident.resolve_path(session, take.path(request.fields, field, ""))

    def _begin(
        self,
        request: Request,
        script: str,
        how: str,
        more: tuple[bytes, ...],
        source: int | None = None,
        changes: list[str] | None = None,
        shape: Shape | None = None,
    ) -> None:
        """Runs a script once the session is known, and once no other change of the same files is under way."""
        given = take.path(request.fields, "path", "")
        session = self.resident.session(take.text(request.fields, "session"))

        def ready(_: object) -> None:
            path = self.resident.resolve_path(session, given)
            flags = how + ("x" if take.flag(request.fields, "exact") else "")
            fields = (os.fsencode(path), *self._bounds(request), flags.encode(), self._expected(request), *more)
            keys: list[object] = [self.path(request, field) for field in changes or ()]

            def work(done: Callable[[], None]) -> None:
                FileWork(self.resident, request, path, script, fields, source, done, shape)

            self.locks.take(keys, work)

        session.exports.request(ready)

    def ask(self, request: Request, script: str, body: Body, given: bytes, then: Callable[[Fields], None]) -> None:
        """Runs a script for a larger work; `then` gets what it tells. It is refused where that fails."""
        path = self.path(request)
        fields = (os.fsencode(path), *self._bounds(request), b"", b"-")

        def shape(answer: Fields, counts: str, data: bytes) -> None:
            then(answer)

        FileWork(self.resident, request, path, script, fields, None, lambda: None, shape, body, given)

    def _bounds(self, request: Request) -> tuple[bytes, bytes]:
        home = self.resident.keeper.home
        named = take.split(take.joined(request.fields, "deny"))
        deny = [home + item[1:] if item.startswith("~/") else item for item in named]
        root = take.path(request.fields, "root")
        return os.fsencode(root or ""), "".join(item + "\n" for item in deny).encode()

    @staticmethod
    def _expected(request: Request) -> bytes:
        return b"-" if request.fields.get("expect") is None else take.text(request.fields, "expect").encode()


class Body:
    """What a file holds, as it comes."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.notes: list[bytes] = []  # what is told besides
        self.total = 0
        self.when_released: list[Callable[[], None]] = []

    def append(self, data: bytes | memoryview) -> None:
        self.total += len(data)
        if self.total <= frames.FRAME_BODY:
            self.parts.append(bytes(data))

    def is_held(self) -> bool:
        return False


class FileWork:
    """One script that reads or changes a file there, and the answer to whoever asked for it."""

    def __init__(
        self,
        resident: BareResident,
        request: Request,
        path: str,
        script: str,
        fields: tuple[bytes, ...],
        source: int | None,
        done: Callable[[], None],
        shape: Shape | None = None,
        body: Body | None = None,
        given: bytes | None = None,
    ) -> None:
        self.request, self.path, self.done, self.shape = request, path, done, shape
        self.counts = ""
        self.offset = take.number(request.fields, "offset")
        self.body, self.complaints, self.record = body or Body(), Complaints(), b""
        self.made: list[str] = []
        token = os.urandom(16).hex().encode()
        try:
            line = Line(
                resident, order(script, token, *fields), token, self.body, self.complaints, self._told, self._ended
            )
        except OSError as error:
            done()
            request.refuse(Refusal("EnvironmentUnavailable", "the place cannot be reached: %s" % error.strerror))
            return
        if source is not None:
            line.feed.pour(source)
        else:
            line.feed.write(request.body if given is None else given)
            line.feed.close()

    def _told(self, stream: int, record: bytes) -> None:
        if stream == ERR and record[:1] == b"+":
            self.made.append(os.fsdecode(record[1:]))
        elif stream == ERR and record[:1] == b"I":
            self.body.notes.append(record[1:])
        elif stream == ERR and record[:1] == b"#":
            self.counts = record[1:].decode()
        elif stream == ERR:
            self.record = record

    def _ended(self) -> None:
        self.done()
        kind, rest = self.record[:1], os.fsdecode(self.record[1:])
        if kind == b"!":
            error, _, message = rest.partition(" ")
            said = message if error in ("NotPermitted", "FileChanged") else "%s: %s" % (self.path, message)
            known = {"errno": _NUMBERS[error], "path": self.path} if error in _NUMBERS else {}
            self.request.refuse(Refusal(error, said, **known))
            return
        try:
            size, mode, changed, signature, created, path = rest.split(" ", 5)
            bits = int(mode, 16)
            answer = {
                "size": int(size),
                "mode": stat.S_IMODE(bits),
                "mtime": float(changed),
                "signature": signature,
                "created": created == "1",
                "path": path,
                "made": self.made,
                "kind": _kind(bits),
            }
        except ValueError:
            said = str(self.complaints) or "no answer"
            self.request.refuse(Refusal("EnvironmentUnavailable", "the place did not do it: %s" % said))
            return
        data = b"".join(self.body.parts)
        if self.shape is not None:
            reply = self.shape(answer, self.counts, data)
            if reply is not None:
                self.request.reply(*reply)
            return
        self.request.reply(dict(answer, end=self.offset + len(data)), data)


def _page(answer: Fields, counts: str, data: bytes, first: int, width: int, budget: int) -> tuple[Fields, bytes]:
    """The answer to `read_lines`. Where a line was cut is known there, how long it is is not."""
    if not counts:  # no file
        return answer, b""
    newlines, is_ended, is_binary = map(int, counts.split())
    head, text = data[:HEAD_BYTES], data[min(HEAD_BYTES, answer["size"]) :]
    if is_binary:
        return dict(answer, binary=True), head
    mark = head[:3] if head[:3] == b"\xef\xbb\xbf" else b""
    if first == 1:
        text = text[len(mark) :]
    lines = text.split(b"\n")
    total = newlines + (answer["size"] > len(mark) and not is_ended)
    if (len(text) >= budget and len(lines) > 1) or not lines[-1]:
        lines.pop()  # the last one is not whole, or there is none
    cut = [[number, len(line)] for number, line in enumerate(lines) if len(line) > width]
    return dict(answer, total=total, first=first, lines=len(lines), cut=cut, encoding="utf-8", mark=mark), b"\n".join(
        line[:width] for line in lines
    )


def _kind(mode: int) -> str:
    return "file" if stat.S_ISREG(mode) else "directory" if stat.S_ISDIR(mode) else "other"
