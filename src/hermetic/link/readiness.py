"""The readiness frame that a new resident sends to the process that started it."""

import asyncio
import socket

import msgspec

from hermetic.contract.environment import Started
from hermetic.link import answers
from hermetic.link.wire import MALFORMED, Frame, FrameReader
from hermetic.resident.wire.frames import ERROR, REPLY, FrameError, pack_frame


class NotReady(Exception):
    """A new resident ended, refused to start, or sent something else than a readiness frame.

    `error` is the type of the resident's own error, by name; empty where it reported none.
    """

    def __init__(self, message: str, *, error: str = "") -> None:
        super().__init__(message)
        self.error = error


async def ready(stream: socket.socket) -> Started:
    """The address of the new resident, once it reports ready. Raises NotReady."""
    loop = asyncio.get_running_loop()
    reader = FrameReader()
    try:
        while data := await loop.sock_recv(stream, 4096):
            for frame in reader.feed(data):
                return _started(frame)
    except (FrameError, *MALFORMED) as error:
        raise NotReady(f"it said something else than that it is ready: {error}") from None
    raise NotReady("it ended before it was ready")


def ready_in(said: bytes) -> Started:
    """The same from all that a resident has sent. Raises NotReady."""
    try:
        for frame in FrameReader().feed(said):
            return _started(frame)
    except (FrameError, *MALFORMED) as error:
        raise NotReady(f"it said something else than that it is ready: {error}") from None
    raise NotReady("it ended before it was ready")


def is_answered(said: bytes) -> bool:
    """Whether a whole frame has arrived, or something that is none."""
    try:
        return any(True for _ in FrameReader().feed(said))
    except (FrameError, *MALFORMED):
        return True


def refusal_frame(error: str, message: str) -> bytes:
    """The frame of a resident that cannot start, for a starter that finds the reason before any
    resident runs.
    """
    return pack_frame(ERROR, 0, {"error": error, "message": message})


def _started(frame: Frame) -> Started:
    if frame.kind == ERROR:
        refusal = answers.refusal.decode(frame.fields)
        raise NotReady(refusal.message, error=refusal.error)
    if frame.kind != REPLY:
        raise FrameError(f"a frame of kind {frame.kind}")
    said = answers.started.decode(frame.fields)
    return msgspec.structs.replace(said, place={}, notes=())  # the backend sets those
