"""The Claude Agent SDK and the Claude Code that it bundles, with a scripted model.

Needs `claude-agent-sdk`.
"""

import json
from pathlib import Path

import pytest
from claude_agent_sdk import ResultMessage, query

import hermetic
from hermetic.adapters.claude_agent_sdk import agent_options
from tests.adapters.examples import run_example
from tests.mcp.scripted_model import ScriptedModel, says, tool_results, uses

QUIET = {
    "ANTHROPIC_API_KEY": "none",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "ENABLE_TOOL_SEARCH": "false",
}


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Claude Code with settings of its own."""
    for name, value in {**QUIET, "CLAUDE_CONFIG_DIR": str(tmp_path / "claude")}.items():
        monkeypatch.setenv(name, value)


async def test_claude_code_works_with_hermetics_tools(tmp_path: Path) -> None:
    model = ScriptedModel(
        [
            uses("mcp__hermetic__terminal", command="cd / && export A=1; echo $((6 * 7))"),
            uses("mcp__hermetic__terminal", command="pwd; echo $A"),
            uses("mcp__hermetic__terminal", command="rm -rf /"),
            says("It is 42."),
        ]
    )
    async with model.serving(), hermetic.Toolbox() as toolbox:
        options = agent_options(toolbox, env={"ANTHROPIC_BASE_URL": model.url}, cwd=str(tmp_path))
        messages = [message async for message in query(prompt="go", options=options)]
    last = messages[-1]
    assert isinstance(last, ResultMessage)
    assert last.result == "It is 42."
    offered = {tool["name"] for tool in model.requests[0]["tools"]}
    assert "mcp__hermetic__terminal" in offered
    assert not {"Bash", "Edit", "Write"} & offered
    first, second, third = map(json.loads, tool_results(model.requests[-1]["messages"]))
    assert first["output"] == "42\n"
    assert second["output"] == "/\n1\n"
    assert third["status"] == "blocked"


def test_the_example_of_the_docs_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    model = ScriptedModel(
        [uses("mcp__hermetic__terminal", command="echo $((6 * 7))"), says("It is 42.")]
    )
    with model.serving_in_thread():
        monkeypatch.setenv("ANTHROPIC_BASE_URL", model.url)
        run_example("Claude Agent SDK")
    (answer,) = tool_results(model.requests[-1]["messages"])
    assert json.loads(answer)["output"] == "42\n"
