"""The service process.Process of envd: commands and terminals of a sandbox."""

import asyncio
import base64
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from starlette.datastructures import Headers

from hermetic.contract.endings import Ending, Exited, Signalled
from hermetic.contract.errors import ExecutionError
from hermetic.serve.e2b.connect import Message, RpcError, check_own, data_of, named_user
from hermetic.serve.e2b.sandboxes import Sandbox, Started

KEEPALIVE = 50.0  # seconds between two signs of life, unless the client says another time
PIECE = 64 << 10  # bytes of output in one message
WAITING = 16  # pieces of output that wait for a slow client
LOOK = 30.0  # seconds that one request waits for output
SIGNALS = {"SIGNAL_SIGTERM": 15, "SIGNAL_SIGKILL": 9, 15: 15, 9: 9}


async def start(sandbox: Sandbox, message: Message, headers: Headers) -> AsyncIterator[Message]:
    """Starts a process and passes its output on.

    It runs on without the stream, and ends when its time is over.
    """
    config = message.get("process") or {}
    pty, envs = message.get("pty"), config.get("envs") or {}
    size = (pty or {}).get("size") or {}
    words = [str(config.get("cmd") or ""), *map(str, config.get("args") or ())]
    user = named_user(headers)
    if pty is not None:
        check_own(sandbox.users, user, "terminals")
    argv = sandbox.users.argv(user, words)
    if argv is None:
        raise RpcError(
            "invalid_argument",
            f"commands here run as {sandbox.users}, not as {user}; leave user out",
        )
    process = await sandbox.environment.start(
        argv,
        pty=pty is not None,
        rows=int(size.get("rows") or 24),
        cols=int(size.get("cols") or 80),
        cwd=config.get("cwd") or None,
        env={**sandbox.wanted.env_vars, **envs},
        stdin="pipe" if pty is not None or message.get("stdin", True) else "null",
        separate=pty is None,
    )
    started = Started(process, {**config, "envs": envs}, message.get("tag"), asyncio.Event())
    sandbox.processes[process.pid or 0] = started
    milliseconds = headers.get("connect-timeout-ms", "")
    sandbox.spawn(
        _attend(sandbox, started, int(milliseconds) / 1000 if milliseconds.isdigit() else None)
    )
    async with contextlib.aclosing(_events(sandbox, started, 0, 0, headers)) as events:
        async for event in events:
            yield event


async def connect(sandbox: Sandbox, message: Message, headers: Headers) -> AsyncIterator[Message]:
    """Passes the output of a running process on, from now on."""
    started = _find(sandbox, message)
    info = (await sandbox.environment.process(started.process.id)).info
    async with contextlib.aclosing(
        _events(sandbox, started, info.out, info.err or 0, headers)
    ) as events:
        async for event in events:
            yield event


async def list_processes(sandbox: Sandbox, _: Message) -> Message:
    """What runs."""
    running = {info.id for info in await sandbox.environment.processes() if info.state == "running"}
    return {
        "processes": [
            {"config": one.config, "pid": pid, **({"tag": one.tag} if one.tag is not None else {})}
            for pid, one in sandbox.processes.items()
            if one.process.id in running
        ]
    }


async def send_input(sandbox: Sandbox, message: Message) -> Message:
    """Types into a process."""
    given = message.get("input") or {}
    await _find(sandbox, message).process.write(
        data_of(given, "pty" if "pty" in given else "stdin")
    )
    return {}


async def stream_input(sandbox: Sandbox, messages: AsyncIterator[Message]) -> Message:
    """Types into a process what comes."""
    started: Started | None = None
    async for message in messages:
        if "start" in message:
            started = _find(sandbox, message["start"])
        elif "data" in message and started is not None:
            given = message["data"].get("input") or {}
            await started.process.write(data_of(given, "pty" if "pty" in given else "stdin"))
    return {}


async def close_stdin(sandbox: Sandbox, message: Message) -> Message:
    """Closes the input of a process."""
    await _find(sandbox, message).process.close_input()
    return {}


async def send_signal(sandbox: Sandbox, message: Message) -> Message:
    """Sends TERM to a process tree, or ends it."""
    started = await _running(sandbox, message)
    number = SIGNALS.get(message.get("signal", ""))
    if number is None:
        raise RpcError("invalid_argument", "the signals are SIGNAL_SIGTERM and SIGNAL_SIGKILL")
    if number == 9:
        await started.process.kill(0.0)
    else:
        await started.process.signal(number)
    return {}


async def update(sandbox: Sandbox, message: Message) -> Message:
    """Resizes a terminal."""
    size = (message.get("pty") or {}).get("size") or {}
    if size:
        await _find(sandbox, message).process.resize(
            int(size.get("rows") or 24), int(size.get("cols") or 80)
        )
    return {}


CALLS: Mapping[str, Callable[[Sandbox, Message], Awaitable[Message]]] = {
    "List": list_processes,
    "SendInput": send_input,
    "CloseStdin": close_stdin,
    "SendSignal": send_signal,
    "Update": update,
}
STREAMS: Mapping[str, Callable[[Sandbox, Message, Headers], AsyncIterator[Message]]] = {
    "Start": start,
    "Connect": connect,
}


def _find(sandbox: Sandbox, message: Message) -> Started:
    selector = message.get("process") or {}
    if "tag" in selector:
        for started in reversed(sandbox.processes.values()):
            if started.tag == selector["tag"]:
                return started
    elif found := sandbox.processes.get(int(selector.get("pid") or 0)):
        return found
    raise RpcError("not_found", f"there is no process with {selector}")


async def _running(sandbox: Sandbox, message: Message) -> Started:
    started = _find(sandbox, message)
    with contextlib.suppress(TimeoutError):
        await started.process.wait(0)
        raise RpcError("not_found", "the process has ended")
    return started


async def _attend(sandbox: Sandbox, started: Started, seconds: float | None) -> None:
    """Ends a process when its time is over, also without a stream, and forgets one that has ended."""
    with contextlib.suppress(ExecutionError):
        try:
            await started.process.wait(timeout=seconds)
        except TimeoutError:
            started.timed_out.set()
            await started.process.kill(0.0)
    pid = started.process.pid or 0
    if sandbox.processes.get(pid) is started:
        del sandbox.processes[pid]


async def _events(
    sandbox: Sandbox, started: Started, out: int, err: int, headers: Headers
) -> AsyncGenerator[Message, None]:
    process = started.process
    yield {"event": {"start": {"pid": process.pid}}}
    logs = [("pty", process.id, out)]
    if not process.info.pty:
        logs = [("stdout", process.id, out), ("stderr", f"{process.id}/err", err)]
    pieces: asyncio.Queue[tuple[str, bytes] | Exception | None] = asyncio.Queue(WAITING)
    readers = [asyncio.create_task(_read(sandbox, *log, pieces)) for log in logs]
    try:
        open_logs = len(readers)
        while open_logs:
            try:
                async with asyncio.timeout(_keepalive(headers)):
                    piece = await pieces.get()
            except TimeoutError:
                yield {"event": {"keepalive": {}}}
                continue
            if piece is None:
                open_logs -= 1
            elif isinstance(piece, Exception):
                raise piece
            else:
                yield {"event": {"data": {piece[0]: base64.b64encode(piece[1]).decode()}}}
    finally:
        for reader in readers:
            reader.cancel()
    ending = await process.wait()
    if started.timed_out.is_set():
        raise RpcError("deadline_exceeded", "the command was ended at its timeout")
    yield {"event": {"end": _end(ending)}}


async def _read(
    sandbox: Sandbox, name: str, log: str, offset: int, pieces: "asyncio.Queue[Any]"
) -> None:
    """Hands a log over as the client takes it: what a slow one misses stays in the log, within its
    bounds.
    """
    try:
        while True:
            chunk = await sandbox.environment.read_log(log, offset, limit=PIECE, wait=LOOK)
            offset = chunk.end
            if chunk.data:
                await pieces.put((name, chunk.data))
            if chunk.ended:
                await pieces.put(None)
                return
    except ExecutionError as error:
        await pieces.put(error)


def _keepalive(headers: Headers) -> float:
    given = headers.get("keepalive-ping-interval", "")
    return max(1.0, float(given)) if given.isdigit() else KEEPALIVE


def _end(ending: Ending) -> Message:
    match ending:
        case Exited(code):
            status = f"exit status {code}"
            return {
                "exitCode": code,
                "exited": True,
                "status": status,
                **({"error": status} if code else {}),
            }
        case Signalled(number):
            status = f"signal: {number}"
        case _:
            status = type(ending).__name__
    return {"exitCode": -1, "exited": False, "status": status, "error": status}
