"""Serves `search_files`: a search runs in a child, so that the loop is free and a search that takes too long ends."""

from __future__ import annotations

import os
import stat

from ..life.resident import Refusal, find_program
from ..limits import LONGEST_SEARCH, SEARCH_CONTEXT, SEARCH_RESULTS
from ..wire import fields as take
from ..wire import frames
from .requests import refusing
from .search import Tree, Wish, is_directory, search

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..life.server import Request
    from .requests import FileDesk
    from .safe_path import Place


def read_wish(request: Request) -> Wish:
    fields = request.fields
    return Wish(
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
    def __init__(self, desk: FileDesk) -> None:
        self.desk, self.resident = desk, desk.resident

    def search_files(self, request: Request) -> None:
        wish, seconds = read_wish(request), seconds_of(request)
        program = None
        if take.flag(request.fields, "ripgrep", True):
            found = find_program("rg", self.resident.environ.get("PATH", os.defpath))
            program = found if found.startswith("/") else None
        place = self.desk.place(request)
        try:
            tree, fd = self._tree(request, place)
        except BaseException:
            place.close()
            raise

        def end() -> None:
            place.close()
            if fd is not None:
                os.close(fd)

        def work() -> bytes:
            with refusing(place.path):
                return frames.pack(search(tree, wish, program))

        def done(data: bytes) -> None:
            end()
            request.reply({}, data)

        def failed(refusal: Refusal) -> None:
            end()
            request.refuse(refusal)

        ticket = self.desk.crew.give(work, done, failed, seconds)

        def leave() -> None:
            if not ticket.over:
                ticket.stop()
                end()

        request.abandoned = leave

    def _tree(self, request: Request, place: Place) -> tuple[Tree, int | None]:
        deny = take.joined(request.fields, "deny")
        with refusing(place.path):
            status = place.status()
            if status is None:
                raise FileNotFoundError(2, os.strerror(2))
            if not is_directory(status):
                _check_file(place, status)
                return Tree(place.directory, place.name, lambda path: True), None
            fd = place.open(os.O_RDONLY | os.O_DIRECTORY)
        base = place.path if place.name != "." else ""
        rules = self.desk.rules
        if rules.is_denied(base + "/.", deny):
            os.close(fd)
            raise Refusal("NotPermitted", "%s is protected: use another path" % place.path)
        return Tree(fd, None, lambda path: not rules.is_denied(base + "/" + path, deny), base or "/"), fd


def _check_file(place: Place, status: os.stat_result) -> None:
    """Raises Refusal for what a search would wait on without end."""
    if not stat.S_ISREG(status.st_mode):
        message = "%s is a device, a socket or a pipe, not a file: nothing was searched" % place.path
        raise Refusal("InvalidArgument", message, argument="path")
