"""Known MCP clients: how long each waits for a tool, and its configuration for `hermetic mcp`."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

WAIT = 50.0  # seconds: longest wait of a call for a client that may give up after 60
LONG_WAIT = 540.0  # seconds: for a client that waits 10 minutes

# Start of the name in `clientInfo` → seconds that a call may wait; None: as long as the settings say. Clients whose
# limit differs between releases, such as Codex, are not listed.
WAITS: Mapping[str, float | None] = {
    "claude-code": None,
    "visual studio code": None,
    "visual-studio-code": None,
    "gemini-cli-mcp-client": LONG_WAIT,
}


def longest_wait(name: str) -> float | None:
    """Seconds that a call of this client may wait; None: no limit is known."""
    lower = name.lower()
    return next((wait for known, wait in WAITS.items() if lower.startswith(known)), WAIT)


class Configuration(NamedTuple):
    """A client's configuration: the file it belongs to, and its text."""

    file: str
    text: str


def configuration(client: str, command: Sequence[str]) -> Configuration:
    """The configuration that starts `command` as an MCP server. KeyError for another client."""
    return CONFIGURATIONS[client](list(command))


def _claude_code(command: list[str]) -> Configuration:
    return Configuration(".mcp.json in the project", _servers("mcpServers", _entry(command)))


def _cursor(command: list[str]) -> Configuration:
    entry = _entry(_in_workspace(command))
    return Configuration("~/.cursor/mcp.json", _servers("mcpServers", {"type": "stdio", **entry}))


def _vs_code(command: list[str]) -> Configuration:
    entry = _entry(_in_workspace(command))
    return Configuration(".vscode/mcp.json", _servers("servers", {"type": "stdio", **entry}))


def _gemini(command: list[str]) -> Configuration:
    entry = {**_entry(command), "timeout": 600_000}
    return Configuration("~/.gemini/settings.json", _servers("mcpServers", entry))


def _codex(command: list[str]) -> Configuration:
    program, *arguments = command if "--wait" in command else [*command, "--wait", f"{LONG_WAIT:g}"]
    lines = ["[mcp_servers.hermetic]", f"command = {_toml(program)}", f"args = {_toml(arguments)}"]
    lines.append("tool_timeout_sec = 600")
    return Configuration("~/.codex/config.toml", "\n".join(lines))


def _in_workspace(command: list[str]) -> list[str]:
    """The command for a client that may start it in any directory."""
    return command if "--directory" in command else [*command, "--directory", "${workspaceFolder}"]


def _entry(command: list[str]) -> dict[str, Any]:
    return {"command": command[0], "args": command[1:]}


def _servers(key: str, entry: dict[str, Any]) -> str:
    return json.dumps({key: {"hermetic": entry}}, indent=2)


def _toml(value: object) -> str:
    """A string or a list of strings; JSON's form is TOML's too."""
    return json.dumps(value)


CONFIGURATIONS = {
    "claude-code": _claude_code,
    "codex": _codex,
    "cursor": _cursor,
    "vscode": _vs_code,
    "gemini": _gemini,
}
