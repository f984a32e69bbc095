"""Output for people and machines: tables, ages, sizes, JSON."""

import getpass
import os
import re
import sys
import time
from collections.abc import Iterable, Sequence

import msgspec

from hermetic.cli.colours import has_colours, state
from hermetic.cli.streams import terminal_size
from hermetic.contract.printable import is_printable
from hermetic.contract.printable import one_line as one_line

_SPECIAL = re.compile(r"[^\n -~]")
LEAST_COLUMNS = 20  # of the last column of a table
MOST_COLUMNS = 1000


def user_name() -> str:
    """The name of this program's user; one without an entry in the user database has a number."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"user {os.getuid()}"


def print_json(value: object) -> None:
    """Prints a value as indented JSON; Structs become objects, bytes base64.

    What is not printable is escaped.
    """
    text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    keeps = _is_unicode(sys.stdout.encoding)
    text = _SPECIAL.sub(
        lambda found: found[0] if keeps and is_printable(found[0]) else _escape(found[0]), text
    )
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _is_unicode(encoding: str | None) -> bool:
    return (encoding or "").lower().replace("-", "").startswith("utf")


def _escape(char: str) -> str:
    """The JSON escape of a character. These characters occur only inside strings."""
    data = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{data[at]:02x}{data[at + 1]:02x}" for at in range(0, len(data), 2))


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Prints rows with their columns aligned; on a terminal the last column ends where the line
    does.
    """
    for line in table(headings, rows, _columns(), colours=has_colours(sys.stdout)):
        print(line)


def print_listing(
    as_json: bool, data: Iterable[object], columns: str, rows: Iterable[Sequence[str]]
) -> None:
    """Prints what is listed: `data` as JSON, or `rows` below the names of their columns."""
    if as_json:
        print_json(list(data))
    else:
        print_table(columns.split("|"), rows)


def table(
    headings: Sequence[str], rows: Iterable[Sequence[str]], columns: int, *, colours: bool
) -> list[str]:
    """The lines of a table that is so wide. States get colours."""
    lines = [headings, *([one_line(cell) for cell in row] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headings) - 1)]
    room = columns - sum(widths) - 2 * len(widths)
    shown = []
    for line in lines:
        cells = [cell.ljust(width) for cell, width in zip(line, widths, strict=False)]
        cells.append(one_line(line[-1], max(room, LEAST_COLUMNS)))
        if colours and line is not headings:
            cells = [
                state(cell) if heading == "STATE" else cell
                for heading, cell in zip(headings, cells, strict=True)
            ]
        shown.append("  ".join(cells).rstrip())
    return shown


def _columns() -> int:
    """Columns of the terminal; MOST_COLUMNS without one."""
    return terminal_size(sys.stdout.fileno()).columns if sys.stdout.isatty() else MOST_COLUMNS


def age(since: float) -> str:
    """How long ago a moment (seconds since 1970) was."""
    return span(max(0.0, time.time() - since))


def span(seconds: float) -> str:
    """`350 ms`, `12 s`, `3 min`, `5 h`, `2 d`."""
    if seconds < 0.01:
        return f"{seconds * 1000:.2g} ms"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 172800 else f"{seconds / 86400:.0f} d"


def size(count: int) -> str:
    """`512 B`, `3.2 MiB`."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024 or unit == "GiB":
            break
        amount /= 1024
    return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
