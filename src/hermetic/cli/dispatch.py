"""Which command was meant, and what its errors mean to a shell."""

import argparse
import contextlib
import difflib
import importlib
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, cast

from hermetic.cli.streams import discard_output, open_missing_streams, print_what_can_be_printed
from hermetic.contract.errors import ConfigError, ExecutionError, InvalidArgument
from hermetic.contract.printable import one_line

if TYPE_CHECKING:
    SubParsers = argparse._SubParsersAction[argparse.ArgumentParser]

MOST_ERROR = 4000  # characters of a message
FAILED, BAD_USAGE, INTERRUPTED, BROKEN_PIPE = 1, 2, 130, 141

# A command's module is imported when the command is used: `hermetic version` does not wait for the others.
COMMANDS: Mapping[str, str] = {
    "run": "run a command, stream its output, exit with its code",
    "code": "run a Python script that calls the tools",
    "ps": "what runs where",
    "logs": "the output of a process",
    "attach": "watch a process and type to it",
    "secret": "type a password into a process, unseen",
    "kill": "end a process with its whole tree",
    "envs": "the environments of this user",
    "rm": "end environments and all that runs in them",
    "gc": "take away what killed processes left",
    "policy": "what a command would do, and why",
    "config": "the settings that hold here, and where each comes from",
    "demo": "show what Hermetic does, then take commands",
    "doctor": "what works here, what not, and what to do",
    "version": "the version of Hermetic",
}


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


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit code."""
    open_missing_streams()
    print_what_can_be_printed()
    words = list(sys.argv[1:] if argv is None else argv)
    if words == ["--version"]:
        words = ["version"]
    if words and not words[0].startswith("-") and words[0] not in COMMANDS:
        near = did_you_mean(words[0], COMMANDS)
        return complain(f"no command {words[0]!r}; {near}there are {', '.join(COMMANDS)}", BAD_USAGE)
    command = _module(words[0]) if words and words[0] in COMMANDS else None
    parser, options = _parser(words[0] if command else None, command)
    arguments, unknown = parser.parse_known_args(words)
    if unknown:
        near = did_you_mean(unknown[0].partition("=")[0], options)
        tells = " ".join(["hermetic", *words[:1]]) if command else "hermetic"
        return complain(f"unknown: {' '.join(unknown)}; {near}`{tells} --help` tells the options", BAD_USAGE)
    if command is None:
        parser.print_help(sys.stderr)
        return BAD_USAGE
    try:
        code = command.run(arguments)
        sys.stdout.flush()
    except (InvalidArgument, ConfigError) as error:
        return complain(error, BAD_USAGE)
    except ExecutionError as error:
        return complain(error, FAILED)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        discard_output()  # nobody reads it any more
        return BROKEN_PIPE
    except OSError as error:
        return give_up_output(error, FAILED)
    return code


def give_up_output(error: OSError, code: int) -> int:
    """Says that the system does not take what we print, and prints nothing more; returns the code."""
    discard_output()
    return complain(f"{error.strerror or error}; look at where the output goes, or send it elsewhere", code)


def complain(error: BaseException | str, code: int) -> int:
    """Says on stderr, in one line, what is wrong and what to do; returns the code."""
    with contextlib.suppress(OSError):  # nothing is left to say it to
        sys.stderr.write("hermetic: " + one_line(" ".join(str(error).split("\n")), MOST_ERROR) + "\n")
    return code


def _module(name: str) -> Command:
    return cast(Command, importlib.import_module(f"hermetic.cli.{name}"))


def did_you_mean(wrong: str, names: Iterable[str]) -> str:
    """`did you mean run? ` where a name is near, else nothing."""
    near = difflib.get_close_matches(wrong, names, n=1)
    return f"did you mean {near[0]}? " if near else ""


def _parser(chosen: str | None, command: Command | None) -> tuple[Parser, list[str]]:
    """The parser of all commands, in which only the chosen one knows its arguments; and that one's options."""
    parser = Parser(
        prog="hermetic",
        description="The execution layer for AI agents. `hermetic COMMAND --help` tells more.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_true", help="the same as `hermetic version`")
    subparsers = parser.add_subparsers(metavar="COMMAND")
    for name, meaning in COMMANDS.items():
        if name == chosen and command is not None:
            command.add_parser(cast("SubParsers", subparsers))
        else:
            subparsers.add_parser(name, help=meaning)
    helped = subparsers.choices[chosen] if chosen is not None else parser
    return parser, sorted(set(re.findall(r"--[a-z][a-z-]*", helped.format_help())))
