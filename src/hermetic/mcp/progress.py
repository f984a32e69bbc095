"""Progress of a running call: what it prints, and a sign of life while it prints nothing."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

from hermetic.contract.limits import ACTIVITY
from hermetic.mcp.calls import Call
from hermetic.mcp.client import Client

PAUSE = 1.0  # seconds: between two looks at the output
LOOKS = 5  # looks for the process of a call; a call that has none is soon over
SHOWN = 2000  # characters: most output in one message
CUT = 200  # characters of a command by which the process list shows it

_log = logging.getLogger("hermetic.mcp")

Report = Callable[[float, str], Awaitable[None]]  # seconds since the call began, message


async def report_quietly(client: Client, call: Call, report: Report) -> None:
    """Reports the call's output each second, and else every 10 s that it runs."""
    try:
        await _report(client, call, report)
    except Exception as error:
        _log.info("progress was not reported: %r", error)


async def _report(client: Client, call: Call, report: Report) -> None:
    started, heard, output = time.monotonic(), time.monotonic(), _Output(client, call)
    while not call.task.done():
        await asyncio.sleep(PAUSE)
        messages = client.take_messages(call.task_id) if call.name == "execute_code" else []
        now, text = time.monotonic(), "\n".join([*messages, *filter(None, [await output.news()])])
        if text or now - heard >= ACTIVITY:
            heard = now
            await report(round(now - started, 3), text or f"running for {now - started:.0f} s")


class _Output:
    """The output of a call's process, as the model may see it."""

    def __init__(self, client: Client, call: Call) -> None:
        self._client, self._call = client, call
        self._id = call.arguments.get("session_id") if call.name == "process" else None
        self._cursor: int | None = None
        self._looks = LOOKS if call.name in ("terminal", "execute_code", "process") else 0

    async def news(self) -> str:
        """What was printed since the last look, at most its end."""
        if self._id is None and self._looks:
            self._looks -= 1
            self._id = await self._find()
        if not isinstance(self._id, str):
            return ""
        cursor = (
            {}
            if self._cursor is None and self._call.name == "process"
            else {"cursor": self._cursor or 0}
        )
        answer = await self._look({"action": "poll", "session_id": self._id, **cursor})
        is_first, self._cursor = "output" not in answer, answer.get("cursor", self._cursor)
        return "" if is_first else str(answer["output"])[-SHOWN:]

    async def _find(self) -> str | None:
        """The foreground process that runs the command of this call."""
        answer = await self._look({"action": "list"})
        command = str(self._call.arguments.get("command", ""))[:CUT]
        found = [
            one
            for one in answer.get("processes", ())
            if one["origin"] == "foreground"
            and one["status"] == "running"
            and (one["command"] == command or self._call.name == "execute_code")
        ]
        return found[-1]["session_id"] if found else None

    async def _look(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return await self._client.look(arguments, self._call.task_id)
