"""Lines as they stand at the end, where a program wrote over what it had written: progress bars, overstrikes."""

import re

from hermetic.tools.terminal.ansi import strip

# A line needs a look only where something returns within it.
_RETURNS = re.compile(r"\r(?!\n|\Z)|\x08")
_STEP = re.compile(r"[\r\x08]|\x1b\[[02]?K|\x9b[02]?K")


def settle(text: str) -> str:
    """The text stripped of control sequences, each line as a terminal shows it after its last character.

    Carriage returns, backspaces and erased lines are followed; movements to other lines are not, for those a screen
    is the right thing to look at. The number of lines stays the same.
    """
    if "\r" not in text and "\x08" not in text:
        return strip(text)
    return "\n".join(_settled(line) for line in text.split("\n"))


def _settled(line: str) -> str:
    if not _RETURNS.search(line):
        return strip(line).rstrip("\r")
    cells: list[str] = []
    at = position = 0
    for step in _STEP.finditer(line):
        at = _write(cells, at, strip(line[position : step.start()]))
        at = _move(cells, at, step[0])
        position = step.end()
    _write(cells, at, strip(line[position:]))
    return "".join(cells)


def _write(cells: list[str], at: int, text: str) -> int:
    """Puts the characters into the line; returns where the next one goes."""
    cells[at : at + len(text)] = text
    return at + len(text)


def _move(cells: list[str], at: int, step: str) -> int:
    """Does what a step says; returns where the next character goes."""
    if step == "\r":
        return 0
    if step == "\x08":
        return max(0, at - 1)
    if "2" in step:  # blanks before the place are left out: nobody reads them
        cells.clear()
        return 0
    del cells[at:]
    return at
