"""Words and commands that only show what they are once something is decoded."""

from __future__ import annotations

import re

from .compounds import plain_word
from .syntax import Assign, Node, Pipe, Simple, Sub, Word

_DECODERS = frozenset(
    {"base64", "base32", "xxd", "rev", "openssl", "uudecode", "gunzip", "zcat", "xz", "gpg"}
)
_DECODES = re.compile(r"(^|\s)(-\w*[dDr]\w*|--decode|--decrypt)(\s|$)")


def is_decoded(word: Word | Assign) -> bool:
    """True when a program's name comes out of a decoder."""
    return any(plain_word(node) in _DECODERS for nodes in _inside(word) for node in nodes)


def holds_unpacked(word: Word | Assign) -> bool:
    """True for a word with a command substitution that ends in a decoder."""
    return any(unpacks(nodes[-1]) for nodes in _inside(word))


def unpacks(node: Node) -> bool:
    """True for a decoder that is asked to decode."""
    if not isinstance(node, Simple) or plain_word(node) not in _DECODERS:
        return False
    return _DECODES.search(node.rest) is not None


def _inside(word: Word | Assign) -> list[list[Node]]:
    """The pipelines of the substitutions in a word."""
    subs = [] if isinstance(word, Assign) else [one for one in word.pieces if isinstance(one, Sub)]
    nodes = [node for sub in subs for node, _ in sub.body.items]
    return [node.commands if isinstance(node, Pipe) else [node] for node in nodes]
