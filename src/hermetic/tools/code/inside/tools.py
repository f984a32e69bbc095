"""The tools of this task as functions. Each answers a dict; `aio` has the same names for `await`.

Besides: progress, attach, keep, recall, kept, forget, search_tools, describe_tool, json_parse,
shell_quote, retry.
"""

from __future__ import annotations

import _thread
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from typing import Any

_TOKEN = 32  # characters of the token in front of the path
_KEPT_BYTES = 64 << 20  # of all values that are kept
_PIECE = 1 << 20
_TOOLS = b""  # what is known of each tool, packed; the stubs below bring it

_MOST = 96  # connections of a process; a call waits when all are in use

_idle: list[Any] = []  # connections that wait for a call; each serves one call at a time
_waiting: list[Callable[[], object]] = []  # for a connection: what wakes them
_owner = [0, 0]  # the process that has the connections, and how many it has
_lock = [_thread.allocate_lock()]  # held for a few lines at a time, while these change


class ToolsGone(RuntimeError):
    """The tools are not served any more, or not for this process."""


# -- calls
def _codec() -> Any:
    frames: Any = __import__("_hermetic_frames")
    # Answers may be deeper and longer than headers.
    frames.FRAME_DEPTH, frames.FRAME_ITEMS = 64, 1 << 31
    return frames


def _exchange(fields: dict[str, Any], value: Any) -> Generator[bytes | None, bytes, Any]:
    """One call: yields what is to be sent, then None for every piece that is to be received;
    returns the answer.
    """
    frames = _codec()
    try:
        body = frames.pack(value)
    except Exception as error:
        message = "%s: what was given cannot be sent: %s; use text, numbers, bytes, lists and dicts"
        raise TypeError(message % (fields.get("tool") or fields.get("do"), error)) from None
    for at in range(0, len(body), _PIECE):
        more = {"more": True} if at + _PIECE < len(body) else {}
        yield frames.pack_frame(frames.REQUEST, 0, dict(fields, **more), body[at : at + _PIECE])
    reader, pieces = frames.FrameReader(frames.MAX_FRAME), []
    while True:
        data = yield None
        if not data:
            raise ToolsGone(
                "the tools are gone: the caller of this script has ended; do without them"
            )
        for kind, _, header, piece in reader.feed(data):
            pieces.append(piece)
            if kind == frames.ERROR:
                raise ToolsGone(header.get("message", "refused"))
            if kind == frames.REPLY:
                return frames.unpack(pieces[0] if len(pieces) == 1 else b"".join(pieces))


def _connection(wake: Callable[[], object]) -> Any:
    """An idle connection, or a new one and the token that it has to send; None: try again when
    `wake` is called.
    """
    # A forked child: those connections are its parent's, and perhaps the lock's holder.
    if _owner[0] != os.getpid():
        _idle[:], _waiting[:], _lock[:] = [], [], [_thread.allocate_lock()]
        _owner[:] = os.getpid(), 0
    with _lock[0]:
        if _idle:
            return _idle.pop(), b""
        if _owner[1] >= _MOST:
            _waiting.append(wake)
            return None
        _owner[1] += 1
    try:
        return _connected()
    except BaseException:
        _give_back(None)
        raise


def _give_back(connection: Any) -> None:
    """It is free for the next call; None: there is one less."""
    with _lock[0]:
        if connection is None:
            _owner[1] -= 1
        else:
            _idle.append(connection)
        wake = _waiting.pop(0) if _waiting else None
    if wake is not None:
        wake()


def _connected() -> Any:
    place = os.environ.get("HERMETIC_BRIDGE", "")
    if not place:
        raise ToolsGone(
            "there are no tools here: they are there in a script that execute_code runs"
        )
    # The C module alone: the wrapper takes longer to import than a call to be made.
    sockets = __import__("_socket")
    connection = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
    try:
        connection.connect(place[_TOKEN:])
    except OSError as error:
        connection.close()
        raise ToolsGone("the tools cannot be reached: %s" % error) from None
    return connection, place[:_TOKEN].encode()


def _ask(fields: dict[str, Any], value: Any) -> Any:
    connection, token = _connection_here()
    exchange = _exchange(fields, value)
    try:
        wanted = next(exchange)
        while True:
            if wanted is None:
                wanted = exchange.send(connection.recv(_PIECE))
            else:
                connection.sendall(token + wanted)
                token, wanted = b"", next(exchange)
    except StopIteration as end:
        _give_back(connection)
        return end.value
    except BaseException as error:
        _lose(connection, error)
        raise


def _connection_here() -> Any:
    gate = _thread.allocate_lock()
    gate.acquire()
    while True:
        found = _connection(gate.release)
        if found is not None:
            return found
        try:
            gate.acquire()
        except BaseException:  # of a signal's handler
            _pass_on(gate.release)
            raise


async def _ask_async(fields: dict[str, Any], value: Any) -> Any:
    loop = __import__("asyncio").get_running_loop()
    connection, token = await _connection_async(loop)
    exchange = _exchange(fields, value)
    try:
        connection.setblocking(False)
        wanted = next(exchange)
        while True:
            if wanted is None:
                wanted = exchange.send(await loop.sock_recv(connection, _PIECE))
            else:
                await loop.sock_sendall(connection, token + wanted)
                token, wanted = b"", next(exchange)
    except StopIteration as end:
        connection.setblocking(True)
        _give_back(connection)
        return end.value
    except BaseException as error:  # cancelled, too: the caller's side notices the disconnect
        _lose(connection, error)
        raise


async def _connection_async(loop: Any) -> Any:
    while True:
        turn = loop.create_future()
        wake = _waker(loop, turn)
        found = _connection(wake)
        if found is not None:
            return found
        try:
            await turn
        except BaseException:  # cancelled
            _pass_on(wake)
            raise


def _waker(loop: Any, turn: Any) -> Callable[[], object]:
    return lambda: loop.call_soon_threadsafe(lambda: turn.done() or turn.set_result(None))


def _pass_on(wake: Callable[[], object]) -> None:
    """Who was waiting waits no more; if it has been woken by now, the next one is."""
    with _lock[0]:
        if wake in _waiting:
            _waiting.remove(wake)
            return
        following = _waiting.pop(0) if _waiting else None
    if following is not None:
        following()


def _lose(connection: Any, error: BaseException) -> None:
    """After a call that was not answered the connection is of no use."""
    connection.close()
    _give_back(None)
    if isinstance(error, OSError):
        raise ToolsGone("the tools are gone: %s" % error) from None


def _given(arguments: dict[str, Any]) -> dict[str, Any]:
    """Without what was left out; a path as text."""
    found = {}
    for name, value in arguments.items():
        if value is not None:
            found[name] = os.fspath(value) if hasattr(value, "__fspath__") else value
    return found


def _call(tool: str, arguments: dict[str, Any]) -> Any:
    return _ask({"tool": tool}, _given(arguments))


def _call_async(tool: str, arguments: dict[str, Any]) -> Any:
    return _ask_async({"tool": tool}, _given(arguments))


class _Async:
    """The same tools for `await`: `await aio.terminal("ls")`."""

    def __getattr__(self, name: str) -> Any:
        stub: Any = globals().get(name)
        if not getattr(stub, "is_tool", False):
            raise AttributeError(
                "there is no tool %r; there are %s" % (name, ", ".join(sorted(_catalog())))
            )
        twin = type(stub)(
            stub.__code__, dict(globals(), _call=_call_async), name, stub.__defaults__
        )
        twin.__kwdefaults__, twin.__doc__ = stub.__kwdefaults__, stub.__doc__
        setattr(self, name, twin)
        return twin


aio = _Async()


def _tool(stub: Any) -> Any:
    stub.is_tool = True
    return stub


# -- what a script says besides its output
def progress(text: str) -> None:
    """Reports the script's progress to its caller."""
    _ask({"do": "progress"}, str(text))


def attach(content: Any, name: str | None = None, media_type: str | None = None) -> None:
    """Puts a file or an image into the script's result: a path, or bytes with a name."""
    if not isinstance(content, (bytes, bytearray)):
        path = os.fspath(content)
        name = name or os.path.basename(path)
        with open(path, "rb") as file:
            content = file.read()
    if name is None:
        raise TypeError("attach: bytes need a name")
    media_type = (
        media_type or __import__("mimetypes").guess_type(name)[0] or "application/octet-stream"
    )
    answer = _ask(
        {"do": "attach"}, {"name": name, "media_type": media_type, "data": bytes(content)}
    )
    if answer.get("error"):
        raise ValueError(answer["error"])


# -- values for later scripts
def _place(name: str) -> str:
    if not isinstance(name, str) or not 0 < len(name.encode()) <= 100:
        raise ValueError("a name has 1 to 100 bytes")
    directory = os.path.dirname(os.environ.get("HERMETIC_BRIDGE", "")[_TOKEN:])
    return "%s/k.%s" % (directory, name.encode().hex())


def keep(name: str, value: Any) -> None:
    """Keeps a value for later scripts of this task: anything pickle can write, 64 MiB in all."""
    data = __import__("pickle").dumps(value, 4)
    place = _place(name)
    others = sum(size for other, size in _kept() if other != name)
    if others + len(data) > _KEPT_BYTES:
        raise ValueError(
            "%d bytes are kept, %d more are too many: forget some, or write a file"
            % (others, len(data))
        )
    aside = "%s.%s.tmp" % (place, os.urandom(8).hex())
    with open(
        os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb"
    ) as file:
        file.write(data)
    os.rename(aside, place)


def recall(name: str, *default: Any) -> Any:
    """The value that was kept under this name; the default, or KeyError, where there is none."""
    try:
        with open(_place(name), "rb") as file:
            return __import__("pickle").load(file)
    except FileNotFoundError:
        if default:
            return default[0]
        raise KeyError(
            "nothing is kept as %r; there is %s" % (name, ", ".join(kept()) or "nothing")
        ) from None


def kept() -> list[str]:
    """The names under which something is kept."""
    return sorted(name for name, _ in _kept())


def _kept() -> list[tuple[str, int]]:
    """Names and sizes."""
    found = []
    with os.scandir(os.path.dirname(_place("x"))) as entries:
        for entry in entries:
            if entry.name[:2] == "k." and "." not in entry.name[2:]:
                try:
                    found.append((bytes.fromhex(entry.name[2:]).decode(), entry.stat().st_size))
                except FileNotFoundError:  # removed meanwhile
                    pass
    return found


def forget(name: str) -> None:
    """Keeps it no longer."""
    try:
        os.unlink(_place(name))
    except FileNotFoundError:
        pass


# -- what there is
def _catalog() -> dict[str, Any]:
    found: dict[str, Any] = _codec().unpack(_TOOLS) if _TOOLS else {}
    return found


def search_tools(words: str = "") -> list[dict[str, str]]:
    """The tools whose name or description holds the words, best first: name, signature, and what
    each does.
    """
    wanted = words.lower().split()
    found = []
    for name, known in _catalog().items():
        text = (
            "%s %s %s" % (name, known["description"], " ".join(known["parameters"]["properties"]))
        ).lower()
        score = sum((word in text) + 4 * (word in name.lower()) for word in wanted)
        if score or not wanted:
            found.append((-score, name, known))
    return [
        {
            "name": name,
            "signature": known["signature"],
            "description": known["description"].split("\n")[0],
        }
        for _, name, known in sorted(found, key=lambda item: item[:2])
    ]


def describe_tool(name: str) -> dict[str, Any]:
    """All there is to know of a tool: name, signature, description, its answer, parameters as a
    JSON schema.
    """
    known = _catalog()
    if name not in known:
        raise KeyError("there is no tool %r; there are %s" % (name, ", ".join(sorted(known))))
    return dict(known[name], name=name)


# -- what scripts often need
def json_parse(text: str) -> Any:
    """What JSON text spells; raw control characters inside its strings are let through."""
    return __import__("json").loads(text, strict=False)


def shell_quote(text: str) -> str:
    """The text as one word of a shell command."""
    quoted: str = __import__("shlex").quote(text)
    return quoted


def retry(fn: Callable[[], Any], max_attempts: int = 3, delay: float = 2) -> Any:
    """What the function returns; after an error it is tried again, the delay doubling.

    The last error is raised.
    """
    for attempt in range(max_attempts):
        try:
            return fn()
        except Exception:
            if attempt + 1 >= max_attempts:
                raise
        __import__("time").sleep(delay * 2**attempt)
    return None


# -- the tools
