"""Code mode by its Hermes names: a script that calls tools, its schema, and the module that scripts
import.
"""

import json
import os
from collections.abc import Collection, Mapping

from hermetic.config import Settings, load
from hermetic.contract.errors import ConfigError, ExecutionError
from hermetic.contract.limits import CODE_STDOUT
from hermetic.contract.tool import Fields
from hermetic.hermes.shared import shared
from hermetic.hermes.stub_module import FILE, HEAD, HELPERS, SOCKET
from hermetic.tools.web.tool import Web

# Tool → (parameters, result, purpose), in the order in which a model reads them.
STUBS: Mapping[str, tuple[str, str, str]] = {
    "web_search": (
        "query: str, limit: int = 5",
        '{"data": {"web": [{"url", "title", "description"}, ...]}}',
        "Searches the web.",
    ),
    "web_extract": (
        "urls: list, char_limit: int = None",
        '{"results": [{"url", "title", "content", "error"}, ...]}',
        "Reads web pages as markdown.",
    ),
    "read_file": (
        "path: str, offset: int = 1, limit: int = 500",
        '{"content", "total_lines"}',
        "Reads lines of a file; the first one is 1.",
    ),
    "write_file": ("path: str, content: str", '{"bytes_written"}', "Replaces a whole file."),
    "search_files": (
        'pattern: str, target: str = "content", path: str = ".", file_glob: str = None, limit: int = 50, '
        'offset: int = 0, output_mode: str = "content", context: int = 0',
        '{"total_count", "matches": [...]}',
        'Searches in files, or with target="files" for files by name.',
    ),
    "patch": (
        "path: str = None, old_string: str = None, new_string: str = None, replace_all: bool = False, "
        'mode: str = "replace", patch: str = None',
        '{"success", "diff"}',
        "Replaces a text in a file, or applies a patch to many.",
    ),
    "terminal": (
        "command: str, timeout: int = None, workdir: str = None",
        '{"output", "exit_code"}',
        "Runs a command, in the foreground alone.",
    ),
}
SANDBOX_ALLOWED_TOOLS = frozenset(STUBS)

DESCRIPTION = """\
Run a Python script that can call tools programmatically. Use it for 3+ tool calls with processing logic between them, \
to filter or reduce large outputs before they enter your context, for branches and loops. Use normal tool calls \
instead for a single call, where you need to see the full result and think about it, or where a user has to be asked.

Available via `from hermes_tools import ...`:

{tools}

Limits: {minutes:g}-minute timeout, {stdout:,} bytes of stdout, at most {calls} tool calls per script. terminal() is \
foreground-only. The script runs in the session's directory.

Print your final result to stdout. The Python standard library is available (json, re, math, csv, datetime, \
collections, ...). Also in hermes_tools:
  json_parse(text: str) — json.loads that accepts control characters
  shell_quote(s: str) — shlex.quote, for text in shell commands
  retry(fn, max_attempts=3, delay=2) — tries again, with doubling delays"""


def execute_code(
    code: str, task_id: str | None = None, enabled_tools: Collection[str] | None = None
) -> str:
    """Runs a script with the tools that are enabled and that scripts may call; the answer is JSON.

    It has `status` (success, error, timeout, interrupted), `output`, `tool_calls_made`,
    `duration_seconds`, and `error` if there is one.
    """
    if not code or (isinstance(code, str) and not code.strip()):
        return json.dumps({"error": "No code provided."})
    usable = (
        SANDBOX_ALLOWED_TOOLS
        if enabled_tools is None
        else SANDBOX_ALLOWED_TOOLS.intersection(enabled_tools)
    )
    try:
        answer = shared.host().call(
            "execute_code", {"code": code}, task_id, shared.caller(), script_tools=usable
        )
    except (ExecutionError, ConfigError) as error:
        answer = {"status": "error", "output": "", "error": str(error)}
    return json.dumps(answered(answer), ensure_ascii=False)


def answered(answer: Fields) -> Fields:
    """The answer with all fields that a caller counts on."""
    return {"tool_calls_made": 0, "duration_seconds": 0.0, **answer}


def build_execute_code_schema(
    enabled_sandbox_tools: Collection[str] | None = None, mode: str | None = None
) -> Fields:
    """The schema of `execute_code`, with the enabled tools that can be used.

    `mode` has no effect.
    """
    settings = _settings()
    enabled = SANDBOX_ALLOWED_TOOLS if enabled_sandbox_tools is None else set(enabled_sandbox_tools)
    enabled = enabled - {
        tool.name
        for tool in Web(settings.web, os.environ).tools()
        if tool.missing and tool.missing()
    }
    listed = [
        f"  {name}({words}) -> dict\n    {what} Returns {shape}"
        for name, (words, shape, what) in STUBS.items()
        if name in enabled
    ]
    shown = [name for name in ("web_search", "terminal") if name in enabled] or sorted(enabled)[:2]
    example = ", ".join([*shown, "..."])
    limits = settings.code_execution
    about = DESCRIPTION.format(
        tools="\n".join(listed) or "  (none)",
        minutes=limits.timeout / 60,
        stdout=CODE_STDOUT,
        calls=limits.max_tool_calls,
    )
    text = f"Python code to run. Import tools with `from hermes_tools import {example}` and print the result."
    return {
        "name": "execute_code",
        "description": about,
        "parameters": {
            "type": "object",
            "properties": {"code": {"type": "string", "description": text}},
            "required": ["code"],
        },
    }


def _settings() -> Settings:
    """The settings; those by default where they cannot be read: the first call reports that."""
    try:
        return load()
    except ConfigError:
        return Settings()


def generate_hermes_tools_module(enabled_tools: Collection[str], transport: str = "uds") -> str:
    """The source of a module with a function for each enabled tool.

    Its calls go to a socket (`uds`, HERMES_RPC_SOCKET) or through files (`file`, HERMES_RPC_DIR),
    for programs that serve them. Scripts of `execute_code` do not need it: they have `hermes_tools`
    already.
    """
    names = sorted(SANDBOX_ALLOWED_TOOLS.intersection(enabled_tools))
    return "".join([HEAD, FILE if transport == "file" else SOCKET, HELPERS, *map(_function, names)])


def _function(name: str) -> str:
    words, shape, what = STUBS[name]
    given = ", ".join(
        f'"{word}": {word}' for word in (part.split(":")[0].strip() for part in words.split(", "))
    )
    return f'\n\ndef {name}({words}):\n    """{what} Returns {shape}."""\n    return _call("{name}", {{{given}}})\n'
