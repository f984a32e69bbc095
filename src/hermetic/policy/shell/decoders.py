"""Words and commands that only show what they are once something is decoded."""

from __future__ import annotations

import re

from .compounds import first_word
from .syntax import Assign, Node, Pipe, Seq, Simple, Sub, Word

_DECODERS = frozenset(
    {"base64", "base32", "xxd", "rev", "openssl", "uudecode", "gunzip", "zcat", "xz", "gpg"}
)


def is_decoded(word: Word | Assign) -> bool:
    """True when a program's name comes out of a decoder."""
    if isinstance(word, Assign):
        return False
    subs = [piece for piece in word.pieces if isinstance(piece, Sub)]
    return any(_decodes(node) for sub in subs for node, _ in sub.body.items)


def holds_unpacked(word: Word | Assign) -> bool:
    """True for a word with a command substitution that ends in a decoder."""
    if isinstance(word, Assign):
        return False
    inner = [
        node for piece in word.pieces if isinstance(piece, Sub) for node, _ in piece.body.items
    ]
    return any(unpacks(node.commands[-1] if isinstance(node, Pipe) else node) for node in inner)


def unpacks(node: Node) -> bool:
    """True for a decoder that is told to decode."""
    if not isinstance(node, Simple) or first_word(Seq([(node, ";")])) not in _DECODERS:
        return False
    return bool(re.search(r"(^|\s)(-\w*[dDr]\w*|--decode|--decrypt)(\s|$)", node.rest))


def _decodes(node: Node) -> bool:
    commands = node.commands if isinstance(node, Pipe) else [node]
    return any(first_word(Seq([(command, ";")])) in _DECODERS for command in commands)
