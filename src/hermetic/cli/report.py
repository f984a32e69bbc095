"""What commands print for people and for machines: tables, ages, sizes, JSON."""

import sys
import time
from collections.abc import Iterable, Sequence

import msgspec

UNPRINTABLE = dict.fromkeys((*range(32), *range(127, 160)), "�") | {9: " ", 10: "⏎", 13: "⏎"}


def print_json(value: object) -> None:
    """Prints a value as indented JSON; Structs become objects, bytes base64."""
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n")
    sys.stdout.flush()


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Prints rows with their columns aligned; the last column is as long as it likes."""
    lines = [headings, *([one_line(cell) for cell in row] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headings) - 1)]
    for line in lines:
        padded = [cell.ljust(width) for cell, width in zip(line, widths, strict=False)]
        print("  ".join([*padded, line[-1]]).rstrip())


def one_line(text: str, most: int = 200) -> str:
    """Text from elsewhere as one line that no terminal takes for a control sequence."""
    plain = text.translate(UNPRINTABLE)
    return plain if len(plain) <= most else plain[: most - 1] + "…"


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
