"""The reply to a client's `initialize`, written without the SDK, whose import takes longer than a start may.

The SDK's server gets the same request once it is there; its own reply, which is the same, is dropped.
"""

import json
from typing import Any, NamedTuple

from hermetic.contract import VERSION

NAME = "hermetic"
HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
CAPABILITIES: dict[str, Any] = {
    "resources": {"subscribe": True, "listChanged": True},
    "tools": {"listChanged": False},
}
INSTRUCTIONS = """\
Runs commands, scripts and background processes in an environment that keeps its state: the shell's directory and \
variables, processes, files. A command that takes longer than a call may wait continues as a process; use the process \
tool with its session_id. Servers and watchers are started with background=true. Dangerous acts are put to the user; \
a denied one is not to be tried again. Never ask the user for a password in the conversation: type_secret has the user \
enter it where no model reads it."""


class Greeting(NamedTuple):
    """A reply, and the id of its request."""

    id: str | int
    line: bytes


def greeting(line: bytes) -> Greeting | None:
    """The reply to a plain `initialize`; None for anything else, which is left to the SDK."""
    try:
        message = json.loads(line)
        id, params = message["id"], message["params"]
        is_plain = message["jsonrpc"] == "2.0" and message["method"] == "initialize" and type(id) in (str, int)
        wanted, client = params["protocolVersion"], params["clientInfo"]
        is_plain = is_plain and all(isinstance(text, str) for text in (wanted, client["name"], client["version"]))
        is_plain = is_plain and isinstance(params["capabilities"], dict)
    except (ValueError, KeyError, TypeError):
        return None
    return Greeting(id, _line(id, _initialize_result(wanted))) if is_plain else None


def _initialize_result(wanted: str) -> dict[str, Any]:
    return {
        "protocolVersion": wanted if wanted in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1],
        "capabilities": CAPABILITIES,
        "serverInfo": {"name": NAME, "version": VERSION},
        "instructions": INSTRUCTIONS,
    }


def _line(id: str | int, result: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id, "result": result}).encode() + b"\n"
