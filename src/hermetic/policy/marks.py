"""Characters that stand for unknown text, one per origin, and for active glob characters.

A folded word is an ordinary string in which such a mark takes the place of the unknown text, so
that joining, slicing and comparing keep working and the origin travels along. Command texts never
contain them: text is handled as one character per UTF-8 byte.
"""

from __future__ import annotations

from .tables import names

UNSET = "\ue000"  # an unknown variable, or anything else not understood
LOCAL = "\ue001"  # what a local program prints
FILE = "\ue002"  # what a file holds
NET = "\ue003"  # what another machine sent
DECODED = "\ue004"  # what a decoder makes of text that is not seen
SECRET = "\ue005"  # what a credential file holds
TOKEN = "\ue006"  # a variable named like a credential
INPUT = "\ue007"  # what the terminal or an unseen standard input gives
NUMBER = "\ue008"  # a number: $$, $RANDOM, ${#x}
PIDS = "\ue009"  # the ids of many processes
DEVICE = "\ue00a"  # the name of a disk, as tools that list disks print it
ENDLESS = "\ue00b"  # goes on without end: /dev/zero, yes
STAR = "\ue010"
QUESTION = "\ue011"
BRACKET = "\ue012"

ORIGINS = UNSET + LOCAL + FILE + NET + DECODED + SECRET + TOKEN + INPUT + PIDS + DEVICE + ENDLESS
UNKNOWN = ORIGINS + NUMBER
GLOBS = STAR + QUESTION + BRACKET
_ALL = frozenset(UNKNOWN + GLOBS)
_UNKNOWN = frozenset(UNKNOWN)
_GLOBS = frozenset(GLOBS)
_TO_GLOB = str.maketrans({"*": STAR, "?": QUESTION, "[": BRACKET})
_FROM_GLOB = str.maketrans({STAR: "*", QUESTION: "?", BRACKET: "["})
_WORDS = names(
    "‹unknown› ‹output› ‹file› ‹download› ‹decoded› ‹secret› ‹secret› ‹input› ‹pids› ‹disk› … ‹number› * ? ["
)
_SHOWN = dict(zip(map(ord, UNKNOWN + GLOBS), _WORDS, strict=True))


def marks_in(text: str) -> str:
    """The origins of unknown text in a folded string, each once."""
    if text.isascii():
        return ""
    return "".join(sorted(_UNKNOWN.intersection(text)))


def is_known(text: str) -> bool:
    """True when no part of the folded string is unknown; globs count as known."""
    return text.isascii() or _UNKNOWN.isdisjoint(text)


def is_plain(text: str) -> bool:
    """True when the folded string holds neither unknown text nor active globs."""
    return text.isascii() or _ALL.isdisjoint(text)


def has_glob(text: str) -> bool:
    """True when an unquoted glob character is in the folded string."""
    return not text.isascii() and not _GLOBS.isdisjoint(text)


def activate_globs(text: str) -> str:
    """The same text with glob characters active, as after an unquoted expansion; a bracket may be
    closed by what follows.
    """
    return text.translate(_TO_GLOB)


def close_globs(text: str) -> str:
    """The same text without active brackets that nothing closes."""
    end = text.rfind("]") + 1
    return text if BRACKET not in text[end:] else text[:end] + text[end:].replace(BRACKET, "[")


def literal_globs(text: str) -> str:
    """The same text with active globs as the characters a person typed."""
    return text if text.isascii() else text.translate(_FROM_GLOB)


def unknown_like(*texts: str) -> str:
    """Unknown text that keeps the origins of what it was made of."""
    return "".join(sorted({UNSET}.union(*(marks_in(text) for text in texts))))


def to_bytes_text(text: str) -> str:
    """One character per UTF-8 byte, the form in which texts are read and folded."""
    return text if text.isascii() else text.encode("utf-8", "surrogatepass").decode("latin-1")


def shown(text: str) -> str:
    """The folded text as a person should see it."""
    if text.isascii():
        return text
    out: list[str] = []
    run = bytearray()
    for char in text:
        if ord(char) < 256:
            run.append(ord(char))
            continue
        out.append(run.decode("utf-8", "replace"))
        run.clear()
        out.append(char.translate(_SHOWN))
    out.append(run.decode("utf-8", "replace"))
    return "".join(out)
