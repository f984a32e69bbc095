"""mini-swe-agent solves a scripted task. Run in an environment that has `mini-swe-agent`."""

import os
from pathlib import Path
from typing import Any

import pytest
from minisweagent.agents.default import DefaultAgent
from minisweagent.environments import get_environment
from minisweagent.models.test_models import DeterministicModel, make_output

from hermetic.adapters.minisweagent import HermeticEnvironment
from tests.adapters.examples import run_example

KINDS: dict[str, dict[str, Any]] = {
    "local": {},
    "docker": {"image": os.environ.get("IMAGE_BASE", "")},
}


def scripted(*commands: str) -> DeterministicModel:
    """A model that runs these commands."""
    return DeterministicModel(
        outputs=[make_output("next", [{"command": command}]) for command in commands]
    )


def test_the_example_of_the_docs_runs() -> None:
    run_example(
        "mini-swe-agent",
        model=scripted("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo $((6 * 7))"),
    )


def solve(
    environment: HermeticEnvironment, *commands: str
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    agent = DefaultAgent(
        scripted(*commands),
        environment,
        system_template="{{system}}",
        instance_template="{{task}}",
        cost_limit=0,
    )
    return agent.run("repair it"), agent.messages


@pytest.mark.parametrize("kind", KINDS)
def test_a_scripted_task_is_solved(kind: str) -> None:
    environment = get_environment(
        {
            "environment_class": "hermetic.adapters.minisweagent.HermeticEnvironment",
            "kind": kind,
            **KINDS[kind],
        }
    )
    assert isinstance(environment, HermeticEnvironment)
    try:
        done, messages = solve(
            environment,
            "mkdir -p /tmp/mini-task && cd /tmp/mini-task && printf 'print(1 / 0)' > broken.py",
            "pwd; sed -i s,0,2, /tmp/mini-task/broken.py; cat /tmp/mini-task/broken.py",
            "sleep 30 & echo started; exit 3",
            "rm -r /tmp/mini-task; echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo print by 2",
        )
        assert (done["exit_status"], done["submission"]) == ("Submitted", "print by 2\n")
        assert "Linux" in str(messages[0])
        shown = str(messages)
        assert "print(1 / 2)" in shown
        assert "mini-task\\nprint" not in shown  # each command has a shell of its own
    finally:
        environment.cleanup()


def test_a_timeout_is_a_result_and_ends_the_tree(tmp_path: Path) -> None:
    environment = HermeticEnvironment(kind="local", timeout=1, persistent=True)
    try:
        environment.execute({"command": f"cd {tmp_path}"})
        late = environment.execute({"command": "echo begun; sleep 60"})
        assert (late["returncode"], late["output"]) == (-1, "begun\n")
        assert "timed out" in late["exception_info"]
        assert environment.execute({"command": "pwd; exit 4"})["output"] == f"{tmp_path}\n"
        assert environment.serialize()["info"]["config"]["environment"]["kind"] == "local"
    finally:
        environment.cleanup()
