"""Streams to an environment on a node of Ray: a TCP connection to its host actor, else calls of
that actor.
"""

import asyncio
import contextlib
import socket
from typing import Any

from hermetic.contract.errors import EnvironmentUnavailable
from hermetic.environments.clouds.stream import served, until_one_ends
from hermetic.fleet.ray.cluster import Cluster
from hermetic.fleet.ray.host import PIECE, PULL_SECONDS


async def by_tcp(address: str, port: int, ticket: bytes, seconds: float) -> socket.socket:
    """A connection that the host carries on.

    Raises ConnectionRefusedError where the resident is gone, OSError.
    """
    loop = asyncio.get_running_loop()
    stream = socket.socket()
    stream.setblocking(False)
    try:
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        async with asyncio.timeout(seconds):
            try:
                await loop.sock_connect(stream, (address, port))
            except ConnectionRefusedError as error:  # no listener: of the host, not of the resident
                raise OSError(f"nothing listens: {error}") from error
            await loop.sock_sendall(stream, ticket)
            said = await loop.sock_recv(stream, 1)
        if said == b"-":
            raise ConnectionRefusedError("its resident has ended")
        if said != b"+":
            raise OSError("the host closed the connection")
        return stream
    except BaseException:
        stream.close()
        raise


async def by_calls(cluster: Cluster, host: Any, name: str) -> socket.socket:
    """One end of a pair, whose other end is carried by calls.

    Raises ConnectionRefusedError, Unreachable.
    """
    id = await cluster.ask(host.connect.remote(name))
    if not id:
        raise ConnectionRefusedError("its resident has ended")
    return served(lambda end: _pump(cluster, host, id, end))


async def _pump(cluster: Cluster, host: Any, id: str, end: socket.socket) -> None:
    """Both directions; each waits for one call before it makes the next, since calls are not kept
    in order.
    """
    try:
        await until_one_ends(*(way(cluster, host, id, end) for way in (_up, _down)))
    finally:
        end.close()
        with contextlib.suppress(EnvironmentUnavailable):
            await cluster.ask(host.drop.remote(id))


async def _up(cluster: Cluster, host: Any, id: str, end: socket.socket) -> None:
    while data := await asyncio.get_running_loop().sock_recv(end, 16 * PIECE):
        if not await cluster.ask(host.push.remote(id, data), 2 * PULL_SECONDS):
            return


async def _down(cluster: Cluster, host: Any, id: str, end: socket.socket) -> None:
    while (data := await cluster.ask(host.pull.remote(id), 2 * PULL_SECONDS)) is not None:
        await asyncio.get_running_loop().sock_sendall(end, data)
