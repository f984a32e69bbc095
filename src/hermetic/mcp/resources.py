"""Logs, files and recordings of an environment as resources, and what is known of their changes.

Logs and files are read through the tools, so that a resource shows no more than a model may see.
Recordings are those of the client's own environments; they hold no secrets.
"""

import asyncio
import base64
import contextlib
import json
import os
import re
from collections.abc import AsyncIterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit

from mcp_types import BlobResourceContents, Resource, ResourceTemplate, TextResourceContents

from hermetic.contract.errors import ConfigError, ExecutionError, InvalidArgument
from hermetic.mcp.client import Client
from hermetic.recordings.cast import last_time
from hermetic.recordings.store import Recording, Store
from hermetic.tools.files.access import read_bounds
from hermetic.tools.files.read import image_type

SCHEME = "hermetic"
MOST = 1 << 20  # bytes: most of a log or a text file in one resource; of a log the end
MOST_IMAGE = 4 << 20  # bytes: largest image
MOST_RECORDING = 4 << 20  # bytes: of a longer recording the start
CAST = "application/x-asciicast"
PAUSE = 1.0  # seconds: between two looks for a change
_NUMBER = re.compile(r"^\d+\|", re.MULTILINE)

TEMPLATES = [
    ResourceTemplate(
        name="log",
        title="Output of a process",
        uri_template="hermetic://logs/{session_id}{?task}",
        description="The end of the output of a command or process, by the session_id or log of an answer.",
        mime_type="text/plain",
    ),
    ResourceTemplate(
        name="file",
        title="A file of the environment",
        uri_template="hermetic://files/{+path}{?task}",
        description="A file by its whole path. What read_file does not show is not readable here.",
    ),
    ResourceTemplate(
        name="recording",
        title="A recording",
        uri_template="hermetic://recordings/{id}{?task}",
        description="An asciicast of a process or of all commands of the environment, as resources/list names it.",
        mime_type=CAST,
    ),
]


Version = tuple[str, object]


class NoResource(Exception):
    """There is no such resource, or it may not be read; the message is for the client."""


class Address(NamedTuple):
    """A parsed URI."""

    kind: str  # "logs", "files" or "recordings"
    name: str  # id of a process or a recording, or a whole path
    task: str  # the client's name for one of its environments; "" is the usual one


def parse(uri: str) -> Address:
    """Raises NoResource."""
    parts = urlsplit(uri)
    task = parse_qs(parts.query).get("task", [""])[0]
    path = unquote(parts.path)
    if parts.scheme == SCHEME and parts.netloc in ("logs", "recordings") and path.strip("/"):
        return Address(parts.netloc, path.strip("/"), task)
    if parts.scheme == SCHEME and parts.netloc == "files" and path.strip("/"):
        return Address("files", "/" + path.lstrip("/"), task)
    raise NoResource(
        f"no resource {uri}; there are hermetic://logs/SESSION_ID, hermetic://files/PATH and hermetic://recordings/ID"
    )


def uri_of(kind: str, id: str, task: str = "") -> str:
    """The URI of a log or a recording."""
    return f"{SCHEME}://{kind}/{quote(id)}" + (f"?{urlencode({'task': task})}" if task else "")


async def listed(client: Client, task: str = "") -> list[Resource]:
    """The logs of the environment's processes, and its recordings; none where no environment was
    opened yet.
    """
    answer = await client.look({"action": "list"}, client.task_id(task))
    logs = [
        Resource(
            uri=uri_of("logs", one["session_id"], task),
            name=one["session_id"],
            title=one["command"][:80],
            description=f"{one['status']}, {one['origin']}",
            mime_type="text/plain",
        )
        for one in answer.get("processes", ())
    ]
    recordings = [
        Resource(
            uri=uri_of("recordings", one.id, task),
            name=one.id,
            title=one.title[:80],
            description=f"recording of {one.duration:.1f} s",
            mime_type=CAST,
            size=one.size,
        )
        for one in await _recordings(client, client.task_id(task))
    ]
    return logs + recordings


async def read(client: Client, uri: str) -> TextResourceContents | BlobResourceContents:
    """The content. Raises NoResource."""
    address = parse(uri)
    if address.kind == "logs":
        return TextResourceContents(
            uri=uri, mime_type="text/plain", text=await _log(client, address)
        )
    if address.kind == "recordings":
        recording = await _recording(client, address)
        return TextResourceContents(
            uri=uri, mime_type=CAST, text=await asyncio.to_thread(_cast, recording)
        )
    return await _file(client, address, uri)


async def _log(client: Client, address: Address) -> str:
    task = _open_task(client, address)
    about = {"action": "poll", "session_id": address.name}
    total = (await _looked(client, about, task))["cursor"]
    at = max(0, total - MOST)
    pieces = [f"[{at} bytes before this are left out; the process tool reads them]\n"] if at else []
    while at < total:
        answer = await _looked(client, {**about, "cursor": at}, task)
        pieces.append(answer["output"])
        if answer["cursor"] <= at:
            break  # the start of a secret is held back
        at = answer["cursor"]
    return "".join(pieces)


def _open_task(client: Client, address: Address) -> str:
    """The task of an address: one that is open, or the usual one, which a read may open.

    Raises NoResource.
    """
    task = client.task_id(address.task)
    if address.task and not client.is_open(task):
        raise NoResource(f"no environment is open for the task {address.task!r}")
    return task


async def _looked(client: Client, arguments: Mapping[str, Any], task: str) -> dict[str, Any]:
    answer = await client.look(arguments, task)
    if answer.get("error") or "cursor" not in answer:
        raise NoResource(str(answer.get("error") or "no environment is open yet"))
    return answer


async def _file(
    client: Client, address: Address, uri: str
) -> TextResourceContents | BlobResourceContents:
    task, lines, offset, size = _open_task(client, address), [], 1, 0
    while offset:
        answer = await client.read_file(address.name, offset, task)
        if answer.get("is_image"):
            return await _image(client, address, uri)
        if answer.get("error"):
            raise NoResource(str(answer["error"]))
        content = _NUMBER.sub("", str(answer["content"]))
        lines.append(content)
        size += len(content)
        offset = answer.get("next_offset", 0) if size < MOST else 0
        if answer.get("next_offset") and not offset:
            lines.append(
                f"[cut: the file has {answer['file_size']} bytes; the read_file tool reads on]"
            )
    return TextResourceContents(uri=uri, mime_type="text/plain", text="\n".join(lines))


async def _image(client: Client, address: Address, uri: str) -> BlobResourceContents:
    """An image, within the bounds of read_file.

    The file may have been replaced since that tool saw it.
    """
    bounds = read_bounds()
    try:
        async with client.toolbox.fleet.use(client.task_id(address.task)) as environment:
            if (
                size := (await environment.file_status(address.name, bounds=bounds)).size
            ) > MOST_IMAGE:
                raise NoResource(f"{address.name} has {size} bytes, the most is {MOST_IMAGE}")
            data = (await environment.read_content(address.name, bounds=bounds)).data
    except (OSError, ExecutionError) as error:
        raise NoResource(str(error)) from None
    if (media_type := image_type(data)) is None:
        raise NoResource(f"{address.name} is no image any more")
    return BlobResourceContents(uri=uri, mime_type=media_type, blob=base64.b64encode(data).decode())


async def _recordings(client: Client, task: str) -> list[Recording]:
    """The kept recordings of a task's environment, the newest first."""
    if not client.is_open(task):
        return []
    async with client.toolbox.fleet.use(task) as environment:
        try:
            kept = await asyncio.to_thread(Store.of_user(os.environ).all)
        except ConfigError:  # without a home there are none
            return []
        return [one for one in kept if one.environment == environment.id]


async def _recording(client: Client, address: Address) -> Recording:
    """One of those. Raises NoResource."""
    if client.is_open(task := _open_task(client, address)):
        async with client.toolbox.fleet.use(task) as environment:
            with contextlib.suppress(OSError, ConfigError, InvalidArgument):
                found = await asyncio.to_thread(Store.of_user(os.environ).read, address.name)
                if found.environment == environment.id:
                    return found
    raise NoResource(
        f"no recording {address.name!r} of this environment is kept; resources/list names them"
    )


def _cast(recording: Recording) -> str:
    """An asciicast; of a long one the start, with a mark at its end that says so.

    Raises NoResource.
    """
    try:
        with open(Store.of_user(os.environ).path(recording.id), "rb") as file:
            data, size = file.read(MOST_RECORDING), os.fstat(file.fileno()).st_size
    except OSError as error:
        raise NoResource(f"the recording cannot be read: {error}") from None
    text = data[: data.rfind(b"\n") + 1]  # whole events
    mark = (
        (last_time(text), "m", f"cut: the recording has {size} bytes") if size > len(data) else None
    )
    return text.decode("utf-8", "replace") + (json.dumps(mark) + "\n" if mark else "")


async def changes(client: Client, uri: str, before: Version) -> AsyncIterator[None]:
    """One item per change since that version, at most every second; the log of an ended process has
    none.
    """
    while before[0] != "exited":
        await asyncio.sleep(PAUSE)
        try:
            now = await version(client, uri)
        except NoResource:  # it was removed
            yield
            return
        if now != before:
            yield
        before = now


async def version(client: Client, uri: str) -> Version:
    """What differs after a change; the first part is "exited" once there can be no other.

    Raises NoResource.
    """
    address = parse(uri)
    task = client.task_id(address.task)
    if address.kind == "logs":
        answer = await client.look({"action": "poll", "session_id": address.name}, task)
        return str(answer.get("status", "")), answer.get("cursor")
    if address.kind == "recordings":
        return "recording", (await _recording(client, address)).size
    if not client.is_open(task):
        return "", None
    try:
        async with client.toolbox.fleet.use(task) as environment:
            return "file", (await environment.file_status(address.name)).signature
    except (OSError, ExecutionError):
        return "missing", None
