"""The real Claude Code, with a scripted stand-in for its model, uses Hermetic over stdio and over
HTTP.
"""

import asyncio
import json
import os
import shlex
import subprocess
import sys
import zipfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hermetic.mcp.clients import http_configuration
from tests.mcp.scripted_model import ScriptedModel, says, tool_results, uses
from tests.programs import unavailable
from tests.serve.conftest import no_tokens_left
from tests.serve.serving import program

__all__ = ["no_tokens_left"]  # a fixture

PACKAGE = "claude-agent-sdk==0.2.182"  # bundles Claude Code 2.1.325
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "use-from-claude-code.md"
QUIET = {
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
}
CACHE = Path(__file__).parents[2] / ".frameworks"
ASK = '[[approvals.rules]]\ndecision = "ask"\ncommand = ["rm"]\nmatches = ["rm -rf x"]\n'

pytestmark = [pytest.mark.full, pytest.mark.slow]


@pytest.fixture(scope="session")
def claude() -> Path:
    """The program, unpacked from its package once."""
    program = CACHE / PACKAGE / "claude_agent_sdk" / "_bundled" / "claude"
    if not program.exists():
        CACHE.mkdir(exist_ok=True)
        download = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "-d",
            str(CACHE),
            PACKAGE,
        ]
        if subprocess.run(download).returncode != 0:
            unavailable(f"{PACKAGE} cannot be downloaded; is the package index reachable?")
        for wheel in CACHE.glob("claude_agent_sdk-*.whl"):
            zipfile.ZipFile(wheel).extractall(CACHE / PACKAGE)
            wheel.unlink()
        program.chmod(0o755)
    return program


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_claude_code_runs_commands_has_a_question_answered_and_reads_a_log(
    transport: str, claude: Path, tmp_path: Path
) -> None:
    (project := tmp_path / "project").mkdir()
    (project / "old").mkdir()
    (tmp_path / "config" / "hermetic").mkdir(parents=True)
    (tmp_path / "config" / "hermetic" / "config.toml").write_text(ASK)
    model = ScriptedModel(
        [
            uses("mcp__hermetic__terminal", command="echo hello from $PWD"),
            uses(
                "mcp__hermetic__terminal",
                command="exec python3 -u -m http.server 0 --bind 127.0.0.1",
                background=True,
            ),
            lambda messages: wait_for(started(messages)),
            lambda messages: read(f"hermetic://logs/{started(messages)}"),
            uses("mcp__hermetic__terminal", command="rm -rf old && echo gone"),
            says("all done"),
        ]
    )
    async with model.serving(), configured(transport, project, tmp_path) as token:
        said = await converse(claude, model, project, tmp_path, token)
    assert said["result"] == "all done"
    assert "mcp__hermetic__terminal" in {tool["name"] for tool in model.requests[0]["tools"]}
    hello, _, waited, log, removed = tool_results(model.requests[-1]["messages"])
    assert json.loads(hello)["output"] == f"hello from {project}\n"
    assert json.loads(waited)["status"] == "matched"
    assert "Serving HTTP on 127.0.0.1" in json.loads(log)["contents"][0]["text"]
    assert json.loads(removed)["output"] == "gone\n"
    assert "rm -rf old" in json.loads((tmp_path / "asked").read_text())["message"]
    assert not (project / "old").exists()


def test_the_documented_command_and_the_printed_configuration_connect(
    claude: Path, tmp_path: Path
) -> None:
    (programs := tmp_path / "bin").mkdir()
    (programs / "claude").symlink_to(claude)
    (programs / "hermetic").write_text(f'#!/bin/sh\nexec {sys.executable} -m hermetic "$@"\n')
    (programs / "hermetic").chmod(0o755)
    environ = {
        **os.environ,
        **QUIET,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "CLAUDE_CONFIG_DIR": str(tmp_path / "claude"),
    }
    documented = next(
        line for line in PAGE.read_text().splitlines() if line.startswith("claude mcp add ")
    )
    printed = "hermetic mcp --print-config claude-code --env sandbox > .mcp.json"
    for number, set_up in enumerate((documented, printed)):
        (project := tmp_path / str(number)).mkdir()
        done = subprocess.run(
            ["bash", "-ec", f"{set_up}; claude mcp list"],
            cwd=project,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        [line] = [line for line in done.stdout.splitlines() if line.startswith("hermetic: ")]
        assert "hermetic mcp --env sandbox" in line
        assert number == 1 or "Connected" in line, done.stdout


def started(messages: list[dict[str, Any]]) -> str:
    """The id of the process that the second call started."""
    return str(json.loads(tool_results(messages)[1])["session_id"])


def wait_for(id: str) -> dict[str, Any]:
    arguments = {"action": "wait_for", "session_id": id, "data": "Serving", "timeout": 60}
    return {
        "type": "tool_use",
        "id": "toolu_wait",
        "name": "mcp__hermetic__process",
        "input": arguments,
    }


def read(uri: str) -> dict[str, Any]:
    arguments = {"server": "hermetic", "uri": uri}
    return {
        "type": "tool_use",
        "id": "toolu_read",
        "name": "ReadMcpResourceTool",
        "input": arguments,
    }


@asynccontextmanager
async def configured(transport: str, project: Path, at: Path) -> AsyncIterator[str]:
    """Writes the configuration of Claude Code; yields its token.

    A server for HTTP runs for the length of the block.
    """
    if transport == "stdio":
        entry = {"command": sys.executable, "args": ["-m", "hermetic", "mcp"]}
        (at / "mcp.json").write_text(json.dumps({"mcpServers": {"hermetic": entry}}))
        yield ""
        return
    environ = {**os.environ, "XDG_CONFIG_HOME": str(at / "config")}
    async with program("--port", "0", cwd=project, env=environ) as (_, url):
        server = url.partition("#")[0].rstrip("/")
        (at / "mcp.json").write_text(http_configuration("claude-code", f"{server}/mcp").text)
        words = [sys.executable, "-m", "hermetic", "serve", "token", "--scope", "mcp"]
        making = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
        token, _ = await making.communicate()
        yield token.decode().strip()


async def converse(
    claude: Path, model: ScriptedModel, project: Path, at: Path, token: str
) -> dict[str, Any]:
    """What Claude Code prints at the end.

    A hook of its own plays the user who answers the question.
    """
    accepts = {"hookEventName": "Elicitation", "action": "accept", "content": {"answer": "once"}}
    answers = f"cat > {at}/asked; echo {shlex.quote(json.dumps({'hookSpecificOutput': accepts}))}"
    hooks = {"Elicitation": [{"matcher": "", "hooks": [{"type": "command", "command": answers}]}]}
    (at / "settings.json").write_text(json.dumps({"hooks": hooks}))
    process = await asyncio.create_subprocess_exec(
        claude,
        "-p",
        "go",
        "--output-format",
        "json",
        "--mcp-config",
        str(at / "mcp.json"),
        "--strict-mcp-config",
        "--settings",
        str(at / "settings.json"),
        "--allowedTools",
        "mcp__hermetic,ReadMcpResourceTool",
        cwd=project,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        env={
            "PATH": os.environ["PATH"],
            "HOME": os.environ["HOME"],
            "CLAUDE_CONFIG_DIR": str(at / "claude"),
            "HERMETIC_RUNTIME_DIR": os.environ["HERMETIC_RUNTIME_DIR"],
            "XDG_CONFIG_HOME": str(at / "config"),
            "ANTHROPIC_BASE_URL": model.url,
            "ANTHROPIC_API_KEY": "none",
            **QUIET,
            "HERMETIC_TOKEN": token,
        },
    )
    try:
        output, _ = await asyncio.wait_for(process.communicate(), 300)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    found: dict[str, Any] = json.loads(output)
    return found
