"""`hermetic run`: one command, its output live, its exit code ours."""

import argparse
import shlex
import sys
from typing import TYPE_CHECKING

from hermetic.cli.choosing import Chosen, add_environment_options, choose, given_options, in_words_of_the_shell
from hermetic.cli.command import BAD_USAGE, INTERRUPTED, complain, give_up_output
from hermetic.cli.copying import has_input
from hermetic.cli.interrupts import Interrupted, Interrupts, in_any_case, run_interruptibly
from hermetic.cli.progress import slow_start, tell_progress
from hermetic.cli.report import one_line
from hermetic.cli.ruled import Ruled
from hermetic.cli.running import Wanted, run_as_process, run_for_json, run_in_session
from hermetic.contract.errors import ConfigError, ExecutionError, InvalidArgument
from hermetic.fleet.opening import LivesOtherwise
from hermetic.fleet.opening import open as open_environment
from hermetic.session.environment import Environment

if TYPE_CHECKING:
    from hermetic.cli.command import SubParsers

NOT_DONE = 125  # we could not do our part; the command's own codes stay apart

# A private environment has no use once we are gone, also when we go by SIGKILL.
PRIVATE_SECONDS = 30.0

ABOUT = """\
Runs COMMAND in a new environment that is ended afterwards, or with --task in that task's environment, whose shell
keeps its state. Options stand before COMMAND. One argument is shell text, several are a program and its arguments.
Standard input is passed on when it is not a terminal. Exits with the command's code: 128+n after a signal, 124 when its
time was over, 130 after Ctrl-C, 125 when the environment could not do its part, 2 when what was asked cannot be."""


def add_parser(subparsers: "SubParsers") -> None:
    """Declares the arguments."""
    parser = subparsers.add_parser("run", description=ABOUT, usage="hermetic run [OPTION…] [--] COMMAND…")
    add_environment_options(parser)
    parser.add_argument("--task", metavar="T", help="run in the environment of this task, opened if it does not live")
    parser.add_argument("--timeout", metavar="S", type=float, help="end the whole tree after so many seconds")
    parser.add_argument("--cwd", metavar="D", help="directory for this command alone")
    parser.add_argument("--separate", action="store_true", help="keep stderr apart from stdout")
    parser.add_argument("--json", action="store_true", help="print the result as JSON instead of streaming")
    parser.add_argument("-v", "--verbose", action="store_true", help="say notes on stderr: state restored, cwd …")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND")


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; its exit code."""
    tell_progress()
    try:
        return run_interruptibly(lambda interrupts: _run(arguments, interrupts))
    except Interrupted:
        return INTERRUPTED
    except LivesOtherwise as error:
        return complain(_otherwise(arguments, error), BAD_USAGE)
    except (InvalidArgument, ConfigError):
        raise
    except ExecutionError as error:
        return complain(error, NOT_DONE)
    except BrokenPipeError:
        raise
    except OSError as error:
        return give_up_output(error, NOT_DONE)


async def _run(arguments: argparse.Namespace, interrupts: Interrupts) -> int:
    words = _command(arguments.command)
    if arguments.timeout is not None and not arguments.timeout > 0:
        raise InvalidArgument("--timeout is seconds above zero; leave it out for no limit", argument="timeout")
    wanted = Wanted(
        command=words[0] if len(words) == 1 else words,
        timeout=arguments.timeout,
        cwd=arguments.cwd,
        separate=arguments.separate,
    )
    chosen = choose(arguments)
    environment = await _open(arguments, chosen, wanted)
    try:
        code, notes = await _choose(arguments, environment, wanted, interrupts)
    finally:
        await in_any_case(environment.close())
    if arguments.verbose:
        left_out = chosen.settings.notes if chosen.settings is not None else ()
        sys.stderr.writelines(f"hermetic: {one_line(note)}\n" for note in (*left_out, *notes))
    if code is None:
        return complain("; ".join(notes) or "the environment was lost while the command ran", NOT_DONE)
    return code


def _otherwise(arguments: argparse.Namespace, error: LivesOtherwise) -> str:
    """What to do about a task that lives with other options than those of the command line or the settings."""
    named = {*given_options(arguments), *(["kind"] if arguments.env is not None else [])}
    removal = f"end it first: hermetic rm {shlex.quote(error.task)}"
    if named & set(error.differing):
        return f"{error.problem}, or {removal}"
    problem = f"task {error.task!r} lives with other options than your settings or the defaults"
    advice = "name its kind with --env, or " if "kind" in error.differing else ""
    return f"{problem}: {', '.join(error.differing)}; {advice}{removal}"


def _command(words: list[str]) -> list[str]:
    """The command's words: all that follows the options, with or without `--` before it."""
    words = words[1:] if words[:1] == ["--"] else words
    if not words:
        raise InvalidArgument("give the COMMAND to run: hermetic run [OPTION…] -- COMMAND…", argument="command")
    return words


async def _open(arguments: argparse.Namespace, chosen: Chosen, wanted: Wanted) -> Environment:
    """The environment, with the user's rules before it. What they deny is refused before anything is opened."""
    options = chosen.options
    if arguments.task is None:
        options = {**options, "lease": PRIVATE_SECONDS, "unattended": PRIVATE_SECONDS, **given_options(arguments)}
    ruled = Ruled(chosen.settings)
    with in_words_of_the_shell():
        await ruled.check_unopened(chosen.kind, options, arguments.task, wanted.command, wanted.cwd)
        with slow_start(chosen.kind, options):
            environment = await open_environment(chosen.kind, task=arguments.task, **options)
    ruled.put_before(environment)
    return environment


async def _choose(
    arguments: argparse.Namespace, environment: Environment, wanted: Wanted, interrupts: Interrupts
) -> tuple[int | None, tuple[str, ...]]:
    if arguments.json:
        return await run_for_json(environment, wanted)
    if arguments.task is None and (arguments.separate or has_input()):
        return await run_as_process(environment, wanted, interrupts)
    return await run_in_session(environment, wanted, interrupts)
