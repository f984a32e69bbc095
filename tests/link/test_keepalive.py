"""Silence on a connection that a program carries: both ends notice it, and nothing is lost by that."""

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator

import hermetic
from hermetic.environments.unix_socket import connect
from hermetic.link import answers
from hermetic.link.link import Link
from hermetic.registry.records import Records, runtime_root

SILENCE = 0.8  # seconds


class Carrier:
    """Carries connections to a resident; once it is cut, bytes are dropped and nothing is closed."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.dialled = 0
        self.cut = asyncio.Event()
        self._ends: list[socket.socket] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def dial(self) -> socket.socket:
        """One end of a pair, whose other end is carried."""
        self.dialled += 1
        cut = self.cut = asyncio.Event()
        there = await connect(self.path)
        ours, theirs = socket.socketpair()
        for end in (ours, theirs):
            end.setblocking(False)
        self._ends += [there, theirs]
        self._tasks += [
            asyncio.ensure_future(_carry(*ends, cut)) for ends in ((there, theirs), (theirs, there))
        ]
        return ours

    async def close(self) -> None:
        """Ends everything."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for end in self._ends:
            end.close()


async def _carry(source: socket.socket, target: socket.socket, cut: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    while data := await loop.sock_recv(source, 65536):
        if not cut.is_set():
            await loop.sock_sendall(target, data)
    if not cut.is_set():
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)


@contextlib.asynccontextmanager
async def carried(
    environment: hermetic.Environment, *, drops: bool = True
) -> AsyncIterator[tuple[Link, Carrier]]:
    """A link to a local environment's resident over a carrier."""
    record = Records(runtime_root()).read(environment.id)
    assert record is not None
    carrier = Carrier(record.socket)
    link = Link(carrier.dial, record.token, environment=record.id, keepalive=SILENCE, drops=drops)
    try:
        await link.open()
        yield link, carrier
    finally:
        await link.close()
        await carrier.close()


async def clients(environment: hermetic.Environment, count: int) -> None:
    """Returns when the resident counts so many clients."""
    async with asyncio.timeout(20 * SILENCE):
        while (await environment.info()).clients != count:  # noqa: ASYNC110  # a request is the only way to see it
            await asyncio.sleep(0.05)


async def test_an_idle_connection_stays() -> None:
    async with hermetic.open("local") as environment, carried(environment) as (link, carrier):
        await asyncio.sleep(3 * SILENCE)
        assert (await environment.info()).clients == 2
        assert carrier.dialled == link.connections == 1


async def test_a_resident_notices_a_caller_that_says_nothing() -> None:
    async with (
        hermetic.open("local") as environment,
        carried(environment, drops=False) as (link, carrier),
    ):
        for _ in range(2):  # the first ping is sent after the first request and before the second
            await link.ask("info", answers.info)
        await clients(environment, 2)
        carrier.cut.set()
        await clients(environment, 1)
        assert carrier.dialled == 1


async def test_a_link_that_hears_nothing_connects_anew_and_loses_nothing() -> None:
    async with hermetic.open("local") as environment, carried(environment) as (link, carrier):
        waiting = asyncio.ensure_future(link.ask("info", answers.info))
        await waiting
        carrier.cut.set()
        asked = asyncio.ensure_future(link.ask("info", answers.info))
        async with asyncio.timeout(20 * SILENCE):
            info, _ = await asked
        assert info.pid > 0
        assert link.connections == carrier.dialled == 2


async def test_a_caller_that_stands_still_is_found_again() -> None:
    async with hermetic.open("local") as environment, carried(environment) as (link, _):
        time.sleep(2 * SILENCE)  # noqa: ASYNC251  # as a program does that blocks its event loop
        info, _ = await link.ask("info", answers.info)
        assert info.pid > 0
