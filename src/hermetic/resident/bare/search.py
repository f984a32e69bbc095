"""Searches in a place without Python: its files are listed there, looked at here.

What is looked into comes as an archive, to a file without a name, and is searched by a child, as files of ours are.
"""

from __future__ import annotations

import os
import tarfile

from ..files import search_matching as matching
from ..files.safe_path import PathRules
from ..files.search import SearchOptions, by_python, newest
from ..files.search_rules import IGNORE_FILES, Glob, Ignores, is_wanted
from ..limits import IGNORE_FILE, LONGEST_SEARCH, SEARCH_FETCH
from ..processes.unnamed import open_unnamed
from ..wire import frames
from ..wire.fields import Refusal, parse
from ..wire.requests import FILE_OPERATIONS
from . import fields as take
from . import file_scripts as scripts
from .files import Body

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..life.server import Request
    from ..wire.frames import Fields
    from .files import BareFileDesk


class Listing(Body):
    """Lines of `time size ./name`."""

    def append(self, data: bytes | memoryview) -> None:
        self.total += len(data)
        if self.total <= SEARCH_FETCH:
            self.parts.append(bytes(data))

    def entries(self) -> dict[str, tuple[float, int]]:
        found = {}
        for line in b"".join(self.parts).split(b"\n"):
            changed, size, name = [*line.split(b" ", 2), b"", b""][:3]
            if changed.isdigit() and size.isdigit() and name.startswith(b"./"):
                found[os.fsdecode(name[2:])] = float(changed), int(size)
        return found


class Archive(Body):
    """Bytes that come, in a file without a name."""

    def __init__(self, spool: str | None) -> None:
        super().__init__()
        self.file = open(open_unnamed(spool), "r+b", 0)  # closed when nobody has it any more

    def append(self, data: bytes | memoryview) -> None:
        self.total += len(data)
        view = memoryview(data)
        while view and self.total <= 2 * SEARCH_FETCH:
            view = view[self.file.write(view) :]

    def files(self) -> Iterator[matching.File]:
        with open(os.dup(self.file.fileno()), "rb") as raw:
            raw.seek(0)
            with tarfile.open(fileobj=raw, mode="r:", ignore_zeros=True) as archive:
                for member in archive:
                    content = archive.extractfile(member) if member.isreg() else None
                    if content is not None:
                        name = member.name[2:] if member.name.startswith("./") else member.name
                        yield matching.File(name, content.read)

    def close(self) -> None:
        self.file.close()


class BareSearches:
    def __init__(self, desk: BareFileDesk) -> None:
        self.desk = desk

    def search_files(self, request: Request) -> None:
        Search(self.desk, request)


class Search:
    """One search: list, read the ignore files, fetch what is left, look."""

    def __init__(self, desk: BareFileDesk, request: Request) -> None:
        given = parse(request.fields, FILE_OPERATIONS["search_files"])
        names = ("pattern", "target", "mode", "glob", "offset", "limit", "context")
        wish = SearchOptions(**{name: given[name] for name in names if name in given})
        self.desk, self.request, self.wish = desk, request, wish
        self.seconds = min(given.get("seconds", 60.0), LONGEST_SEARCH)
        self.pattern = matching.Pattern(self.wish.pattern) if self.wish.target == "content" else None
        self.listing = Listing()
        session = desk.resident.session(take.text(request.fields, "session"))
        session.exports.request(lambda _: desk.ask(request, scripts.FIND, self.listing, b"", self._listed))

    def _listed(self, answer: Fields) -> None:
        self.found = self.listing.entries()
        self.listing.parts = []
        self.is_file = answer["kind"] != "directory"
        self.base = os.path.dirname(answer["path"]) if self.is_file else answer["path"].rstrip("/")
        rules = [path for path in self.found if path.rpartition("/")[2] in IGNORE_FILES and not self.is_file]
        if rules:
            self._fetch(rules, self._judge)
        else:
            self._choose({})

    def _judge(self, archive: Archive) -> None:
        texts = {file.path: file.read(IGNORE_FILE).decode("utf-8", "replace") for file in archive.files()}
        archive.close()
        self._choose(texts)

    def _choose(self, rules: dict[str, str]) -> None:
        glob = self.wish.glob if self.wish.target == "content" else None
        paths = [*self.found] if self.is_file else _wanted(self.found, rules, glob, self._above())
        checks, deny = PathRules(self.desk.resident.keeper.home), take.joined(self.request.fields, "deny")
        paths = [path for path in paths if not checks.is_denied(self.base + "/" + path, deny)]
        wanted = Glob(self.wish.pattern) if self.wish.target == "files" else self.wish.glob
        if wanted is not None and not self.is_file:
            paths = [path for path in paths if wanted.matches(path)]
        if self.wish.target == "files":
            self.request.reply({}, frames.pack(newest(self.wish, [(path, self.found[path][0]) for path in paths])))
            return
        size = sum(self.found[path][1] for path in paths)
        if size > SEARCH_FETCH:
            message = (
                "%d bytes would have to be looked at, and there is no python3 in this place: at most %d; search "
                "a smaller directory, or use grep" % (size, SEARCH_FETCH)
            )
            self.request.refuse(Refusal("InvalidArgument", message, argument="path"))
            return
        if paths:
            self._fetch(matching.by_path(paths), self._look)
        else:
            self._reply(self._answer([]))

    def _above(self) -> Ignores:
        """The rules of the directories above, which came with the list."""
        texts = dict(map(_note, self.listing.notes))
        ignores, folder = Ignores(), "/"
        for name in [name for name in self.base.split("/") if name]:
            for file in IGNORE_FILES:
                if folder + file in texts:
                    ignores.add(file, texts[folder + file])
            ignores.is_repository = folder + ".git" in texts
            ignores, folder = Ignores(ignores, name), folder + name + "/"
        return ignores

    def _fetch(self, paths: list[str], then: Callable[[Archive], None]) -> None:
        archive = Archive(self.desk.resident.spool)
        names = b"".join(b"./" + os.fsencode(path) + b"\0" for path in paths)
        self.desk.ask(self.request, scripts.FETCH, archive, names, lambda _: then(archive))

    def _answer(self, files: list[matching.File]) -> bytes:
        assert self.pattern is not None, "names are not looked into"
        return frames.pack(by_python(self.wish, self.pattern, files))

    def _reply(self, data: bytes) -> None:
        self.request.reply({}, data)

    def _look(self, archive: Archive) -> None:
        def work() -> bytes:
            assert self.pattern is not None, "names are not looked into"
            return frames.pack(by_python(self.wish, self.pattern, archive.files()))

        def done(data: bytes) -> None:
            archive.close()
            self._reply(data)

        def failed(refusal: Refusal) -> None:
            archive.close()
            self.request.refuse(refusal)

        ticket = self.desk.workers.submit(work, done, failed, self.seconds)
        self.request.abandoned = ticket.stop


def _note(record: bytes) -> tuple[str, str]:
    path, _, text = record.partition(b"\n")
    return os.fsdecode(path), text.decode("utf-8", "replace")


def _wanted(paths: dict[str, tuple[float, int]], rules: dict[str, str], glob: Glob | None, top: Ignores) -> list[str]:
    """The files that a walk of the same tree would have found."""
    known: dict[str, Ignores | None] = {}

    def ignores(folder: str) -> Ignores | None:
        """The rules of a directory; None for one that is not looked into."""
        if folder not in known:
            above, _, name = folder.rpartition("/")
            parent = ignores(above) if folder else None
            if folder and (parent is None or not is_wanted(parent, name, True, None)):
                known[folder] = None
                return None
            found = Ignores(parent, name) if folder else top
            found.is_repository = (folder + "/.git" if folder else ".git") in paths
            for file in IGNORE_FILES:
                path = folder + "/" + file if folder else file
                if path in rules:
                    found.add(file, rules[path])
            known[folder] = found
        return known[folder]

    chosen = []
    for path in paths:
        folder, _, name = path.rpartition("/")
        found = None if name == ".git" else ignores(folder)
        if found is not None and is_wanted(found, name, False, glob):
            chosen.append(path)
    return chosen
