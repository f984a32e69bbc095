"""The reply to a client's first request, written without the SDK, whose import takes longer than a
start may.

The SDK's server gets the same request once it is there; its own reply, which is the same, is
dropped.
"""

import json
from typing import Any, NamedTuple

from hermetic.contract import VERSION

NAME = "hermetic"
SERVER = {"name": NAME, "version": VERSION}
HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN_VERSION = "2026-07-28"
META = "io.modelcontextprotocol/"
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
    """The reply to a plain `initialize` or `server/discover`; None for anything else, which is left
    to the SDK.
    """
    try:
        message = json.loads(line)
        id, result = message["id"], RESULTS[message["method"]](message["params"])
        is_plain = message["jsonrpc"] == "2.0" and type(id) in (str, int)
    except (ValueError, KeyError, TypeError):
        return None
    if result is None or not is_plain:
        return None
    return Greeting(id, json.dumps({"jsonrpc": "2.0", "id": id, "result": result}).encode() + b"\n")


def _initialize(params: dict[str, Any]) -> dict[str, Any] | None:
    """The result for a client of the handshake era."""
    wanted = params["protocolVersion"]
    if not (isinstance(wanted, str) and _is_client(params["clientInfo"], params["capabilities"])):
        return None
    return {
        "protocolVersion": wanted if wanted in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1],
        "capabilities": {
            "resources": {"subscribe": True, "listChanged": True},
            "tools": {"listChanged": False},
        },
        "serverInfo": SERVER,
        "instructions": INSTRUCTIONS,
    }


def _discover(params: dict[str, Any]) -> dict[str, Any] | None:
    """The result for a client of 2026-07-28."""
    meta = params["_meta"]
    if meta[f"{META}protocolVersion"] != MODERN_VERSION:
        return None
    if not _is_client(meta.get(f"{META}clientInfo", SERVER), meta[f"{META}clientCapabilities"]):
        return None
    changes = {"listChanged": True}
    return {
        "resultType": "complete",
        "supportedVersions": [MODERN_VERSION],
        "capabilities": {"resources": {"subscribe": True, **changes}, "tools": changes},
        "instructions": INSTRUCTIONS,
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": {f"{META}serverInfo": SERVER},
    }


def _is_client(info: dict[str, Any], capabilities: object) -> bool:
    return all(isinstance(info[key], str) for key in ("name", "version")) and isinstance(
        capabilities, dict
    )


RESULTS = {"initialize": _initialize, "server/discover": _discover}
