"""Answers of the toolbox as results of MCP."""

import json
from collections.abc import Sequence

from mcp_types import CallToolResult, ContentBlock, ImageContent, TextContent, Tool, ToolAnnotations

from hermetic.contract.notice import Notice
from hermetic.contract.tool import Fields
from hermetic.toolbox.images import split_images

READ_ONLY = ToolAnnotations(read_only_hint=True, open_world_hint=False)
DESTRUCTIVE = ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=True)
FETCHES = ToolAnnotations(read_only_hint=True, open_world_hint=True)
ANNOTATIONS = {
    "web_search": FETCHES,
    "web_extract": FETCHES,
    "read_file": READ_ONLY,
    "search_files": READ_ONLY,
    "write_file": ToolAnnotations(
        read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
    ),
    "patch": ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=False),
    "request_approval": ToolAnnotations(
        read_only_hint=False, destructive_hint=False, open_world_hint=False
    ),
    "type_secret": ToolAnnotations(
        read_only_hint=False, destructive_hint=False, open_world_hint=False
    ),
}

# Claude Code shows a model the names of other tools only, until it searches for them.
ALWAYS_LOADED = {"anthropic/alwaysLoad": True}
LOADED = ("terminal", "process", "read_file", "write_file", "patch", "search_files")


def described_tool(schema: Fields) -> Tool:
    """A tool's schema, with what a client may want to know before it runs it.

    Unknown tools count as destructive.
    """
    name = schema["name"]
    meta = {"_meta": ALWAYS_LOADED} if name in LOADED else {}
    return Tool.model_validate(
        {**schema, "annotations": ANNOTATIONS.get(name, DESTRUCTIVE), **meta}
    )


def tool_result(text: str, answer: Fields, notices: Sequence[Notice]) -> CallToolResult:
    """The text of an answer; images that a script attached, and notices that came meanwhile,
    follow.
    """
    text, images = split_images(text, answer)
    content: list[ContentBlock] = [
        ImageContent(data=file["data"], mime_type=file["media_type"]) for file in images
    ]
    content += [TextContent(text=notice.text) for notice in notices]
    return CallToolResult(
        content=[TextContent(text=text), *content], is_error=bool(answer.get("error"))
    )


def failure(message: str) -> CallToolResult:
    """A result that says why nothing was done."""
    return CallToolResult(
        content=[TextContent(text=json.dumps({"status": "error", "error": message}))], is_error=True
    )
