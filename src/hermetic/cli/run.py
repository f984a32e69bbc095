"""`hermetic run` and `hermetic shell`: one command, its output live, its exit code ours.

A command runs in a session, as a process with live input, on our terminal, or in the background.
"""

import argparse
import asyncio
import os
import secrets
import shlex
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

from hermetic.cli.command import (
    BAD_USAGE,
    Command,
    check_above_zero,
    defaults,
    option,
    options,
    report_error,
    takes,
)
from hermetic.cli.copying import LogCopy, feed, has_input, pieces
from hermetic.cli.interrupts import Interrupted, Interrupts, run_interruptibly
from hermetic.cli.opening import (
    ENVIRONMENT,
    Chosen,
    DenyRules,
    choose,
    given_options,
    option_errors,
)
from hermetic.cli.progress import Progress, log_progress, slow_start
from hermetic.cli.report import one_line, print_json
from hermetic.cli.streams import terminal_size
from hermetic.contract.command import Result
from hermetic.contract.concurrency import shielded
from hermetic.contract.endings import Ending, Lost, TimedOut
from hermetic.contract.errors import InvalidArgument, NotPermitted
from hermetic.contract.process import PERSON
from hermetic.fleet.opening import LivesOtherwise
from hermetic.fleet.opening import open as open_environment
from hermetic.resident.lazy import Lazy
from hermetic.session.arguments import check_positive
from hermetic.session.environment import Environment
from hermetic.session.process import Process
from hermetic.session.terminal import BASH_MARKS

if TYPE_CHECKING:
    from hermetic.cli import attach
else:
    attach = Lazy("hermetic.cli.attach")  # knows terminals, which most commands do not have

Outcome = tuple[int | None, tuple[str, ...]]  # exit code, notes


class RunRequest(NamedTuple):
    """The command to run, and how."""

    command: str | list[str]
    timeout: float | None
    cwd: str | None
    separate: bool
    env: dict[str, str]

    async def start(self, environment: Environment, **options: Any) -> Process:
        """Starts it as a process of a person."""
        return await environment.start(
            self.command, cwd=self.cwd, env=self.env, tag=OF_PERSON, **options
        )


Record = Callable[[Environment, Process], AbstractAsyncContextManager[None]]
STDOUT, STDERR = 1, 2
# as JSON
RESULT_FIELDS = (
    "exit_code ending output stderr truncated total_bytes stderr_bytes duration cwd notes log"
)

SHELL = 'exec "$BASH" -i'  # in a directory and with variables as the task's session has them

# The tag of what a person runs: `hermetic stop`, which is for agents, spares it. A command inside
# is no person.
OF_PERSON = "" if "HERMETIC_COMMAND" in os.environ else f"{PERSON}command line"

NOT_DONE = 125  # the environment failed, not the command

# A private environment ends soon after this process, also after SIGKILL.
PRIVATE_SECONDS = 30.0

ABOUT = """\
Runs COMMAND in a new environment that is ended afterwards, or with --task in that task's environment, whose shell
keeps its state. Options stand before COMMAND. One argument is shell text, several are a program and its arguments.
Standard input is passed on when it is not a terminal. Exits with the command's code: 128+n after a signal, 124 when its
time was over, 130 after Ctrl-C, 125 when the environment could not do its part, 2 for a usage error.

  hermetic run -- 'make -j4 && ./check'
  hermetic run --env docker --image python:3.12 pytest -q
  hermetic run -d --task web -- 'python3 -m http.server'    then: hermetic logs -f ID
  hermetic run -t --task web vim notes.txt"""

ABOUT_SHELL = """\
An interactive shell on your terminal: in a new environment that is ended afterwards, or in that of TASK, with the
directory and the variables of its session. ctrl-] leaves the shell of a task running; `hermetic attach` comes back.

  hermetic shell --env docker --image debian:12
  hermetic shell web"""


def _main(arguments: argparse.Namespace) -> int:
    """Runs the command; its exit code."""
    log_progress()
    try:
        return run_interruptibly(lambda interrupts: run_command(arguments, interrupts))
    except LivesOtherwise as error:
        return report_error(_task_differs(arguments, error), BAD_USAGE)


async def run_command(arguments: argparse.Namespace, interrupts: Interrupts) -> int:
    """Opens the environment and runs the command there; its exit code."""
    words = _command(arguments.command)
    check_above_zero(arguments, "timeout", "; leave it out for no limit")
    wanted = RunRequest(
        command=words[0] if len(words) == 1 else words,
        timeout=arguments.timeout,
        cwd=arguments.cwd,
        separate=arguments.separate,
        env={
            **(BASH_MARKS if words == [SHELL] else {}),
            **dict(map(_variable, arguments.variables)),
        },
    )
    _check_together(arguments)
    is_new_task = arguments.detach and arguments.task is None
    if is_new_task:  # an environment without a task would end with us
        arguments.task = f"run-{secrets.token_hex(3)}"
    chosen = choose(arguments)
    environment = await _open(arguments, chosen, wanted)
    has_run = False
    try:
        code, notes = await _choose(arguments, environment, wanted, interrupts)
        has_run = True
    finally:
        with Progress(
            "ending the environment, with files copied back where it mirrors a directory"
        ):
            await shielded(environment.close(remove=is_new_task and not has_run))
    if arguments.verbose:
        left_out = chosen.settings.notes if chosen.settings is not None else ()
        sys.stderr.writelines(f"hermetic: {one_line(note)}\n" for note in (*left_out, *notes))
    if code is None:
        return report_error(
            "; ".join(notes) or "the environment was lost while the command ran", NOT_DONE
        )
    return code


def _variable(text: str) -> tuple[str, str]:
    """`A=1` → ("A", "1"); a name alone takes our value, so that a secret need not be in the
    arguments.
    """
    name, separator, value = text.partition("=")
    if not separator and name not in os.environ:
        raise InvalidArgument(
            f"-e {name}: no such variable is set here; give one, or -e {name}=VALUE", argument="env"
        )
    return name, value if separator else os.environ[name]


def _check_together(arguments: argparse.Namespace) -> None:
    """Raises InvalidArgument for options that exclude each other."""
    refused = {
        "--detach": ("tty", "timeout") if arguments.detach else (),
        "--tty": ("separate", "json") if arguments.tty else (),
    }
    for flag, names in refused.items():
        for name in names:
            if getattr(arguments, name):
                raise InvalidArgument(
                    f"{flag} and --{name} exclude each other; leave one out", argument=name
                )


def _task_differs(arguments: argparse.Namespace, error: LivesOtherwise) -> str:
    """The error for a task that lives with other options than the command line or the settings
    name.
    """
    named = {*given_options(arguments), *(["kind"] if arguments.env is not None else [])}
    removal = f"end it first: hermetic rm {shlex.quote(error.task)}"
    if named & set(error.differing):
        return f"{error.problem}, or {removal}"
    problem = f"task {error.task!r} lives with other options than your settings or the defaults"
    advice = "name its kind with --env, or " if "kind" in error.differing else ""
    return f"{problem}: {', '.join(error.differing)}; {advice}{removal}"


def _command(words: list[str]) -> list[str]:
    """The words of the command, without a leading `--`."""
    words = words[1:] if words[:1] == ["--"] else words
    if not words:
        raise InvalidArgument(
            "give the COMMAND to run: hermetic run [OPTION…] -- COMMAND…", argument="command"
        )
    return words


async def _open(arguments: argparse.Namespace, chosen: Chosen, wanted: RunRequest) -> Environment:
    """The opened environment, guarded by the user's deny rules.

    A denied command is refused before that.
    """
    options = chosen.options
    if arguments.task is None:
        options = {
            **options,
            "lease": PRIVATE_SECONDS,
            "unattended": PRIVATE_SECONDS,
            **given_options(arguments),
        }
    rules = DenyRules(chosen.settings)
    with option_errors():
        await rules.check_before_opening(
            chosen.kind, options, arguments.task, wanted.command, wanted.cwd
        )
        with slow_start(chosen.kind, options):
            environment = await open_environment(chosen.kind, task=arguments.task, **options)
    rules.guard_environment(environment)
    return environment


async def _choose(
    arguments: argparse.Namespace,
    environment: Environment,
    wanted: RunRequest,
    interrupts: Interrupts,
) -> Outcome:
    if arguments.detach:
        return await start_in_background(environment, wanted, as_json=arguments.json)
    if arguments.tty:
        return await run_on_terminal(
            environment, wanted, interrupts, getattr(arguments, "record", None)
        )
    if arguments.task is None and not arguments.json and (arguments.separate or has_input()):
        return await run_as_process(environment, wanted, interrupts)
    return await run_in_session(environment, wanted, interrupts, as_json=arguments.json)


async def start_in_background(
    environment: Environment, wanted: RunRequest, *, as_json: bool
) -> Outcome:
    """Starts it and prints its id; the environment lives on with its task."""
    process = await wanted.start(environment, separate=wanted.separate, stdin="pipe")
    if as_json:
        print_json({"id": process.id, "environment": environment.id, "task": environment.task})
        return 0, ()
    print(process.id)
    if sys.stderr.isatty():
        task = shlex.quote(environment.task or environment.id)
        sys.stderr.write(
            f"`hermetic logs -f {process.id}` shows its output, `hermetic rm {task}` ends it\n"
        )
    return 0, ()


async def run_on_terminal(
    environment: Environment,
    wanted: RunRequest,
    interrupts: Interrupts,
    record: Record | None = None,
) -> Outcome:
    """Runs it on a terminal of its own that is shown on ours; one of a task can be left running.

    `record` is entered with the process, until it ends or is left.
    """
    size = terminal_size(0)
    process = await wanted.start(environment, pty=True, rows=size.lines, cols=size.columns)
    can_detach = environment.task is not None
    try:
        async with (
            record(environment, process) if record else nullcontext(),
            asyncio.timeout(wanted.timeout),
        ):
            keyboard = attach.Keyboard(process)
            ending = await attach.show_process(
                environment, keyboard, interrupts, can_detach=can_detach, ends_input=True
            )
    except TimeoutError:
        await shielded(process.kill())
        ending = TimedOut(wanted.timeout or 0.0)
    except (asyncio.CancelledError, Interrupted, OSError):
        await shielded(process.kill())
        raise
    if ending is None:
        return attach.detached(process.id), ()
    _report_timeout(ending)
    return ending.exit_code, ()


async def run_as_process(
    environment: Environment, wanted: RunRequest, interrupts: Interrupts
) -> Outcome:
    """Runs it as a process: input is forwarded live, and stdout and stderr stay separate while it
    runs.
    """
    if wanted.timeout is not None:
        check_positive(wanted.timeout, "timeout")
    stdin = "pipe" if has_input() else "null"
    process = await wanted.start(environment, separate=wanted.separate, stdin=stdin)
    streams = {process.id: STDOUT} | ({f"{process.id}/err": STDERR} if wanted.separate else {})
    copying = [environment.follow_log(log, _writer(interrupts, fd)) for log, fd in streams.items()]
    refused: list[NotPermitted] = []
    feeding = asyncio.create_task(_feed(process, refused)) if has_input() else None
    try:
        ending = await _wait(process, copying, wanted.timeout)
    except (asyncio.CancelledError, Interrupted, OSError):
        await shielded(process.kill())
        raise
    finally:
        if feeding is not None:
            feeding.cancel()
            await asyncio.wait([feeding])
    if refused:
        raise refused[0]
    _report_timeout(ending)
    return ending.exit_code, ()


async def _feed(process: Process, refused: list[NotPermitted]) -> None:
    """Forwards our input. When the user's rules deny a part of it, the process is ended."""
    try:
        await feed(process)
    except NotPermitted as error:
        refused.append(error)
        await process.kill()


async def run_in_session(
    environment: Environment, wanted: RunRequest, interrupts: Interrupts, *, as_json: bool
) -> Outcome:
    """Runs it in a shell that keeps its state, and prints its output live, or its result as JSON.

    Its input is read to the end before it starts. No output is lost: a slow reader makes the
    command wait.
    """
    written = 0

    def write(data: bytes) -> None:
        nonlocal written
        interrupts.write(STDOUT, data)
        written += len(data)

    stdin = b"".join([piece async for piece in pieces(0)]) if has_input() else None
    is_streamed = not as_json and not wanted.separate
    streams: dict[str, Any] = (
        {} if as_json else {"limit": 0, "on_output": write if is_streamed else None}
    )
    result = await environment.run(**wanted._asdict(), stdin=stdin, tag=OF_PERSON, **streams)
    dropped = 0
    if as_json:
        shown = {name: getattr(result, name) for name in RESULT_FIELDS.split()}
        print_json({**shown, "environment": environment.id, "task": environment.task})
    else:
        dropped = result.total_bytes - written
        if not is_streamed:
            dropped = await _copy_streams(environment, result, interrupts)
        _report_timeout(result.ending)
    lost: tuple[str, ...] = ()
    if isinstance(result.ending, Lost) and not any(
        result.ending.reason in note for note in result.notes
    ):
        lost = (str(result.ending),)
    return result.exit_code, (*lost, *result.notes, *_report_dropped(dropped))


async def _wait(
    process: Process, copying: Sequence[Coroutine[Any, Any, Ending]], timeout: float | None
) -> Ending:
    """Copies output until the process has ended or timed out."""
    tasks = [asyncio.create_task(copy) for copy in copying]
    try:
        _, late = await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_EXCEPTION)
        if not late or any(task.done() and task.exception() for task in tasks):
            return await _ends(tasks)
        await shielded(process.kill())
        await _ends(tasks)
        return TimedOut(timeout or 0.0)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def _ends(tasks: list["asyncio.Task[Ending]"]) -> Ending:
    """The ending that all tasks return, or the first error."""
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    return next(iter([task.result() for task in done]))


async def _copy_streams(environment: Environment, result: Result, interrupts: Interrupts) -> int:
    """Writes both streams of an ended command; returns how many bytes were dropped."""
    if isinstance(result.ending, Lost):
        return 0
    copies = [
        LogCopy(environment, result.log, _writer(interrupts, STDOUT)),
        LogCopy(environment, f"{result.log}/err", _writer(interrupts, STDERR)),
    ]
    for copy in copies:
        await copy.to_now()
    return sum(copy.dropped for copy in copies)


def _writer(interrupts: Interrupts, fd: int) -> Callable[[bytes], None]:
    return lambda data: interrupts.write(fd, data)


def _report_timeout(ending: Ending) -> None:
    """Reported even without -v: otherwise only the exit code distinguishes a timeout."""
    if isinstance(ending, TimedOut):
        os.write(STDERR, f"hermetic: {ending}; all that it had started was ended\n".encode())


def _report_dropped(count: int) -> tuple[str, ...]:
    """Reported even without -v: incomplete output must not look complete."""
    if count <= 0:
        return ()
    note = f"{count} bytes of output came faster than they could be written and fell out of the log"
    os.write(STDERR, f"hermetic: {note}\n".encode())
    return (note,)


COMMAND = """\
--cwd D  directory for this command alone
-e, --variable VAR[=VALUE]… -> variables
         an environment variable for this command alone; without a value, yours; may be repeated"""

COMMANDS = {
    "run": Command(
        ABOUT,
        takes(
            options(
                ENVIRONMENT,
                """\
--task T            run in the environment of this task, opened if it does not live
--timeout S: float  end the whole tree after so many seconds""",
                COMMAND,
                """\
-d, --detach        run it in the background and print its id
-t, --tty           run it on a terminal of its own, shown on yours
--separate          keep stderr apart from stdout
--json              print the result as JSON instead of streaming
-v, --verbose       say notes on stderr: state restored, cwd …""",
            ),
            option("command", nargs=argparse.REMAINDER, metavar="COMMAND"),
        ),
        _main,
        usage="hermetic run [OPTION…] [--] COMMAND…",
        failed=NOT_DONE,
    ),
    "shell": Command(
        ABOUT_SHELL,
        takes(
            options(
                ENVIRONMENT, COMMAND, "task [TASK]  its environment, opened if it does not live"
            ),
            defaults(command=["--", SHELL], tty=True, detach=False, timeout=None),
            defaults(separate=False, json=False, verbose=False),
        ),
        _main,
        failed=NOT_DONE,
    ),
}
