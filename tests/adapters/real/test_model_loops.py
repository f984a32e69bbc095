"""The model loops of examples/ with the real packages and a scripted server.

Needs `openai` and `anthropic`.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mcp.scripted_model import ScriptedModel, says, tool_results, uses

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.mark.parametrize("name", ["openai_loop", "anthropic_loop"])
def test_a_loop_works_on_the_current_directory(name: str, tmp_path: Path) -> None:
    model = ScriptedModel(
        [
            uses("terminal", command="cd sub 2>/dev/null; pwd; echo $((6 * 7)) > made"),
            uses("read_file", path="made"),
            uses("terminal", command="rm -rf /"),
            says("It is 42."),
        ]
    )
    with model.serving_in_thread():
        address = {"OPENAI_BASE_URL": f"{model.url}/v1", "ANTHROPIC_BASE_URL": model.url}
        keys = {"OPENAI_API_KEY": "none", "ANTHROPIC_API_KEY": "none"}
        done = subprocess.run(
            [sys.executable, EXAMPLES / f"{name}.py", "How much is 6 * 7?"],
            cwd=tmp_path,
            env={**os.environ, **address, **keys},
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert (done.returncode, done.stdout) == (0, "It is 42.\n"), done.stderr
    here, read, refused = map(json.loads, tool_results(model.requests[-1]["messages"]))
    assert here["output"] == f"{tmp_path}\n"
    assert "42" in read["content"]
    assert refused["status"] == "blocked"
    assert (tmp_path / "made").read_text() == "42\n"
