"""What shells report, parsed strictly: any process of the environment can write to their pipe."""

from __future__ import annotations

from ..life.fast_stdlib import pattern

_DISABLED = pattern(rb"(?:enable -n \S+\n)*")
_ALIAS = pattern(rb"alias (?:-- )?([^\s=]+)=(?:'[^']*'|\\')*\n")
_TRAP = pattern(rb"trap -- (-|(?:'[^']*'|\\')+) (?:SIG)?([A-Z0-9+-]+)\n")
STATUSES = 64  # kept for the next command, of one pipeline
END_OF_REPORT = b"\0."


def read_traps(data: bytes) -> dict[bytes, bytes] | None:
    """Signal → trap body, from the output of `trap -p`; None if it holds anything else."""
    found, rest = _take_traps(data)
    return None if rest else found


class StateReport:
    """State that a shell reported about itself.

    Raises ValueError for anything that bash does not print.
    """

    def __init__(self, data: bytes) -> None:
        first, _, rest = data.partition(b"\0")
        self.traps, disabled = _take_traps(first)
        if not (_DISABLED.fullmatch(disabled) and rest.endswith(END_OF_REPORT)):
            raise ValueError("not what bash prints")
        self.disabled = disabled.splitlines()
        self.text = rest[: -len(END_OF_REPORT)]


def read_names(data: bytes) -> set[bytes]:
    """The names of functions and aliases, from the output of `NAMES`.

    Raises ValueError for anything else.
    """
    functions, _, aliases = data.partition(b"\0")
    names, at = {line.split(b" ", 2)[-1] for line in functions.splitlines()}, 0
    while (line := _ALIAS.match(aliases, at)) is not None:
        names.add(line.group(1))
        at = line.end()
    if at < len(aliases):
        raise ValueError("not what bash prints")
    return names


def _take_traps(data: bytes) -> tuple[dict[bytes, bytes], bytes]:
    """The traps at the beginning of the data, and the rest."""
    found: dict[bytes, bytes] = {}
    at = 0
    while (line := _TRAP.match(data, at)) is not None:
        word, name = line.group(1), line.group(2)
        if word != b"-":
            found[name] = b"".join(b"'" if part == b"\\'" else part[1:-1] for part in _parts(word))
        at = line.end()
    return found, data[at:]


def _parts(word: bytes) -> list[bytes]:
    parts, at = [], 0
    while at < len(word):
        end = at + 2 if word[at : at + 1] == b"\\" else word.index(b"'", at + 1) + 1
        parts.append(word[at:end])
        at = end
    return parts


class Report:
    """One report of a shell that is ready for its next order."""

    def __init__(
        self, name: bytes, pid: int, number: int, flags: bytes, status: int, statuses: list[int]
    ) -> None:
        self.name, self.pid, self.number = name, pid, number
        self.flags, self.status, self.statuses = flags, status, statuses


def read_report(record: bytes) -> Report | None:
    """The report in a record; None for anything else. Any process can write to the event pipe.

    The pid is 0 where a command has unset BASHPID.
    """
    fields = record.split(b" ")
    flags = fields.pop(3) if len(fields) > 4 else b""
    if not (flags.isalpha() and b"".join(fields).isdigit()):
        return None
    try:
        number, status, *statuses = map(int, fields[2:])
    except ValueError:  # an empty field
        return None
    return Report(
        fields[0],
        int(fields[1] or 0),
        number,
        flags,
        status & 255,
        [word & 255 for word in statuses[:STATUSES]],
    )
