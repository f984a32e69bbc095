"""A stand-in for the APIs of Anthropic (messages) and OpenAI (chat completions).

Each turn of the conversation gets the next block of a script.
"""

import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

Turn = Callable[[list[dict[str, Any]]], dict[str, Any]]  # messages so far → a content block


def says(text: str) -> Turn:
    """A turn that ends the conversation with a text."""
    return lambda _: {"type": "text", "text": text}


def uses(tool: str, **arguments: Any) -> Turn:
    """A turn that calls a tool."""
    return lambda _: {
        "type": "tool_use",
        "id": f"toolu_{tool}_{len(_)}",
        "name": tool,
        "input": arguments,
    }


def tool_results(messages: list[dict[str, Any]]) -> list[str]:
    """The texts of all tool results in a conversation, in order."""
    found = []
    for message in messages:
        for block in message["content"] if isinstance(message.get("content"), list) else ():
            if block["type"] == "tool_result":
                content = block["content"]
                pieces = content if isinstance(content, list) else [{"text": content}]
                found.append("".join(str(piece.get("text", "")) for piece in pieces))
        if message["role"] == "tool":  # as OpenAI's API has it
            found.append(message["content"])
    return found


class ScriptedModel:
    """Serves the script on a local port. `requests` holds each request of the conversation."""

    def __init__(self, script: Sequence[Turn]) -> None:
        self._script = script
        self.requests: list[dict[str, Any]] = []
        self.url = ""

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator["ScriptedModel"]:
        """Serves for the length of the block."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=1 << 24)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with server:
            yield self

    @contextlib.contextmanager
    def serving_in_thread(self) -> Iterator["ScriptedModel"]:
        """The same for a client that does not run on this event loop."""
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever)
        thread.start()
        serving = self.serving()
        try:
            asyncio.run_coroutine_threadsafe(serving.__aenter__(), loop).result()
            yield self
            asyncio.run_coroutine_threadsafe(serving.__aexit__(None, None, None), loop).result()
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                lines = head.split("\r\n")
                fields = {
                    name.lower(): value.strip()
                    for name, _, value in (line.partition(":") for line in lines[1:])
                }
                body = await reader.readexactly(int(fields.get("content-length", "0")))
                kind, data = self._answer(lines[0], body)
                writer.write(
                    f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(data)}\r\n\r\n".encode()
                    + data
                )
                await writer.drain()
        writer.close()

    def _answer(self, line: str, body: bytes) -> tuple[str, bytes]:
        if line.startswith("POST /v1/chat/completions"):
            return "application/json", json.dumps(self._completion(json.loads(body))).encode()
        if not line.startswith("POST /v1/messages"):
            return "application/json", b"{}"
        if "count_tokens" in line:
            return "application/json", b'{"input_tokens": 1}'
        request = json.loads(body)
        block: dict[str, Any] = {"type": "text", "text": "a title"}
        if request.get("tools"):
            block = self._next(request)
        message = {
            "id": f"msg_{len(self.requests)}",
            "type": "message",
            "role": "assistant",
            "model": request["model"],
            "content": [block],
            "stop_reason": "tool_use" if block["type"] == "tool_use" else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
        if not request.get("stream"):
            return "application/json", json.dumps(message).encode()
        return "text/event-stream", b"".join(map(_event, _events(message, block)))

    def _next(self, request: dict[str, Any]) -> dict[str, Any]:
        self.requests.append(request)
        done = len(tool_results(request["messages"]))
        return self._script[min(done, len(self._script) - 1)](request["messages"])

    def _completion(self, request: dict[str, Any]) -> dict[str, Any]:
        block = self._next(request)
        message: dict[str, Any] = {"role": "assistant", "content": block.get("text")}
        if block["type"] == "tool_use":
            function = {"name": block["name"], "arguments": json.dumps(block["input"])}
            message["tool_calls"] = [{"id": block["id"], "type": "function", "function": function}]
        reason = "tool_calls" if "tool_calls" in message else "stop"
        return {
            "id": f"chat-{len(self.requests)}",
            "object": "chat.completion",
            "created": 0,
            "model": request["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        }


def _event(event: dict[str, Any]) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


def _events(message: dict[str, Any], block: dict[str, Any]) -> list[dict[str, Any]]:
    if block["type"] == "text":
        empty: dict[str, Any] = {"type": "text", "text": ""}
        delta: dict[str, Any] = {"type": "text_delta", "text": block["text"]}
    else:
        empty = {**block, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    return [
        {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": empty},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "usage": {"output_tokens": 1},
            "delta": {"stop_reason": message["stop_reason"], "stop_sequence": None},
        },
        {"type": "message_stop"},
    ]
