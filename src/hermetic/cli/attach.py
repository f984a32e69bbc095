"""`hermetic attach`: a process on our terminal."""

import argparse
import asyncio
import os
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING

from hermetic.cli.choosing import settings_here
from hermetic.cli.command import FAILED, INTERRUPTED
from hermetic.cli.copying import LogCopy, pieces
from hermetic.cli.interrupts import Interrupted, Interrupts, run_interruptibly
from hermetic.cli.places import Found, add_place_option, attached, find_process
from hermetic.cli.report import one_line
from hermetic.cli.ruled import Ruled
from hermetic.cli.terminal_modes import TerminalModes
from hermetic.contract.errors import ExecutionError, InputClosed, NotPermitted
from hermetic.session.process import Process

if TYPE_CHECKING:
    from hermetic.cli.command import SubParsers

STDIN, STDOUT = 0, 1
DETACH = b"\x1d"  # ctrl-]
SHOWN_BYTES = 1 << 16  # of earlier output, so that a screen is drawn again


def add_parser(subparsers: "SubParsers") -> None:
    """Declares the arguments."""
    parser = subparsers.add_parser(
        "attach",
        description="Shows a process and passes on what is typed. A process with a terminal gets every key; ctrl-] "
        "detaches and leaves it running. Exits with the process' code once it has ended.",
    )
    add_place_option(parser)
    parser.add_argument("id", metavar="ID", help="an id from `hermetic ps`, or the start of one")


def run(arguments: argparse.Namespace) -> int:
    """Attaches; the process' exit code, or 0 after a detach."""
    shown: list[str] = []
    try:
        return run_interruptibly(lambda interrupts: _attach(arguments, interrupts, shown))
    except Interrupted as error:
        if not shown or error.signal != signal.SIGINT:
            return INTERRUPTED
        return _detached(shown[0])


async def _attach(arguments: argparse.Namespace, interrupts: Interrupts, shown: list[str]) -> int:
    """As `run`; `shown` gets the id of the process once it is on our terminal."""
    ruled = Ruled(settings_here())
    async with attached(arguments.place) as places:
        found = await find_process(places, arguments.id)
        ruled.put_before(found.environment)
        process = await found.environment.process(found.info.id)
        is_raw = found.info.pty and os.isatty(STDIN)
        shown.append(process.id)
        with _raw_terminal() if is_raw else nullcontext(), _restored_modes() as modes:
            if is_raw:
                await _follow_size(process)
            is_over = await _until_over(found, process, interrupts, modes)
        ending = (await process.status()).ending
    if not is_over or ending is None:
        return _detached(process.id)
    sys.stderr.write(f"{one_line(process.id)} {ending}\n")
    return FAILED if ending.exit_code is None else ending.exit_code


def _detached(id: str) -> int:
    sys.stderr.write(f"detached; `hermetic attach {one_line(id)}` comes back\n")
    return 0


async def _until_over(found: Found, process: Process, interrupts: Interrupts, modes: TerminalModes) -> bool:
    """True when the process has ended, False when the person detached."""
    start = max(0, found.info.out - SHOWN_BYTES) if found.info.pty else 0

    def show(data: bytes) -> None:
        modes.feed(data)
        interrupts.write(STDOUT, data)

    copy = LogCopy(found.environment, process.id, show, start)
    output = asyncio.create_task(copy.to_the_end())
    typed = asyncio.create_task(_type(process, found.info.pty))
    try:
        await asyncio.wait([output, typed], return_when=asyncio.FIRST_COMPLETED)
        if typed.done() and typed.result():
            return False
        await output
        return True
    finally:
        for task in (output, typed):
            task.cancel()
        await asyncio.wait([output, typed])


async def _type(process: Process, has_terminal: bool) -> bool:
    """Passes on what is typed; True when that was the detach key. The end of a terminal's input is passed on too."""
    with suppress(InputClosed):
        async for piece in pieces(STDIN):
            before, key, _ = piece.partition(DETACH) if os.isatty(STDIN) else (piece, b"", b"")
            if before:
                await _write(process, before)
            if key:
                return True
        if os.isatty(STDIN) and not has_terminal:
            await process.close_input()
    return False


async def _write(process: Process, data: bytes) -> None:
    """Types it, unless the user's own rules deny that: what was typed before still waits there."""
    try:
        await process.write(data)
    except NotPermitted as error:
        sys.stderr.write(f"\r\nhermetic: not typed: {one_line(str(error))}\r\n")


async def _follow_size(process: Process) -> None:
    """Gives the process' terminal our size, now and whenever it changes."""
    loop = asyncio.get_running_loop()
    changes: set[asyncio.Task[None]] = set()

    async def resize() -> None:
        size = os.get_terminal_size(STDIN)
        with suppress(ExecutionError):  # it ended meanwhile
            await process.resize(size.lines, size.columns)

    def changed() -> None:
        task = loop.create_task(resize())
        changes.add(task)
        task.add_done_callback(changes.discard)

    loop.add_signal_handler(signal.SIGWINCH, changed)
    await resize()


@contextmanager
def _raw_terminal() -> Iterator[None]:
    earlier = termios.tcgetattr(STDIN)
    sys.stderr.write("attached; ctrl-] detaches\r\n")
    tty.setraw(STDIN)
    try:
        yield
    finally:
        termios.tcsetattr(STDIN, termios.TCSADRAIN, earlier)
        sys.stderr.write("\n")


@contextmanager
def _restored_modes() -> Iterator[TerminalModes]:
    """Takes back at the end what the process made of our terminal: its screen, cursor, mouse, colours."""
    modes = TerminalModes()
    try:
        yield modes
    finally:
        if os.isatty(STDOUT):
            with suppress(OSError):  # the terminal is gone
                os.write(STDOUT, modes.undo())
