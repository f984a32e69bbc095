"""Something running, as its caller holds it."""

import asyncio
import re
import signal as signals
from typing import Literal

from hermetic.contract.endings import Ending
from hermetic.contract.errors import InvalidArgument
from hermetic.contract.limits import GRACE
from hermetic.contract.process import Chunk, ProcessInfo, Status
from hermetic.link import answers
from hermetic.link.link import Link
from hermetic.session.arguments import check_count, check_duration, check_positive, encode_input, encode_text
from hermetic.session.blobs import cut
from hermetic.session.keys import encode_keys
from hermetic.session.reading import read_log
from hermetic.session.screen import Screen
from hermetic.session.search import Search, compile_search

LONG_WAIT = 3600.0  # seconds; one request's worth of waiting for output, asked anew as long as the caller waits


class Process:
    """A process in an environment. It runs on whether or not anybody holds this."""

    def __init__(self, link: Link, info: ProcessInfo) -> None:
        self._link = link
        self._info = info
        self._searched = 0  # offset behind the last match of wait_for
        self._screen: Screen | None = None
        self._size = (info.rows, info.cols)

    def __repr__(self) -> str:
        return f"<Process {self.id}: {self._info.ending or 'running'}>"

    @property
    def id(self) -> str:
        """What it is called in its environment, and its log too."""
        return self._info.id

    @property
    def pid(self) -> int | None:
        """Its number, as its environment counts."""
        return self._info.pid

    @property
    def info(self) -> ProcessInfo:
        """What was last heard of it."""
        return self._info

    async def status(self) -> Status:
        """How it is doing now."""
        said, _ = await self._link.ask("status", answers.described, process=self.id)
        info = self._heard(said)
        return Status(
            state=info.state, pid=info.pid, started=info.started, ending=info.ending, waiting_for_input=said.waiting
        )

    async def read(self, offset: int = 0, *, limit: int | None = None, wait: float | None = None) -> Chunk:
        """Its output from `offset` on. `wait=s` waits that long for the first byte or the end; None does not wait."""
        return await read_log(self._link, self.id, offset, limit, wait)

    async def write(self, data: str | bytes) -> None:
        """Writes to its input; returns when all was taken in. Raises InputClosed."""
        for piece in cut(encode_input(data, "data")):
            await self._link.ask("write", answers.done, piece, repeats=False, process=self.id)

    async def submit(self, text: str) -> None:
        """Writes a line: the text and a newline, on a terminal the Enter key."""
        await self.write(encode_text(text, "text") + (b"\r" if self._info.pty else b"\n"))

    async def write_secret(self, text: str) -> None:
        """Writes a line that is kept out of the log, should the process print it."""
        line = encode_text(text, "text") + (b"\r" if self._info.pty else b"\n")
        await self._link.ask("write", answers.done, line, repeats=False, process=self.id, secret=True)

    async def keys(self, names: str) -> None:
        """Presses keys: `keys("ctrl-c up enter")`."""
        await self.write(encode_keys(names))

    async def close_input(self) -> None:
        """Ends its input: it reads end of file after what was written."""
        await self._link.ask("close_input", answers.done, process=self.id)

    async def resize(self, rows: int, cols: int) -> None:
        """Gives its terminal another size."""
        size = check_count(rows, "rows", least=1), check_count(cols, "cols", least=1)
        await self._link.ask("resize", answers.done, process=self.id, rows=rows, cols=cols)
        self._size = size
        if self._screen is not None:
            self._screen.resize(*size)

    async def signal(self, signal: int | str, *, tree: bool = True) -> None:
        """Sends a signal, by number or name, to its whole tree or to it alone."""
        number = _signal_number(signal)
        await self._link.ask("signal", answers.done, repeats=False, process=self.id, signal=number, tree=tree)

    async def kill(self, grace: float = GRACE.value) -> Ending | None:
        """Ends its whole tree, TERM first and KILL after the grace, and returns when nothing is left."""
        check_duration(grace, "grace")
        said, _ = await self._link.ask("kill", answers.described, process=self.id, grace=float(grace))
        return self._heard(said).ending

    async def wait(self, timeout: float | None = None) -> Ending:
        """How it ended, once it has. Raises TimeoutError, and leaves it alone."""
        if timeout is not None:
            check_duration(timeout, "timeout")
        async with asyncio.timeout(timeout):
            said, _ = await self._link.ask("wait", answers.described, process=self.id)
        ending = self._heard(said).ending
        if ending is None:
            raise self._link.distrust("a process that has ended without an ending")
        return ending

    async def wait_for(
        self, text: str, *, timeout: float | None, pattern: bool = False, on: Literal["output", "screen"] = "output"
    ) -> tuple[int, int]:
        """Offsets [start, end) of the next match in its output, or of one in the text of its screen now.

        Raises: TimeoutError, and EOFError when it has ended and no match can come; it is left alone in both.
        """
        if timeout is not None:
            check_positive(timeout, "timeout")
        wanted = compile_search(text, pattern=pattern)
        if on not in ("output", "screen"):
            raise InvalidArgument(f'on must be "output" or "screen", not {on!r}', argument="on")
        try:
            async with asyncio.timeout(timeout):
                return await (self._find_in_output(wanted) if on == "output" else self._find_on_screen(wanted))
        except TimeoutError:
            raise TimeoutError(f"{text!r} did not appear within {timeout:g} s; the process was left alone") from None

    async def screen(self) -> str:
        """The text that its terminal shows now, a line for each row."""
        said, _ = await self._link.ask("status", answers.described, process=self.id)
        return await self._shown(self._heard(said).out)

    async def _find_in_output(self, wanted: "re.Pattern[bytes]") -> tuple[int, int]:
        search = Search(wanted, self._searched)
        while True:
            chunk = await self.read(search.position, wait=LONG_WAIT)
            if match := search.feed(chunk.start, chunk.data):
                self._searched = match[1]
                return match
            if chunk.ended:
                raise self._never(wanted)

    async def _find_on_screen(self, wanted: "re.Pattern[bytes]") -> tuple[int, int]:
        text = await self.screen()
        while not (match := wanted.search(text.encode())):
            assert self._screen is not None
            chunk = await self.read(self._screen.position, wait=LONG_WAIT)
            if chunk.ended and not chunk.data:
                raise self._never(wanted)
            text = await self._shown(chunk.end)
        start = len(text.encode()[: match.start()].decode("utf-8", "replace"))
        return start, start + len(match.group().decode("utf-8", "replace"))

    async def _shown(self, total: int) -> str:
        if self._screen is None:
            self._screen = Screen(self.read, *self._size)
        return await self._screen.look(total)

    def _never(self, wanted: "re.Pattern[bytes]") -> EOFError:
        return EOFError(
            f"process {self.id} has ended, and {wanted.pattern.decode('utf-8', 'replace')!r} did not appear; "
            "read() has its output"
        )

    def _heard(self, said: answers.Described) -> ProcessInfo:
        if said.process.id != self.id:
            raise self._link.distrust(f"process {said.process.id!r} instead of {self.id!r}")
        self._info = said.process
        return self._info


def _signal_number(signal: int | str) -> int:
    if isinstance(signal, str):
        name = signal.upper() if signal.upper().startswith("SIG") else f"SIG{signal.upper()}"
        if name not in signals.Signals.__members__:
            raise InvalidArgument(
                f"no signal is called {signal!r}; give a number or a name like TERM", argument="signal"
            )
        return int(signals.Signals[name])
    if not 1 <= check_count(signal, "signal", least=1) <= signals.NSIG:
        raise InvalidArgument(f"no signal has the number {signal}", argument="signal")
    return int(signal)
