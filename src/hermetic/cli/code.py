"""`hermetic code`: a Python script that calls the tools; its output and its exit code."""

import argparse
import asyncio
import contextlib
import json
import secrets
import sys
from typing import Any

import msgspec

from hermetic.cli.command import INTERRUPTED, Command, check_above_zero, options, report_error
from hermetic.cli.interrupts import Interrupted, Interrupts, run_interruptibly
from hermetic.cli.opening import (
    ENVIRONMENT,
    current_directory,
    given_options,
    option_errors,
)
from hermetic.cli.progress import log_progress, slow_start
from hermetic.cli.report import one_line, print_json
from hermetic.config import Settings, load
from hermetic.contract.concurrency import shielded
from hermetic.contract.errors import InvalidArgument
from hermetic.contract.limits import CODE_CALLS, CODE_TIME
from hermetic.toolbox import Toolbox
from hermetic.toolbox.parts import code_options
from hermetic.tools.code.answer import STDERR
from hermetic.tools.code.arguments import CodeLimits, CodeOptions

NOT_DONE, TIMED_OUT = 125, 124
FILES = {"stdout": 1, "stderr": 2}

ABOUT = """\
Runs SCRIPT, or what standard input holds where that is a dash, as the tool execute_code does: `from hermetic_tools
import terminal` and the other tools are there, each call passes the policy, and what the script prints is shown as it
comes, its progress messages on stderr. Ctrl-C ends it and all it started. Exits with the script's code: 128+n after a
signal, 124 when its time was over, 130 after Ctrl-C, 125 when it was not begun.

  hermetic code survey.py
  hermetic code --env docker --image python:3.12 --calls 1000 survey.py"""


def _code(arguments: argparse.Namespace) -> int:
    """Runs the script; its exit code."""
    log_progress()
    code = _read(arguments.script)
    check_above_zero(arguments, "timeout")
    if arguments.calls is not None and arguments.calls < 0:
        raise InvalidArgument("--calls is a count, 0 or more", argument="calls")
    answer = run_interruptibly(lambda interrupts: _run(arguments, code, interrupts))
    if arguments.json:
        print_json(answer)
    # else the script has printed the error
    elif answer.get("error") and STDERR not in answer["output"]:
        report_error(answer["error"], NOT_DONE)
    return _exit_code(answer)


async def _run(arguments: argparse.Namespace, code: str, interrupts: Interrupts) -> dict[str, Any]:
    task = arguments.task or f"code-{secrets.token_hex(6)}"
    settings = load(current_directory(), kind=arguments.env)
    opened = {**settings.options, **given_options(arguments)}
    starting = slow_start(settings.environment.kind, opened, lambda: task in toolbox.fleet.tasks)
    broken: list[BrokenPipeError] = []

    def show(_: str, stream: str, data: bytes) -> None:
        starting.finish()
        try:
            with contextlib.suppress(Interrupted):  # the call is being ended
                interrupts.write(FILES[stream], data)
        except BrokenPipeError as error:  # stdout is closed
            broken.append(error)
            toolbox.interrupt(task)

    with option_errors():
        toolbox = Toolbox(
            options=given_options(arguments),
            on_progress=_print_progress,
            settings=settings,
            on_script_output=None if arguments.json else show,
            code=_options(arguments, settings),
        )
    call = asyncio.ensure_future(toolbox.call("execute_code", {"code": code}, task_id=task))
    interrupted: dict[str, Any] = {}
    try:
        try:
            with starting:
                await asyncio.wait([call])
        except asyncio.CancelledError:  # its output is shown nevertheless
            toolbox.interrupt(task)
            interrupted = {"exit_code": INTERRUPTED}
        answer: dict[str, Any] = json.loads(await call)
    finally:
        await shielded(toolbox.close(remove=arguments.task is None))
    if broken:
        raise broken[0]
    return answer | interrupted


def _options(arguments: argparse.Namespace, settings: Settings) -> CodeOptions:
    """What the settings say of scripts, overridden by the command line."""
    said = code_options(settings)
    limits = CodeLimits(
        time=said.limits.time if arguments.timeout is None else arguments.timeout,
        calls=said.limits.calls if arguments.calls is None else arguments.calls,
    )
    return msgspec.structs.replace(
        said,
        limits=limits,
        warm=said.warm and arguments.task is not None,
        isolated=said.isolated or arguments.isolated,
    )


def _read(path: str) -> str:
    if path == "-":
        return sys.stdin.read()
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InvalidArgument(
            f"{path} cannot be read: {why}; give a Python script", argument="script"
        ) from None


def _print_progress(task: str, text: str) -> None:
    sys.stderr.write(f"hermetic: {one_line(text)}\n")


def _exit_code(answer: dict[str, Any]) -> int:
    if answer["status"] == "timeout":
        return TIMED_OUT
    code = answer.get("exit_code")
    return code if isinstance(code, int) and code >= 0 else NOT_DONE


COMMANDS = {
    "code": Command(
        ABOUT,
        options(
            ENVIRONMENT,
            f"""\
--task T            run in the environment of this task, opened if it does not live
--timeout S: float  seconds it may take (default: as your settings say, else {CODE_TIME:g})
--calls N: int      most calls of tools (default: as your settings say, else {CODE_CALLS})
--isolated          run the script itself in a sandbox
--json              print the whole answer as JSON
script SCRIPT.py""",
        ),
        _code,
        usage="hermetic code [OPTION…] SCRIPT.py",
    ),
}
