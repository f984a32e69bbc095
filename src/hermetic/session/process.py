"""Something running, as its caller holds it."""

import asyncio
import contextlib
import signal as signals
from typing import Literal, NoReturn

import msgspec

from hermetic.contract.approval import Guard
from hermetic.contract.concurrency import in_thread
from hermetic.contract.endings import Ending, Lost
from hermetic.contract.errors import InvalidArgument, Unsupported
from hermetic.contract.limits import FRAME_BODY, KILL_GRACE
from hermetic.contract.process import Chunk, InputRecord, ProcessInfo, Shown, Status
from hermetic.link import answers
from hermetic.link.failures import ResidentGone
from hermetic.link.link import Link
from hermetic.session.arguments import check_count, check_duration, encode_input, encode_text
from hermetic.session.blobs import cut
from hermetic.session.keys import encode_keys, has_cursor_key
from hermetic.session.output import LONG_WAIT, read_log
from hermetic.session.screen import Screen
from hermetic.session.search import Find, Search, compile_search, finding


class Process:
    """A process in an environment. It runs independently of this object."""

    def __init__(self, link: Link, info: ProcessInfo, guard: Guard | None = None) -> None:
        self._link = link
        self._guard = guard
        self._info = info
        self._searched = 0  # offset behind the last match of wait_for
        self._screen: Screen | None = None
        self._size = (info.rows, info.cols)
        self._key = ""  # proves to the resident that our person drives it

    def __repr__(self) -> str:
        return f"<Process {self.id}: {self._info.ending or 'running'}>"

    def __reduce__(self) -> NoReturn:
        advice = f"attach to {self._link.environment} there, and call process({self.id!r})"
        raise TypeError(f"{self!r} cannot be copied or sent to another process; {advice}")

    @property
    def id(self) -> str:
        """Id in its environment; its log has the same id."""
        return self._info.id

    @property
    def pid(self) -> int | None:
        """Process id in its environment."""
        return self._info.pid

    @property
    def info(self) -> ProcessInfo:
        """Last known description of the process."""
        return self._info

    async def status(self) -> Status:
        """Its present state."""
        said, _ = await self._link.ask("status", answers.described, process=self.id)
        info = self._heard(said)
        return Status(
            state=info.state,
            pid=info.pid,
            started=info.started,
            ending=info.ending,
            waiting_for_input=said.waiting,
        )

    async def read(
        self, offset: int = 0, *, limit: int | None = None, wait: float | None = None
    ) -> Chunk:
        """Its output from `offset` on.

        `wait=s` waits that long for the first byte or the end; None does not wait.
        """
        return await read_log(self._link, self.id, offset, limit, wait)

    async def write(self, data: str | bytes) -> None:
        """Writes to its input; returns when the environment has accepted all of it.

        Raises InputClosed.
        """
        given = encode_input(data, "data")
        await self._may_type(given)
        for piece in cut(given):
            await self._link.ask(
                "write", answers.done, piece, repeats=False, process=self.id, key=self._key
            )

    async def submit(self, text: str) -> None:
        """Writes a line: the text and a newline, on a terminal the Enter key."""
        await self.write(self._line(text))

    async def write_secret(self, text: str) -> None:
        """Writes a line that the log shows as asterisks if the process prints it."""
        line = self._line(text)
        if len(line) > FRAME_BODY:
            raise InvalidArgument(
                f"the secret has {len(line) - 1} bytes, the most is {FRAME_BODY - 1}; pass a longer one as stdin",
                argument="text",
            )
        await self._may_type(line)
        await self._link.ask(
            "write", answers.done, line, repeats=False, process=self.id, secret=True, key=self._key
        )

    async def keys(self, names: str) -> None:
        """Presses keys: `keys("ctrl-c up enter")`."""
        application = (
            self._info.pty and has_cursor_key(names) and await self._has_application_keys()
        )
        await self.write(encode_keys(names, application=application))

    async def close_input(self) -> None:
        """Closes its input: it reads end of file after the written bytes."""
        await self._may_type(b"\n")  # what was typed so far is a whole line now
        await self._link.ask("close_input", answers.done, process=self.id, key=self._key)

    async def set_tag(self, tag: str) -> None:
        """Replaces the text that is stored with it."""
        await self._link.ask("tag", answers.done, process=self.id, tag=tag)
        self._info = msgspec.structs.replace(self._info, tag=tag)

    async def swap_tag(
        self, was: str, tag: str, *, claimed: bool = False
    ) -> Literal["done", "changed", "claimed"]:
        """Replaces the tag `was`. If the tag is another one by now, `info` has it, and nothing
        changes.

        `claimed=True`: nothing changes either if another client has claimed the process.
        """
        said, _ = await self._link.ask(
            "tag", answers.tagged, process=self.id, tag=tag, was=was, claimed=claimed
        )
        self._info = msgspec.structs.replace(self._info, tag=tag if said.tag is None else said.tag)
        return "done" if said.done else "changed" if said.claimed else "claimed"

    async def claim(self) -> None:
        """Claims its notices for this client; waits while the client that claimed or started it is
        connected.
        """
        with contextlib.suppress(Unsupported):  # an older resident, where everybody tells of it
            said, _ = await self._link.ask("claim", answers.described, process=self.id)
            self._heard(said)

    async def resize(self, rows: int, cols: int) -> None:
        """Resizes its terminal."""
        size = check_count(rows, "rows", least=1), check_count(cols, "cols", least=1)
        await self._link.ask(
            "resize", answers.done, process=self.id, rows=rows, cols=cols, key=self._key
        )
        self._size = size
        if self._screen is not None:
            self._screen.resize(*size)

    async def inputs(self) -> list[InputRecord]:
        """Whose input it got, oldest first: times and numbers of bytes."""
        _, body = await self._link.ask("inputs", answers.done, process=self.id)
        return self._link.decode(answers.input_records, body)

    async def signal(self, signal: int | str, *, tree: bool = True) -> None:
        """Sends a signal, by number or name, to its process tree or to it alone."""
        number = _signal_number(signal)
        await self._link.ask(
            "signal", answers.done, repeats=False, process=self.id, signal=number, tree=tree
        )

    async def kill(self, grace: float = KILL_GRACE) -> Ending | None:
        """Ends its process tree, TERM first and KILL after the grace; returns when no process is
        left.
        """
        check_duration(grace, "grace")
        said, _ = await self._link.ask(
            "kill", answers.described, process=self.id, grace=float(grace)
        )
        return self._heard(said).ending

    async def wait(self, timeout: float | None = None) -> Ending:
        """Its ending, once it has one; `Lost` if its resident is gone.

        Raises TimeoutError, without effect on the process; a timeout of 0 does not wait.
        """
        if timeout is not None:
            check_duration(timeout, "timeout")
        try:
            async with asyncio.timeout(timeout or None):
                said, _ = await self._link.ask(
                    "status" if timeout == 0 else "wait", answers.described, process=self.id
                )
        except ResidentGone as gone:
            return self._info.ending or Lost(gone.reason)
        except TimeoutError:
            raise self._still_runs(timeout) from None
        ending = self._heard(said).ending
        if ending is None and timeout == 0:
            raise self._still_runs(timeout)
        if ending is None:
            raise self._link.distrust("a process that has ended without an ending")
        return ending

    async def wait_for(
        self,
        text: str,
        *,
        timeout: float | None,
        pattern: bool = False,
        on: Literal["output", "screen"] = "output",
    ) -> tuple[int, int]:
        """Offsets [start, end) of the next match in its output, or of a match on its present
        screen.

        Raises: TimeoutError, and EOFError if it has ended without a match; both without effect on
        the process. A timeout of 0 searches the present output and does not wait.
        """
        if timeout is not None:
            check_duration(timeout, "timeout")
        wanted = compile_search(text, pattern=pattern)
        if on not in ("output", "screen"):
            raise InvalidArgument(f'on must be "output" or "screen", not {on!r}', argument="on")
        search = self._find_in_output if on == "output" else self._find_on_screen
        try:
            async with asyncio.timeout(timeout or None), finding(wanted) as find:
                if match := await search(find, None if timeout == 0 else LONG_WAIT):
                    return match
        except TimeoutError:
            raise TimeoutError(
                f"{text!r} did not appear within {timeout:g} s; the process was left alone"
            ) from None
        raise EOFError(
            f"process {self.id} has ended, and {text!r} did not appear; read() has its output"
        )

    async def screen(self) -> str:
        """Text on its terminal, one line per row."""
        return (await self.shown()).text

    async def shown(self) -> Shown:
        """Its terminal: lines, cursor, and whether a program uses the alternate screen."""
        said, _ = await self._link.ask("status", answers.described, process=self.id)
        return await self._shown(self._heard(said).out)

    async def _may_type(self, data: bytes) -> None:
        if self._guard is not None:
            await self._guard.input(data, self._info)

    async def _has_application_keys(self) -> bool:
        """True when the program has asked its terminal for the other form of the cursor keys."""
        try:
            await self.shown()
        except Unsupported:
            return False
        return self._screen is not None and self._screen.has_application_keys

    def _line(self, text: str) -> bytes:
        """The text and what ends a line: on a terminal that is the Enter key."""
        return encode_text(text, "text") + (b"\r" if self._info.pty else b"\n")

    async def _find_in_output(self, find: Find, wait: float | None) -> tuple[int, int] | None:
        """None when it has ended.

        Raises TimeoutError when it may not wait and there is nothing more to look at.
        """
        search = Search(find, self._searched)
        while True:
            chunk = await self.read(search.position, wait=wait)
            if match := await search.feed(chunk.start, chunk.data):
                self._searched = match[1]
                return match
            if chunk.ended:
                return None
            if wait is None and not chunk.data:
                raise TimeoutError

    async def _find_on_screen(self, find: Find, wait: float | None) -> tuple[int, int] | None:
        """None when it has ended.

        Raises TimeoutError when it may not wait and there is nothing more to look at.
        """
        text = await self.screen()
        while not (match := await find(text.encode(), True)):
            assert self._screen is not None
            chunk = await self.read(self._screen.position, wait=wait)
            if chunk.ended and not chunk.data:
                return None
            if wait is None and not chunk.data:
                raise TimeoutError
            text = (await self._shown(chunk.end)).text
        start, end = (
            len(text.encode()[: -before or None].decode("utf-8", "replace")) for before in match
        )
        return start, end

    async def _shown(self, total: int) -> Shown:
        if self._screen is None:
            # imports pyte the first time
            made = await in_thread(lambda: Screen(self.read, *self._size))
            self._screen = self._screen or made
            self._screen.resize(*self._size)
        return await self._screen.look(total)

    def _still_runs(self, timeout: float | None) -> TimeoutError:
        return TimeoutError(
            f"process {self.id} still runs after {timeout or 0:g} s; it was left alone"
        )

    def _heard(self, said: answers.Described) -> ProcessInfo:
        if said.process.id != self.id:
            raise self._link.distrust(f"process {said.process.id!r} instead of {self.id!r}")
        self._info = said.process
        if self._size != (size := (said.process.rows, said.process.cols)):
            self._size = size
            if self._screen is not None:  # another client resized its terminal
                self._screen.resize(*size)
        return self._info


def _signal_number(signal: int | str) -> int:
    if isinstance(signal, str):
        name = signal.upper() if signal.upper().startswith("SIG") else f"SIG{signal.upper()}"
        if name not in signals.Signals.__members__:
            raise InvalidArgument(
                f"no signal is called {signal!r}; give a number or a name like TERM",
                argument="signal",
            )
        return int(signals.Signals[name])
    if not 1 <= check_count(signal, "signal", least=1) <= signals.NSIG:
        raise InvalidArgument(f"no signal has the number {signal}", argument="signal")
    return int(signal)
