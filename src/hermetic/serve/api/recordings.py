"""Recordings: /recordings."""

import msgspec
from starlette.responses import FileResponse

from hermetic.contract.errors import InvalidArgument
from hermetic.recordings.store import Recording
from hermetic.serve.refusals import Refused
from hermetic.serve.routes import Call, Resource


class RecordingList(msgspec.Struct, frozen=True, kw_only=True):
    """The kept recordings, the newest first."""

    recordings: tuple[Recording, ...]


class NewRecording(msgspec.Struct, frozen=True, kw_only=True):
    """A process to record from now on, with what is kept of its output."""

    environment: str
    process: str


class StartedRecording(msgspec.Struct, frozen=True, kw_only=True):
    """The recording that runs."""

    id: str


async def _list(call: Call) -> RecordingList:
    return RecordingList(recordings=tuple(await call.console.recordings.all()))


async def _start(call: Call) -> StartedRecording:
    wanted = call.body(NewRecording)
    return StartedRecording(
        id=await call.console.recordings.start(wanted.environment, wanted.process)
    )


async def _stop(call: Call) -> None:
    await call.console.recordings.end(call.path("id"))


async def _file(call: Call) -> FileResponse:
    id = call.path("id")
    try:
        path = call.console.recordings.store.path(id)
    except InvalidArgument:
        raise _unknown(id) from None
    if not path.is_file():
        raise _unknown(id)
    return FileResponse(path, media_type="application/x-asciicast", filename=path.name)


async def _remove(call: Call) -> None:
    id = call.path("id")
    await call.console.recordings.end(id)
    try:
        call.console.recordings.store.remove(id)
    except InvalidArgument:
        raise _unknown(id) from None


def _unknown(id: str) -> Refused:
    return Refused(
        404,
        "unknown_recording",
        f"No recording {id} is kept.",
        "It may have been removed: list them again.",
    )


ROUTES = (
    Resource("GET", "/recordings", "view", _list, "The kept recordings.", RecordingList),
    Resource(
        "POST",
        "/recordings",
        "drive",
        _start,
        "Records a process.",
        StartedRecording,
        body=NewRecording,
    ),
    Resource("GET", "/recordings/{id}", "view", _file, "A recording as asciicast."),
    Resource("DELETE", "/recordings/{id}", "drive", _remove, "Ends and removes a recording."),
    Resource("POST", "/recordings/{id}/stop", "drive", _stop, "Ends a recording; it is kept."),
)
