"""`hermetic attach`: a process on our terminal, both ways."""

import asyncio
import contextlib
import fcntl
import os
import struct
import subprocess
import tempfile
import termios
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import IO

import pytest

import hermetic
from hermetic.cli.command import INTERRUPTED
from hermetic.cli.report import user_name
from hermetic.contract.errors import Driven
from hermetic.session.terminal import as_terminal
from hermetic.session.terminal_modes import TerminalModes
from tests.cli.program import COMMAND, running


class Terminal:
    """A terminal with a program on it."""

    def __init__(
        self, words: tuple[str, ...], rows: int, cols: int, errors: IO[bytes] | None
    ) -> None:
        self.master, slave = os.openpty()
        self.resize(rows, cols)
        self.process = subprocess.Popen(
            [*COMMAND, *words],
            stdin=slave,
            stdout=slave,
            stderr=slave if errors is None else errors,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)
        self.seen = self.before = b""

    def resize(self, rows: int, cols: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    async def until(self, text: bytes) -> None:
        """Returns when the text was shown; what came before it is forgotten."""
        async with asyncio.timeout(30):
            while text not in self.seen:
                self.seen += await asyncio.to_thread(self._read)
        self.before, _, self.seen = self.seen.partition(text)

    def rest(self) -> str:
        """What a program that has left showed last."""
        with contextlib.suppress(AssertionError):
            while True:
                self.seen += self._read()
        return self.seen.decode()

    def _read(self) -> bytes:
        try:
            data = os.read(self.master, 4096)
        except OSError:
            data = b""
        assert data, f"the program left; it showed {self.seen!r}"
        return data

    def type(self, data: bytes) -> None:
        os.write(self.master, data)

    def hang_up(self) -> None:
        """Closes the terminal, as its window does."""
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, self.master)
        os.close(null)

    async def left(self) -> int:
        """The program's exit code."""
        return await asyncio.to_thread(self.process.wait, 20)


@contextmanager
def terminal(
    *words: str, rows: int = 24, cols: int = 80, errors: IO[bytes] | None = None
) -> Iterator[Terminal]:
    shown = Terminal(words, rows, cols, errors)
    try:
        yield shown
    finally:
        shown.process.kill()
        shown.process.wait()
        os.close(shown.master)


@asynccontextmanager
async def started(text: str, **options: bool) -> AsyncIterator[hermetic.Process]:
    async with hermetic.open("local") as environment:
        yield await environment.start(text, id="shown", pty=options.get("pty", False))


async def test_keys_and_output_pass_both_ways_and_the_code_is_the_processes() -> None:
    async with started("read -r -p 'name? ' name; echo hello $name; exit 7", pty=True):
        with terminal("attach", "shown") as shown:
            await shown.until(b"name? ")
            shown.type(b"world\r")
            await shown.until(b"hello world")
            assert await shown.left() == 7


async def test_ctrl_c_goes_to_the_process() -> None:
    async with started(
        "trap 'echo caught; exit 5' INT; echo up; while :; do sleep 0.02; done", pty=True
    ):
        with terminal("attach", "shown") as shown:
            await shown.until(b"up")
            shown.type(b"\x03")
            await shown.until(b"caught")
            assert await shown.left() == 5


async def test_a_terminal_that_knows_no_size_counts_as_a_usual_one() -> None:
    for words in (("run", "-t", "--", "stty size"), ("shell",)):
        with terminal(*words, rows=0, cols=0) as shown:
            shown.type(b"stty size; exit\r")
            await shown.until(b"24 80")
            assert await shown.left() == 0


async def test_the_size_follows_ours() -> None:
    async with started("while :; do stty size; sleep 0.05; done", pty=True):
        with terminal("attach", "shown", rows=31, cols=97) as shown:
            await shown.until(b"31 97")
            shown.resize(44, 111)
            await shown.until(b"44 111")


async def test_the_first_key_takes_control_and_detaching_gives_it_back_with_a_note() -> None:
    async with started("echo up; while read -r line; do echo got $line; done", pty=True) as process:
        with terminal("attach", "--note", "look at line 3", "shown") as shown:
            await shown.until(b"up")
            await process.write("agent\r")  # watching is free
            await shown.until(b"got agent")
            shown.type(b"person\r")
            await shown.until(b"got person")
            with pytest.raises(Driven, match=user_name()):
                await process.write("agent\r")
            shown.type(b"\x1d")
            await shown.until(b"detached")
            assert await shown.left() == 0
        await process.write("again\r")
        await process.wait_for("got again", timeout=60)
        await process.status()
        assert process.info.handed is not None
        assert (process.info.handed.by, process.info.handed.note) == (user_name(), "look at line 3")
        assert [(one.by, one.is_person) for one in await process.inputs()] == [
            ("agent", False),
            (user_name(), True),
            ("agent", False),
        ]


async def test_another_persons_keyboard_is_taken_on_demand_alone() -> None:
    async with started("echo up; while read -r line; do echo got $line; done", pty=True) as process:
        ann = as_terminal(process)
        await ann.drive("ann")
        with terminal("attach", "shown") as shown:
            await shown.until(b"up")
            shown.type(b"no\r")
            await shown.until(b"not typed: ann drives")
        with terminal("attach", "--take", "shown") as shown:
            await shown.until(b"up")
            shown.type(b"mine\r")
            await shown.until(b"got mine")
            assert not ann.is_driving
            shown.type(b"\x1d")
            assert await shown.left() == 0
        await process.kill()


async def test_a_watcher_types_nothing_and_leaves_the_size() -> None:
    async with started("echo up; read -r line; echo got $line", pty=True) as process:
        with terminal("attach", "--watch", "shown", rows=31, cols=97) as shown:
            await shown.until(b"up")
            shown.type(b"no\r\x1d")
            await shown.until(b"detached")
        await process.submit("yes")
        await process.wait_for("got yes", timeout=60)
        await process.status()
        assert (process.info.rows, process.info.cols, process.info.driver) == (24, 80, None)


async def test_the_detach_key_leaves_it_running() -> None:
    async with started("echo up; read -r line; echo got $line", pty=True) as process:
        with terminal("attach", "shown") as shown:
            await shown.until(b"up")
            shown.type(b"par\x1d")
            await shown.until(b"detached")
            assert await shown.left() == 0
        assert (await process.status()).state == "running"
        with terminal("attach", "shown") as shown:
            await shown.until(b"up")
            shown.type(b"tial\r")
            await shown.until(b"got partial")
            assert await shown.left() == 0


async def test_the_terminal_is_as_before_afterwards() -> None:
    async with started("echo up; sleep 300", pty=True):
        with terminal("attach", "shown") as shown:
            before = termios.tcgetattr(shown.master)
            await shown.until(b"up")
            assert termios.tcgetattr(shown.master)[3] != before[3]
            shown.type(b"\x1d")
            assert await shown.left() == 0
            assert termios.tcgetattr(shown.master) == before


@pytest.mark.parametrize("words", [("attach", "shown"), ("shell",)])
async def test_a_closed_terminal_ends_it_like_ctrl_c(words: tuple[str, ...]) -> None:
    async with started("echo up; sleep 300", pty=True) as process:
        with (
            tempfile.TemporaryFile() as errors,
            terminal(*words, errors=errors) as shown,
        ):
            shown.type(b"echo u$((1))\r")
            await shown.until(b"u1" if words == ("shell",) else b"up")
            shown.hang_up()
            assert await shown.left() == INTERRUPTED
            errors.seek(0)
            assert b"Traceback" not in errors.read()
        assert (await process.status()).ending is None


async def test_a_process_on_pipes_gets_lines_and_the_end_of_input() -> None:
    async with started("while read -r line; do echo got $line; done; exit 3"):
        with terminal("attach", "shown") as shown:
            shown.type(b"one\n")
            await shown.until(b"got one")
            shown.type(b"\x04")
            assert await shown.left() == 3


async def test_without_a_terminal_it_follows_and_passes_input_on() -> None:
    async with started("echo up; read -r line; echo got $line; exit 4"):
        with running("attach", "shown", stdin=subprocess.PIPE) as attached:
            assert attached.stdin is not None
            assert attached.stdout is not None
            assert await asyncio.to_thread(attached.stdout.readline) == b"up\n"
            attached.stdin.write(b"it\n")
            attached.stdin.close()
            assert await asyncio.to_thread(attached.stdout.readline) == b"got it\n"
            assert await asyncio.to_thread(attached.wait, 20) == 4


# An editor's beginning: another screen, no cursor, mouse, colours, keypad, a scroll region.
FULL_SCREEN = r"printf '\033[?1049h\033[?25l\033[?1000;1006h\033[?2004h\033=\033[2;10r\033[1;31mup'"
TAKEN_BACK = (
    b"\x1b[?1000l",
    b"\x1b[?1006l",
    b"\x1b[?2004l",
    b"\x1b[?25h",
    b"\x1b>",
    b"\x1b[r",
    b"\x1b[m",
    b"\x1b[?1049l",
)


async def test_a_detach_takes_back_what_the_process_made_of_the_terminal() -> None:
    async with started(f"{FULL_SCREEN}; sleep 300", pty=True):
        with terminal("attach", "shown") as shown:
            await shown.until(b"up")
            shown.type(b"\x1d")
            await shown.until(b"detached")
            for sequence in TAKEN_BACK:
                assert sequence in shown.before, sequence
            assert await shown.left() == 0


async def test_the_end_of_a_process_that_was_killed_takes_it_back_too() -> None:
    async with started(f"{FULL_SCREEN}; read -r line; kill -9 $$", pty=True):
        with terminal("attach", "shown") as shown:
            await shown.until(b"up")
            shown.type(b"\r")
            await shown.until(b"SIGKILL")
            assert shown.before.index(b"\x1b[?25h") < shown.before.index(b"\x1b[?1049l")
            assert await shown.left() == 137


async def test_a_terminal_that_was_left_alone_gets_nothing() -> None:
    async with started(r"printf '\033[31mred\033[0m plain'; sleep 300", pty=True):
        with terminal("attach", "shown") as shown:
            await shown.until(b"plain")
            shown.type(b"\x1d")
            await shown.until(b"detached")
            assert b"\x1b" not in shown.before


async def test_ctrl_c_detaches_from_a_process_on_pipes() -> None:
    async with started("echo up; read -r line; echo got $line") as process:
        with terminal("attach", "shown") as shown:
            await shown.until(b"up")
            shown.type(b"\x03")
            await shown.until(b"detached; `hermetic attach shown` comes back")
            assert await shown.left() == 0
        assert (await process.status()).state == "running"


async def test_another_signal_is_no_detach() -> None:
    async with started("echo up; sleep 300") as process:
        with running("attach", "shown", stdin=subprocess.PIPE) as attached:
            assert attached.stdout is not None
            assert await asyncio.to_thread(attached.stdout.readline) == b"up\n"
            attached.terminate()
            assert await asyncio.to_thread(attached.wait, 20) == 130
        assert (await process.status()).state == "running"


@pytest.mark.parametrize(
    ("output", "undone"),
    [
        (b"plain \xe2\x86\x92 text\n", b""),
        (b"\x1b[?1049h\x1b[?25l\x1b[?25h\x1b[?1049l", b""),
        (b"\x1b[?47h", b"\x1b[?47l"),
        (b"\x1b[?1049h", b"\x1b[?1049l"),
        (b"\x1b[?25l", b"\x1b[?25h"),
        (b"\x1b[?7l", b"\x1b[?7h"),
        (b"\x1b[?1002;1006h\x1b[?1002l", b"\x1b[?1006l"),
        (b"\x1b[0;31m\x1b[m", b""),
        (b"\x1b[38;5;4m", b"\x1b[m"),
        (b"\x1b(0qqq\x1b(B", b""),
        (b"\x1b(0qqq", b"\x1b(B"),
        (b"\x0eqqq", b"\x0f"),
        (b"\x1b[4h", b"\x1b[4l"),
        (b"\x1b[3 q", b"\x1b[0 q"),
        (b"\x1b[?1049h\x1b[31m\x1b[?25l\x1bc", b""),
        (b"\x1b[?1049h\x1b[31m\x1b[!p", b"\x1b[?1049l"),
        (b"\x1b[?99999999999999999h\x1b[?;;h\x1b[?h", b""),
    ],
)
def test_only_what_is_set_is_taken_back_however_the_output_is_cut(
    output: bytes, undone: bytes
) -> None:
    for cut in range(len(output) + 1):
        modes = TerminalModes()
        modes.feed(output[:cut])
        modes.feed(output[cut:])
        assert modes.undo() == undone, cut


def test_a_sequence_without_an_end_is_not_kept() -> None:
    modes = TerminalModes()
    for _ in range(1000):
        modes.feed(b"\x1b[" + b"1;" * 1000)
    assert len(modes._pending) <= 256
    assert modes.undo() == b""
