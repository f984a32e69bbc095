"""The table of commands, and `main`, which runs one and turns its errors into exit codes."""

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hermetic.cli.command import (
    BAD_USAGE,
    BROKEN_PIPE,
    FAILED,
    INTERRUPTED,
    Command,
    Parser,
    did_you_mean,
    report_error,
    report_output_error,
)
from hermetic.cli.streams import discard_output, escape_unencodable, open_missing_streams
from hermetic.contract.errors import ConfigError, ExecutionError, InvalidArgument
from hermetic.resident.lazy import Lazy


class Entry(NamedTuple):
    """A command's line in the help, and the module that defines it."""

    meaning: str
    module: Any


# A module is imported when one of its commands is used: `hermetic version` does not wait for the
# others.
_RUN = Lazy("hermetic.cli.run")
_ATTACH = Lazy("hermetic.cli.attach")
_MANAGE = Lazy("hermetic.cli.manage")
_WATCH = Lazy("hermetic.cli.watch")
_STOP = Lazy("hermetic.cli.stop")
_RECORD = Lazy("hermetic.cli.record")
COMMANDS: Mapping[str, Entry] = {
    "run": Entry("run a command, stream its output, exit with its code", _RUN),
    "shell": Entry("an interactive shell in an environment", _RUN),
    "code": Entry("run a Python script that calls the tools", Lazy("hermetic.cli.code")),
    "fleet": Entry("run a batch of tasks, resumed after a crash", Lazy("hermetic.cli.fleet")),
    "ps": Entry("what runs where", _MANAGE),
    "top": Entry("what uses CPU and memory, live", Lazy("hermetic.cli.top")),
    "logs": Entry("the output of a process", _MANAGE),
    "attach": Entry("watch a process and type to it", _ATTACH),
    "secret": Entry("type a password into a process, unseen", _ATTACH),
    "wait": Entry("wait for the end of a process", _WATCH),
    "kill": Entry("end a process with its whole tree", _MANAGE),
    "envs": Entry("the environments of this user", _MANAGE),
    "inspect": Entry("all about an environment or a process", _WATCH),
    "events": Entry("starts and ends of processes, as they happen", _WATCH),
    "approvals": Entry("what agents ask, and your answers", Lazy("hermetic.cli.approvals")),
    "stop": Entry("freeze or end what agents run, and hold their calls", _STOP),
    "release": Entry("let stopped agents go on", _STOP),
    "record": Entry("record a process, a task or a command", _RECORD),
    "play": Entry("play a recording", _RECORD),
    "cp": Entry("copy files into an environment and out of it", Lazy("hermetic.cli.cp")),
    "port": Entry("reach a port inside an environment", Lazy("hermetic.cli.port")),
    "rm": Entry("end environments and all that runs in them", _MANAGE),
    "gc": Entry("remove what killed processes left", _MANAGE),
    "policy": Entry("what a command would do, and why", Lazy("hermetic.cli.policy")),
    "config": Entry(
        "the settings in use here, and the source of each", Lazy("hermetic.cli.config")
    ),
    "serve": Entry(
        "the console: a page with environments, commands, terminals", Lazy("hermetic.cli.serve")
    ),
    "mcp": Entry("the tools for an MCP client, such as Claude Code", Lazy("hermetic.cli.mcp")),
    "demo": Entry("show what Hermetic does, then take commands", Lazy("hermetic.cli.demo")),
    "doctor": Entry("what works here, what not, and what to do", Lazy("hermetic.cli.doctor")),
    "completion": Entry(
        "completion of commands and options for your shell", Lazy("hermetic.cli.completion")
    ),
    "runtime": Entry(
        "the portable Python and bash for images without them", Lazy("hermetic.cli.runtime")
    ),
    "version": Entry("the version of Hermetic", Lazy("hermetic.cli.version")),
}

# In the order of the help.
GROUPS: Mapping[str, str] = {
    "Run": "run shell code fleet",
    "Watch": "ps top logs attach events inspect record play",
    "Act": "secret wait kill cp port approvals stop release",
    "Environments": "envs rm gc runtime",
    "For agents and people": "serve mcp",
    "About this machine": "doctor config policy demo completion version",
}
EXAMPLES = """\
  hermetic run -- 'make && make test'        here; exits with the command's code
  hermetic run --env sandbox -- ./configure  in bubblewrap, without network
  hermetic run -d --task web -- npm start    in the background, by task
  hermetic shell web                         a terminal beside it
  hermetic serve                             all of it in a browser"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit code."""
    try:
        open_missing_streams()
        escape_unencodable()
        return _run(list(sys.argv[1:] if argv is None else argv))
    except KeyboardInterrupt:  # also Stopped
        return INTERRUPTED
    except BrokenPipeError:
        discard_output()  # its reader is gone
        return BROKEN_PIPE
    except OSError as error:
        return report_output_error(error, FAILED)


def _run(words: list[str]) -> int:
    if words == ["--version"]:
        words = ["version"]
    if words[:1] == ["help"]:
        words = [*(word for word in words[1:2] if word != "help"), "--help"]
    if words and not words[0].startswith("-") and words[0] not in COMMANDS:
        near = did_you_mean(words[0], COMMANDS)
        return report_error(
            f"no command {words[0]!r}; {near}there are {', '.join(COMMANDS)}", BAD_USAGE
        )
    command: Command | None = (
        COMMANDS[words[0]].module.COMMANDS[words[0]] if words and words[0] in COMMANDS else None
    )
    parser, options = _parser(words[0] if command else None, command)
    arguments, unknown = parser.parse_known_args(words)
    if unknown:
        near = did_you_mean(unknown[0].partition("=")[0], options)
        tells = " ".join(["hermetic", *words[:1]]) if command else "hermetic"
        return report_error(
            f"unknown: {' '.join(unknown)}; {near}`{tells} --help` tells the options", BAD_USAGE
        )
    if command is None:
        parser.print_help(sys.stderr)
        return BAD_USAGE
    arguments.commands = COMMANDS  # `hermetic completion` prints them
    try:
        code = command.run(arguments)
        sys.stdout.flush()
    except (InvalidArgument, ConfigError) as error:
        return report_error(error, BAD_USAGE)
    except ExecutionError as error:
        return report_error(error, command.failed)
    except EOFError:
        return report_error("the input ended before the answer; nothing was changed", BAD_USAGE)
    except BrokenPipeError:
        raise
    except OSError as error:
        return report_output_error(error, command.failed)
    return code


def _parser(chosen: str | None, command: Command | None) -> tuple[Parser, list[str]]:
    """The parser of all commands, in which only the chosen one knows its arguments; and that one's
    options.
    """
    parser = Parser(
        prog="hermetic",
        usage="hermetic COMMAND [OPTION…]",
        description=_overview(),
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_true", help="the same as `hermetic version`")
    subparsers = parser.add_subparsers(metavar="COMMAND", prog="hermetic", help=argparse.SUPPRESS)
    for name in COMMANDS:
        if name == chosen and command is not None:
            command.declare(
                subparsers.add_parser(name, description=command.description, usage=command.usage)
            )
        else:
            subparsers.add_parser(name)
    helped = subparsers.choices[chosen] if chosen is not None else parser
    return parser, sorted(set(re.findall(r"--[a-z][a-z-]*", helped.format_help())))


def _overview() -> str:
    """What there is: the examples, then every command with its meaning."""
    parts = ["The execution layer for AI agents.", EXAMPLES]
    for title, names in GROUPS.items():
        lines = [f"  {name:<12}{COMMANDS[name].meaning}" for name in names.split()]
        parts.append("\n".join([f"{title}:", *lines]))
    return "\n\n".join(
        [*parts, "`hermetic COMMAND --help` has the options of a command, and examples."]
    )
