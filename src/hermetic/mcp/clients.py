"""Known MCP clients: how long each waits for a tool, and its configuration for `hermetic mcp`."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

WAIT = 50.0  # seconds: longest wait of a call for a client that may give up after 60
LONG_WAIT = 540.0  # seconds: for a client that waits 10 minutes
TOKEN = "HERMETIC_TOKEN"  # variable with the token of a client over HTTP
LABEL = "Hermetic-Client"  # header by which clients with one token differ

# Start of the name in `clientInfo` → seconds that a call may wait; None: as long as the settings
# say. Clients whose limit differs between releases, such as Codex, are not listed.
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


# Client → the file with its configuration.
FILES: Mapping[str, str] = {
    "claude-code": ".mcp.json in the project",
    "codex": "~/.codex/config.toml",
    "cursor": "~/.cursor/mcp.json",
    "vscode": ".vscode/mcp.json",
    "gemini": "~/.gemini/settings.json",
}


class Configuration(NamedTuple):
    """A client's configuration: the file it belongs to, and its text."""

    file: str
    text: str


def configuration(client: str, command: Sequence[str]) -> Configuration:
    """The configuration that starts `command` as an MCP server. KeyError for another client."""
    return CONFIGURATIONS[client](list(command))


def http_configuration(client: str, url: str) -> Configuration:
    """The configuration that connects to a server at `url`, with a token from a variable. KeyError
    for another client.

    Where a client can name its project in a header, it does: two projects with one token share
    nothing.
    """
    file, token = FILES[client], TOKEN
    if client == "codex":
        lines = [
            "[mcp_servers.hermetic]",
            f"url = {_toml(url)}",
            f"bearer_token_env_var = {_toml(token)}",
        ]
        lines += [f'env_http_headers = {{ "{LABEL}" = "PWD" }}', "tool_timeout_sec = 600"]
        return Configuration(file, "\n".join(lines))
    if client == "gemini":
        headers = {"Authorization": f"Bearer ${token}"}
        return Configuration(
            file, _servers("mcpServers", {"httpUrl": url, "headers": headers, "timeout": 600_000})
        )
    if client == "vscode":
        headers = {"Authorization": "Bearer ${input:hermetic-token}", LABEL: "${workspaceFolder}"}
        asked = {
            "type": "promptString",
            "id": "hermetic-token",
            "description": "Token for Hermetic",
            "password": True,
        }
        entry = {"type": "http", "url": url, "headers": headers}
        return Configuration(
            file, json.dumps({"inputs": [asked], "servers": {"hermetic": entry}}, indent=2)
        )
    if client == "cursor":
        headers = {"Authorization": f"Bearer ${{env:{token}}}", LABEL: "${workspaceFolder}"}
        return Configuration(file, _servers("mcpServers", {"url": url, "headers": headers}))
    headers = {"Authorization": f"Bearer ${{{token}}}", LABEL: "${PWD:-}"}
    return Configuration(
        file, _servers("mcpServers", {"type": "http", "url": url, "headers": headers})
    )


def _claude_code(command: list[str]) -> Configuration:
    return Configuration(FILES["claude-code"], _servers("mcpServers", _entry(command)))


def _cursor(command: list[str]) -> Configuration:
    entry = _entry(_in_workspace(command))
    return Configuration(FILES["cursor"], _servers("mcpServers", {"type": "stdio", **entry}))


def _vs_code(command: list[str]) -> Configuration:
    entry = _entry(_in_workspace(command))
    return Configuration(FILES["vscode"], _servers("servers", {"type": "stdio", **entry}))


def _gemini(command: list[str]) -> Configuration:
    entry = {**_entry(command), "timeout": 600_000}
    return Configuration(FILES["gemini"], _servers("mcpServers", entry))


def _codex(command: list[str]) -> Configuration:
    program, *arguments = command if "--wait" in command else [*command, "--wait", f"{LONG_WAIT:g}"]
    lines = ["[mcp_servers.hermetic]", f"command = {_toml(program)}", f"args = {_toml(arguments)}"]
    lines.append("tool_timeout_sec = 600")
    return Configuration(FILES["codex"], "\n".join(lines))


def _in_workspace(command: list[str]) -> list[str]:
    """The command for a client that may start it in any directory."""
    return command if "--directory" in command else [*command, "--directory", "${workspaceFolder}"]


def _entry(command: list[str]) -> dict[str, Any]:
    return {"command": command[0], "args": command[1:]}


def _servers(key: str, entry: dict[str, Any]) -> str:
    return json.dumps({key: {"hermetic": entry}}, indent=2)


def _toml(value: object) -> str:
    """A string or a list of strings; JSON's form is TOML's too, but for characters in two escapes."""
    return json.dumps(value, ensure_ascii=False)


CONFIGURATIONS = {
    "claude-code": _claude_code,
    "codex": _codex,
    "cursor": _cursor,
    "vscode": _vs_code,
    "gemini": _gemini,
}
