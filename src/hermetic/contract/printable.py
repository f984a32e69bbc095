"""Foreign text made printable: no character that a terminal acts on, hides or turns around.

Text that comes from an environment, a task's name or a command passes through here before a person
sees it.
"""

import os
import unicodedata

_KEPT = ("\n", "\t")
_IN_LINE = {"\t": " ", "\n": "⏎", "\r": "⏎"}
# Format and control characters (bidi among them), halves of surrogate pairs, unassigned, separators
# but the space.
_UNSEEN = frozenset({"Cf", "Cc", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
# Letters and marks that show nothing: fillers, joiners, variation selectors.
_BLANK = frozenset(
    map(
        chr,
        (
            0x34F,
            0x115F,
            0x1160,
            0x17B4,
            0x17B5,
            0x180B,
            0x180C,
            0x180D,
            0x180F,
            0x2800,
            0x3164,
            0xFFA0,
        ),
    )
) | frozenset(map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))


def escaped(text: str) -> str:
    """The text with what is not printable spelled as an escape; line ends and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(char if char in _KEPT or is_printable(char) else _spelled(char) for char in text)


def is_printable(char: str) -> bool:
    """True for a character that a terminal shows, and shows where it stands."""
    if " " <= char <= "~":
        return True
    return char > "\x9f" and char not in _BLANK and unicodedata.category(char) not in _UNSEEN


def _spelled(char: str) -> str:
    code = ord(char)
    return (
        f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"
    )


def one_line(text: str, most: int = 200) -> str:
    """Text from elsewhere as one line of so many characters; `⏎` is a line's end, `�` what is not
    printable.
    """
    plain = "".join(
        char if is_printable(char) else _IN_LINE.get(char, "�") for char in text[: most + 1]
    )
    return plain if len(plain) <= most else plain[: most - 1] + "…"


def os_error_text(error: OSError) -> str:
    """The path and the reason of an error of the system, without its number."""
    if error.strerror is None:
        return str(error)
    named = isinstance(error.filename, str | bytes)
    return f"{os.fsdecode(error.filename)}: {error.strerror}" if named else error.strerror
