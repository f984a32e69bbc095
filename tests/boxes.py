"""Toolboxes as tests use them: answers are read, and what was opened is ended."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hermetic.contract.notice import Notice
from hermetic.toolbox import Toolbox
from tests.environments.engines import need_engine
from tests.programs import need_variable
from tests.sizes import at_full_size

# what holds wherever the tools work
everywhere = pytest.mark.parametrize("kind", ["local", "docker"])
# The same, where what is tested is the toolbox on this side: a container repeats it at full size.
on_this_side = pytest.mark.parametrize("kind", ["local", *at_full_size("docker")])


class Box:
    """A toolbox whose answers are read."""

    def __init__(self, toolbox: Toolbox) -> None:
        self.toolbox = toolbox

    async def terminal(self, command: str, task: str = "t", **more: Any) -> Any:
        return json.loads(
            await self.toolbox.call("terminal", {"command": command, **more}, task_id=task)
        )

    async def process(
        self, action: str, id: str | None = None, task: str = "t", **more: Any
    ) -> Any:
        given = {"action": action, **({"session_id": id} if id else {}), **more}
        return json.loads(await self.toolbox.call("process", given, task_id=task))

    async def call(self, tool: str, task: str = "t", **given: Any) -> Any:
        return json.loads(await self.toolbox.call(tool, given, task_id=task))

    async def next_notice(self) -> Notice:
        async for notice in self.toolbox.notices():
            return notice
        raise AssertionError("the toolbox was closed")


@asynccontextmanager
async def opened(directory: Path, kind: str = "local", **options: Any) -> AsyncIterator[Box]:
    """A toolbox whose tasks work in a directory of this machine, on it or in containers that see
    the directory.
    """
    async with opened_in(kind, place(kind, directory), **options) as box:
        yield box


def place(kind: str, directory: Path) -> dict[str, Any]:
    """The options of an environment that works in a directory of this machine."""
    if kind == "local":
        return {"login": False, "cwd": str(directory)}
    need_engine(kind)
    image = need_variable("IMAGE_TOOLS")
    return {"image": image, "cwd": str(directory), "volumes": [f"{directory}:{directory}"]}


async def appears(path: Path, seconds: float = 20) -> None:
    """Returns when a command has made the file."""
    async with asyncio.timeout(seconds):
        while not path.exists():  # noqa: ASYNC110, ASYNC240 (no event tells)
            await asyncio.sleep(0.02)


@asynccontextmanager
async def opened_in(kind: str, place: Mapping[str, Any], **options: Any) -> AsyncIterator[Box]:
    """A toolbox in a kind of environment; what it opened is ended."""
    toolbox = Toolbox(environment=kind, options=place, **options)
    try:
        yield Box(toolbox)
    finally:
        await toolbox.close(remove=True)
