"""Inspect's own checks of a sandbox provider, and an evaluation.

Run in an environment that has `inspect_ai`.
"""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from inspect_ai import Task, eval_async
from inspect_ai.dataset import Sample
from inspect_ai.model import Model, ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import includes
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import bash
from inspect_ai.util import SandboxEnvironment
from inspect_ai.util._sandbox.self_check import *  # noqa: F403

from hermetic.adapters.inspect_ai import HermeticConfig, HermeticSandbox
from tests.adapters.examples import run_example

IMAGE = os.environ.get("IMAGE_BASE", "")
CONFIGS = {
    "local": HermeticConfig(kind="local"),
    "sandbox": HermeticConfig(kind="sandbox"),
    "docker": HermeticConfig(kind="docker", image=IMAGE),
    "docker-user": HermeticConfig(kind="docker", image=IMAGE, user="1000:1000"),
}
# What the user model of a kind makes impossible: root may read and write anything on this machine
# and in a container (in a sandbox it has no such right), and but for root of a container no user
# may become another one.
ROOT_MAY = (
    "test_read_file_not_allowed",
    "test_write_text_file_without_permissions",
    "test_write_binary_file_without_permissions",
)
ONE_USER = ("test_exec_as_user",)
IMPOSSIBLE = {
    "local": (*ONE_USER, *(ROOT_MAY if os.geteuid() == 0 else ())),
    "sandbox": ONE_USER,
    "docker": ROOT_MAY,
    "docker-user": ONE_USER,
}


@pytest.fixture(params=sorted(CONFIGS))
async def sandbox_env(request: pytest.FixtureRequest) -> AsyncIterator[SandboxEnvironment]:
    name = getattr(request.node, "originalname", "")
    if name in IMPOSSIBLE[request.param]:
        request.applymarker(pytest.mark.xfail(strict=True, reason="the kind's user model"))
    config = CONFIGS[request.param]
    environments = await HermeticSandbox.sample_init("check", config, {})
    try:
        yield environments["default"]
    finally:
        await HermeticSandbox.sample_cleanup("check", config, environments, False)


def scripted(command: str) -> Model:
    """A model that runs a command and then answers."""
    # else a tokenizer is downloaded
    usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    outputs = [
        ModelOutput.for_tool_call("mockllm/model", "bash", {"command": command}),
        ModelOutput.from_content("mockllm/model", "It is 42."),
    ]
    for output in outputs:
        output.usage = usage
    return get_model("mockllm/model", custom_outputs=outputs)


def test_the_example_of_the_docs_runs() -> None:
    run_example("Inspect", model=scripted("echo $((6 * 7))"))


@pytest.mark.parametrize("kind", sorted(CONFIGS))
async def test_an_evaluation_runs(kind: str, tmp_path: Path) -> None:
    task = Task(
        dataset=[Sample(input="What is it?", target="42", files={"data.txt": "six times seven\n"})],
        solver=[use_tools(bash()), generate()],
        scorer=includes(),
        sandbox=("hermetic", CONFIGS[kind]),
    )
    model = scripted("cat data.txt; echo $((6 * 7))")
    (log,) = await eval_async(task, model=model, log_dir=str(tmp_path))
    assert log.status == "success", log.error
    assert log.samples is not None
    said = [message.text for message in log.samples[0].messages if message.role == "tool"]
    assert said == ["six times seven\n42\n"]
    assert log.results is not None
    assert log.results.scores[0].metrics["accuracy"].value == 1
