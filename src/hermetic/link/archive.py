"""The resident as one archive built in memory, and the line that starts it there."""

import functools
import marshal
import struct
import zlib
from collections.abc import Iterable
from importlib.machinery import SourceFileLoader
from importlib.util import MAGIC_NUMBER, source_hash
from pathlib import Path

from hermetic.resident import frames

PACKAGE = "hermetic_resident"

_BOOT = f"""\
import os, sys
stream = sys.stdin.buffer
archive = memoryview(stream.read(int.from_bytes(stream.read(4), "big")))
fd = os.memfd_create("{PACKAGE}")
while archive:
    archive = archive[os.write(fd, archive):]
sys.path.insert(0, "/proc/self/fd/%%d" %% fd)
from {PACKAGE}.%s import main
main(stream)
"""

# Reads the archive from standard input into a file without a name, and runs it from there.
BOOT = _BOOT % "main"
BARE_BOOT = _BOOT % "bare_main"  # for a place without Python: the resident lives here

_UNCHECKED_HASH = 0b01  # flags of a .pyc that is valid whatever its source says


@functools.cache  # a constant: the modules are those we were started with
def build_archive() -> bytes:
    """A zip with the resident's modules as source, and compiled for this Python; others compile the source."""
    folder = Path(frames.__file__).parent
    entries: list[tuple[str, bytes]] = []
    for path in sorted(folder.glob("*.py")):
        source = path.read_bytes()
        entries.append((f"{PACKAGE}/{path.stem}.pyc", _compiled(path, source)))
        entries.append((f"{PACKAGE}/{path.name}", source))
    return _stored_zip(entries)


def starting_input(archive: bytes, config: bytes) -> bytes:
    """What a starting resident reads from its standard input."""
    return b"".join((struct.pack(">I", len(archive)), archive, struct.pack(">I", len(config)), config))


def _compiled(path: Path, source: bytes) -> bytes:
    """The module's .pyc; the loader takes it from Python's own cache where that is fresh."""
    name = f"hermetic.resident.{path.stem}"
    code = SourceFileLoader(name, str(path)).get_code(name)
    return b"".join((MAGIC_NUMBER, struct.pack("<I", _UNCHECKED_HASH), source_hash(source), marshal.dumps(code)))


def _stored_zip(entries: Iterable[tuple[str, bytes]]) -> bytes:
    """A zip file without compression. Importing zipfile takes longer than opening an environment."""
    local, central, offset = [], [], 0
    for name, data in entries:
        encoded = name.encode()
        # version 2.0, no flags, stored, 1980-01-01 00:00
        shared = struct.pack("<HHHHHIIIHH", 20, 0, 0, 0, 0x21, zlib.crc32(data), len(data), len(data), len(encoded), 0)
        local.append(b"".join((b"PK\3\4", shared, encoded, data)))
        central.append(
            b"".join((b"PK\1\2", struct.pack("<H", 20), shared, struct.pack("<HHHII", 0, 0, 0, 0, offset), encoded))
        )
        offset += len(local[-1])
    directory = b"".join(central)
    counts = struct.pack("<HHHHIIH", 0, 0, len(central), len(central), len(directory), offset, 0)
    return b"".join((*local, directory, b"PK\5\6", counts))
