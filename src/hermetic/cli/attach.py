"""`hermetic attach` and `hermetic secret`: a process on our terminal, and a password typed into
one.
"""

import argparse
import asyncio
import getpass
import os
import signal
import sys
import termios
import tty
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress

from hermetic.cli.command import FAILED, Command, options
from hermetic.cli.copying import LogCopy, pieces
from hermetic.cli.interrupts import Interrupts, Stopped, run_interruptibly
from hermetic.cli.lookup import IN, PROCESS, KnownProcess, process_in_use
from hermetic.cli.opening import DenyRules, settings_here
from hermetic.cli.report import one_line, user_name
from hermetic.cli.streams import terminal_size
from hermetic.contract.concurrency import beside, shielded
from hermetic.contract.endings import Ending
from hermetic.contract.errors import (
    ExecutionError,
    InputClosed,
    InvalidArgument,
    NotPermitted,
    Unsupported,
)
from hermetic.session.environment import Environment
from hermetic.session.process import Process
from hermetic.session.terminal import Terminal, terminal
from hermetic.session.terminal_modes import TerminalModes

STDIN, STDOUT = 0, 1
DETACH = b"\x1d"  # ctrl-]
END_OF_INPUT = b"\x04"  # ctrl-d
READING_SECONDS = 0.1  # between two looks whether a process waits for input
SHOWN_BYTES = 1 << 16  # of earlier output, so that a screen is drawn again


def _attach(arguments: argparse.Namespace) -> int:
    """Attaches; the process' exit code, or 0 after a detach."""
    shown: list[str] = []
    try:
        return run_interruptibly(lambda interrupts: _show(arguments, interrupts, shown))
    except Stopped as error:
        if not shown or error.signal != signal.SIGINT:
            raise
        return detached(shown[0])


async def _show(arguments: argparse.Namespace, interrupts: Interrupts, shown: list[str]) -> int:
    """As `_attach`; `shown` gets the id of the process once it is on our terminal."""
    async with _found(arguments) as found:
        process = await terminal(found.environment, found.info.id)
        shown.append(process.id)
        keyboard = SharedKeyboard(process, is_watching=arguments.watch)
        try:
            if arguments.take:
                await keyboard.take()
            ending = await show_process(found.environment, keyboard, interrupts)
        finally:
            await shielded(keyboard.give(arguments.note))
    if ending is None:
        return detached(process.id)
    sys.stderr.write(f"{one_line(process.id)} {ending}\n")
    return FAILED if ending.exit_code is None else ending.exit_code


@asynccontextmanager
async def _found(arguments: argparse.Namespace) -> AsyncIterator[KnownProcess]:
    """The process that is named, where the user's deny rules hold."""
    rules = DenyRules(settings_here())
    async with process_in_use(arguments.id, arguments.within) as found:
        rules.guard_environment(found.environment)
        yield found


class Keyboard:
    """A person's input for a process of their own."""

    is_watching = False  # nothing is typed, and the size stays as it is

    def __init__(self, process: Process) -> None:
        self.process = process

    async def write(self, data: bytes) -> None:
        """Types the data, unless the user's own rules deny it or another person drives; earlier
        input stays typed.
        """
        try:
            await self.process.write(data)
        except NotPermitted as error:
            sys.stderr.write(f"\r\nhermetic: not typed: {one_line(str(error))}\r\n")

    async def resize(self) -> None:
        """Gives the process' terminal the size of ours."""
        size = terminal_size(STDIN)
        with suppress(ExecutionError):  # it ended meanwhile, or another person drives it
            await self.process.resize(size.lines, size.columns)


class SharedKeyboard(Keyboard):
    """A person's input for any process. The first key takes control of one that an agent uses."""

    def __init__(self, process: Terminal, *, is_watching: bool) -> None:
        super().__init__(process)
        self._terminal, self.is_watching = process, is_watching

    async def write(self, data: bytes) -> None:
        """As `Keyboard.write`, with control if the process is an agent's and no other person has
        it.
        """
        if not self._terminal.is_driving and not self._terminal.info.is_of_person:
            await self._terminal.status()
            if self._terminal.info.driver is None and self._terminal.info.input == "open":
                with suppress(Unsupported):  # an older resident
                    await self.take()
        await super().write(data)

    async def take(self) -> None:
        """Takes control, also from another person. Raises ExecutionError."""
        await self._terminal.drive(user_name())
        if self._terminal.info.pty and os.isatty(STDIN):
            await self.resize()

    async def give(self, note: str) -> None:
        """Gives control back, if it was taken."""
        with suppress(ExecutionError):  # the process or its environment has ended
            await self._terminal.give(note)


async def show_process(
    environment: Environment,
    keyboard: Keyboard,
    interrupts: Interrupts,
    *,
    can_detach: bool = True,
    ends_input: bool = False,
) -> Ending | None:
    """Shows the process on our terminal and forwards what is typed. Returns its ending, or None
    after a detach.

    `ends_input`: the end of our input, where that is no terminal, is typed as ctrl-d.
    """
    process, has_terminal = keyboard.process, keyboard.process.info.pty
    is_raw, detach = has_terminal and os.isatty(STDIN), DETACH if can_detach else b""
    with _raw_terminal(can_detach) if is_raw else nullcontext(), _restored_modes() as modes:
        if is_raw and not keyboard.is_watching:
            await _follow_size(keyboard)

        def show(data: bytes) -> None:
            modes.feed(data)
            interrupts.write(STDOUT, data)

        start = max(0, process.info.out - SHOWN_BYTES) if has_terminal else 0
        copy = LogCopy(environment, process.id, show, start)
        typing = _pass_on(keyboard, has_terminal, detach, ends_input)
        async with beside(copy.to_the_end()) as output, beside(typing) as typed:
            await asyncio.wait([output, typed], return_when=asyncio.FIRST_COMPLETED)
            if typed.done() and typed.result():
                return None
            await output
    return (await process.status()).ending


def detached(id: str) -> int:
    """Says how to come back to a process that was left running; the exit code."""
    sys.stderr.write(f"detached; `hermetic attach {one_line(id)}` comes back\n")
    return 0


async def _pass_on(keyboard: Keyboard, has_terminal: bool, detach: bytes, ends_input: bool) -> bool:
    """Forwards typed input until its end; True when the detach key was pressed.

    Forwards a terminal's end of input.
    """
    last = b"\n"
    with suppress(InputClosed):
        async for piece in pieces(STDIN):
            last = piece[-1:]
            before, key, _ = (
                piece.partition(detach) if detach and os.isatty(STDIN) else (piece, b"", b"")
            )
            if before and not keyboard.is_watching:
                await keyboard.write(before)
            if key:
                return True
        if os.isatty(STDIN) and not has_terminal and not keyboard.is_watching:
            await keyboard.process.close_input()
        elif ends_input and not os.isatty(STDIN):
            await _end_input(keyboard.process, ends_line=last != b"\n")
    return False


async def _end_input(process: Process, *, ends_line: bool) -> None:
    """Types ctrl-d each time the process waits for input, as a pipe that has ended answers each read.

    One that is typed earlier may be lost: a shell sets its terminal's modes before it reads.
    """
    typed = END_OF_INPUT * (2 if ends_line else 1)  # the first ends the line
    while (status := await process.status()).ending is None:
        if status.waiting_for_input is not False:
            await process.write(typed)
            typed = END_OF_INPUT
        await asyncio.sleep(READING_SECONDS)


async def _follow_size(keyboard: Keyboard) -> None:
    """Gives the process' terminal our size, now and whenever it changes."""
    loop = asyncio.get_running_loop()
    changes: set[asyncio.Task[None]] = set()

    def changed() -> None:
        task = loop.create_task(keyboard.resize())
        changes.add(task)
        task.add_done_callback(changes.discard)

    loop.add_signal_handler(signal.SIGWINCH, changed)
    await keyboard.resize()


@contextmanager
def _raw_terminal(can_detach: bool) -> Iterator[None]:
    earlier = termios.tcgetattr(STDIN)
    if can_detach:
        sys.stderr.write("attached; ctrl-] detaches\r\n")
    tty.setraw(STDIN, termios.TCSADRAIN)  # what was typed ahead is kept
    try:
        yield
    finally:
        with suppress(OSError, termios.error):  # the terminal is gone
            termios.tcsetattr(STDIN, termios.TCSADRAIN, earlier)
            sys.stderr.write("\n")


@contextmanager
def _restored_modes() -> Iterator[TerminalModes]:
    """Restores our terminal at the end: screen, cursor, mouse, colours."""
    modes = TerminalModes()
    try:
        yield modes
    finally:
        if os.isatty(STDOUT):
            with suppress(OSError):  # the terminal is gone
                os.write(STDOUT, modes.undo())


def _secret(arguments: argparse.Namespace) -> int:
    """Asks and passes it on."""
    id = asyncio.run(_find_id(arguments))  # fails before the prompt appears
    secret = _read_secret(f"secret for {one_line(id)}: ")
    if not secret:
        raise InvalidArgument(
            "the line is empty: nothing was typed into the process", argument="secret"
        )
    asyncio.run(_write_secret(arguments, secret))
    return 0


def _read_secret(prompt: str) -> str:
    """A line; empty at the end of the input."""
    try:
        terminal = sys.stdin.isatty()
        secret = getpass.getpass(prompt) if terminal else sys.stdin.readline().rstrip("\n")
        secret.encode()  # in the C locale, bytes that are no text come as surrogates
    except EOFError:
        return ""
    except UnicodeError:
        raise InvalidArgument(
            "what was typed is no text in this locale's encoding", argument="secret"
        ) from None
    return secret


async def _find_id(arguments: argparse.Namespace) -> str:
    async with _found(arguments) as found:
        if found.info.ending is not None:
            raise InputClosed(
                f"process {found.info.id} has ended and reads no secret",
                process_id=found.info.id,
            )
        return found.info.id


async def _write_secret(arguments: argparse.Namespace, secret: str) -> None:
    async with _found(arguments) as found:
        process = await found.environment.process(found.info.id)
        await process.write_secret(secret)


COMMANDS = {
    "attach": Command(
        """\
Shows a process and passes on what is typed. A process with a terminal gets every key; ctrl-] detaches and leaves it
running. The first key takes control of a process that an agent uses: its own input is refused until you detach. Exits
with the process' code once it has ended.

  hermetic attach web-server""",
        options(
            IN,
            PROCESS,
            """\
--take   take the keyboard at once, also from another person
--watch  type nothing, and leave its size alone
--note TEXT =   for the agent, when the keyboard is given back""",
        ),
        _attach,
    ),
    "secret": Command(
        """\
Reads one line without showing it and types it into a process. It is in no result, log or screen, even where the process
prints it. Without a terminal the line comes from standard input.

  hermetic secret deploy
  pass show server | hermetic secret deploy""",
        options(IN, PROCESS),
        _secret,
    ),
}
