"""Which command was meant, and what its errors mean to a shell."""

import re
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from hermetic.cli.command import (
    BAD_USAGE,
    BROKEN_PIPE,
    FAILED,
    INTERRUPTED,
    Command,
    Parser,
    complain,
    did_you_mean,
    give_up_output,
)
from hermetic.cli.streams import discard_output, open_missing_streams, print_what_can_be_printed
from hermetic.contract.errors import ConfigError, ExecutionError, InvalidArgument
from hermetic.resident.lazy import Lazy

if TYPE_CHECKING:
    from hermetic.cli.command import Command, SubParsers

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

# Imported when the command is used: `hermetic version` does not wait for the others.
_MODULES = {
    "run": Lazy("hermetic.cli.run"),
    "code": Lazy("hermetic.cli.code"),
    "ps": Lazy("hermetic.cli.ps"),
    "logs": Lazy("hermetic.cli.logs"),
    "attach": Lazy("hermetic.cli.attach"),
    "secret": Lazy("hermetic.cli.secret"),
    "kill": Lazy("hermetic.cli.kill"),
    "envs": Lazy("hermetic.cli.envs"),
    "rm": Lazy("hermetic.cli.rm"),
    "gc": Lazy("hermetic.cli.gc"),
    "policy": Lazy("hermetic.cli.policy"),
    "config": Lazy("hermetic.cli.config"),
    "demo": Lazy("hermetic.cli.demo"),
    "doctor": Lazy("hermetic.cli.doctor"),
    "version": Lazy("hermetic.cli.version"),
}


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


def _module(name: str) -> Command:
    return cast(Command, _MODULES[name])


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
