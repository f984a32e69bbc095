"""Times of a warm command in a sandbox, and of an echo by the same kind of stream.

Run as `python round_trips.py KIND TIMES DELAY`; prints both lists of milliseconds as JSON. On
loopback an echo takes less than a command in a local shell. So streams can be given the delay of a
network, in seconds each way.
"""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import hermetic
from hermetic.environments import catalog
from hermetic.environments.clouds.hosted import ID
from hermetic.environments.daytona import DaytonaSandbox
from hermetic.environments.modal import ModalSandbox

MESSAGE = b"x" * 200  # about as long as a request
NETWORK = 0.005  # seconds each way, less than those of a network to a cloud


class Distant:
    """A carrier over a network with a delay; messages do not wait for each other."""

    def __init__(self, carrier: Any, delay: float) -> None:
        self.size, self._carrier, self._delay = carrier.size, carrier, delay
        self._came: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        data = b"-"
        while data:
            data = await self._carrier.read()
            self._came.put_nowait((time.perf_counter() + self._delay, data))

    async def write(self, data: bytes) -> None:
        await asyncio.sleep(self._delay)
        await self._carrier.write(data)

    async def read(self) -> bytes:
        at, data = await self._came.get()
        await asyncio.sleep(max(0.0, at - time.perf_counter()))
        return data

    async def close(self) -> None:
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        await self._carrier.close()


async def measure(kind: str, times: int, delay: float = 0.0) -> tuple[list[float], list[float]]:
    """Milliseconds of commands, and of echoes."""
    backend: Any = catalog.find(kind)
    async with backend.api() as api:
        sandbox_type = {"daytona": DaytonaSandbox, "modal": ModalSandbox}[kind]
        connect = sandbox_type.connect

        async def connect_far(sandbox: Any, script: str) -> Distant:
            return Distant(await connect(sandbox, script), delay)

        if delay:
            sandbox_type.connect = connect_far  # type: ignore[assignment]
        try:
            return await _measured(kind, api, times)
        finally:
            sandbox_type.connect = connect  # type: ignore[method-assign]


async def _measured(kind: str, api: Any, times: int) -> tuple[list[float], list[float]]:
    async with hermetic.open(kind, image="standin") as environment:
        (sandbox,) = await api.tagged({ID: environment.id})
        carrier = await sandbox.connect("echo ready; exec cat")
        said = b""
        while not said.endswith((b"ready\n", b"ready\r\n")):
            said += await carrier.read()

        async def echo() -> None:
            await carrier.write(MESSAGE)
            left = len(MESSAGE)
            while left:
                left -= len(await carrier.read())

        async def command() -> None:
            assert (await environment.run("true")).exit_code == 0

        taken: tuple[list[float], list[float]] = ([], [])
        for _ in range(times):
            for times_of, work in zip(taken, (command, echo), strict=True):
                times_of.append(await _timed(work))
        await carrier.close()
    return taken


async def _timed(work: Callable[[], Awaitable[None]]) -> float:
    await asyncio.sleep(0.003)  # a session has settled by then
    began = time.perf_counter()
    await work()
    return (time.perf_counter() - began) * 1000


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))))
