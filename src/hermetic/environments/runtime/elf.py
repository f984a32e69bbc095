"""Rewrites strings of ELF files in place: the loader's path, the library path, directories inside
loader and libc.

No section moves, so no other tool is needed. The files are those of 64-bit little-endian machines.
"""

import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

LOAD, DYNAMIC, INTERPRETER = 1, 2, 3  # types of segments
NULL, STRING_TABLE, RPATH, DEBUG, RUNPATH = 0, 5, 15, 21, 29  # types of dynamic entries
HEADER = 56  # bytes of a segment's header

# The table of default directories in glibc's loader, such as /lib/x86_64-linux-gnu/ and
# /usr/lib64/.
_DEFAULT_DIRECTORIES = re.compile(rb"(?<=\0)(?:/(?:usr/)?lib[^\0/]*/(?:[^\0/]+/)?\0){2,}")


class Unsuitable(Exception):
    """A file cannot become part of a portable runtime; the text says why."""


class Segment(NamedTuple):
    """A segment and the offset of its header in the file."""

    header: int
    type: int
    flags: int
    offset: int
    address: int
    physical: int
    file_size: int
    memory_size: int
    alignment: int


class Elf:
    """An ELF file in memory. Raises Unsuitable for any other file."""

    def __init__(self, path: Path) -> None:
        self.path, self.data = path, bytearray(path.read_bytes())
        if self.data[:6] != b"\x7fELF\x02\x01":
            raise Unsuitable(f"{path} is no 64-bit little-endian ELF file")

    def __repr__(self) -> str:
        return f"<Elf {self.path}>"

    def save(self) -> None:
        """Writes the file."""
        self.path.write_bytes(self.data)

    def segments(self, type: int) -> list[Segment]:
        """The segments of one type."""
        start, count = (
            struct.unpack_from("<Q", self.data, 32)[0],
            struct.unpack_from("<H", self.data, 56)[0],
        )
        headers = range(start, start + count * HEADER, HEADER)
        found = [
            Segment(header, *struct.unpack_from("<IIQQQQQQ", self.data, header))
            for header in headers
        ]
        return [segment for segment in found if segment.type == type]

    @property
    def interpreter(self) -> str | None:
        """The path of its loader; None for a static program or a library."""
        for segment in self.segments(INTERPRETER):
            return self._text(segment.offset).decode()
        return None

    def set_interpreter(self, path: str) -> None:
        """Sets the path of its loader. Raises Unsuitable if it is too long."""
        for segment in self.segments(INTERPRETER):
            self._overwrite(segment.offset, path.encode(), segment.file_size - 1)

    def set_library_path(self, path: str, *, may_add: bool) -> bool:
        """Sets DT_RPATH, which comes before LD_LIBRARY_PATH: over an existing path or, with
        `may_add`, as a new entry.

        False if there is no place for it.
        """
        (dynamic,) = self.segments(DYNAMIC) or (None,)
        if dynamic is None:
            return False
        entries = {
            at: struct.unpack_from("<QQ", self.data, at)
            for at in range(dynamic.offset, dynamic.offset + dynamic.file_size, 16)
        }
        table = next(value for type, value in entries.values() if type == STRING_TABLE)
        for at, (type, value) in entries.items():
            if type in (RPATH, RUNPATH):
                string = self._offset(table + value)
                if len(self._text(string)) >= len(path):
                    self._overwrite(string, path.encode(), len(self._text(string)))
                    struct.pack_into("<Q", self.data, at, RPATH)
                    return True
                struct.pack_into("<QQ", self.data, at, DEBUG, 0)  # ignored by the loader
        free = [at for at, (type, _) in entries.items() if type == NULL]
        # the last one stays
        address = self._append(path.encode() + b"\0") if may_add and len(free) > 1 else None
        if address is None:
            return False
        struct.pack_into("<QQ", self.data, free[0], RPATH, (address - table) % (1 << 64))
        return True

    def set_default_directories(self, path: str) -> int:
        """Replaces a loader's default directories, by a path that does not exist where `path` is
        too long.

        Returns how many now name `path`.
        """
        tables = list(_DEFAULT_DIRECTORIES.finditer(self.data))
        if not tables:
            raise Unsuitable(f"{self.path} is not the loader of the GNU C library")
        replaced = 0
        for table in tables:
            for string in re.finditer(rb"[^\0]+", table[0]):
                fits = len(path) <= len(string[0])
                replaced += fits
                new = (path if fits else "/.h").encode().ljust(len(string[0]), b"/")
                self._overwrite(table.start() + string.start(), new, len(string[0]))
        return replaced

    def replace_paths(self, old: str, new: str) -> None:
        """Replaces a path and what lies below it where it is a string of its own and `new` is not
        longer.
        """
        if len(new) <= len(old):
            padded = new.encode().ljust(len(old), b"/")
            pattern = rb"(?<=\0)" + re.escape(old.encode()) + rb"(?=[\0/])"
            self.data[:] = re.sub(pattern, padded, self.data)

    def _text(self, offset: int) -> bytes:
        return bytes(self.data[offset : self.data.index(0, offset)])

    def _overwrite(self, offset: int, text: bytes, room: int) -> None:
        if len(text) > room:
            raise Unsuitable(
                f"{text.decode()} is longer than the {room} bytes for it in {self.path}"
            )
        self.data[offset : offset + room] = text.ljust(room, b"\0")

    def _offset(self, address: int) -> int:
        """Where an address lies in the file."""
        for segment in self.segments(LOAD):
            if segment.address <= address < segment.address + segment.file_size:
                return address - segment.address + segment.offset
        raise Unsuitable(f"{self.path} has an address outside of its segments")

    def _append(self, text: bytes) -> int | None:
        """The address of a text in the zeros behind the first segment; None if they are too few."""
        first, second = self.segments(LOAD)[:2]
        end = first.offset + first.file_size
        if second.offset - end < len(text) or any(self.data[end : end + len(text)]):
            return None
        self.data[end : end + len(text)] = text
        sizes = (first.file_size + len(text), first.memory_size + len(text))
        struct.pack_into("<QQ", self.data, first.header + 32, *sizes)
        return first.address + first.file_size


def elf_files(directory: Path) -> Iterator[Elf]:
    """The ELF files below a directory."""
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            with path.open("rb") as file:
                is_elf = file.read(4) == b"\x7fELF"
            if is_elf:
                yield Elf(path)
