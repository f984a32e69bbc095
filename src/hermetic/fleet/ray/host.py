"""Host actor: Hermetic on one node of a Ray cluster. It keeps nothing that a restarted one does not
find again.

The records of the node are its memory: an environment is one of this host by the beginning of its
task.
"""

import asyncio
import contextlib
import secrets
import socket
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from hermetic.contract.environment import EnvironmentRecord
from hermetic.contract.errors import EnvironmentUnavailable, ExecutionError
from hermetic.contract.limits import SILENCE
from hermetic.environments import catalog
from hermetic.environments.clouds.stream import until_one_ends
from hermetic.fleet.opening import (
    StartRequest,
    attach_environment,
    open_environment,
    remove_rest,
    start_new,
)
from hermetic.registry.records import Records, runtime_root
from hermetic.session.environment import Environment
from hermetic.session.keeping import detach, record_of

TICKET_BYTES = 32
TICKET_SECONDS = 30.0  # for which a ticket is good, once
PIECE = 1 << 16  # bytes of one read
PULL_SECONDS = 10.0  # that a call waits for bytes
IMAGE_SECONDS = 60.0  # for which a look for an image counts


class HostState(NamedTuple):
    """What a caller needs to choose a host."""

    free: int
    has_image: bool  # so that an opening does not fetch it


class Host:
    """The actor.

    All its methods are calls of Ray, which may run at the same time and in any order.
    """

    def __init__(self, node: str, address: str, units: int) -> None:
        self._prefix = f"ray.{node}."
        self._address, self._units = address, units
        self._opening: set[str] = set()
        self._images: dict[tuple[str, str], tuple[bool, float]] = {}  # there or not, until when
        self._tickets: dict[bytes, tuple[str, float]] = {}
        self.streams: dict[str, tuple[socket.socket, asyncio.TimerHandle]] = {}
        self._server: asyncio.Server | None = None
        self._starting = asyncio.Lock()

    # -- environments
    async def state(self, kind: str, options: Mapping[str, Any]) -> HostState:
        """Free units, and whether the image of these options is here."""
        return HostState(self._free(), await self._has_image(kind, options))

    def _free(self) -> int:
        names = {record.task for record in self._records()} | self._opening
        return max(0, self._units - len(names))

    async def _has_image(self, kind: str, options: Mapping[str, Any]) -> bool:
        image, now = str(options.get("image", "")), time.monotonic()
        if (known := self._images.get((kind, image))) is not None and known[1] > now:
            return known[0]
        found = False
        # what is wrong with the engine is said by an opening
        with contextlib.suppress(ExecutionError):
            backend: Any = catalog.find(kind)(options)
            found = hasattr(backend, "has_image") and await backend.has_image()
        self._images = {key: seen for key, seen in self._images.items() if seen[1] > now}
        self._images[kind, image] = found, now + IMAGE_SECONDS
        return found

    async def open(
        self, name: str, kind: str, options: Mapping[str, Any], token: bytes
    ) -> tuple[dict[str, Any] | None, str]:
        """Opens an environment, or finds the one of an earlier call; its record, or None and what
        is wrong.
        """
        if not self._free():
            return None, "full"
        task = self._prefix + name
        self._opening.add(task)

        async def start(ordered: StartRequest) -> Environment:
            # a client of ours would start its lease before the caller attaches
            return await start_new(ordered._replace(token=token, observes=True))

        try:
            environment = await open_environment(kind, task, options, start=start)
            record = record_of(environment)
            await detach(environment)
        except ExecutionError as error:
            return None, str(error)
        finally:
            self._opening.discard(task)
        self._images.pop((kind, str(options.get("image", ""))), None)  # it may have been fetched
        return msgspec.to_builtins(record, builtin_types=(bytes,)), ""

    async def is_living(self, name: str) -> bool:
        """Whether the environment answers."""
        try:
            await detach(await attach_environment(self._prefix + name, observes=True))
        except EnvironmentUnavailable:
            return False
        return True

    async def end(self, name: str) -> bool:
        """Ends an environment; False where there is none. Nothing is left of it either way."""
        records = Records(runtime_root())
        try:
            environment = await attach_environment(self._prefix + name)
        except EnvironmentUnavailable:
            if (record := records.of_task(self._prefix + name)) is not None:
                async with records.lock(record.id):
                    await remove_rest(record, records)
            return False
        await environment.close(remove=True)
        return True

    async def names(self) -> list[str]:
        """The environments that have a record here."""
        return [str(record.task).removeprefix(self._prefix) for record in self._records()]

    def _records(self) -> list[EnvironmentRecord]:
        return [
            record
            for record in Records(runtime_root()).all()
            if (record.task or "").startswith(self._prefix)
        ]

    async def _reached(self, name: str) -> socket.socket:
        record = Records(runtime_root()).of_task(self._prefix + name)
        if record is None:
            raise ConnectionRefusedError("no such environment is here any more")
        return await catalog.find(record.kind)(record.options).reach(record)

    # -- streams over TCP
    async def ticket(self, name: str) -> tuple[str, int, bytes]:
        """Where a stream to the environment can be had by a TCP connection that begins with a
        ticket.
        """
        async with self._starting:
            if self._server is None:
                self._server = await asyncio.start_server(self._serve, self._address, 0)
        now = time.monotonic()
        self._tickets = {ticket: found for ticket, found in self._tickets.items() if found[1] > now}
        ticket = secrets.token_bytes(TICKET_BYTES)
        self._tickets[ticket] = name, now + TICKET_SECONDS
        host, port = self._server.sockets[0].getsockname()[:2]
        return str(host), int(port), ticket

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carries a stream; the first byte back is `+`, or `-` where the resident is gone."""
        try:
            async with asyncio.timeout(TICKET_SECONDS):
                ticket = await reader.readexactly(TICKET_BYTES)
            name, until = self._tickets.pop(ticket, ("", 0.0))
            if until < time.monotonic():
                return
            try:
                there = await self._reached(name)
            except (ConnectionRefusedError, FileNotFoundError):
                writer.write(b"-")
                return
            inner_reader, inner_writer = await asyncio.open_connection(sock=there)
            writer.write(b"+")
            await until_one_ends(_copied(reader, inner_writer), _copied(inner_reader, writer))
            inner_writer.close()
        except (OSError, ExecutionError, TimeoutError, asyncio.IncompleteReadError):
            return  # the caller connects again
        finally:
            writer.close()

    # -- streams by calls
    async def connect(self, name: str) -> str:
        """A stream by calls: its id; empty where the resident is gone."""
        try:
            stream = await self._reached(name)
        except (ConnectionRefusedError, FileNotFoundError):
            return ""
        id = secrets.token_hex(8)
        self.streams[id] = stream, self._clock(id)
        return id

    def _clock(self, id: str) -> asyncio.TimerHandle:
        """Closes a stream whose caller makes no further call: Ray does not say that it has gone."""
        return asyncio.get_running_loop().call_later(SILENCE, self._close, id)

    def _used(self, id: str) -> socket.socket:
        """A stream that is called for. Raises KeyError."""
        stream, clock = self.streams[id]
        clock.cancel()
        self.streams[id] = stream, self._clock(id)
        return stream

    async def push(self, id: str, data: bytes) -> bool:
        """Writes to a stream; the caller waits for one call before it makes the next.

        False where it has ended.
        """
        try:
            await asyncio.get_running_loop().sock_sendall(self._used(id), data)
        except (KeyError, OSError):
            return False
        return True

    async def pull(self, id: str) -> bytes | None:
        """What has come; empty after some seconds without any, None at the end.

        One call at a time.
        """
        try:
            async with asyncio.timeout(PULL_SECONDS):
                loop = asyncio.get_running_loop()
                return await loop.sock_recv(self._used(id), 16 * PIECE) or None
        except TimeoutError:
            return b""
        except (KeyError, OSError):
            return None

    async def drop(self, id: str) -> None:
        """Closes a stream by calls."""
        self._close(id)

    def _close(self, id: str) -> None:
        if id in self.streams:
            stream, clock = self.streams.pop(id)
            clock.cancel()
            with contextlib.suppress(OSError):
                # a pending read ends before the descriptor is closed
                stream.shutdown(socket.SHUT_RDWR)
            asyncio.get_running_loop().call_soon(stream.close)


async def _copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(PIECE):
        writer.write(data)
        await writer.drain()
