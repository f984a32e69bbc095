"""A command of the command line, the exit codes, and the report of an error."""

import argparse
import contextlib
import difflib
import sys
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, NoReturn

from hermetic.cli.colours import RED, painted
from hermetic.cli.streams import discard_output
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


JSON = option("--json", action="store_true", help="as JSON")


def report_output_error(error: OSError, code: int) -> int:
    """Reports that our output cannot be written and discards the rest; returns the code."""
    discard_output()
    return report_error(
        f"{error.strerror or error}; look at where the output goes, or send it elsewhere", code
    )


def report_error(error: BaseException | str, code: int) -> int:
    """Writes the error as one line to stderr; returns the code."""
    with contextlib.suppress(OSError):  # stderr is closed
        message = one_line(" ".join(str(error).split("\n")), MOST_ERROR)
        sys.stderr.write(f"{painted('hermetic:', RED, sys.stderr)} {message}\n")
    return code


def did_you_mean(wrong: str, names: Iterable[str]) -> str:
    """`did you mean run? ` where a name is near, else nothing."""
    near = difflib.get_close_matches(wrong, names, n=1)
    return f"did you mean {near[0]}? " if near else ""
