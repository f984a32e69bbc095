"""The resident as one archive built in memory, and the program that starts it."""

import functools
import marshal
import struct
from importlib.machinery import SourceFileLoader
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from types import CodeType

from hermetic import resident
from hermetic.link.readiness import refusal_frame
from hermetic.resident.wire import frames

PACKAGE = "hermetic_resident"

NO_PYTHON_CODE = 97  # exit code where python3 is missing or older than 3.8
# for the archive and the configuration to arrive; a restarted container gets none
GIVEN_SECONDS = 30

# Reads the archive from standard input and runs it from memory: compiled modules where this Python
# has the same magic number as the builder, else their source. Importing from files would take
# longer than everything else. PID 1 of a container ignores signals without a handler, hence the
# handler of SIGALRM.
BOOT = f"""\
import _frozen_importlib_external, _signal, gc, marshal, posix, sys
gc.disable()
if sys.version_info < (3, 8):
    for _ in "12":  # all input: an engine's client that still sends fails by itself
        sys.stdin.buffer.read(int.from_bytes(sys.stdin.buffer.read(4), "big"))
    posix.write(1, {refusal_frame("NoPython", "python3 is older than 3.8")!r})
    posix._exit({NO_PYTHON_CODE})
_signal.signal(_signal.SIGALRM, lambda *_: posix._exit(1))
_signal.alarm({GIVEN_SECONDS})
stream = sys.stdin.buffer
magic, codes, sources = marshal.loads(stream.read(int.from_bytes(stream.read(4), "big")))
if magic != _frozen_importlib_external.MAGIC_NUMBER:
    codes = {{}}
names = {{*codes, *sources}}
packages = {{name.rpartition(".")[0] for name in names}}
class Modules:
    def find_spec(name, path=None, target=None):
        if name in names:
            return type(sys.__spec__)(name, Modules, is_package=name in packages)
    def create_module(spec):
        return None
    def exec_module(module):
        name = module.__name__
        code = codes.pop(name, None)
        exec(marshal.loads(code) if code else compile(sources[name], name, "exec"), module.__dict__)
    def get_source(name):
        return sources[name].decode() if name in sources else None
sys.meta_path.insert(0, Modules)
from {PACKAGE}.life.main import main
main(stream)
"""


_FOLDER = Path(resident.__file__).parent

READABLE_BY_ALL = 2  # a version of the format that every Python reads


@functools.cache  # constant: the modules do not change while this process runs
def build_archive(*, for_this_python: bool = False) -> bytes:
    """The resident's modules compiled for this Python, and as source; for this Python itself
    without the source.
    """
    compiled, sources = read_modules()
    return marshal.dumps(
        (MAGIC_NUMBER, compiled, {} if for_this_python else sources), READABLE_BY_ALL
    )


@functools.cache
def read_modules() -> tuple[dict[str, bytes], dict[str, bytes]]:
    """The resident's modules by name: compiled, and as source."""
    compiled, sources = {}, {}
    for path in sorted(_FOLDER.rglob("*.py")):
        name = ".".join((PACKAGE, *_inner_name(path)))
        sources[name] = path.read_bytes()
        compiled[name] = marshal.dumps(_code(path))
    return compiled, sources


def codec_source() -> str:
    """The source of the frame module, for scripts inside that use the same frames."""
    return Path(frames.__file__).read_text(encoding="utf-8")


def starting_input(archive: bytes, config: bytes) -> bytes:
    """The standard input of a starting resident."""
    return b"".join(
        (struct.pack(">I", len(archive)), archive, struct.pack(">I", len(config)), config)
    )


def _inner_name(path: Path) -> tuple[str, ...]:
    """The parts of a module's name below the package."""
    parts = path.relative_to(_FOLDER).with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts


def _code(path: Path) -> CodeType | None:
    """The module compiled; the loader takes it from Python's own cache where that is fresh."""
    name = ".".join(("hermetic", "resident", *_inner_name(path)))
    return SourceFileLoader(name, str(path)).get_code(name)
