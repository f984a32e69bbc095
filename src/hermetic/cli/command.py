"""What a command of the command line is: a module with a parser; its exit codes, and how it reports an error."""

import argparse
import contextlib
import difflib
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from hermetic.cli.streams import discard_output
from hermetic.contract.printable import one_line

if TYPE_CHECKING:
    SubParsers = argparse._SubParsersAction[argparse.ArgumentParser]

MOST_ERROR = 4000  # characters of a message
FAILED, BAD_USAGE, INTERRUPTED, BROKEN_PIPE = 1, 2, 130, 141


class Parser(argparse.ArgumentParser):
    """An argument parser whose mistakes are one line that says what to do next."""

    def error(self, message: str) -> NoReturn:
        """Says what is wrong and leaves."""
        sys.exit(complain(f"{message}; `{self.prog} --help` tells more", BAD_USAGE))


class Command(Protocol):
    """The module of a command."""

    def add_parser(self, subparsers: "SubParsers") -> Any:
        """Declares its arguments."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Does it; the exit code."""


def give_up_output(error: OSError, code: int) -> int:
    """Says that the system does not take what we print, and prints nothing more; returns the code."""
    discard_output()
    return complain(f"{error.strerror or error}; look at where the output goes, or send it elsewhere", code)


def complain(error: BaseException | str, code: int) -> int:
    """Says on stderr, in one line, what is wrong and what to do; returns the code."""
    with contextlib.suppress(OSError):  # nothing is left to say it to
        sys.stderr.write("hermetic: " + one_line(" ".join(str(error).split("\n")), MOST_ERROR) + "\n")
    return code


def did_you_mean(wrong: str, names: Iterable[str]) -> str:
    """`did you mean run? ` where a name is near, else nothing."""
    near = difflib.get_close_matches(wrong, names, n=1)
    return f"did you mean {near[0]}? " if near else ""
