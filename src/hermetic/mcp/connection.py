"""A connection of lines: one JSON message each, from a client and to it."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable

import anyio
from mcp.server.lowlevel import NotificationOptions
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, JSONRPCResponse
from mcp_types.jsonrpc import jsonrpc_message_adapter

from hermetic.mcp.client import ServeOptions
from hermetic.mcp.server import Handlers

CHANGES = NotificationOptions(resources_changed=True)

Write = Callable[[bytes], Awaitable[None]]

_log = logging.getLogger("hermetic.mcp")


async def serve(
    given: ServeOptions,
    first: bytes,
    lines: AsyncIterator[bytes],
    write: Write,
    replied: str | int | None = None,
) -> None:
    """Serves one client until its lines end.

    The reply to the request `replied`, if any, was written before.
    """
    handlers = Handlers(given)
    to_server, incoming = anyio.create_memory_object_stream[SessionMessage | Exception]()
    outgoing, from_server = anyio.create_memory_object_stream[SessionMessage]()

    async def take(line: bytes) -> None:
        message = _message(line)
        if isinstance(message, Exception) and (refusal := _refusal(line)) is not None:
            await write(refusal)  # the SDK answers nothing, and the client would wait
        else:
            await to_server.send(message)

    async def receive() -> None:
        async with to_server:
            await take(first)
            async for line in lines:
                await take(line)

    async def send() -> None:
        hidden = replied
        async with from_server:
            async for item in from_server:
                if (
                    hidden is not None
                    and isinstance(item.message, JSONRPCResponse)
                    and item.message.id == hidden
                ):
                    hidden = None
                    continue
                await write(
                    item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
                )

    server = handlers.server()
    try:
        async with asyncio.TaskGroup() as tasks:
            receiving, sending = tasks.create_task(receive()), tasks.create_task(send())
            await server.run(incoming, outgoing, server.create_initialization_options(CHANGES))
            receiving.cancel()
            sending.cancel()
    except* (OSError, anyio.BrokenResourceError) as gone:
        _log.info("the client is gone: %s", gone.exceptions[0])
    finally:
        await handlers.close()


def _message(line: bytes) -> SessionMessage | Exception:
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error


def _refusal(line: bytes) -> bytes | None:
    """The error for a request that is no valid message, such as one with half a character; None
    where no request can be made out.
    """
    try:
        asked = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(asked, dict) or "method" not in asked:
        return None
    id = asked.get("id")
    if not isinstance(id, str | int):
        return None
    error = {
        "code": INVALID_REQUEST,
        "message": "this is no valid request: its fields or its text are not as JSON-RPC has them",
    }
    return json.dumps({"jsonrpc": "2.0", "id": id, "error": error}).encode() + b"\n"
