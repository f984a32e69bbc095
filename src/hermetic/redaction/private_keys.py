"""Private keys in a text: whole blocks, and lines of them without their borders."""

import re
from collections.abc import Iterator

from hermetic.redaction.placeholders import is_example

Span = tuple[int, int]

_KEY_BORDER = re.compile(r"-----(BEGIN|END) (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_KEY_BODY = re.compile(r"(?:[A-Za-z0-9+/=:,.\- \t\r\n\"]|\\[nr])*")
_KEY_LONGEST = 16_384  # characters
# A block without such a line is an example or a mention.
_KEY_LINE = re.compile(r"[A-Za-z0-9+/=]{40}")

_BASE64 = re.compile(r"[A-Za-z0-9+/]{1,100}={0,2}")
_OPENSSH = 70  # characters of a line of OpenSSH's private keys, and of no other format's
_LEAST_KEY = 40  # characters of a line of another key
# Three or more lines of 64 characters, with what a page leaves of the line before and the shorter
# one behind.
_PEM_RUN = re.compile(
    r"(?:\A[A-Za-z0-9+/]{16,63}\r?\n|(?<![^\n]))(?P<line>[A-Za-z0-9+/]{64})\r?\n(?:[A-Za-z0-9+/]{64}\r?\n)+"
    r"[A-Za-z0-9+/]{62}(?:[A-Za-z0-9+/]{2}|[A-Za-z0-9+/]=|==)(?![^\r\n])(?:\r?\n[A-Za-z0-9+/]{16,63}={0,2}(?![^\r\n]))?"
)
_HEXADECIMAL = re.compile(r"[0-9a-fA-F]+")
_END_BORDER = re.compile(
    r"\s{0,8}(?:=[A-Za-z0-9+/]{4}\s{1,4})?(?:[A-Za-z0-9+/]{1,63}={0,2}\s{1,4})?-----END ([^\n]{0,60})"
)
_LONGEST_BLOCK = 65_536  # characters between a border and lines that it classifies


def find_private_keys(text: str) -> Iterator[Span]:
    """The bodies of private keys, also where the start or the end of the block is missing."""
    if "PRIVATE KEY" not in text:
        return
    borders = list(_KEY_BORDER.finditer(text))
    for at, border in enumerate(borders):
        if border[1] == "BEGIN":
            start = border.end()
            limit = borders[at + 1].start() if at + 1 < len(borders) else len(text)
            body = _KEY_BODY.match(text, start, min(limit, start + _KEY_LONGEST))
            end = body.end() if body else start
        elif (
            at
            and borders[at - 1][1] == "BEGIN"
            and border.start() - borders[at - 1].end() <= _KEY_LONGEST
        ):
            continue
        else:
            start, end = _body_before(text, border.start()), border.start()
        if span := _trimmed(text, start, end):
            yield span


def find_key_runs(text: str) -> Iterator[Span]:
    """Consecutive lines of PEM without borders, such as a page from the middle of a key.

    Lines of a certificate look the same: they match too, unless a border marks the block as public.
    """
    for match in _PEM_RUN.finditer(text):
        first = match["line"]
        is_hex = _HEXADECIMAL.fullmatch(first) is not None or first in (
            first.lower(),
            first.upper(),
        )
        if not is_hex and not is_example(first) and not _is_public(text, *match.span()):
            yield match.span()


def _is_public(text: str, start: int, end: int) -> bool:
    """Whether the border before or after these lines is not that of a private key."""
    if behind := _END_BORDER.match(text, end):
        return "PRIVATE" not in behind[1]
    border = text.rfind("-----BEGIN ", max(0, start - _LONGEST_BLOCK), start)
    return (
        border >= 0
        and "-----END " not in text[border:start]
        and "PRIVATE" not in text[border : border + 60]
    )


def find_key_lines(text: str, is_key_file: bool) -> Iterator[Span]:
    """Lines of a private key without the borders of its block.

    Of a file that holds keys all long lines of base64 are taken, but for public blocks; elsewhere
    lines as OpenSSH has.
    """
    place, is_public, lines = 0, False, text.split("\n")
    for number, line in enumerate(lines):
        if line.startswith("-----"):
            is_public = "BEGIN" in line and "PRIVATE" not in line
        elif (
            len(line) == _OPENSSH if not is_key_file else len(line) >= _LEAST_KEY and not is_public
        ):
            near = (*lines[max(0, number - 1) : number], *lines[number + 1 : number + 2])
            is_one = is_key_file or any(
                len(other) == _OPENSSH and _BASE64.fullmatch(other) for other in near
            )
            if is_one and _BASE64.fullmatch(line) and not is_example(line):
                yield place, place + len(line)
        place += len(line) + 1


def _body_before(text: str, end: int) -> int:
    """The start of the base64 lines before a block's end."""
    start = end
    while start > max(0, end - _KEY_LONGEST):
        line = text.rfind("\n", max(0, start - 200), start - 1) + 1 or max(0, start - 200)
        if not re.fullmatch(r"[A-Za-z0-9+/=]{1,100}\s*", text[line:start]):
            break
        start = line
    return start


def _trimmed(text: str, start: int, end: int) -> Span | None:
    """The span without surrounding blanks; None when it is too short for a key."""
    body = text[start:end]
    if not _KEY_LINE.search(body) or is_example(body.replace("\\n", "")[:200]):
        return None
    left = len(body) - len(body.lstrip(' \t\r\n"\\'))
    if body[left:].startswith("n") and body[:left].endswith("\\"):
        left += 1
    return start + left, start + len(body.rstrip(' \t\r\n"'))
