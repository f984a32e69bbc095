"""What a script's interpreter is started with: one text on its command line, the rest on its standard input."""

import __future__

import functools
import hashlib
import marshal
import zlib
from collections.abc import Mapping
from importlib.util import MAGIC_NUMBER
from pathlib import Path

from hermetic.link.archive import READABLE_BY_ALL, codec_source

_LAZY = "from __future__ import annotations\n"
_INSIDE = Path(__file__).parent / "inside"


@functools.cache  # a constant: the text is the one we were started with
def boot() -> str:
    """The program that reads a bundle from standard input and runs its script."""
    return (_INSIDE / "boot.py").read_text(encoding="utf-8")


class Modules:
    """The modules that scripts import, as text and as this Python compiles them."""

    def __init__(self, stubs: str) -> None:
        self.sources = _fixed() | {
            "hermetic_tools": (_INSIDE / "tools.py").read_text(encoding="utf-8") + stubs,
        }
        codes = {name: _compiled(name, text) for name, text in self.sources.items()}
        packed = zlib.compress(marshal.dumps(self.sources, READABLE_BY_ALL))  # read by another Python than this one
        self.data = marshal.dumps((MAGIC_NUMBER, codes, packed), READABLE_BY_ALL)
        self.name = hashlib.sha256(self.data).hexdigest()[:32]

    def __repr__(self) -> str:
        return f"<Modules {', '.join(self.sources)}>"


def script_input(script: str, variables: Mapping[str, str]) -> bytes:
    """What comes behind the modules: the script, and variables of its run alone."""
    return marshal.dumps((script, dict(variables)), READABLE_BY_ALL)


def _fixed() -> dict[str, str]:
    return {
        "_hermetic_start": (_INSIDE / "start.py").read_text(encoding="utf-8"),
        "_hermetic_frames": codec_source(),
    }


def _compiled(name: str, text: str) -> bytes:
    """The module without the import that says how annotations are meant: it would be the slowest one of a script."""
    plain = text.replace(_LAZY, "\n", 1)
    flags = __future__.annotations.compiler_flag if plain != text else 0
    return marshal.dumps(compile(plain, name, "exec", flags, dont_inherit=True))
