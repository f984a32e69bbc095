"""The calls of one script: decoded, limited, dispatched to the tools, answered and logged."""

import base64
import logging
import math
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextvars import Token
from typing import Any

import msgspec

from hermetic.contract.limits import FOREGROUND, FRAME_BODY
from hermetic.contract.tool import IS_SILENT, Dispatch, Fields
from hermetic.link.calls import Interruption
from hermetic.link.wire import ERROR, EVENT, MALFORMED, REPLY, pack_frame
from hermetic.tools.code.arguments import CodeLimits
from hermetic.tools.code.bridge import Channel
from hermetic.tools.code.stubs import DROPPED, Stub

PIECE = FRAME_BODY - 1024  # of an answer; the rest of a frame is its header
SHOWN_ARGUMENTS = 80  # characters
SHOWN_PROGRESS = 500
FILE_COST = 100  # bytes that an attached file takes besides what it holds

_log = logging.getLogger("hermetic.codemode")


class ScriptRequest(msgspec.Struct, frozen=True):
    """A script's request: a tool, or something about its own run."""

    tool: str = ""
    do: str = ""
    more: bool = False  # the body goes on in the next frame


class AttachedFile(msgspec.Struct, frozen=True):
    """A file that a script puts into its answer."""

    name: str
    media_type: str
    data: bytes


_asked = msgspec.msgpack.Decoder(ScriptRequest)
_attached = msgspec.msgpack.Decoder(AttachedFile)
_arguments = msgspec.msgpack.Decoder(dict[str, Any])
_text = msgspec.msgpack.Decoder(str)


class ScriptCalls:
    """Serves one script. Its messages are validated before they are used."""

    def __init__(
        self,
        call: Dispatch,
        stubs: Mapping[str, Stub],
        limits: CodeLimits,
        tell: Callable[[str], object],
    ) -> None:
        self._call = call
        self._stubs = stubs  # by the tool's name
        self._limits = limits
        self._tell = tell  # gets progress
        self._gathered = 0
        self._files_bytes = 0
        # By time.monotonic(); None: the script has all the time there is.
        self.deadline: float | None = None
        self.made = 0
        self.refused = 0
        self.log: deque[Fields] = deque(maxlen=limits.logged)
        self.files: list[Fields] = []
        self.is_over = Interruption()  # the script has to end

    def __repr__(self) -> str:
        return f"<ScriptCalls: {self.made} made, {self.refused} refused>"

    @property
    def is_spamming(self) -> bool:
        """True when too many calls of the script were refused."""
        return self.refused > self._limits.refused

    async def serve(self, channel: Channel) -> None:
        """Serves the calls of one connection, one after the other."""
        try:
            while await self._serve_one(channel):
                pass
        except MALFORMED as error:
            message = f"this is no call: {error}; use the module hermetic_tools"
            await channel.send(pack_frame(ERROR, 0, {"message": message}))

    async def _serve_one(self, channel: Channel) -> bool:
        """Serves one call; False when the program has disconnected.

        Its arguments count until it is answered.
        """
        pieces: list[bytes] = []
        size = 0
        try:
            while (frame := await channel.receive()) is not None:
                asked = _asked.decode(frame.fields)
                size += len(frame.body)
                self._gathered += len(frame.body)
                pieces.append(frame.body)
                if self._gathered > self._limits.gathered:
                    pieces.clear()
                if not asked.more:
                    body = b"".join(pieces)
                    pieces.clear()
                    return await self._send(
                        channel, await self._answer(asked, body if len(body) == size else None)
                    )
        finally:
            self._gathered -= size
        return False

    async def _answer(self, asked: ScriptRequest, body: bytes | None) -> Mapping[str, Any] | None:
        if body is None:
            return self._refuse(
                f"the arguments are longer than {self._limits.gathered:,} bytes; write a file instead"
            )
        if asked.tool:
            return await self._use(asked.tool, _arguments.decode(body))
        if asked.do == "progress":
            self._progress(_text.decode(body)[:SHOWN_PROGRESS])
            return None
        if asked.do == "attach":
            return self._attach(_attached.decode(body), len(body))
        return self._refuse(f"nothing is called {asked.do!r} here")

    async def _use(self, name: str, arguments: dict[str, Any]) -> Mapping[str, Any]:
        if name not in self._stubs:
            available = ", ".join(self._stubs) or "none"
            return self._refuse(
                f"the tool {name!r} cannot be called from a script; available: {available}"
            )
        if self.made >= self._limits.calls:
            return self._refuse(
                f"{self.made} tool calls were made, the most of one script; print what you have"
            )
        self.made += 1
        started = time.monotonic()
        entry: Fields = {"tool": name, "arguments": _shown(arguments)}
        try:
            answer = await self._call(name, self._fitted(name, arguments))
            if isinstance(answer, Mapping) and isinstance(answer.get("error"), str):
                entry["error"] = answer["error"][:SHOWN_ARGUMENTS]
            return answer
        finally:
            entry["duration"] = round(time.monotonic() - started, 4)
            self.log.append(entry)

    def _fitted(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments that a script may give, with no more time than the script has left."""
        dropped = DROPPED.get(name, frozenset())
        given = {key: value for key, value in arguments.items() if key not in dropped}
        schema = self._stubs[name].parameters["properties"].get("timeout")
        if self.deadline is None or schema is None:
            return given
        left = max(0.001, self.deadline - time.monotonic())
        asked = next(
            (one for one in (given.get("timeout"), schema.get("default")) if one is not None),
            FOREGROUND,
        )
        if isinstance(asked, int | float) and left < asked:
            kinds = {kind.get("type") for kind in (schema, *schema.get("anyOf", ()))}
            given["timeout"] = left if "number" in kinds else math.ceil(left)
        return given

    def _progress(self, text: str) -> None:
        try:
            self._tell(text)
        except Exception:  # of the caller's own function: the script goes on
            _log.exception("progress %r was not taken", text)

    def _attach(self, file: AttachedFile, size: int) -> Fields:
        """`size` is that of its names, too: the answer holds them as well."""
        if self._files_bytes + size + FILE_COST > self._limits.files:
            return self._refuse(
                f"{self._limits.files:,} bytes of files are the most of one script; print its path"
            )
        self._files_bytes += size + FILE_COST
        data = base64.b64encode(file.data).decode()
        self.files.append(
            {
                "name": file.name,
                "media_type": file.media_type,
                "bytes": len(file.data),
                "data": data,
            }
        )
        return {}

    def _refuse(self, why: str) -> Fields:
        self.refused += 1
        if self.is_spamming:
            self.is_over.set()
        return {"error": why}

    async def _send(self, channel: Channel, answer: Mapping[str, Any] | None) -> bool:
        data = _packed(answer)
        for at in range(0, len(data) - PIECE, PIECE):
            if not await channel.send(pack_frame(EVENT, 0, {}, data[at : at + PIECE])):
                return False
        last = (math.ceil(len(data) / PIECE) - 1) * PIECE
        return await channel.send(pack_frame(REPLY, 0, {}, data[last:]))


def _shown(arguments: Mapping[str, Any]) -> str:
    """The start of the arguments, for the log."""
    short = {
        name: value[:SHOWN_ARGUMENTS] if isinstance(value, str | bytes) else value
        for name, value in arguments.items()
    }
    try:
        return msgspec.json.encode(short).decode()[:SHOWN_ARGUMENTS]
    except (TypeError, ValueError):  # values that JSON does not have
        return repr(short)[:SHOWN_ARGUMENTS]


def _packed(value: object) -> bytes:
    try:
        return msgspec.msgpack.encode(value)
    except (OverflowError, UnicodeEncodeError, TypeError):
        return msgspec.msgpack.encode(_sendable(value))


def _sendable(value: object) -> object:
    """The value with text for what a frame cannot carry: huge numbers, lone surrogates, other
    Python objects.
    """
    if isinstance(value, Mapping):
        return {str(_sendable(key)): _sendable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_sendable(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool):
        return value if -(2**63) <= value < 2**63 else str(value)
    if value is None or isinstance(value, bool | float | bytes):
        return value
    return str(value).encode("utf-8", "backslashreplace").decode()


class _PerCall:
    """The program's stdout for all but those calls."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        return len(text) if IS_SILENT.get() else int(self.stream.write(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


class Silence:
    """Drops what is printed to stdout between `begin` and `end` of a call, and nothing else of the
    program's.
    """

    def __init__(self) -> None:
        self._calls = 0
        self._stdout: _PerCall | None = None

    def begin(self) -> Token[bool]:
        """For one call: its task, tasks that it starts, and functions that it runs by
        `asyncio.to_thread`.
        """
        if not self._calls:
            self._stdout = _PerCall(sys.stdout)
            sys.stdout = self._stdout
        self._calls += 1
        return IS_SILENT.set(True)

    def end(self, token: Token[bool]) -> None:
        """In the task that has begun it."""
        IS_SILENT.reset(token)
        self._calls -= 1
        if not self._calls and self._stdout is not None and sys.stdout is self._stdout:
            sys.stdout = self._stdout.stream
