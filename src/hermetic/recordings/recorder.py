"""Records processes and whole environments, live, with marks where commands begin and end."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import IO

from hermetic.contract.errors import UnknownProcess, Unsupported
from hermetic.contract.process import ProcessInfo
from hermetic.recordings.cast import CastWriter, Header
from hermetic.session.environment import Environment
from hermetic.session.output import LONG_WAIT

LOOK_SECONDS = 1.0  # between two looks at a terminal's size and writers
ROWS, COLS = 24, 80
MOST_AT_ONCE = 32  # processes of an environment that are recorded at the same time


class Recorder:
    """One recording of a process, or of all commands of an environment."""

    def __init__(
        self, environment: Environment, file: IO[bytes], redact: Callable[[str], str]
    ) -> None:
        self._environment = environment
        self._file = file
        self._redact = redact
        self._began = time.monotonic()
        self._last = ""  # the process whose output was written last

    def __repr__(self) -> str:
        return f"<Recorder in {self._environment!r}>"

    async def process(self, id: str) -> None:
        """Records a process until it ends: what is kept of its output at once, then as it comes."""
        info = (await self._environment.process(id)).info
        writer = self._writer(info.command, info.command, info.rows, info.cols, process=info.id)
        try:
            await self._follow(writer, info)
        finally:
            writer.close()

    async def environment(self) -> None:
        """Records every command and process that starts from now on, until the environment is gone."""
        name = self._environment.task or self._environment.id
        writer = self._writer(f"commands of {name}", "", ROWS, COLS)
        try:
            async with self._environment.events() as events, asyncio.TaskGroup() as running:
                following = set[asyncio.Task[None]]()
                async for event in events:
                    if (
                        event.event == "started"
                        and event.process is not None
                        and len(following) < MOST_AT_ONCE
                    ):
                        task = running.create_task(
                            self._follow(writer, event.process, is_one_of_many=True)
                        )
                        following.add(task)
                        task.add_done_callback(following.discard)
                    if writer.is_full:
                        return
        finally:
            writer.close()

    def _writer(self, title: str, command: str, rows: int, cols: int, **ids: str) -> CastWriter:
        header = Header(
            width=cols, height=rows, timestamp=int(time.time()), title=title, command=command
        )
        header.env = {"TERM": "xterm-256color"}
        header.hermetic = {"environment": self._environment.id, **ids}
        writer = CastWriter(self._file, header, redact=self._redact)
        self._file.flush()
        return writer

    @property
    def _now(self) -> float:
        return time.monotonic() - self._began

    async def _follow(
        self, writer: CastWriter, info: ProcessInfo, *, is_one_of_many: bool = False
    ) -> None:
        writer.mark(self._now, f"$ {info.command}")
        if is_one_of_many:
            self._last = info.id
            writer.output(
                self._now, f"$ {info.command}\n".replace("\n", "\r\n").encode("utf-8", "replace")
            )
        position, ended = 0, False
        terminal = (
            _Terminal(self._environment, info, writer) if info.pty and not is_one_of_many else None
        )
        while not ended and not writer.is_full:
            try:
                chunk = await self._environment.read_log(info.id, position, wait=LONG_WAIT)
            except UnknownProcess:  # forgotten
                break
            if is_one_of_many and chunk.data and self._last != info.id:
                self._last = info.id
                writer.output(
                    self._now, f"\r\n[{info.id}] $ {info.command}\r\n".encode("utf-8", "replace")
                )
            if chunk.start > position:
                writer.mark(
                    self._now,
                    f"{chunk.start - position} bytes are missing: more output than is kept",
                )
            # A pipe's lines end without the carriage return that a terminal adds.
            writer.output(self._now, chunk.data if info.pty else chunk.data.replace(b"\n", b"\r\n"))
            position, ended = chunk.end, chunk.ended
            if terminal is not None:
                await terminal.look(self._now, is_last=ended)
            self._file.flush()
        try:
            ending = (await (await self._environment.process(info.id)).status()).ending
        except UnknownProcess:
            ending = None
        writer.mark(self._now, str(ending or "ended"))
        self._file.flush()


class _Terminal:
    """What a recording says of a terminal besides its output: its size, and who types into it."""

    def __init__(self, environment: Environment, info: ProcessInfo, writer: CastWriter) -> None:
        self._environment, self._id, self._writer = environment, info.id, writer
        self._size = info.rows, info.cols
        self._looked = -LOOK_SECONDS
        self._by = ""

    async def look(self, now: float, *, is_last: bool) -> None:
        """Writes what is new; at most once a second, and at the end."""
        if now < self._looked + LOOK_SECONDS and not is_last:
            return
        self._looked = now
        with contextlib.suppress(UnknownProcess, Unsupported):
            process = await self._environment.process(self._id)
            if (size := (process.info.rows, process.info.cols)) != self._size:
                self._size = size
                self._writer.resize(now, *size)
            inputs = await process.inputs()
            if inputs and inputs[-1].by != self._by:
                self._by = inputs[-1].by
                self._writer.mark(now, f"typed by {self._by}")
