"""ripgrep results in a form that no file name or text can break: fields end with NUL."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .search_rules import Glob

_OPTIONS = (
    "--no-config",
    "--color=never",
    "--no-messages",
    "--no-ignore-global",
    "--no-ignore-exclude",
    "--no-require-git",
    "--null",
)
RECORD_BYTES = 64 << 10  # more than any path and shown line
_MATCHING = ("--text", "--crlf")


class Unfit(Exception):
    """ripgrep cannot perform this search."""


class Ripgrep:
    """Runs ripgrep in the searched directory. Created in a child, which changes its cwd."""

    def __init__(self, program: str, directory: int, name: str | None) -> None:
        self.program, self.target = program, "./" + name if name is not None else "."
        os.fchdir(directory)

    def names(self) -> Iterator[str]:
        for record in self._records(["--files", *_OPTIONS, "--", self.target], b"\0"):
            yield _path(record)

    def counts(self, pattern: str, glob: Glob | None) -> Iterator[tuple[str, int]]:
        options = ["--count", "--with-filename", *_OPTIONS, *_MATCHING]
        if glob is not None and not glob.has_slash and self.target == ".":
            options += ["--type-add", "wanted:" + glob.text, "--type", "wanted"]
        for record in self._records([*options, "-e", pattern, "--", self.target], b"\n"):
            path, _, number = record.rstrip(b"\r").rpartition(b"\0")
            if number.isdigit():
                yield _path(path), int(number)

    def lines(self, pattern: str, path: str, context: int) -> Iterator[tuple[int, str, bool]]:
        options = [
            "--line-number",
            "--no-heading",
            "--with-filename",
            "--no-context-separator",
            "--context=%d" % context,
            *_OPTIONS,
            *_MATCHING,
        ]
        for record in self._records([*options, "-e", pattern, "--", "./" + path], b"\n"):
            rest = record.partition(b"\0")[2]
            digits = len(rest) - len(rest.lstrip(b"0123456789"))
            text = rest[digits + 1 :]
            text = text[:-1] if text.endswith(b"\r") else text
            yield int(rest[:digits] or b"0"), text.decode("utf-8", "surrogateescape"), rest[digits : digits + 1] == b":"

    def _records(self, arguments: list[str], end: bytes) -> Iterator[bytes]:
        """Records of ripgrep's output, split at `end`. Raises Unfit if it failed without output."""
        read, write = os.pipe2(os.O_CLOEXEC)
        null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        actions = [(os.POSIX_SPAWN_DUP2, null, 0), (os.POSIX_SPAWN_DUP2, write, 1), (os.POSIX_SPAWN_DUP2, null, 2)]
        pid = os.posix_spawn(self.program, ["rg", *arguments], os.environ, file_actions=actions)
        os.close(write)
        os.close(null)
        said, rest = False, b""
        try:
            while data := os.read(read, 1 << 18):
                said = True
                *records, rest = (rest + data).split(end)
                yield from records
                rest = rest[:RECORD_BYTES]  # a longer line is not shown whole
            if rest:
                yield rest
        finally:
            os.close(read)  # SIGPIPE ends ripgrep if the caller stopped early
            status = os.waitpid(pid, 0)[1]
        if not said and os.WIFEXITED(status) and os.WEXITSTATUS(status) > 1:
            raise Unfit


def _path(record: bytes) -> str:
    return os.fsdecode(record[2:] if record.startswith(b"./") else record)
