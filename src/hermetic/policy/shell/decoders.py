"""Words and commands that only show what they are once something is decoded."""

from __future__ import annotations

from hermetic.policy.tables import regex

from .compounds import plain_word
from .syntax import Assign, Node, Pipe, Proc, Simple, Sub, Word

_DECODERS = frozenset(
    {"base64", "base32", "xxd", "rev", "openssl", "uudecode", "gunzip", "zcat", "xz", "gpg"}
)
MAX_TEXTS = 16
_DECODES = regex(r"(^|\s)(-\w*[dDr]\w*|--decode|--decrypt)(\s|$)")


# Letters and signs by their numbers, and letters that stand for others.
_SPELLED = regex(r"\\(?:x[2-7][0-9A-Fa-f]|0?(?:0[4-7]|1[0-7])[0-7]|u00[2-7][0-9A-Fa-f])")
_ROTATED = regex(r"[b-y]-z|[B-Y]-Z|^[^\[\\-]{6,}$")
MIN_SPELLED = 4


def uncovers(name: str, args: list[str]) -> bool:
    """True for a program whose output shows what nobody could read before."""
    if name in ("printf", "echo"):
        return "\\" in "".join(args) and any(map(_SPELLED.search, args))
    if name in ("rev", "tr"):
        return name == "rev" or any(map(_ROTATED.search, args[:2]))
    return name in _DECODERS and _DECODES.search(" ".join(args)) is not None


class Uncovered:
    """Texts that decoders have shown, whole or letter by letter."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._spelled = ""

    def add(self, text: str) -> None:
        """Remember what a decoder printed."""
        text = text.strip()
        if len(text) > 1 and len(self._texts) < MAX_TEXTS:
            self._texts.append(text)
        elif len(self._spelled) < MIN_SPELLED:
            self._spelled += text

    def is_in(self, code: str) -> bool:
        """True for code that holds such a text."""
        if not self._texts and not self._spelled:
            return False
        found = [*self._texts, self._spelled] if len(self._spelled) == MIN_SPELLED else self._texts
        return any(one in code for one in found)


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
    pieces = [] if isinstance(word, Assign) else word.pieces
    subs = [one for one in pieces if isinstance(one, Sub | Proc)]
    nodes = [node for sub in subs for node, _ in sub.body.items]
    return [node.commands if isinstance(node, Pipe) else [node] for node in nodes]
