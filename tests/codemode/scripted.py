"""Scripts as tests run them: a toolbox with a tool of its own, and answers that are read."""

import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import msgspec

from hermetic.codemode.arguments import CodeLimits, CodeOptions
from hermetic.contract.tool import Fields, Tool
from hermetic.session.task import Task
from hermetic.toolbox import Toolbox


class EchoArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of a tool for tests."""

    text: Annotated[str, msgspec.Meta(description="What comes back.")] = ""
    times: int = 1
    size: int = 0
    fails: bool = False


async def echo(task: Task, asked: EchoArguments) -> Fields:
    if asked.fails:
        raise RuntimeError("it was told to fail")
    return {"text": asked.text * asked.times, "data": b"\x00\xff" * asked.size, "scripted": task.is_scripted}


ECHO = Tool("echo", "Gives back what it gets.\n\nAs often as wanted.", EchoArguments, echo)


class Box:
    """A toolbox whose scripts are run and whose answers are read."""

    def __init__(self, toolbox: Toolbox) -> None:
        self.toolbox = toolbox
        self.progress: list[tuple[str, str]] = []

    async def code(self, code: str, task: str = "t", **more: Any) -> Any:
        return await self.call("execute_code", task, code=code, **more)

    async def call(self, tool: str, task: str = "t", **arguments: Any) -> Any:
        return json.loads(await self.toolbox.call(tool, arguments, task_id=task))


def here(directory: Path) -> dict[str, Any]:
    """The options of this machine, with the Python that runs the tests: others may be behind slow shims."""
    path = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
    return {"login": False, "cwd": str(directory), "env": {"PATH": path}}


@asynccontextmanager
async def scripting(
    place: Mapping[str, Any], kind: str = "local", *, warm: bool = False, **options: Any
) -> AsyncIterator[Box]:
    """A toolbox in a kind of environment; what it opened is ended. Limits and the like go to code mode."""
    limits = {name: options.pop(name) for name in CodeLimits.__struct_fields__ if name in options}
    own = {name: options.pop(name) for name in CodeOptions.__struct_fields__ if name in options}
    code = CodeOptions(limits=CodeLimits(**limits), warm=warm, **own)
    told: list[tuple[str, str]] = []
    toolbox = Toolbox(
        environment=kind, options=place, code=code, on_progress=lambda *said: told.append(said), **options
    )
    toolbox.register(ECHO)
    box = Box(toolbox)
    box.progress = told
    try:
        yield box
    finally:
        await toolbox.close(remove=True)
