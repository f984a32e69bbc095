"""Colours of errors, states and verdicts, where the reader wants them.

NO_COLOR and TERM=dumb turn them off, FORCE_COLOR and CLICOLOR_FORCE turn them on for files and
pipes too, CLICOLOR=0 turns them off at a terminal. The order is that of Python itself.
"""

import os
from typing import TextIO

RED, GREEN, YELLOW, BOLD, DIM = "31", "32", "33", "1", "2"

_STATES = {
    **dict.fromkeys(("alive", "running", "ok", "safe"), GREEN),
    **dict.fromkeys(("connecting", "stalled", "full", "busy", "weak"), YELLOW),
    **dict.fromkeys(("caution", "frozen", "missing"), YELLOW),
    **dict.fromkeys(("gone", "broken", "damaged", "dangerous"), RED),
}


def has_colours(stream: TextIO) -> bool:
    """Whether text for this stream may have colours."""
    get = os.environ.get
    if get("NO_COLOR"):
        return False
    if get("FORCE_COLOR", "0") not in ("", "0") or get("CLICOLOR_FORCE", "0") not in ("", "0"):
        return True
    return get("TERM") not in (None, "", "dumb") and get("CLICOLOR") != "0" and stream.isatty()


def paint(text: str, colour: str) -> str:
    """The text in a colour; spaces at its end stay plain."""
    bare = text.rstrip(" ")
    return f"\x1b[{colour}m{bare}\x1b[0m{text[len(bare) :]}" if bare and colour else text


def state(text: str) -> str:
    """A state or verdict in its colour; what is as it should be in the plain one, if it is no state
    of its own.
    """
    if text.startswith("exited with code 0"):
        return text
    if text.startswith(("exited", "ended by", "timed out", "lost", "out of memory")):
        return paint(text, RED)
    return paint(text, _STATES.get(text.strip(), ""))


def painted(text: str, colour: str, stream: TextIO) -> str:
    """The text as this stream takes it."""
    return paint(text, colour) if has_colours(stream) else text


def shown_state(text: str, stream: TextIO) -> str:
    """A state or verdict as this stream takes it."""
    return state(text) if has_colours(stream) else text
