"""Serves `search_files`: a child performs the search, so the loop stays free and a slow search can be killed."""

from __future__ import annotations

import os
import stat

from ..life.resident import find_program
from ..limits import LONGEST_SEARCH, SEARCH_CONTEXT, SEARCH_RESULTS
from ..wire import fields as take
from ..wire import frames
from ..wire.fields import Refusal
from .requests import refusing
from .search import SearchOptions, SearchTree, is_directory, search

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..life.server import Request
    from .requests import FileRequests
    from .safe_path import SafePath


def read_options(request: Request) -> SearchOptions:
    fields = request.fields
    return SearchOptions(
        take.text(fields, "pattern"),
        take.choice(fields, "target", "content", "content", "files"),
        take.choice(fields, "mode", "content", "content", "files_only", "count"),
        take.text(fields, "glob") or None if fields.get("glob") is not None else None,
        take.number(fields, "offset"),
        take.number(fields, "limit", 50, 1, SEARCH_RESULTS),
        take.number(fields, "context", 0, 0, SEARCH_CONTEXT),
    )


def seconds_of(request: Request) -> float:
    return min(take.seconds(request.fields, "seconds", 60.0, above=True), LONGEST_SEARCH)


class Searches:
    def __init__(self, files: FileRequests) -> None:
        self.files, self.resident = files, files.resident

    def search_files(self, request: Request) -> None:
        options, seconds = read_options(request), seconds_of(request)
        program = None
        if take.flag(request.fields, "ripgrep", True):
            found = find_program("rg", self.resident.environ.get("PATH", os.defpath))
            program = found if found.startswith("/") else None
        location = self.files.location(request)
        try:
            tree, fd = self._tree(request, location)
        except BaseException:
            location.close()
            raise

        def end() -> None:
            location.close()
            if fd is not None:
                os.close(fd)

        def work() -> bytes:
            with refusing(location.path):
                return frames.pack(search(tree, options, program))

        def done(data: bytes) -> None:
            end()
            request.reply({}, data)

        def failed(refusal: Refusal) -> None:
            end()
            request.refuse(refusal)

        item = self.files.workers.submit(work, done, failed, seconds)

        def leave() -> None:
            if not item.over:
                item.stop()
                end()

        request.abandoned = leave

    def _tree(self, request: Request, location: SafePath) -> tuple[SearchTree, int | None]:
        deny = take.joined(request.fields, "deny")
        with refusing(location.path):
            status = location.status()
            if status is None:
                raise FileNotFoundError(2, os.strerror(2))
            if not is_directory(status):
                _check_file(location, status)
                return SearchTree(location.directory, location.name, lambda path: True), None
            fd = location.open(os.O_RDONLY | os.O_DIRECTORY)
        base = location.path if location.name != "." else ""
        rules = self.files.rules
        if rules.is_denied(base + "/.", deny):
            os.close(fd)
            raise Refusal("NotPermitted", "%s is protected: use another path" % location.path)
        return SearchTree(fd, None, lambda path: not rules.is_denied(base + "/" + path, deny), base or "/"), fd


def _check_file(location: SafePath, status: os.stat_result) -> None:
    """Raises Refusal for a device, socket or pipe: reading it may block forever."""
    if not stat.S_ISREG(status.st_mode):
        message = "%s is a device, a socket or a pipe, not a file: nothing was searched" % location.path
        raise Refusal("InvalidArgument", message, argument="path")
