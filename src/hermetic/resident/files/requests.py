"""File operations: read, inspect, write, delete and move single files, and change several at once."""

from __future__ import annotations

import errno
import os

from ..lazy import Lazy
from ..limits import FILE_AT_ONCE
from ..shells.shell import in_memory
from ..wire import fields as take
from ..wire import frames
from ..wire.fields import Refusal
from . import batches, changes
from .journal import Journal, directory_for
from .safe_path import PathRules
from .worker import WorkerPool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Union

    from ..life.server import Request
    from ..wire.frames import Fields
    from ..wire.requests import Requests
    from . import lines, search_requests
    from .safe_path import SafePath

    Result = Union[Fields, list[Fields]]
else:
    lines, search_requests = Lazy(".lines", __package__), Lazy(".search_requests", __package__)

_ERRORS: dict[int | None, str] = {
    errno.ENOENT: "FileNotFoundError",
    errno.EISDIR: "IsADirectoryError",
    errno.ENOTDIR: "NotADirectoryError",
    errno.EACCES: "PermissionError",
    errno.EPERM: "PermissionError",
    errno.EEXIST: "FileExistsError",
}


class FileRequests:
    """Serves the file operations. Created on first use."""

    def __init__(self, requests: Requests) -> None:
        self.resident, self.loop = requests.resident, requests.loop
        self.rules = PathRules(self.resident.environ.get("HOME", "/"))
        self.locks = changes.FileLocks()
        self.workers = WorkerPool(self.loop)
        self.pages: Any = None
        self.searches: Any = None

    # -- reading
    def read_lines(self, request: Request) -> None:
        if self.pages is None:
            self.pages = lines.Pages(self)
        self.pages.read_lines(request)

    def read_file(self, request: Request) -> None:
        offset = take.number(request.fields, "offset")
        limit = take.number(request.fields, "limit", frames.FRAME_BODY, 0, frames.FRAME_BODY)
        with self.location(request) as location, refusing(location.path):
            fd = location.open()
            try:
                data = os.pread(fd, limit, offset)
                result = changes.describe(location, os.fstat(fd))
            finally:
                os.close(fd)
        request.reply(dict(result, end=offset + len(data)), data)

    def search_files(self, request: Request) -> None:
        if self.searches is None:
            self.searches = search_requests.Searches(self)
        self.searches.search_files(request)

    def file_status(self, request: Request) -> None:
        try:
            with self.location(request) as location, refusing(location.path):
                status = location.status()
                if status is None:
                    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
                result = changes.describe(location, status)
        except Refusal as refusal:
            if refusal.kind != "FileNotFoundError" or not take.flag(request.fields, "missing"):
                raise
            with refusing(self.path(request)):  # other programs may change the path meanwhile
                true = os.path.realpath(self.path(request))
            result = {"path": true, "kind": "missing", "size": 0, "mode": 0, "mtime": 0.0, "signature": changes.MISSING}
        request.reply(result)

    def list_names(self, request: Request) -> None:
        most = take.number(request.fields, "most", 10000, 1, frames.FRAME_ITEMS)
        with self.location(request) as location, refusing(location.path):
            fd = location.open(os.O_RDONLY | os.O_DIRECTORY)
            try:
                names = sorted(os.listdir(fd))[:most]
                result = changes.describe(location, os.fstat(fd))
            finally:
                os.close(fd)
        request.reply(result, frames.pack(names))

    # -- changing
    def write_file(self, request: Request) -> None:
        blob = take.text(request.fields, "blob") if request.fields.get("blob") is not None else None
        mode = take.number(request.fields, "mode", 0o666, 0, 0o7777) if request.fields.get("mode") is not None else None
        expect = _expected(request)
        location = self.location(request, make=take.flag(request.fields, "parents", True))
        try:
            source = content(request, blob)
        except Refusal:
            location.close()
            raise

        def work() -> Fields:
            return changes.write(location, request.body, source, mode, expect)

        self._change(request, [location], work, source)

    def delete_file(self, request: Request) -> None:
        expect = _expected(request)
        location = self.location(request, follow=False)
        self._change(request, [location], lambda: changes.delete(location, expect))

    def move_file(self, request: Request) -> None:
        expect, replace = _expected(request), take.flag(request.fields, "replace")
        location = self.location(request, follow=False)
        try:
            target = self.location(request, "target", make=True, follow=False)
        except Refusal:
            location.close()
            raise
        self._change(request, [location, target], lambda: changes.move(location, target, expect, replace))

    def change_files(self, request: Request) -> None:
        """Changes all files or none. The body starts with the list; the content follows, or is in a blob."""
        named = take.number(request.fields, "named", 0, 0, len(request.body))
        blob = take.text(request.fields, "blob") if request.fields.get("blob") is not None else None
        session = self.resident.session(take.text(request.fields, "session"))

        def location(item: Fields, is_written: bool) -> SafePath:
            path = self.resident.resolve_path(session, take.path(item, "path", ""))
            return self._locate(request, path, is_written, is_written)

        found = batches.read_changes(request.body[:named], location)
        try:
            source = content(request, blob)
        except Refusal:
            batches.remove_made(found)
            batches.close(found)
            raise
        opened = in_memory(request.body[named:]) if source is None else source
        locations = [change.location for change in found]
        journal = Journal(directory_for(locations[0].path, self.resident.shared, self.resident.directory))

        def work() -> list[Fields]:
            return batches.change_all(found, opened, refusing, journal)

        self._change(request, locations, work, opened, journal.recover)

    def _change(
        self,
        request: Request,
        locations: list[SafePath],
        work: Callable[[], Result],
        source: int | None = None,
        recover: Callable[[], None] = lambda: None,
    ) -> None:
        """Performs a change when no other change of the same files runs. A killable child performs a large one."""
        path = locations[0].path

        def begin(done: Callable[[], None]) -> None:
            def end() -> None:
                for location in locations:
                    location.close()
                if source is not None:
                    os.close(source)
                done()

            if source is None or os.fstat(source).st_size <= FILE_AT_ONCE:
                try:
                    answer(request, path, work)
                finally:
                    end()
                return

            def finished(data: bytes) -> None:
                end()
                reply(request, frames.unpack(data))

            def failed(refusal: Refusal) -> None:
                recover()
                end()
                request.refuse(refusal)

            def pack() -> bytes:
                with refusing(path):
                    return frames.pack(work())

            self.workers.submit(pack, finished, failed)

        self.locks.take([location.key for location in locations], begin)

    # -- where
    def location(self, request: Request, field: str = "path", make: bool = False, follow: bool = True) -> SafePath:
        """The location that a field names, checked against the request's limits. Raises Refusal."""
        return self._locate(request, self.path(request, field), make, follow)

    def _locate(self, request: Request, path: str, make: bool, follow: bool) -> SafePath:
        root = take.path(request.fields, "root")
        deny = take.joined(request.fields, "deny")
        exact = path if take.flag(request.fields, "exact") else None

        def allow(location: SafePath) -> None:
            if exact is not None and location.path != exact:
                raise Refusal("FileChanged", "%s leads elsewhere by now: look at it again, then decide anew" % exact)
            self.rules.check(location, root, deny)

        with refusing(path):
            return changes.locate(path, allow, make, follow, quick=root is None and not make)

    def path(self, request: Request, field: str = "path") -> str:
        session = self.resident.session(take.text(request.fields, "session"))
        return self.resident.resolve_path(session, take.path(request.fields, field, ""))


class refusing:  # reads as a verb: `with refusing(path):`
    """Turns an OSError in its block into a Refusal that names the path."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, OSError):
            raise refusal_of(error, self.path) from error


def refusal_of(error: OSError, path: str) -> Refusal:
    """The same error for the client, with the symbolic errno: numbers differ between machines."""
    name = errno.errorcode.get(error.errno or 0, "")
    return Refusal(
        _ERRORS.get(error.errno, "OSError"), "%s: %s" % (path, error.strerror or error), errno=name, path=path
    )


def answer(request: Request, path: str, work: Callable[[], Result]) -> None:
    """Replies with the result of the work, or refuses the request."""
    try:
        with refusing(path):
            result = work()
    except Refusal as refusal:
        request.refuse(refusal)
        return
    reply(request, result)


def reply(request: Request, result: Result) -> None:
    """Replies with the result of one file in the header, of several in the body."""
    if isinstance(result, list):
        request.reply({}, frames.pack(result))
    else:
        request.reply(result)


def content(request: Request, blob: str | None) -> int | None:
    """Takes the descriptor of a blob out of the connection's blobs."""
    if blob is None:
        return None
    source = request.client.blobs.pop(blob, None)
    if source is None:
        raise take.invalid("blob", "no such blob on this connection")
    os.lseek(source, 0, os.SEEK_SET)
    return source


def _expected(request: Request) -> str | None:
    return take.text(request.fields, "expect") if request.fields.get("expect") is not None else None
