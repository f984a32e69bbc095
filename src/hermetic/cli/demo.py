"""`hermetic demo`: opens an environment here, shows what happens, then takes commands."""

import argparse
import asyncio
import os
import sys
from typing import TYPE_CHECKING

from hermetic.cli.choosing import add_environment_options, choose, in_words_of_the_shell
from hermetic.cli.progress import slow_start
from hermetic.cli.report import one_line
from hermetic.cli.ruled import Ruled
from hermetic.cli.story import Story
from hermetic.contract.errors import ExecutionError
from hermetic.fleet.opening import open as open_environment
from hermetic.session.environment import Environment

if TYPE_CHECKING:
    from hermetic.cli.command import SubParsers

HELP = "Type a command; its state is kept. Ctrl-C ends what runs, :q leaves."


def add_parser(subparsers: "SubParsers") -> None:
    """Declares the arguments."""
    parser = subparsers.add_parser(
        "demo", description="Opens an environment, runs commands in it and tells what happened; then takes yours."
    )
    add_environment_options(parser)
    parser.add_argument("--no-prompt", action="store_true", help="leave after the scripted part")


def run(arguments: argparse.Namespace) -> int:
    """Tells the story, then takes commands where a person sits at a terminal."""
    with asyncio.Runner() as runner:
        environment, seconds = runner.run(_open(arguments))
        try:
            runner.run(Story(environment, seconds, color=sys.stdout.isatty()).tell())
            if sys.stdin.isatty() and sys.stdout.isatty() and not arguments.no_prompt:
                _take_commands(runner, environment)
        finally:
            runner.run(environment.close())
    return 0


async def _open(arguments: argparse.Namespace) -> tuple[Environment, float]:
    clock = asyncio.get_running_loop().time
    began = clock()
    chosen = choose(arguments)
    with in_words_of_the_shell(), slow_start(chosen.kind, chosen.options):
        environment = await open_environment(chosen.kind, **chosen.options)
    Ruled(chosen.settings).put_before(environment)
    return environment, clock() - began


def _take_commands(runner: asyncio.Runner, environment: Environment) -> None:
    print(f"\n{HELP}\n")
    while True:
        try:
            text = input("hermetic> ")
        except EOFError:
            print()
            return
        except KeyboardInterrupt:
            print()
            continue
        if text.strip() in (":q", ":quit"):
            return
        if text.strip():
            _run_one(runner, environment, text)


def _run_one(runner: asyncio.Runner, environment: Environment, text: str) -> None:
    try:
        result = runner.run(environment.run(text, on_output=lambda data: os.write(1, data)))
    except KeyboardInterrupt:
        print("\n  cancelled; its whole tree has ended")
        return
    except ExecutionError as error:
        print(f"  {type(error).__name__}: {one_line(str(error))}")
        return
    print(f"  {result.ending} after {result.duration * 1000:.2f} ms, in {one_line(result.cwd)}")
    for note in result.notes:
        print(f"  note: {one_line(note)}")
