"""`hermetic attach`: a process on our terminal, both ways."""

import asyncio
import contextlib
import fcntl
import os
import struct
import subprocess
import termios
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import hermetic
from tests.cli.program import COMMAND, running


class Terminal:
    """A terminal with a program on it."""

    def __init__(self, words: tuple[str, ...], rows: int, cols: int) -> None:
        self.master, slave = os.openpty()
        self.resize(rows, cols)
        self.process = subprocess.Popen(
            [*COMMAND, *words], stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip
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

    async def left(self) -> int:
        """The program's exit code."""
        return await asyncio.to_thread(self.process.wait, 20)


@contextmanager
def terminal(*words: str, rows: int = 24, cols: int = 80) -> Iterator[Terminal]:
    shown = Terminal(words, rows, cols)
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
    async with started("trap 'echo caught; exit 5' INT; echo up; while :; do sleep 0.02; done", pty=True):
        with terminal("attach", "shown") as shown:
            await shown.until(b"up")
            shown.type(b"\x03")
            await shown.until(b"caught")
            assert await shown.left() == 5


async def test_the_size_follows_ours() -> None:
    async with started("while :; do stty size; sleep 0.05; done", pty=True):
        with terminal("attach", "shown", rows=31, cols=97) as shown:
            await shown.until(b"31 97")
            shown.resize(44, 111)
            await shown.until(b"44 111")


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
