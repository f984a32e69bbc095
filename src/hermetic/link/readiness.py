"""The one frame that a new resident sends to its starter."""

import asyncio
import socket

import msgspec

from hermetic.contract.environment import Started
from hermetic.link import answers
from hermetic.link.wire import MALFORMED, Frame, FrameReader
from hermetic.resident.wire.frames import ERROR, REPLY, FrameError


class NotReady(Exception):
    """It ended, refused, or said something else."""


async def ready(stream: socket.socket) -> Started:
    """Where the new resident is reached, once it says so. Raises NotReady."""
    loop = asyncio.get_running_loop()
    reader = FrameReader()
    try:
        while data := await loop.sock_recv(stream, 4096):
            for frame in reader.feed(data):
                return _started(frame)
    except (FrameError, *MALFORMED) as error:
        raise NotReady(f"it said something else than that it is ready: {error}") from None
    raise NotReady("it ended before it was ready")


def _started(frame: Frame) -> Started:
    if frame.kind == ERROR:
        raise NotReady(answers.refusal.decode(frame.fields).message)
    if frame.kind != REPLY:
        raise FrameError(f"a frame of kind {frame.kind}")
    said = answers.started.decode(frame.fields)
    return msgspec.structs.replace(said, place={}, notes=())  # those are for the backend to say
