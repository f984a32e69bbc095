"""A command of the command line, the exit codes, and the report of an error."""

import argparse
import difflib
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, NoReturn

from hermetic.cli.colours import RED, painted
from hermetic.cli.streams import discard_output
from hermetic.contract.errors import InvalidArgument
from hermetic.contract.printable import one_line

MOST_ERROR = 4000  # characters of a message
FAILED, BAD_USAGE, INTERRUPTED, BROKEN_PIPE = 1, 2, 130, 141


class _Help(argparse.HelpFormatter):
    """Wraps paragraphs, and keeps those with indented lines, which are examples and lists, as they
    are.
    """

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        fill = super()._fill_text
        return "\n\n".join(
            paragraph if "\n  " in f"\n{paragraph}" else fill(paragraph, width, indent)
            for paragraph in text.split("\n\n")
        )


class Parser(argparse.ArgumentParser):
    """An argument parser that reports a usage error in one line with a hint."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, formatter_class=_Help)

    def print_help(self, file: Any = None) -> None:
        """Prints the help. Raises OSError where it cannot be written."""
        file = file or sys.stdout
        file.write(self.format_help())
        file.flush()

    def error(self, message: str) -> NoReturn:
        """Reports the error and exits."""
        sys.exit(report_error(f"{message}; `{self.prog} --help` tells more", BAD_USAGE))


Declare = Callable[[argparse.ArgumentParser], object]


class Command(NamedTuple):
    """One command: its description, its arguments and its function, which returns the exit code."""

    description: str
    declare: Declare
    run: Callable[[argparse.Namespace], int]
    usage: str | None = None
    failed: int = FAILED  # exit code when an environment or the output fails


def option(*names: str, **settings: Any) -> Declare:
    """Declares one argument, as `add_argument` does."""
    return lambda parser: parser.add_argument(*names, **settings)


def takes(*declares: Declare) -> Declare:
    """Declares several arguments."""
    return lambda parser: [declare(parser) for declare in declares]


def defaults(**values: Any) -> Declare:
    """Gives attributes that no argument sets."""
    return lambda parser: parser.set_defaults(**values)


def options(*tables: str) -> Declare:
    """Declares the arguments of tables, one in a row: how it is written, two blanks, its help.

    `--name X: int = 3` has a value of a type and a default, `--name X…` may be repeated, `{a,b}` are
    choices, `-> dest` names the attribute. An operand begins with its attribute: `ids ID…`, `id [ID]`
    and `ids [ID…]` are one or more, one or none, and any. Of rows that begin with `|` one may be
    given. A line that begins with blanks continues the row above.
    """
    rows = [_read(row) for row in re.sub(r"\n {2,}", "  ", "\n".join(tables)).splitlines() if row]

    def declare(parser: argparse.ArgumentParser) -> None:
        group = None
        for row in rows:
            group = group or parser.add_mutually_exclusive_group() if row.is_of_group else None
            (group or parser).add_argument(*row.names, **row.settings)

    return declare


class _Row(NamedTuple):
    """One argument, as `add_argument` takes it."""

    names: list[str]
    settings: dict[str, Any]
    is_of_group: bool


_ROW = re.compile(
    r"(?P<group>\| )?(?P<names>[^\s,]+(?:, [^\s,]+)*)(?: (?P<optional>\[)?(?P<value>\S+?)(?P<many>…)?\]?)?"
    r"(?:: (?P<type>\w+))?(?: = (?P<default>\S*))?(?: -> (?P<dest>\w+))?(?:\s{2,}(?P<help>.*))?"
)
_TYPES: Mapping[str, Callable[[str], Any]] = {"int": int, "float": float}


def _read(row: str) -> _Row:
    found = _ROW.fullmatch(row)
    assert found is not None, f"no argument is written {row!r}"
    names, value, many = found["names"].split(", "), found["value"], found["many"]
    settings: dict[str, Any] = {"help": found["help"] and " ".join(found["help"].split())}
    settings |= {name: found[name] for name in ("dest", "default") if found[name] is not None}
    if value is None:
        settings["action"] = "store_true"
    elif value.startswith("{"):
        settings["choices"] = value.strip("{}").split(",")
    else:
        settings["metavar"] = value
    if found["type"]:
        settings["type"] = _TYPES[found["type"]]
        if "default" in settings:
            settings["default"] = settings["type"](settings["default"])
    if not names[0].startswith("-"):
        settings["nargs"] = ("*" if many else "?") if found["optional"] else "+" if many else None
    elif many:
        settings |= {"action": "append", "default": []}
    return _Row(names, settings, bool(found["group"]))


def check_above_zero(arguments: argparse.Namespace, name: str, more: str = "") -> None:
    """Raises InvalidArgument for seconds that are given and not above zero."""
    seconds = getattr(arguments, name)
    if seconds is not None and not seconds > 0:
        raise InvalidArgument(f"--{name} is seconds above zero{more}", argument=name)


JSON = "--json  as JSON"


def report_output_error(error: OSError, code: int) -> int:
    """Reports a file that fails by its name, or that our output cannot be written, and discards
    the rest; returns the code.
    """
    discard_output()
    why = error.strerror or str(error)
    if isinstance(error.filename, str | bytes):
        return report_error(f"{os.fsdecode(error.filename)}: {why}", code)
    return report_error(f"{why}; look at where the output goes, or send it elsewhere", code)


def report_error(error: BaseException | str, code: int) -> int:
    """Writes the error as one line to stderr; returns the code."""
    message = one_line(" ".join(str(error).split("\n")), MOST_ERROR)
    try:
        sys.stderr.write(f"{painted('hermetic:', RED, sys.stderr)} {message}\n")
        sys.stderr.flush()
    except OSError:  # no room, or no reader
        discard_output(sys.stderr)
    return code


def did_you_mean(wrong: str, names: Iterable[str]) -> str:
    """`did you mean run? ` where a name is near, else nothing."""
    near = difflib.get_close_matches(wrong, names, n=1)
    return f"did you mean {near[0]}? " if near else ""
