"""Search below a directory: with ripgrep if available, else in Python, with the same results in the
same order.
"""

from __future__ import annotations

import os

from ..limits import FILE_SAMPLE, IGNORE_FILE, SEARCH_ANSWER, SEARCH_TEXT
from ..wire.fields import Refusal
from . import search_matching as matching
from .search_matching import Ripgrep, Unfit
from .search_rules import IGNORE_FILES, Glob, Ignores, is_wanted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from ..wire.frames import Fields


class SearchOptions:
    """Pattern, target and page of a search."""

    glob: Glob | None = None
    pattern = ""
    target = mode = "content"
    offset = context = 0
    limit = 50

    def __init__(self, glob: str = "", **given: Any) -> None:
        self.__dict__.update(given)
        if glob:
            self.glob = Glob(glob)


class SearchTree:
    """The searched files: an open directory, and one file in it or all.

    `allows(path)`: the path may be shown.
    """

    def __init__(
        self, directory: int, name: str | None, allows: Callable[[str], bool], path: str = "/"
    ) -> None:
        self.directory, self.name, self.allows = directory, name, allows
        self.path = path  # of the directory

    def paths(self, glob: Glob | None) -> list[str]:
        """The searched paths, in order."""
        return (
            [self.name]
            if self.name is not None
            else self.filtered(self._below(above(self.path), glob), glob)
        )

    def filtered(self, paths: Iterable[str], glob: Glob | None) -> list[str]:
        """Those of the paths that may be shown and match, in order."""
        found = (
            path for path in paths if self.allows(path) and (glob is None or glob.matches(path))
        )
        return sorted(found, key=os.fsencode)

    def _below(self, above: Ignores, glob: Glob | None) -> Iterator[str]:
        waiting = [("", above)]
        while waiting:
            prefix, ignores = waiting.pop()
            directories = []
            for name, is_directory in self._entries(prefix, ignores):
                if not is_wanted(ignores, name, is_directory, None if is_directory else glob):
                    continue
                if is_directory:
                    directories.append((prefix + name + "/", Ignores(ignores, name)))
                else:
                    yield prefix + name
            waiting += directories

    def _entries(self, prefix: str, ignores: Ignores) -> list[tuple[str, bool]]:
        """`(name, is_directory)` of a directory's entries. Adds its ignore rules to `ignores`."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            directory = os.open(prefix[:-1] or ".", flags, dir_fd=self.directory)
        except OSError:
            return []
        found = []
        try:
            with os.scandir(directory) as entries:
                for entry in entries:
                    is_directory, is_file = (
                        entry.is_dir(follow_symlinks=False),
                        entry.is_file(follow_symlinks=False),
                    )
                    if is_file and entry.name in IGNORE_FILES:
                        ignores.add(entry.name, _text(entry.name, directory))
                    elif entry.name == ".git":
                        ignores.is_repository = True
                    if is_file or is_directory:
                        found.append((entry.name, is_directory))
        except OSError:
            return []
        finally:
            os.close(directory)
        return found

    def files(self, paths: Iterable[str]) -> Iterator[matching.File]:
        for path in paths:
            file = matching.opened(path, self.directory)
            if file is not None:
                with file:
                    yield file

    def changed(self, path: str) -> float:
        try:
            return os.stat(path, dir_fd=self.directory, follow_symlinks=False).st_mtime
        except OSError:
            return 0.0

    def is_text(self, path: str) -> bool:
        """Whether a file is text: other files are not searched."""
        file = matching.opened(path, self.directory)
        if file is None:
            return False
        with file:
            head = file.read(FILE_SAMPLE)
        return b"\0" not in head or head[:2] in (b"\xff\xfe", b"\xfe\xff")


def above(path: str) -> Ignores:
    """Ignore rules that a directory inherits from its parents."""
    names = [name for name in path.split("/") if name]
    ignores, folder = Ignores(), "/"
    for name in names:
        _add_rules(ignores, folder)
        ignores, folder = Ignores(ignores, name), os.path.join(folder, name)
    return ignores


def _add_rules(ignores: Ignores, folder: str) -> None:
    try:
        fd = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        for file in IGNORE_FILES:
            text = _text(file, fd)
            if text:
                ignores.add(file, text)
        ignores.is_repository = os.path.lexists(os.path.join(folder, ".git"))
    finally:
        os.close(fd)


def _text(name: str, directory: int) -> str:
    file = matching.opened(name, directory)
    if file is None:
        return ""
    with file:
        return file.read(IGNORE_FILE).decode("utf-8", "replace")


def search(tree: SearchTree, options: SearchOptions, program: str | None) -> Fields:
    """The result of a search."""
    pattern = None
    if options.target == "content":
        try:
            pattern = matching.Pattern(options.pattern)
        except Refusal:
            if program is None or "\n" in options.pattern or "\\n" in options.pattern:
                raise
    if program is not None:
        try:
            return _by_ripgrep(tree, options, Ripgrep(program, tree.directory, tree.name))
        except Unfit:
            if options.target == "content" and pattern is None:
                pattern = matching.Pattern(options.pattern)  # raises the reason
    if options.target == "files":
        return _names(tree, options, tree.filtered(tree.paths(None), Glob(options.pattern)))
    assert pattern is not None, "it was made, or refused"
    files = tree.files(tree.paths(options.glob))
    if options.mode != "content":
        counts = [(file.path, matching.count(file, pattern)) for file in files]
        return _counted(options, [(path, number) for path, number in counts if number])
    page = Page(options)
    for file in files:
        for number, text, is_match in matching.lines(file, pattern, options.context):
            page.add(file.path, number, text, is_match)
    return page.answer("python")


def _by_ripgrep(tree: SearchTree, options: SearchOptions, ripgrep: Ripgrep) -> Fields:
    if options.target == "files":
        return _names(
            tree, options, tree.filtered(ripgrep.names(), Glob(options.pattern)), "ripgrep"
        )
    counts = dict(ripgrep.counts(options.pattern, options.glob))
    paths = [
        path
        for path in tree.filtered(counts, None if tree.name else options.glob)
        if tree.is_text(path)
    ]
    if options.mode != "content":
        return _counted(options, [(path, counts[path]) for path in paths], "ripgrep")
    page = Page(options)
    for path in paths:
        if page.total + counts[path] <= options.offset or page.is_full:
            page.total += counts[path]
            continue
        before = page.total
        for number, text, is_match in ripgrep.lines(options.pattern, path, options.context):
            page.add(path, number, text, is_match)
            if page.is_over:
                break
        page.total = before + counts[path]
    return page.answer("ripgrep")


class Page:
    """A page of matches with context lines, and the total count."""

    def __init__(self, options: SearchOptions) -> None:
        self.options = options
        self.total = self.shown = self.size = 0
        self.matches: list[Any] = []
        self.waiting: list[Any] = []  # lines before a possible match
        self.is_over = False  # later matches are not shown

    @property
    def is_full(self) -> bool:
        return self.shown >= self.options.limit or self.size > SEARCH_ANSWER

    def add(self, path: str, number: int, text: str, is_match: bool) -> None:
        if is_match:
            self.total += 1
        shown = text[:SEARCH_TEXT].encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        entry = [path, number, shown, is_match]
        if (
            self.is_over
            or self.total < self.options.offset
            or (self.total == self.options.offset and is_match)
        ):
            self.waiting = []
            return
        last = self.matches[-1] if self.matches else None
        if not is_match:
            # After a shown match it belongs to that match, else perhaps to the next.
            near = (
                last is not None
                and last[0] == path
                and number - self._last_match <= self.options.context
            )
            if near:
                self._take(entry)
            else:
                self.waiting = [*self.waiting, entry][-self.options.context :]
            return
        if self.is_full:
            self.is_over = True
            return
        for earlier in self.waiting:
            if earlier[0] == path and number - earlier[1] <= self.options.context:
                self._take(earlier)
        self.waiting = []
        self._take(entry)
        self._last_match = number
        self.shown += 1

    _last_match = 0

    def _take(self, entry: Any) -> None:
        self.matches.append(entry)
        self.size += len(entry[0]) + len(entry[2]) + 16

    def answer(self, engine: str) -> Fields:
        more = self.total > self.options.offset + self.shown
        return {
            "total": self.total,
            "matches": self.matches,
            "shown": self.shown,
            "truncated": more,
            "engine": engine,
        }


def _counted(
    options: SearchOptions, counts: list[tuple[str, int]], engine: str = "python"
) -> Fields:
    total = sum(number for _, number in counts) if options.mode == "count" else len(counts)
    return _listed(options, counts, total, engine)


def _names(
    tree: SearchTree, options: SearchOptions, paths: list[str], engine: str = "python"
) -> Fields:
    """Files by name, most recently changed first."""
    ordered = sorted(paths, key=lambda path: (-tree.changed(path), os.fsencode(path)))
    return _listed(options, [(path, 1) for path in ordered], len(paths), engine)


def _listed(
    options: SearchOptions, counts: list[tuple[str, int]], total: int, engine: str
) -> Fields:
    """A page of paths with their counts, as far as the answer has room."""
    size, shown = 0, []
    for path, number in counts[options.offset : options.offset + options.limit]:
        size += len(path) + 16
        if size > SEARCH_ANSWER:
            break
        shown.append([path, number])
    more = len(counts) > options.offset + len(shown)
    return {
        "total": total,
        "counts": shown,
        "shown": len(shown),
        "engine": engine,
        "truncated": more,
    }
