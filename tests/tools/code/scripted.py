"""Scripts as tests run them: a toolbox with a tool of its own, and answers that are read."""

import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import msgspec

from hermetic.contract.environment import EnvironmentInfo
from hermetic.contract.tool import Fields, Tool
from hermetic.toolbox import Toolbox
from hermetic.tools.base.task import Task
from hermetic.tools.code.arguments import CodeLimits, CodeOptions
from tests import boxes


class EchoArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of a tool for tests."""

    text: Annotated[str, msgspec.Meta(description="What comes back.")] = ""
    times: int = 1
    size: int = 0
    fails: bool = False


async def echo(task: Task, asked: EchoArguments) -> Fields:
    if asked.fails:
        raise RuntimeError("it was told to fail")
    return {
        "text": asked.text * asked.times,
        "data": b"\x00\xff" * asked.size,
        "scripted": task.is_scripted,
    }


ECHO = Tool("echo", "Gives back what it gets.\n\nAs often as wanted.", EchoArguments, echo)


class Box(boxes.Box):
    """A toolbox whose scripts are run and whose answers are read."""

    def __init__(self, toolbox: Toolbox, progress: list[tuple[str, str]]) -> None:
        super().__init__(toolbox)
        self.progress = progress

    async def code(self, code: str, task: str = "t", **more: Any) -> Any:
        return await self.call("execute_code", task, code=code, **more)

    async def info(self, task: str = "t") -> EnvironmentInfo:
        async with self.toolbox.fleet.use(task) as environment:
            return await environment.info()


def here(directory: Path) -> dict[str, Any]:
    """The options of this machine, with the Python that runs the tests: others may be behind slow
    shims.
    """
    path = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
    return {"login": False, "cwd": str(directory), "env": {"PATH": path}}


@asynccontextmanager
async def scripting(
    place: Mapping[str, Any], kind: str = "local", *, warm: bool = False, **options: Any
) -> AsyncIterator[Box]:
    """A toolbox in a kind of environment; what it opened is ended.

    Limits and the like go to code mode.
    """
    limits = {name: options.pop(name) for name in CodeLimits.__struct_fields__ if name in options}
    own = {name: options.pop(name) for name in CodeOptions.__struct_fields__ if name in options}
    code = CodeOptions(limits=CodeLimits(**limits), warm=warm, **own)
    told: list[tuple[str, str]] = []
    options["on_progress"] = lambda *said: told.append(said)
    async with boxes.opened_in(kind, place, code=code, **options) as box:
        box.toolbox.register(ECHO)
        yield Box(box.toolbox, told)
