"""Connections that are cut as by a network: bytes are lost, and nothing is closed."""

import asyncio
import contextlib
from collections.abc import Callable
from types import TracebackType
from typing import Self

import hermetic
from hermetic.session.keeping import link_of

PIECE = 1 << 16


async def check_cut(
    environment: hermetic.Environment, cut: Callable[[], object], seconds: float
) -> None:
    """Cuts the connection to an environment while a command runs: both ends notice it within these
    seconds, the command runs on, once, and its output is whole.
    """
    link, ready = link_of(environment), asyncio.Event()
    before = link.connections
    running = asyncio.ensure_future(
        environment.run(
            'F=$(mktemp) && echo ready; echo once >>"$F"; sleep 2; cat "$F"; rm "$F"',
            on_output=lambda data: ready.set(),
        )
    )
    await ready.wait()
    assert (await environment.info()).clients == 1
    cut()
    async with asyncio.timeout(seconds):
        assert (await running).output == "ready\nonce\n"
        assert link.connections == before + 1
        # The end there has noticed it once the old connection does not count any more.
        while (await environment.info()).clients != 1:  # noqa: ASYNC110  a request is the only way to see it
            await asyncio.sleep(0.1)


class Proxy:
    """Forwards connections to an address of this machine.

    `cuts` counts the cuts so far: a connection lasts as long as that stays the same.
    """

    def __init__(self, host: str, port: int, cuts: Callable[[], object] | None = None) -> None:
        self._made = 0
        self._host, self._target, self._cuts = host, port, cuts or (lambda: self._made)
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def port(self) -> int:
        """Where it listens."""
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def cut(self) -> None:
        """From now on, no byte passes by the connections that there are; new ones work."""
        self._made += 1

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        since, ends = self._cuts(), [writer]
        try:
            there, target = await asyncio.open_connection(self._host, self._target)
            ends.append(target)
            async with asyncio.TaskGroup() as ways:
                for way in ((reader, target), (there, writer)):
                    ways.create_task(self._carry(*way, since))
        except OSError:
            return
        finally:
            for end in ends:
                end.transport.abort()
            await asyncio.sleep(0)  # in which they are closed

    async def _carry(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, since: object
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(PIECE):
                if self._cuts() != since:
                    break
                writer.write(data)
                await writer.drain()
        if self._cuts() != since:
            await asyncio.get_running_loop().create_future()
        if writer.can_write_eof():
            with contextlib.suppress(OSError):
                writer.write_eof()
