"""The pages of the documentation, their code blocks and the rows of their tables."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = [
    str(path.relative_to(ROOT))
    for path in (*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md")))
]

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A fenced block of code: where its first line stands, and its text."""

    page: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def read(page: str) -> str:
    """The text of a page, named from the repository's root."""
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str, language: str, heading: str = "") -> list[Block]:
    """The page's code in that language, in order; all of it, or what is below a heading."""
    text = read(page)
    return [
        Block(page, text.count("\n", 0, found.start(2)) + 1, found.group(2))
        for found in _BLOCK.finditer(text)
        if found.group(1) == language and heading in ("", _heading_above(text[: found.start()]))
    ]


def _heading_above(text: str) -> str:
    """The last heading of a text, which has no code block open at its end."""
    headings = re.findall(r"^#+ (.+)$", _BLOCK.sub("", text), re.MULTILINE)
    return str(headings[-1]) if headings else ""


def rows(page: str) -> list[list[str]]:
    """The cells of every table row of the page, headers and rules left out."""
    lines = read(page).splitlines()
    headers = {at for at, line in enumerate(lines[1:]) if re.fullmatch(r"(\|-+)+\|", line)}
    return [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for at, line in enumerate(lines)
        if line.startswith("|") and at not in headers and at - 1 not in headers
    ]
