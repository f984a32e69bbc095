"""Hermetic's tools for the Claude Agent SDK.

    async with hermetic.Toolbox(environment="docker", options={"image": "python:3.12"}) as toolbox:
        async for message in query(prompt="go", options=agent_options(toolbox)):

Hermetic's policy decides what may run, and the toolbox's approver answers its questions: Claude
Code itself allows the tools and does not ask again.
"""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from hermetic import Toolbox
from hermetic.adapters.frameworks import framework
from hermetic.contract import VERSION
from hermetic.contract.tool import DEFAULT_TASK
from hermetic.toolbox.images import split_images

with framework("claude_agent_sdk"):
    from claude_agent_sdk import (
        ClaudeAgentOptions,
        McpSdkServerConfig,
        SdkMcpTool,
        create_sdk_mcp_server,
    )

NAME = "hermetic"


def agent_options(
    toolbox: Toolbox, *, task_id: str = DEFAULT_TASK, **more: Any
) -> ClaudeAgentOptions:
    """Options of an agent that has Hermetic's tools in place of the built-in ones."""
    allowed = [f"mcp__{NAME}__{schema['name']}" for schema in toolbox.schemas("mcp")]
    servers = {**more.pop("mcp_servers", {}), NAME: tool_server(toolbox, task_id=task_id)}
    allowed += more.pop("allowed_tools", [])
    return ClaudeAgentOptions(mcp_servers=servers, allowed_tools=allowed, **{"tools": [], **more})


def tool_server(toolbox: Toolbox, *, task_id: str = DEFAULT_TASK) -> McpSdkServerConfig:
    """An MCP server in this process, with the tools of a toolbox for one of its tasks."""
    tools = [
        SdkMcpTool(
            schema["name"],
            schema["description"],
            schema["inputSchema"],
            _handler(toolbox, schema["name"], task_id),
        )
        for schema in toolbox.schemas("mcp")
    ]
    return create_sdk_mcp_server(NAME, VERSION, tools)


def _handler(
    toolbox: Toolbox, name: str, task_id: str
) -> Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]:
    async def handle(arguments: dict[str, Any]) -> dict[str, Any]:
        answer = json.loads(text := await toolbox.call(name, arguments, task_id=task_id))
        text, images = split_images(text, answer)
        shown = [
            {"type": "image", "data": image["data"], "mimeType": image["media_type"]}
            for image in images
        ]
        return {
            "content": [{"type": "text", "text": text}, *shown],
            "is_error": bool(answer.get("error")),
        }

    return handle
