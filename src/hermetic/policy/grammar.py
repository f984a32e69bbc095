"""The second reader: tree-sitter's grammar of bash, asked only whether it understands the text."""

from __future__ import annotations

import re

from tree_sitter import Language, Parser
from tree_sitter_bash import language

_BASH = Language(language())
_BEYOND = re.compile("[^\x00-\xff]")


def is_doubtful(command: str) -> bool:
    """True when the grammar finds an error in the text."""
    return Parser(_BASH).parse(_tame(command)).root_node.has_error


def _tame(command: str) -> bytes:
    """The text with letters beyond Latin-1 replaced, because the grammar's scanner reads past its tables on them."""
    if command.isascii():
        return command.encode()
    return _BEYOND.sub("x", command).encode("utf-8", "surrogatepass")
