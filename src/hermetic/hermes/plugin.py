"""The plugin for Hermes Agent: its tools that execute anything become those of Hermetic.

It is found by the entry point `hermetic` in the group `hermes_agent.plugins`. Nothing of Hermes is
imported while it registers: that would fix settings before Hermes has read them.
"""

import json
import logging
from collections.abc import Callable
from typing import Any

from hermetic.contract.tool import Fields
from hermetic.hermes.agent import Executor
from hermetic.hermes.code import build_execute_code_schema
from hermetic.toolbox import Toolbox

# A name of its own: under the name of a built-in toolset, the built-in tools would replace these
# when they are loaded.
TOOLSET = "hermetic"
TOOLS = ("terminal", "process", "read_file", "write_file", "patch", "search_files", "execute_code")
HOW = "run `hermes plugins enable hermetic --allow-tool-override`, or disable the plugin"

_log = logging.getLogger("hermetic.hermes")


def register(ctx: Any) -> None:
    """Takes the tools over.

    Where that fails, they are blocked: the built-in ones would run on the host.
    """
    executor = Executor()
    try:
        for name, schema in _schemas().items():
            ctx.register_tool(
                name=name,
                toolset=TOOLSET,
                schema=schema,
                handler=_handler(executor, name),
                description=schema["description"],
                override=True,
            )
    except Exception as error:  # whatever Hermes or the settings object to
        _log.error("the plugin could not take over the tools, which are blocked now: %s", error)
        ctx.register_hook("pre_tool_call", blocker(str(error)))


def _schemas() -> dict[str, Fields]:
    """Tool → its schema, in the order of `TOOLS`."""
    offered = {
        schema["function"]["name"]: schema["function"] for schema in Toolbox().schemas("openai")
    }
    return {name: offered[name] for name in TOOLS} | {"execute_code": build_execute_code_schema()}


def _handler(executor: Executor, name: str) -> Callable[..., str]:
    def handle(
        args: Fields, *, task_id: str | None = None, session_id: str | None = None, **more: Any
    ) -> str:
        answer = executor.call(name, args, task_id, session_id, more.get("enabled_tools"))
        return json.dumps(answer, ensure_ascii=False)

    return handle


def blocker(reason: str) -> Callable[..., Fields | None]:
    """A hook that lets none of the tools run."""

    def block(tool_name: str = "", **_: Any) -> Fields | None:
        if tool_name not in TOOLS:
            return None
        message = f"{tool_name} is blocked: Hermetic is enabled and could not take it over ({reason}); {HOW}"
        return {"action": "block", "message": message}

    return block
