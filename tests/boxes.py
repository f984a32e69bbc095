"""Toolboxes as tests use them: answers are read, and what was opened is ended."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from hermetic.contract.notice import Notice
from hermetic.toolbox import Toolbox


class Box:
    """A toolbox whose answers are read."""

    def __init__(self, toolbox: Toolbox) -> None:
        self.toolbox = toolbox

    async def terminal(self, command: str, task: str = "t", **more: Any) -> Any:
        return json.loads(await self.toolbox.call("terminal", {"command": command, **more}, task_id=task))

    async def process(self, action: str, id: str | None = None, task: str = "t", **more: Any) -> Any:
        given = {"action": action, **({"session_id": id} if id else {}), **more}
        return json.loads(await self.toolbox.call("process", given, task_id=task))

    async def next_notice(self) -> Notice:
        async for notice in self.toolbox.notices():
            return notice
        raise AssertionError("the toolbox was closed")


@asynccontextmanager
async def opened(directory: Path, **options: Any) -> AsyncIterator[Box]:
    """A toolbox on this machine whose tasks work in the directory."""
    async with opened_in("local", {"login": False, "cwd": str(directory)}, **options) as box:
        yield box


@asynccontextmanager
async def opened_in(kind: str, place: Mapping[str, Any], **options: Any) -> AsyncIterator[Box]:
    """A toolbox in a kind of environment; what it opened is ended."""
    toolbox = Toolbox(environment=kind, options=place, **options)
    try:
        yield Box(toolbox)
    finally:
        await toolbox.close(remove=True)
