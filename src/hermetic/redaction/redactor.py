"""Hides secrets in text for a model: known values first, then by form and by context."""

import bisect
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from hermetic.redaction.blocks import find_blocks
from hermetic.redaction.known_secrets import KnownSecret, ValueFinder
from hermetic.redaction.patterns import PATTERNS, Content
from hermetic.redaction.private_keys import find_key_lines, find_key_runs, find_private_keys
from hermetic.redaction.tokens import SHORTEST, TokenFinder

_LONG_WORD = re.compile(rf"\S{{{SHORTEST}}}")

# No real value begins like this, so text with it can be refused when it is written back.
MARK = "[hidden by hermetic: "
_MARKED = re.compile(re.escape(MARK) + r"[^\]\n]{0,120}\]")
_UNFIT = re.compile(r"[^\w.-]")
_ASCII_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}

SHOWN_FROM = 18  # characters of a token from which on its start and end are shown
_START, _END = 6, 4


class Secret(NamedTuple):
    """The range of a secret in a text, and its replacement."""

    start: int
    end: int
    what: str
    is_known: bool = False


class Redactor:
    """Hides secrets. Takes time in proportion to the text, and keeps the number of lines."""

    def __init__(self, known: Iterable[KnownSecret] = (), *, patterns: bool = True) -> None:
        self._values = ValueFinder(known)
        self._tokens = TokenFinder()
        self._patterns = patterns

    def redact(self, text: str, content: Content = "output") -> str:
        """The text with a mark in place of each secret."""
        secrets = list(self.find(text, content)) if text else []
        return self.put(text, secrets) if secrets else text

    def put(self, text: str, secrets: Iterable[Secret]) -> str:
        """The text with each of these replaced by a mark; overlapping ones share one."""
        pieces: list[str] = []
        at = 0
        for secret in _merged(secrets):
            hidden = text[secret.start : secret.end]
            pieces += [text[at : secret.start], f"{MARK}{secret.what}]", "\n" * hidden.count("\n")]
            at = secret.end
        return "".join([*pieces, text[at:]])

    def join(self, before: str, text: str) -> str:
        """The text, with the rest of a secret that began before it replaced."""
        for secret in _merged(self.find(before + text, "output")):
            if secret.start < len(before) < secret.end:
                return f"{MARK}{secret.what}]{text[secret.end - len(before) :]}"
        return text

    def unfinished(self, text: str) -> int:
        """The number of trailing characters that may start a known secret."""
        return self._values.unfinished(text)

    def find(self, text: str, content: Content) -> Iterator[Secret]:
        """The secrets that do not overlap an existing mark."""
        marks = [match.span() for match in _MARKED.finditer(text)] if MARK in text else []
        ends = [end for _, end in marks]
        for secret in self._all(text, content):
            next_mark = bisect.bisect_right(ends, secret.start)
            if next_mark == len(marks) or marks[next_mark][0] >= secret.end:
                yield secret

    def shows_known(self, text: str) -> bool:
        """Whether a secret whose value is known is in the text, in any spelling."""
        values = self._values
        return bool(values.needles) and next(iter(values.find(text)), None) is not None

    def find_known(self, text: str) -> Iterator[Secret]:
        """The secrets whose values are known, in any spelling."""
        for start, end, name in self._values.find(text):
            yield Secret(start, end, f"value of {_UNFIT.sub('_', name)}", is_known=True)

    def find_parts(self, text: str) -> Iterator[Secret]:
        """Parts of known secrets: at least half of one, and longer than an ordinary word."""
        for start, end, name in self._values.find_parts(text):
            yield Secret(start, end, f"part of {_UNFIT.sub('_', name)}")

    def _all(self, text: str, content: Content) -> Iterator[Secret]:
        if self._values.needles:
            yield from self.find_known(text)
        if not self._patterns:
            return
        if _LONG_WORD.search(text):
            yield from self._long(text, content)
        lowered = text.lower()
        if len(lowered) != len(text):  # each character stays at its offset
            lowered = text.translate(_ASCII_LOWER)
        assigns = "=" in lowered or ":" in lowered
        if assigns and content != "code":
            for start, end in find_blocks(text, content == "environment"):
                yield Secret(start, end, "***")
        for pattern in PATTERNS:
            if content in pattern.contents and (
                pattern.sign in lowered if pattern.sign else assigns
            ):
                for start, end in pattern.find(text, lowered, content == "environment"):
                    yield Secret(start, end, "***")

    def _long(self, text: str, content: Content) -> Iterator[Secret]:
        """Tokens and keys, which all hold a long word."""
        for start, end in self._tokens.find(text):
            yield Secret(start, end, _hint(text[start:end]))
        for keys in (
            find_private_keys(text),
            find_key_runs(text),
            find_key_lines(text, content == "environment"),
        ):
            for start, end in keys:
                yield Secret(start, end, "private key")


def hidden_in(text: str) -> list[str]:
    """The marks in a text that is about to be written; its author does not know the real values."""
    return [match[0] for match in _MARKED.finditer(text)]


def _hint(token: str) -> str:
    """A token's start and end, which identify it; stars when it is short."""
    return f"{token[:_START]}...{token[-_END:]}" if len(token) >= SHOWN_FROM else "***"


def _merged(found: Iterable[Secret]) -> list[Secret]:
    """Secrets in order, those that overlap as one; a known one gives the name."""
    merged: list[Secret] = []
    for secret in sorted(found):
        if not merged or secret.start >= merged[-1].end:
            merged.append(secret)
            continue
        last = merged[-1]
        named = last if last.is_known or not secret.is_known else secret
        merged[-1] = Secret(
            last.start, max(last.end, secret.end), named.what, last.is_known or secret.is_known
        )
    return merged
