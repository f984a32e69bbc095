"""Output without control sequences, as a model should read it; people get the raw bytes."""

import re

LONGEST_HELD = 1 << 16  # characters of an unfinished control string that a stripper holds back

# A control string ends at the first of these, finished or not. None reaches beyond its line, so lines stay countable.
_STRING = r"[^\n\x07\x18\x1a\x1b\x80-\x9f]*+"
_SEQUENCE = re.compile(
    rf"""
      \x1b\] P [0-9a-fA-F]{{7}}                                    # a palette entry of the Linux console
    | \x1bPtmux;                                                  # what follows is for the terminal around tmux
    | (?: \x1b\] | \x9d ) {_STRING} (?: \x07 | \x1b\\ | \x9c )     # OSC
    | (?: \x1b[PX^_k] | [\x90\x98\x9e\x9f] ) {_STRING} (?: \x1b\\ | \x9c )  # DCS, SOS, PM, APC, a title of screen
    | (?: \x1b\[ | \x9b ) [0-?]*+ [\x20-/]*+ [@-~]                 # CSI
    | \x1b\[ [0-?]*+ [\x20-/]*+                                    # CSI that does not end
    | \x1b [\x20-/]++ [0-~]?                                       # nF
    | \x1b [0-~]?                                                  # two characters, or the escape alone
    | [\x80-\x9f]                                                  # any other 8-bit control
    """,
    re.VERBOSE,
)
_UNFINISHED = re.compile(
    rf"""
    (?: (?: \x1b[\]PX^_k] | [\x90\x98\x9d-\x9f] ) {_STRING} \x1b?
      | \x1b \] P [0-9a-fA-F]{{0,6}}
      | (?: \x1b\[ | \x9b ) [0-?]*+ [\x20-/]*+
      | \x1b [\x20-/]*+
    ) \Z
    """,
    re.VERBOSE,
)
_INTRODUCER = re.compile(r"[\x1b\x90\x98\x9b\x9d-\x9f]")
_BORDER = re.compile(r"[\n\x07\x18\x1a\x1b\x80-\x9f]")  # where a control string ends


def strip(text: str) -> str:
    """The text without control sequences in 7-bit or 8-bit form; the number of lines stays the same.

    What a control string holds goes with it only where the string is ended; otherwise only its start goes.
    """
    if "\x1b" not in text and text.isascii():
        return text
    return _SEQUENCE.sub("", text)


class Stripper:
    """`strip` for a text that comes in pieces: a sequence may be divided anywhere."""

    def __init__(self) -> None:
        self._held: list[str] = []
        self._size = 0
        self._in_string = False

    def feed(self, text: str) -> str:
        """What is certain by now; the start of a sequence is held back until the rest comes."""
        if self._in_string and self._size + len(text) <= LONGEST_HELD and not _BORDER.search(text):
            self._hold(text)
            return ""
        text = "".join(self._held) + text
        self._forget()
        start = _unfinished(text)
        if start < len(text):
            self._hold(text[start:])
            self._in_string = len(text) - start > 2 and _BORDER.search(text, start + 2) is None
        return strip(text[:start])

    def finish(self) -> str:
        """What is left when nothing more comes."""
        text = "".join(self._held)
        self._forget()
        return strip(text)

    def _hold(self, text: str) -> None:
        self._held.append(text)
        self._size += len(text)

    def _forget(self) -> None:
        self._held.clear()
        self._size = 0
        self._in_string = False


def _unfinished(text: str) -> int:
    """Where a sequence begins that the text does not end; the length of the text when there is none."""
    starts = [found.start() for found in _INTRODUCER.finditer(text, max(0, len(text) - LONGEST_HELD))]
    # A string ends with an escape and one more character: the last introducer may belong to the one before it.
    for start in starts[-2:]:
        if _UNFINISHED.match(text, start):
            return start
    return len(text)
