"""Safe paths: walks a path one component at a time with descriptors, so that no unseen link is
followed.

Each step opens a name below an open directory. A symbolic link is read, and its target is walked in
the same way. So the result is known by its true path, whatever other programs do to the names above
it.
"""

from __future__ import annotations

import errno
import os
import re
import stat

from ..wire import fields as take
from ..wire.fields import Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Tuple

    Step = Tuple[str, int, Tuple[int, int]]  # name, descriptor or -1, directory identity

MOST_LINKS = 40  # as the kernel
MOST_PATTERNS = 16  # compiled patterns in the cache
NO_DIRECTORY = (-1, -1)  # identity of no directory
TURNS = 16  # attempts on a name that other programs keep changing
_STEP = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


class PathRules:
    """Limits of reading and writing. `root`: only below it. `deny`: patterns of true paths,
    separated by NUL.

    A root directory stays open from its first use: a directory that later gets its name is not the
    root.
    """

    def __init__(self, home: str) -> None:
        self.home = home
        self.roots: dict[str, int] = {}
        self.patterns: dict[bytes, re.Pattern[str] | None] = {b"": None}

    def check(self, location: SafePath, root: str | None, deny: bytes) -> None:
        """Raises Refusal for a location outside the limits."""
        if root is not None and not location.is_below(self._root(root)):
            message = "%s is outside of %s, the directory that is open here; choose a path below it"
            raise Refusal("NotPermitted", message % (location.path, root))
        if self.is_denied(location.path, deny):
            message = "%s is protected: ask the user to do it, or use another path" % location.path
            raise Refusal("NotPermitted", message)

    def is_denied(self, path: str, deny: bytes) -> bool:
        pattern = self._pattern(deny)
        return pattern is not None and pattern.fullmatch(path) is not None

    def _root(self, path: str) -> tuple[int, int]:
        if path not in self.roots or os.fstat(self.roots[path]).st_nlink == 0:
            if path in self.roots:
                os.close(self.roots.pop(path))
            elif len(self.roots) >= 16:
                os.close(self.roots.pop(next(iter(self.roots))))
            self.roots[path] = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        return _identity(os.fstat(self.roots[path]))

    def _pattern(self, deny: bytes) -> re.Pattern[str] | None:
        if deny not in self.patterns:
            if len(self.patterns) >= MOST_PATTERNS:
                del self.patterns[list(self.patterns)[1]]  # the first is the empty one
            self.patterns[deny] = re.compile(
                "|".join(map(self._translate, take.split(deny))), re.DOTALL
            )
        return self.patterns[deny]

    def _translate(self, pattern: str) -> str:
        if pattern.startswith("~/"):
            pattern = os.path.realpath(self.home) + pattern[1:]
        return ".*".join(map(re.escape, pattern.split("*")))


class SafePath:
    """A name in an open directory. The owner calls `close`."""

    def __init__(self, way: list[Step], name: str = "") -> None:
        self.way, self.name = way, name
        self.made: list[str] = []  # directories that were created

    @property
    def directory(self) -> int:
        return self.way[-1][1]

    @property
    def path(self) -> str:
        """The true path, without links."""
        return "/".join([name for name, _, _ in self.way] + [self.name])

    @property
    def key(self) -> tuple[int, int, str]:
        """Identity of the file, equal for all its paths."""
        return self.way[-1][2] + (self.name,)

    def is_below(self, directory: tuple[int, int]) -> bool:
        return any(identity == directory for _, _, identity in self.way)

    def enter(self, name: str, fd: int, status: os.stat_result) -> None:
        self.way.append((name, fd, _identity(status)))

    def leave(self) -> None:
        if len(self.way) > 1:
            os.close(self.way.pop()[1])

    def status(self) -> os.stat_result | None:
        """Status of the file that has the name now; None if there is none."""
        try:
            return os.stat(self.name, dir_fd=self.directory, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def open(self, flags: int = os.O_RDONLY) -> int:
        # Non-blocking: a FIFO without a writer must not block the loop.
        extra = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        return os.open(self.name, flags | extra, dir_fd=self.directory)

    def close_parents(self) -> None:
        """Closes all directories but the last: for callers that hold many locations."""
        for at, (name, fd, identity) in enumerate(self.way[:-1]):
            if fd >= 0:
                os.close(fd)
            self.way[at] = (name, -1, identity)

    def close(self) -> None:
        for _, fd, _ in self.way:
            if fd >= 0:
                os.close(fd)
        self.way = []

    def __enter__(self) -> SafePath:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def find_quickly(path: str) -> SafePath | None:
    """The same location as `find`, in a few system calls; None if every component has to be
    examined.

    The kernel walks to the directory and reports its path. The parent directories remain unknown.
    """
    folder, _, name = path.rpartition("/")
    if name in ("", ".", ".."):
        return None
    try:
        fd = os.open(folder or "/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        names = os.readlink("/proc/self/fd/%d" % fd).rstrip("/").split("/")
        identity = _identity(os.fstat(fd))
    except OSError:
        names = []
    if not names or names[0]:  # it has no path any more
        os.close(fd)
        return None
    return SafePath(
        [*((above, -1, NO_DIRECTORY) for above in names[:-1]), (names[-1], fd, identity)], name
    )


def locate(
    path: str, allow: Callable[[SafePath], None], make: bool, follow: bool, quick: bool
) -> SafePath:
    """The checked location of a path. It is not a symbolic link, which another program may create
    meanwhile.

    `quick`: `allow` does not depend on the parent directories.
    """
    for turn in range(TURNS):
        first = find_quickly(path) if quick and turn == 0 else None
        location = first or find(path, allow if make else None, follow)
        try:
            status = location.status()
            if status is None or not follow or not stat.S_ISLNK(status.st_mode):
                allow(location)
                return location
        except BaseException:
            location.close()
            raise
        location.close()
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def find(
    path: str, allow: Callable[[SafePath], None] | None = None, follow: bool = True
) -> SafePath:
    """The location of an absolute path. The last name may be missing, or an unfollowed link.

    With `allow`, missing parent directories are created, each after a call of `allow(location)`
    with the expected location. Raises OSError, and the errors of `allow`.
    """
    fd = os.open("/", os.O_PATH | os.O_CLOEXEC)
    location = SafePath([("", fd, _identity(os.fstat(fd)))])
    try:
        _walk(location, path, allow, follow)
    except BaseException:
        location.close()
        raise
    return location


def _walk(
    location: SafePath, path: str, allow: Callable[[SafePath], None] | None, follow: bool
) -> None:
    names = _names(path)
    links = 0
    while names:
        name = names.pop()
        if name == "..":
            location.leave()
            continue
        try:
            fd = os.open(name, _STEP, dir_fd=location.directory)
        except FileNotFoundError:
            if not names:
                location.name = name
                return
            fd = _make_step(location, name, names, allow)
        status = os.fstat(fd)
        if stat.S_ISLNK(status.st_mode) and (names or follow):
            try:
                target = os.readlink("", dir_fd=fd)
            finally:
                os.close(fd)
            links += 1
            if links > MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            if target.startswith("/"):
                while len(location.way) > 1:
                    location.leave()
            names += _names(target)
        elif stat.S_ISDIR(status.st_mode):
            location.enter(name, fd, status)
        else:
            os.close(fd)
            if names:
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
            location.name = name
            return
    # The last name is a directory: its location is a name in its parent.
    if len(location.way) > 1:
        name = location.way[-1][0]
        location.leave()
        location.name = name
    else:
        location.name = "."


def _names(path: str) -> list[str]:
    """The components, the next one last."""
    return [name for name in reversed(path.split("/")) if name not in ("", ".")]


def _make_step(
    location: SafePath, name: str, rest: list[str], allow: Callable[[SafePath], None] | None
) -> int:
    """Creates a missing directory. Its current entry is then walked like any other."""
    if allow is None or ".." in rest:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    location.name = "/".join([name, *rest[::-1]])
    allow(location)
    location.name = ""
    try:
        os.mkdir(name, dir_fd=location.directory)
        location.made.append("/".join([step for step, _, _ in location.way] + [name]))
    except FileExistsError:  # created by another program
        pass
    return os.open(name, _STEP, dir_fd=location.directory)


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
