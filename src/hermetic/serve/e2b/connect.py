"""The Connect protocol with JSON: single calls, streams of messages in envelopes, errors.

A message of a stream is one byte of flags, four bytes of length, and JSON; the last one has the
flag END and may hold an error. A single call has plain bodies, and an error is an HTTP status with
a code.
"""

import base64
import binascii
import contextlib
import logging
import struct
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import msgspec
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse

from hermetic.contract import errors
from hermetic.session.users import Users

SINGLE, STREAM = "application/json", "application/connect+json"
END = 2
DEFAULT_USER = "user"  # E2B's templates have it, and its older SDKs always name it
HEAD = struct.Struct(">BI")
MOST_MESSAGE = 16 << 20  # bytes
STATUSES = {
    "invalid_argument": 400,
    "failed_precondition": 400,
    "unauthenticated": 401,
    "permission_denied": 403,
    "not_found": 404,
    "already_exists": 409,
    "unimplemented": 501,
    "unavailable": 503,
    "deadline_exceeded": 504,
}

_log = logging.getLogger("hermetic.serve")

Message = dict[str, Any]


class RpcError(Exception):
    """A call that fails, with a code of the protocol."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code

    def body(self) -> Message:
        """For the wire."""
        return {"code": self.code, "message": str(self)}


def named_user(headers: Headers) -> str:
    """The user that a call names by basic authentication; empty for the sandbox's own."""
    scheme, _, value = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return ""
    try:
        name = base64.b64decode(value, validate=True).decode().partition(":")[0]
    except ValueError:
        raise RpcError("unauthenticated", "the name of the user cannot be read") from None
    return "" if name == DEFAULT_USER else name


def check_own(users: Users, user: str, what: str) -> None:
    """Raises RpcError where `user` is not the one who runs the commands of the sandbox."""
    if user not in ("", DEFAULT_USER, users.name, users.id):
        raise RpcError(
            "invalid_argument",
            f"{what} are those of {users} here, not of {user}; leave user out, or run a command as {user}",
        )


def rpc_error(error: Exception) -> RpcError:
    """An error of the library as one of the protocol."""
    message = str(error)
    match error:
        case RpcError():
            return error
        case FileNotFoundError() | errors.UnknownProcess():
            return RpcError("not_found", message)
        case FileExistsError():
            return RpcError("already_exists", message)
        case PermissionError() | errors.NotPermitted():
            return RpcError("permission_denied", message)
        case errors.EnvironmentUnavailable():
            return RpcError("unavailable", "The sandbox was not found")
        case errors.InputClosed():
            return RpcError("failed_precondition", message)
        case errors.InvalidArgument() | OSError() | errors.Unsupported():
            return RpcError("invalid_argument", message)
    _log.error("a call of E2B's API failed", exc_info=error)
    return RpcError("internal", "the server failed; its log says why")


async def read_message(request: Request) -> Message:
    """The body of a single call, or the one message of a stream's request. Raises RpcError."""
    if _kind(request) == STREAM:
        async with contextlib.aclosing(read_messages(request)) as messages:
            async for message in messages:
                return message
        raise RpcError("invalid_argument", "the request has no message")
    received = bytearray()
    with contextlib.suppress(ClientDisconnect):
        async for chunk in request.stream():
            received += chunk
            if len(received) > MOST_MESSAGE:
                raise RpcError("invalid_argument", f"a message has at most {MOST_MESSAGE} bytes")
    return _decoded(bytes(received) or b"{}")


async def read_messages(request: Request) -> AsyncGenerator[Message, None]:
    """The messages of a stream. Raises RpcError."""
    unread = bytearray()
    with contextlib.suppress(ClientDisconnect):
        async for chunk in request.stream():
            unread += chunk
            while len(unread) >= HEAD.size:
                flags, length = HEAD.unpack_from(unread)
                if length > MOST_MESSAGE or flags & 1:
                    raise RpcError(
                        "invalid_argument",
                        f"a message is plain and has at most {MOST_MESSAGE} bytes",
                    )
                if len(unread) < HEAD.size + length:
                    break
                body = bytes(unread[HEAD.size : HEAD.size + length])
                del unread[: HEAD.size + length]
                if not flags & END:
                    yield _decoded(body)


def single(message: Message) -> Response:
    """The answer of a single call."""
    return Response(msgspec.json.encode(message), media_type=SINGLE)


def failed(request: Request, error: RpcError) -> Response:
    """The answer of a call that failed before its first message."""
    if _kind(request) == STREAM:
        return Response(_end(error), media_type=STREAM)
    return Response(
        msgspec.json.encode(error.body()), STATUSES.get(error.code, 500), media_type=SINGLE
    )


def stream(messages: AsyncIterator[Message]) -> Response:
    """The answer of a call with many messages."""

    async def envelopes() -> AsyncIterator[bytes]:
        end = _end()
        try:
            async for message in messages:
                yield _envelope(0, message)
        except Exception as error:
            end = _end(rpc_error(error))
        yield end

    return StreamingResponse(envelopes(), media_type=STREAM)


def data_of(message: Message, name: str) -> bytes:
    """A field of bytes. Raises RpcError."""
    try:
        return base64.b64decode(message.get(name) or "", validate=False)
    except (binascii.Error, TypeError, ValueError):
        raise RpcError("invalid_argument", f"{name} is not base64") from None


def _end(error: RpcError | None = None) -> bytes:
    return _envelope(END, {} if error is None else {"error": error.body()})


def _envelope(flags: int, message: Message) -> bytes:
    body = msgspec.json.encode(message)
    return HEAD.pack(flags, len(body)) + body


def _decoded(body: bytes) -> Message:
    try:
        message = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise RpcError(
            "invalid_argument", "the message is not JSON; other codecs are not known here"
        ) from None
    if not isinstance(message, dict):
        raise RpcError("invalid_argument", "the message is no object")
    return message


def _kind(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()
