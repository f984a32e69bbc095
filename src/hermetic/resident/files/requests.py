"""File operations: read, search, write, delete and move single files, and change several at once."""

from __future__ import annotations

import os
import stat

from ..lazy import Lazy
from ..life.resident import find_program
from ..life.server import nothing
from ..limits import FILE_AT_ONCE, FILE_SCAN, PATCHED_FILES, SCAN_BLOCK, SCANS
from ..wire import fields as take
from ..wire import frames
from ..wire.fields import Refusal
from . import changes
from .changes import refusing
from .journal import Journal, directory_for
from .lines import LineIndex
from .safe_path import PathRules, SafePath, locate
from .worker import WorkerPool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..life.server import Request
    from ..wire.frames import Fields
    from ..wire.requests import Requests
    from . import search

    Work = Callable[[], tuple[Fields, bytes]]
else:
    search = Lazy(".search", __package__)


class Held:
    """Locations and descriptors of one request. They are closed if the block fails, else by `close`."""

    when_closed: Callable[[], None] = staticmethod(nothing)

    def __init__(self) -> None:
        self.locations: list[SafePath] = []
        self.descriptors: list[int] = []

    def location(self, location: SafePath) -> SafePath:
        self.locations.append(location)
        return location

    def descriptor(self, fd: int) -> int:
        self.descriptors.append(fd)
        return fd

    def close(self) -> None:
        for location in self.locations:
            location.close()
        for fd in self.descriptors:
            os.close(fd)
        self.when_closed()

    def __enter__(self) -> Held:
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        if kind is not None:
            self.close()


class FileRequests:
    """Serves the file operations. Created on first use."""

    def __init__(self, requests: Requests) -> None:
        self.resident, self.loop = requests.resident, requests.loop
        self.rules = PathRules(self.resident.environ.get("HOME", "/"))
        self.locks = changes.FileLocks()
        self.workers = WorkerPool(self.loop)
        self.scans: dict[tuple[int, int, str], tuple[str, bytes, int]] = {}  # file: signature, counts, lines

    # -- reading
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

    def file_status(self, request: Request) -> None:
        try:
            with self.location(request) as location, refusing(location.path):
                status = location.status()
                if status is None:
                    raise changes.missing()
                result = changes.describe(location, status)
        except Refusal as refusal:
            if refusal.kind != "FileNotFoundError" or not take.flag(request.fields, "missing"):
                raise
            with refusing(self.path(request)):  # other programs may change the path meanwhile
                true = os.path.realpath(self.path(request))
            result = {"path": true, "kind": "missing", "size": 0, "mode": 0, "mtime": 0.0, "signature": changes.MISSING}
        request.reply(result)

    def read_lines(self, request: Request) -> None:
        """Replies with a page of lines. The line counts of the last large files are cached."""
        page = (
            take.number(request.fields, "first", 1, 1) - 1,
            take.number(request.fields, "lines", 500, 0, frames.FRAME_ITEMS),
            take.number(request.fields, "width", 8000, 2) // 2 * 2,
            take.number(request.fields, "budget", frames.FRAME_BODY, 1, frames.FRAME_BODY),
        )
        with Held() as held:
            location = held.location(self.location(request))
            with refusing(location.path):
                fd = held.descriptor(location.open())
                status = changes.describe(location, os.fstat(fd))
                index = LineIndex(fd, status["size"]) if status["kind"] == "file" else None
        if index is None:
            self._perform(request, held, lambda: (status, b""))
            return
        key = location.key
        known = self.scans.get(key)
        if known is not None and known[0] == status["signature"]:
            _, index.counts, index.total = known
        is_scanned = bool(index.counts)
        is_near = is_scanned and index.block == SCAN_BLOCK and index.size_of(page[0], page[1]) <= FILE_SCAN
        if index.is_binary or index.size <= FILE_SCAN or is_near:
            self._perform(request, held, lambda: index.answer(status, page))
            return

        def work() -> tuple[Fields, bytes]:
            fields, body = index.answer(status, page)
            return fields if is_scanned else dict(fields, counts=index.counts), body

        def reply(fields: Fields, body: bytes) -> None:
            counts = fields.pop("counts", None)
            if counts is not None:
                self.scans.pop(key, None)
                self.scans[key] = status["signature"], counts, fields["total"]
                if len(self.scans) > SCANS:
                    del self.scans[next(iter(self.scans))]
            request.reply(fields, body)

        request.abandoned = self._delegate(request, held, work, reply)

    def search_files(self, request: Request) -> None:
        """Searches in a child, so that a slow search can be killed."""
        options = search.SearchOptions(request.fields)
        path = self.resident.environ.get("PATH", os.defpath)
        program = find_program("rg", path) if take.flag(request.fields, "ripgrep", True) else ""
        with Held() as held:
            location = held.location(self.location(request))
            with refusing(location.path):
                tree = self._tree(request, location, held)

        def work() -> tuple[Fields, bytes]:
            return {}, frames.pack(search.search(tree, options, program if program.startswith("/") else None))

        request.abandoned = self._delegate(request, held, work, request.reply, options.seconds)

    def _tree(self, request: Request, location: SafePath, held: Held) -> search.SearchTree:
        status = location.status()
        if status is None:
            raise changes.missing()
        if stat.S_ISREG(status.st_mode):
            return search.SearchTree(location.directory, location.name, lambda path: True)
        if not stat.S_ISDIR(status.st_mode):  # reading it may block forever
            message = "%s is a device, a socket or a pipe, not a file: nothing was searched" % location.path
            raise take.invalid("path", message)
        fd = held.descriptor(location.open(os.O_RDONLY | os.O_DIRECTORY))
        base, rules, deny = (
            location.path if location.name != "." else "",
            self.rules,
            take.joined(request.fields, "deny"),
        )
        if rules.is_denied(base + "/.", deny):
            raise Refusal("NotPermitted", "%s is protected: use another path" % location.path)
        return search.SearchTree(fd, None, lambda path: not rules.is_denied(base + "/" + path, deny), base or "/")

    # -- changing
    def write_file(self, request: Request) -> None:
        mode, expect = take.optional(take.number, request.fields, "mode", 0o666, 0, 0o7777), _expected(request)
        with Held() as held:
            location = held.location(self.location(request, make=take.flag(request.fields, "parents", True)))
            source = self._content(request, held, request.body)
        self._change(request, held, lambda: (changes.write(location, source, mode, expect), b""))

    def delete_file(self, request: Request) -> None:
        expect = _expected(request)
        with Held() as held:
            location = held.location(self.location(request, follow=False))
        self._change(request, held, lambda: (changes.delete(location, expect), b""))

    def move_file(self, request: Request) -> None:
        expect, replace = _expected(request), take.flag(request.fields, "replace")
        with Held() as held:
            location = held.location(self.location(request, follow=False))
            target = held.location(self.location(request, "target", make=True, follow=False))
        self._change(request, held, lambda: (changes.move(location, target, expect, replace), b""))

    def change_files(self, request: Request) -> None:
        """Changes all files or none. The body starts with the list; the content follows, or is in a blob."""
        named = take.number(request.fields, "named", 0, 0, len(request.body))
        found: list[changes.Change] = []
        with Held() as held:
            try:
                self._read_changes(request, request.body[:named], held, found)
                source = self._content(request, held, request.body[named:])
            except BaseException:
                changes.remove_made(found)
                raise
        journal = Journal(directory_for(found[0].location.path, self.resident.shared, self.resident.directory))

        def work() -> tuple[Fields, bytes]:
            return {}, frames.pack(changes.change_all(found, source, journal))

        self._change(request, held, work, journal.recover)

    def _read_changes(self, request: Request, named: bytes, held: Held, found: list[changes.Change]) -> None:
        """Adds the changes that a request lists, with open locations. Raises Refusal."""
        try:
            items = frames.unpack(named)
        except frames.FrameError:
            items = None
        if type(items) is not list or not 0 < len(items) <= PATCHED_FILES or {*map(type, items)} != {dict}:
            raise take.invalid("changes", "changes must be 1 to %d maps" % PATCHED_FILES)
        session = self.resident.session(take.text(request.fields, "session"))
        for item in items:
            size = take.optional_number(item, "size")
            mode = take.optional(take.number, item, "mode", 0o666, 0, 0o7777)
            expect = take.optional(take.text, item, "expect")
            path = self.resident.resolve_path(session, take.path(item, "path", ""))
            location = held.location(self._locate(request, path, size is not None, size is not None))
            location.close_parents()
            found.append(changes.Change(location, size, mode, expect))
        if len({location.key for location in held.locations}) != len(items):
            raise take.invalid("changes", "two of the paths lead to the same file; name each file once")

    def _content(self, request: Request, held: Held, body: bytes) -> bytes | int:
        """The new content: the request's own bytes, or the descriptor of a blob."""
        source = content(request, take.optional(take.text, request.fields, "blob"))
        return body if source is None else held.descriptor(source)

    def _change(self, request: Request, held: Held, work: Work, recover: Callable[[], None] = nothing) -> None:
        """Performs a change when no other change of the same files runs. A child performs a large one."""

        def begin(done: Callable[[], None]) -> None:
            held.when_closed = done
            if any(os.fstat(fd).st_size > FILE_AT_ONCE for fd in held.descriptors):
                self._delegate(request, held, work, request.reply, recover=recover)
            else:
                self._perform(request, held, work)

        self.locks.take([location.key for location in held.locations], begin)

    # -- performing
    def _perform(self, request: Request, held: Held, work: Work) -> None:
        """Replies with the result of the work, or refuses the request."""
        try:
            with refusing(held.locations[0].path):
                answer = work()
        except Refusal as refusal:
            request.refuse(refusal)
        else:
            request.reply(*answer)
        finally:
            held.close()

    def _delegate(
        self,
        request: Request,
        held: Held,
        work: Work,
        reply: Callable[[Fields, bytes], None],
        seconds: float | None = None,
        recover: Callable[[], None] = nothing,
    ) -> Callable[[], None]:
        """The same in a child. Returns a function that kills it, for a client that leaves."""
        path = held.locations[0].path

        def task() -> bytes:
            with refusing(path):
                return frames.pack(work())

        def done(data: bytes) -> None:
            held.close()
            reply(*frames.unpack(data))

        def failed(refusal: Refusal) -> None:
            recover()
            held.close()
            request.refuse(refusal)

        running = self.workers.submit(task, done, failed, seconds)

        def stop() -> None:
            if not running.is_over:
                running.stop()
                held.close()

        return stop

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
            return locate(path, allow, make, follow, quick=root is None and not make)

    def path(self, request: Request, field: str = "path") -> str:
        session = self.resident.session(take.text(request.fields, "session"))
        return self.resident.resolve_path(session, take.path(request.fields, field, ""))


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
    return take.optional(take.text, request.fields, "expect")
