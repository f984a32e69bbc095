"""File operations: read, search, write, delete and move single files, and change several at once."""

from __future__ import annotations

import os
import stat

from ..lazy import Lazy
from ..life.server import nothing
from ..limits import FILE_AT_ONCE, FILE_SCAN, LONGEST_SEARCH, PATCHED_FILES, SCAN_BLOCK, SCANS
from ..processes.posix_spawn import find_program
from ..wire import fields as take
from ..wire import frames
from ..wire.fields import Refusal, invalid, parse
from . import changes
from .changes import refusing
from .journal import Journal, directory_for
from .lines import LineIndex
from .safe_path import PathRules, SafePath, locate
from .worker import WorkerPool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..life.resident import Resident
    from ..life.server import Request
    from ..wire.frames import Fields
    from . import search

    Work = Callable[[], tuple[Fields, bytes]]
else:
    search = Lazy(".search", __package__)

# bytes: read first of a file, since a large buffer costs more than a small file's content
_FIRST_PIECE = 1 << 14

_CHANGE = {
    "path": take.path,
    "size": take.number(),
    "mode": take.number(0, 0o7777),
    "expect": take.text,
}


class Held:
    """Locations and descriptors of one request.

    They are closed if the block fails, else by `close`.
    """

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

    def __init__(self, resident: Resident) -> None:
        self.resident = resident
        self.rules = PathRules(resident.environ.get("HOME", "/"))
        self.locks = changes.FileLocks()
        self.workers = WorkerPool(resident.loop)
        # file: signature, counts, lines
        self.scans: dict[tuple[int, int, str], tuple[str, bytes, int]] = {}

    # -- reading
    def read_file(
        self, request: Request, offset: int = 0, limit: int = frames.FRAME_BODY, **where: Any
    ) -> None:
        with self._locate(**where) as location, refusing(location.path):
            fd = location.open()
            try:
                data = os.pread(fd, min(limit, _FIRST_PIECE), offset)
                if len(data) == _FIRST_PIECE < limit:
                    data += os.pread(fd, limit - _FIRST_PIECE, offset + _FIRST_PIECE)
                result = changes.describe(location, os.fstat(fd))
            finally:
                os.close(fd)
        request.reply(dict(result, end=offset + len(data)), data)

    def list_names(self, request: Request, most: int = 10000, **where: Any) -> None:
        with self._locate(**where) as location, refusing(location.path):
            fd = location.open(os.O_RDONLY | os.O_DIRECTORY)
            try:
                names = sorted(os.listdir(fd))[:most]
                result = changes.describe(location, os.fstat(fd))
            finally:
                os.close(fd)
        request.reply(result, frames.pack(names))

    def file_status(self, request: Request, missing: bool = False, **where: Any) -> None:
        try:
            with self._locate(**where) as location, refusing(location.path):
                status = location.status()
                if status is None:
                    raise changes.missing()
                result = changes.describe(location, status)
        except Refusal as refusal:
            if refusal.kind != "FileNotFoundError" or not missing:
                raise
            path = self._path(where["path"], where.get("session", ""))
            with refusing(path):  # other programs may change the path meanwhile
                true = os.path.realpath(path)
            result = {
                "path": true,
                "kind": "missing",
                "size": 0,
                "mode": 0,
                "mtime": 0.0,
                "signature": changes.MISSING,
            }
        request.reply(result)

    def read_lines(
        self,
        request: Request,
        first: int = 1,
        lines: int = 500,
        width: int = 8000,
        budget: int = frames.FRAME_BODY,
        **where: Any,
    ) -> None:
        """Replies with a page of lines. The line counts of the last large files are cached."""
        page = first - 1, lines, width // 2 * 2, budget
        with Held() as held:
            location = held.location(self._locate(**where))
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
        is_near = (
            is_scanned
            and index.block == SCAN_BLOCK
            and index.size_of(page[0], page[1]) <= FILE_SCAN
        )
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

    def search_files(
        self,
        request: Request,
        path: str,
        session: str = "",
        root: str | None = None,
        deny: bytes = b"",
        exact: bool = False,
        ripgrep: bool = True,
        seconds: float = 60.0,
        **given: Any,
    ) -> None:
        """Searches in a child, so that a slow search can be killed."""
        options = search.SearchOptions(**given)
        program = (
            find_program("rg", self.resident.environ.get("PATH", os.defpath)) if ripgrep else ""
        )
        with Held() as held:
            location = held.location(self._locate(path, session, root, deny, exact))
            with refusing(location.path):
                tree = self._tree(location, deny, held)

        def work() -> tuple[Fields, bytes]:
            return {}, frames.pack(
                search.search(tree, options, program if program.startswith("/") else None)
            )

        request.abandoned = self._delegate(
            request, held, work, request.reply, min(seconds, LONGEST_SEARCH)
        )

    def _tree(self, location: SafePath, deny: bytes, held: Held) -> search.SearchTree:
        status = location.status()
        if status is None:
            raise changes.missing()
        if stat.S_ISREG(status.st_mode):
            return search.SearchTree(location.directory, location.name, lambda path: True)
        if not stat.S_ISDIR(status.st_mode):  # reading it may block forever
            message = (
                "%s is a device, a socket or a pipe, not a file: nothing was searched"
                % location.path
            )
            raise invalid("path", message)
        fd = held.descriptor(location.open(os.O_RDONLY | os.O_DIRECTORY))
        base, rules = location.path if location.name != "." else "", self.rules
        if rules.is_denied(base + "/.", deny):
            raise Refusal("NotPermitted", "%s is protected: use another path" % location.path)
        return search.SearchTree(
            fd, None, lambda path: not rules.is_denied(base + "/" + path, deny), base or "/"
        )

    # -- changing
    def write_file(
        self,
        request: Request,
        mode: int | None = None,
        expect: str | None = None,
        parents: bool = True,
        blob: str | None = None,
        **where: Any,
    ) -> None:
        with Held() as held:
            location = held.location(self._locate(**where, make=parents))
            source = self._content(request, held, blob, request.body)
        self._change(request, held, lambda: (changes.write(location, source, mode, expect), b""))

    def delete_file(self, request: Request, expect: str | None = None, **where: Any) -> None:
        with Held() as held:
            location = held.location(self._locate(**where, follow=False))
        self._change(request, held, lambda: (changes.delete(location, expect), b""))

    def move_file(
        self,
        request: Request,
        path: str,
        target: str,
        expect: str | None = None,
        replace: bool = False,
        **where: Any,
    ) -> None:
        with Held() as held:
            location = held.location(self._locate(path, **where, follow=False))
            goal = held.location(self._locate(target, **where, make=True, follow=False))
        self._change(request, held, lambda: (changes.move(location, goal, expect, replace), b""))

    def change_files(
        self, request: Request, named: int = 0, blob: str | None = None, **where: Any
    ) -> None:
        """Changes all files or none.

        The body starts with the list; the content follows, or is in a blob.
        """
        found: list[changes.Change] = []
        with Held() as held:
            try:
                self._read_changes(request.body[:named], where, held, found)
                source = self._content(request, held, blob, request.body[named:])
            except BaseException:
                changes.remove_made(found)
                raise
        journal = Journal(
            directory_for(found[0].location.path, self.resident.shared, self.resident.directory)
        )

        def work() -> tuple[Fields, bytes]:
            return {}, frames.pack(changes.change_all(found, source, journal))

        self._change(request, held, work, journal.recover)

    def _read_changes(
        self, listed: bytes, where: Fields, held: Held, found: list[changes.Change]
    ) -> None:
        """Adds the changes that a request lists, with open locations. Raises Refusal."""
        try:
            items = frames.unpack(listed)
        except frames.FrameError:
            items = None
        if (
            type(items) is not list
            or not 0 < len(items) <= PATCHED_FILES
            or {*map(type, items)} != {dict}
        ):
            raise invalid("changes", "changes must be 1 to %d maps" % PATCHED_FILES)
        for item in items:
            given = parse(item, _CHANGE, "path")
            is_written = "size" in given
            location = held.location(
                self._locate(given["path"], **where, make=is_written, follow=is_written)
            )
            location.close_parents()
            found.append(
                changes.Change(location, given.get("size"), given.get("mode"), given.get("expect"))
            )
        if len({location.key for location in held.locations}) != len(items):
            raise invalid("changes", "two of the paths lead to the same file; name each file once")

    def _content(self, request: Request, held: Held, blob: str | None, body: bytes) -> bytes | int:
        """The new content: the request's own bytes, or the descriptor of a blob."""
        return body if blob is None else held.descriptor(request.client.take_blob("blob", blob))

    def _change(
        self, request: Request, held: Held, work: Work, recover: Callable[[], None] = nothing
    ) -> None:
        """Performs a change when no other change of the same files runs.

        A child performs a large one.
        """

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
    def _locate(
        self,
        path: str,
        session: str = "",
        root: str | None = None,
        deny: bytes = b"",
        exact: bool = False,
        make: bool = False,
        follow: bool = True,
    ) -> SafePath:
        """The location of a path within the request's limits. Raises Refusal."""
        path = self._path(path, session)

        def allow(location: SafePath) -> None:
            if exact and location.path != path:
                raise Refusal(
                    "FileChanged",
                    "%s leads elsewhere by now: look at it again, then decide anew" % path,
                )
            self.rules.check(location, root, deny)

        with refusing(path):
            return locate(path, allow, make, follow, quick=root is None and not make)

    def _path(self, path: str, session: str) -> str:
        return self.resident.resolve_path(self.resident.session(session), path)
