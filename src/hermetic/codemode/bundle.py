"""What a script's interpreter is started with: one text on its command line, the rest on its standard input."""

import functools
import marshal
from collections.abc import Mapping
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from types import CodeType

from hermetic.link.archive import READABLE_BY_ALL, codec_source

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
        self._compiled = marshal.dumps(codes)

    def __repr__(self) -> str:
        return f"<Modules {', '.join(self.sources)}>"

    def bundle(self, script: str, variables: Mapping[str, str]) -> bytes:
        """All that one script needs."""
        contents = MAGIC_NUMBER, self._compiled, self.sources, script, dict(variables)
        return marshal.dumps(contents, READABLE_BY_ALL)


def _fixed() -> dict[str, str]:
    return {
        "_hermetic_start": (_INSIDE / "start.py").read_text(encoding="utf-8"),
        "_hermetic_frames": codec_source(),
    }


def _compiled(name: str, text: str) -> CodeType:
    return compile(text, name, "exec", dont_inherit=True)
