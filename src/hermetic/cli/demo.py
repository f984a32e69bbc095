"""`hermetic demo`: opens an environment, shows what happens in it, then takes commands."""

import argparse
import asyncio
import logging
import os
import secrets
import signal
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from hermetic.cli.colours import has_colours
from hermetic.cli.command import Command, options, report_error
from hermetic.cli.interrupts import all_as
from hermetic.cli.opening import (
    ENVIRONMENT,
    DenyRules,
    choose,
    option_errors,
    settings_here,
)
from hermetic.cli.progress import slow_start
from hermetic.cli.report import one_line, span
from hermetic.cli.serve import check_installed, recorded
from hermetic.contract.errors import ConfigError, ExecutionError
from hermetic.fleet.opening import open as open_environment
from hermetic.resident.lazy import Lazy
from hermetic.session.environment import Environment

if TYPE_CHECKING:
    import readline

    from hermetic.approvals import typed_input
    from hermetic.serve import server, static_files
else:
    typed_input = Lazy("hermetic.approvals.typed_input")
    server, static_files = Lazy("hermetic.serve.server"), Lazy("hermetic.serve.static_files")
    try:
        import readline
    except ImportError:  # a Python without it: the prompt then has no line editing
        readline = None

HELP = "Type a command; its state is kept. Ctrl-C ends what runs; at an empty prompt it leaves, as :q does."
MOST_HISTORY = 1000  # commands that are kept


def _demo(given: argparse.Namespace) -> int:
    """Runs the scripted steps, then a prompt where a terminal is attached."""
    has_prompt = sys.stdin.isatty() and sys.stdout.isatty() and not given.once
    console = _console() if given.console and has_prompt else nullcontext()
    with all_as(signal.SIGINT), asyncio.Runner() as runner, console:
        environment = runner.run(_open(given))
        try:
            runner.run(Tour(environment, color=has_colours(sys.stdout)).run())
            if has_prompt:
                with _history():
                    _take_commands(runner, environment)
        finally:
            runner.run(environment.close())
    return 0


@contextmanager
def _console() -> Iterator[None]:
    """The console in the background, with its URL printed; a line on why it is missing where it
    cannot be had.
    """
    try:
        check_installed()
        if not static_files.is_built():
            raise ConfigError(static_files.HOW_TO_BUILD)
        settings = settings_here()
        options = server.ServerOptions(record=recorded(settings))
        console = server.ConsoleServer(options, DenyRules(settings).guard_environment)
    except ConfigError as error:
        report_error(f"going on without the console: {error}", 0)
        yield
        return
    for name in ("hermetic.serve", "uvicorn.error"):  # a refused request is no line for the prompt
        logging.getLogger(name).addHandler(logging.NullHandler())
        logging.getLogger(name).propagate = False
    with console.in_background():
        print(f"Watch it in your browser: {console.access.start_url()}\n", flush=True)
        yield


@contextmanager
def _history() -> Iterator[None]:
    """Line editing with the commands of earlier times, where Python has it."""
    if readline is None:
        yield
        return
    path = Path(
        os.environ.get("XDG_STATE_HOME") or "~/.local/state", "hermetic", "demo-history"
    ).expanduser()
    readline.set_history_length(MOST_HISTORY)
    with suppress(OSError):
        readline.read_history_file(path)
    try:
        yield
    finally:
        with suppress(OSError):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.touch(mode=0o600)
            readline.write_history_file(path)


async def _open(given: argparse.Namespace) -> Environment:
    began = time.perf_counter()
    chosen = choose(given)
    with option_errors(), slow_start(chosen.kind, chosen.options):
        environment = await open_environment(chosen.kind, **chosen.options)
    DenyRules(chosen.settings).guard_environment(environment)
    opened = span(time.perf_counter() - began)
    print(
        f"Opened a {environment.kind} environment, {environment.id}, in {opened}. Nothing was installed."
    )
    return environment


def _take_commands(runner: asyncio.Runner, environment: Environment) -> None:
    print(f"\n{HELP}\n")
    while True:
        try:
            text = _read_command()
        except EOFError:
            print()
            return
        except KeyboardInterrupt:
            print()
            if readline is None or not readline.get_line_buffer():
                return
            continue
        if text.strip() in (":q", ":quit"):
            return
        if text.strip():
            _run_one(runner, environment, text)


def _read_command() -> str:
    """A command of one line or several, as a shell takes it."""
    text = input("hermetic> ")
    while not typed_input.is_whole_shell(text + "\n"):
        text += "\n" + input("> ")
    return text


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


REPEATS = 50

STEPS = {
    "State is carried from command to command": (
        'cd /tmp; export PROJECT=demo; greet() { echo "hello from $PROJECT, in $PWD"; }',
        "greet",
    ),
    "`exit 3` costs nothing: the shell is back as it was before that command": (
        "PROJECT=lost; exit 3",
        "greet",
    ),
}


class Tour:
    """The scripted steps in one environment, printed as they happen."""

    def __init__(self, environment: Environment, *, color: bool) -> None:
        self._environment = environment
        self._bold, self._dim, self._plain = (
            ("\x1b[1m", "\x1b[2m", "\x1b[0m") if color else ("", "", "")
        )

    async def run(self) -> None:
        """Runs every step.

        The console shows the newest first: the many commands of one step come before the others.
        """
        await self._speed()
        for title, commands in STEPS.items():
            self._title(title)
            for text in commands:
                await self._show(text)
        await self._timeout()
        await self._background()

    async def _timeout(self) -> None:
        self._title("A timeout ends the whole tree, also what tried to get away")
        mark = f"{600 + secrets.randbelow(300)}.{secrets.randbelow(10**6):06}"
        text = f"setsid sleep {mark} & (nohup sleep {mark} >/dev/null 2>&1 &) ; echo started; sleep {mark}"
        await self._show(text, timeout=0.3)
        left = await self._environment.run(
            "grep -lsaF -f - /proc/[0-9]*/cmdline | wc -l", stdin=mark
        )
        print(f"  processes left of it: {left.output.strip()}")

    async def _background(self) -> None:
        self._title(
            "A background process; its output is read by offset, by any client, as often as it likes"
        )
        process = await self._environment.start("for i in 1 2 3; do echo line $i; sleep 0.1; done")
        print(f"  {self._bold}started {process.id}{self._plain}, pid {process.pid}")
        chunk = await process.read(wait=10)
        while chunk.data:
            print(f"  bytes {chunk.start}–{chunk.end}: {chunk.data.decode()!r}")
            chunk = await process.read(chunk.end, wait=10)
        again = await process.read(7)
        print(f"  it {await process.wait()}; once more from byte 7: {again.data.decode()!r}")

    async def _speed(self) -> None:
        self._title(f"How long `true` takes, {REPEATS} times each")
        kept, fresh = [], []
        for _ in range(REPEATS):
            began = time.perf_counter()
            await self._environment.run("true")
            kept.append(time.perf_counter() - began)
            await asyncio.sleep(0.005)
        for _ in range(REPEATS):
            began = time.perf_counter()
            await (await asyncio.create_subprocess_exec("bash", "-c", "true")).wait()
            fresh.append(time.perf_counter() - began)
        print(f"  in this session: {span(statistics.median(kept))} (median, from asyncio)")
        print(
            f"  in a bash started for it: {span(statistics.median(fresh))} (asyncio.create_subprocess_exec)"
        )

    async def _show(self, text: str, timeout: float | None = None) -> None:
        limited = "" if timeout is None else f"{self._dim}   (timeout {timeout:g} s){self._plain}"
        print(f"  {self._bold}$ {text}{self._plain}{limited}")
        result = await self._environment.run(text, timeout=timeout)
        for line in result.output.splitlines():
            print(f"  {one_line(line)}")
        print(f"  {self._dim}→ {result.ending}, {span(result.duration)}{self._plain}")
        for note in result.notes:
            print(f"  {self._dim}  note: {one_line(note)}{self._plain}")

    def _title(self, text: str) -> None:
        print(f"\n{self._bold}{text}{self._plain}")


COMMANDS = {
    "demo": Command(
        """\
Opens an environment, runs commands in it and tells what happened; then takes yours.

  hermetic demo --env sandbox""",
        options(
            ENVIRONMENT,
            """\
--once, --no-prompt  leave after the tour
--console            show it in the browser too, while commands are taken""",
        ),
        _demo,
    ),
}
