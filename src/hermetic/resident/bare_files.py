"""Files of a place without Python: one bash for each request, and the answer to whoever asked."""

from __future__ import annotations

import os
import stat

from . import bare_file_scripts as scripts
from . import fields as take
from . import frames
from .bare_line import ERR, Complaints, Line
from .bare_scripts import order
from .file_changes import Turns
from .file_requests import FileDesk, content
from .resident import Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .bare_requests import BareRequests
    from .bare_resident import BareResident
    from .server import Request


class BareFileDesk(FileDesk):
    """Serves requests about files through a bash."""

    resident: BareResident

    def __init__(self, requests: BareRequests) -> None:
        self.resident, self.loop = requests.resident, requests.loop
        self.turns = Turns()

    def read_file(self, request: Request) -> None:
        offset = take.number(request.fields, "offset")
        limit = take.number(request.fields, "limit", frames.MAX_BODY, 0, frames.MAX_BODY)
        self._begin(request, scripts.READ, "", (b"%d" % offset, b"%d" % limit))

    def file_status(self, request: Request) -> None:
        self._begin(request, scripts.STATUS, "", ())

    def write_file(self, request: Request) -> None:
        blob = take.text(request.fields, "blob") if request.fields.get("blob") is not None else None
        mode = take.number(request.fields, "mode", 0o666, 0, 0o7777) if request.fields.get("mode") is not None else None
        how = "m" if take.flag(request.fields, "parents", True) else ""
        source = content(request, blob)
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

    def _begin(
        self, request: Request, script: str, how: str, more: tuple[bytes, ...], source: int | None = None,
        changes: list[str] | None = None,
    ) -> None:
        """Runs a script once the session is known, and once no other change of the same files is under way."""
        given = take.path(request.fields, "path", "")
        session = self.resident.session(take.text(request.fields, "session"))

        def ready(_: object) -> None:
            path = self.resident.resolve_path(session, given)
            fields = (os.fsencode(path), *self._bounds(request), how.encode(), self._expected(request), *more)
            keys: list[object] = [self.path(request, field) for field in changes or ()]

            def work(done: Callable[[], None]) -> None:
                FileWork(self.resident, request, path, script, fields, source, done)
            self.turns.take(keys, work)
        session.exports.ask(ready)

    def _bounds(self, request: Request) -> tuple[bytes, bytes]:
        home = self.resident.keeper.home
        deny = [home + item[1:] if item.startswith("~/") else item for item in take.texts(request.fields, "deny")]
        root = take.path(request.fields, "root")
        return os.fsencode(root or ""), "".join(item + "\n" for item in deny).encode()

    @staticmethod
    def _expected(request: Request) -> bytes:
        return b"-" if request.fields.get("expect") is None else take.text(request.fields, "expect").encode()


class Body:
    """What a file holds, as it comes."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.total = 0
        self.when_released: list[Callable[[], None]] = []

    def append(self, data: bytes | memoryview) -> None:
        self.total += len(data)
        if self.total <= frames.MAX_BODY:
            self.parts.append(bytes(data))

    def is_held(self) -> bool:
        return False


class FileWork:
    """One script that reads or changes a file there, and the answer to whoever asked for it."""

    def __init__(
        self, resident: BareResident, request: Request, path: str, script: str, fields: tuple[bytes, ...],
        source: int | None, done: Callable[[], None],
    ) -> None:
        self.request, self.path, self.done = request, path, done
        self.offset = take.number(request.fields, "offset")
        self.body, self.complaints, self.record = Body(), Complaints(), b""
        self.made: list[str] = []
        token = os.urandom(16).hex().encode()
        try:
            line = Line(
                resident, order(script, token, *fields), token, self.body, self.complaints, self._told, self._ended)
        except OSError as error:
            done()
            request.refuse(Refusal("EnvironmentUnavailable", "the place cannot be reached: %s" % error.strerror))
            return
        if source is not None:
            line.feed.pour(source)
        else:
            line.feed.write(request.body)
            line.feed.close()

    def _told(self, stream: int, record: bytes) -> None:
        if stream == ERR and record[:1] == b"+":
            self.made.append(os.fsdecode(record[1:]))
        elif stream == ERR:
            self.record = record

    def _ended(self) -> None:
        self.done()
        kind, rest = self.record[:1], os.fsdecode(self.record[1:])
        if kind == b"!":
            error, _, message = rest.partition(" ")
            said = message if error in ("NotPermitted", "FileChanged") else "%s: %s" % (self.path, message)
            self.request.refuse(Refusal(error, said))
            return
        try:
            size, mode, changed, signature, created, path = rest.split(" ", 5)
            bits = int(mode, 16)
            answer = {"size": int(size), "mode": stat.S_IMODE(bits), "mtime": float(changed), "signature": signature,
                      "created": created == "1", "path": path, "made": self.made, "kind": _kind(bits)}
        except ValueError:
            said = str(self.complaints) or "no answer"
            self.request.refuse(Refusal("EnvironmentUnavailable", "the place did not do it: %s" % said))
            return
        data = b"".join(self.body.parts)
        self.request.reply(dict(answer, end=self.offset + len(data)), data)


def _kind(mode: int) -> str:
    return "file" if stat.S_ISREG(mode) else "directory" if stat.S_ISDIR(mode) else "other"
