"""Trials of Harbor with its oracle agent, which runs a task's own solution.

Needs `harbor`, and Python 3.12 for it.
"""

import os
import shutil
import subprocess
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from harbor.environments.factory import EnvironmentFactory
from harbor.models.task.config import EnvironmentConfig as TaskEnvironment
from harbor.models.task.config import NetworkMode, NetworkPolicy
from harbor.models.trial.config import AgentConfig, EnvironmentConfig, TaskConfig, TrialConfig
from harbor.models.trial.paths import TrialPaths
from harbor.trial.trial import Trial

from hermetic.adapters.harbor import HermeticEnvironment
from tests.adapters.examples import run_example
from tests.programs import need_variable

PATH = "hermetic.adapters.harbor:HermeticEnvironment"
SOLUTION = "#!/bin/bash\necho $((6 * 7)) > answer.txt\n"
TEST = """#!/bin/bash
if [ "$(cat /app/answer.txt)" = 42 ] && [ "$GREETING" = hello ]; then reward=1; else reward=0; fi
echo $reward > /logs/verifier/reward.txt
"""


@pytest.fixture
def task(tmp_path: Path) -> Iterator[Path]:
    """A task with a Dockerfile; its image goes with it."""
    name = f"answer-{uuid.uuid4().hex[:8]}"
    home = tmp_path / name
    files = {
        "task.toml": f'[task]\nname = "test/{name}"\n[environment]\n[environment.env]\nGREETING = "hello"\n',
        "instruction.md": "How much is 6 * 7?",
        "environment/Dockerfile": f"FROM {need_variable('IMAGE_BASE')}\nWORKDIR /app\n",
        "solution/solve.sh": SOLUTION,
        "tests/test.sh": TEST,
    }
    for file, text in files.items():
        (home / file).parent.mkdir(parents=True, exist_ok=True)
        (home / file).write_text(text)
    yield home
    for engine in filter(shutil.which, ("docker", "podman")):
        found = subprocess.run(
            [engine, "images", "-q", f"hermetic-harbor-{name}"], capture_output=True, text=True
        )
        if ids := found.stdout.split():
            subprocess.run([engine, "rmi", "-f", *ids], capture_output=True)


@pytest.fixture
async def started(tmp_path: Path) -> AsyncIterator[HermeticEnvironment]:
    made = EnvironmentFactory.create_environment_from_import_path(
        PATH,
        environment_dir=tmp_path,
        environment_name="test",
        session_id="test__session",
        trial_paths=TrialPaths(tmp_path / "trial"),
        task_env_config=TaskEnvironment(
            docker_image=need_variable("IMAGE_BASE"), workdir="/tmp", memory_mb=512
        ),
        network_policy=NetworkPolicy(network_mode=NetworkMode.NO_NETWORK),
    )
    assert isinstance(made, HermeticEnvironment)
    await made.start(force_build=False)
    try:
        yield made
    finally:
        await made.stop(delete=True)


def test_the_example_of_the_docs_runs(task: Path) -> None:
    run_example("Harbor", task=task)


async def test_a_trial_that_does_nothing_gets_no_reward(task: Path, tmp_path: Path) -> None:
    config = TrialConfig(
        task=TaskConfig(path=task),
        agent=AgentConfig(name="nop"),
        environment=EnvironmentConfig(import_path=PATH),
        trials_dir=tmp_path / "trials",
    )
    result = await (await Trial.create(config)).run()
    assert result.exception_info is None
    assert result.verifier_result is not None
    assert result.verifier_result.rewards == {"reward": 0.0}


async def test_commands_and_files(started: HermeticEnvironment, tmp_path: Path) -> None:
    done = await started.exec("pwd; echo $A; echo err >&2; exit 3", env={"A": "1"})
    assert (done.return_code, done.stdout, done.stderr) == (3, "/tmp\n1\n", "err\n")
    with pytest.raises(TimeoutError):
        await started.exec("sleep 60", timeout_sec=1)
    assert (await started.exec("id -u", user="root")).stdout == "0\n"
    assert (await started.exec("id -un; pwd", user="nobody", cwd="/srv")).stdout == "nobody\n/srv\n"
    assert (await started.exec("id -u; id -g; exit 4", user=1234)).stdout == "1234\n1234\n"
    unknown = await started.exec("id", user="somebody")
    assert unknown.return_code != 0
    assert "somebody" in (unknown.stderr or "")
    (tmp_path / "up" / "d").mkdir(parents=True)
    (tmp_path / "up" / "d" / "file").write_text("text")
    await started.upload_dir(tmp_path / "up", "/srv/in")
    await started.upload_file(tmp_path / "up" / "d" / "file", "/srv/in/second")
    await started.download_dir("/srv/in", tmp_path / "down")
    await started.download_file("/srv/in/second", tmp_path / "second")
    assert sorted(os.listdir(tmp_path / "down")) == ["d", "second"]
    assert (
        (tmp_path / "down" / "d" / "file").read_text()
        == (tmp_path / "second").read_text()
        == "text"
    )
    routes: Any = await started.exec("cat /proc/net/route | tail -n +2")
    assert routes.stdout == ""  # no network
