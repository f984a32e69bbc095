"""What callers of the original rely on, where no other test shows it: defaults, descriptions, time
limits.
"""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

import hermetic
from hermetic.config import load
from hermetic.contract.errors import ConfigError
from hermetic.contract.limits import ACTIVITY, LOGIN, PASSWORD
from hermetic.tools.code.arguments import CodeLimits
from tests.boxes import opened, opened_in
from tests.environments.engines import need_engine
from tests.environments.sshd import shared_options
from tests.programs import need_variable


def test_the_kinds_of_the_original_are_chosen_by_name(tmp_path: Path) -> None:
    own = ("local", "docker", "ssh", "modal", "daytona")
    kinds = {**{kind: kind for kind in own}, "singularity": "apptainer"}
    environ = {"HOME": str(tmp_path), "TERMINAL_SSH_HOST": "h"}
    for name, kind in kinds.items():
        settings = load(str(tmp_path), environ={**environ, "TERMINAL_ENV": name})
        assert settings.environment.kind == kind
    with pytest.raises(
        ConfigError, match=r"unknown environment kind 'vercel'.*Valid: apptainer, daytona, docker"
    ):
        load(str(tmp_path), environ={**environ, "TERMINAL_ENV": "vercel"})


async def test_each_kind_starts_in_its_own_default_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_engine("docker")
    monkeypatch.chdir(tmp_path)
    places: list[tuple[str, dict[str, Any], str]] = [
        ("local", {"login": False}, str(tmp_path)),
        ("docker", {"image": need_variable("IMAGE_BASE")}, "/root"),
        ("ssh", shared_options(), "$HOME"),
    ]
    for kind, options, directory in places:
        async with hermetic.open(kind, **options) as environment:
            assert (await environment.run("pwd")).output == (
                await environment.run(f"echo {directory}")
            ).output, kind


async def test_the_description_of_terminal_says_what_a_model_has_to_know(tmp_path: Path) -> None:
    async with opened(tmp_path) as box:
        (tool,) = (tool for tool in box.toolbox.schemas("mcp") if tool["name"] == "terminal")
        text = " ".join([tool["description"], json.dumps(tool["inputSchema"])]).lower()
        for fact in (
            "keeps",
            "background",
            "session_id",
            "process",
            "workdir",
            "pty",
            "editor",
            "pager",
            "goes on",
        ):
            assert fact in text, fact


@pytest.mark.parametrize("raises", [False, True])
async def test_a_sign_of_life_comes_again_also_from_a_callback_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raises: bool
) -> None:
    assert ACTIVITY == 10
    monkeypatch.setattr("hermetic.contract.limits.ACTIVITY", 0.05)
    signs: list[str] = []
    enough = asyncio.Event()

    def sign(task: str) -> None:
        signs.append(task)
        if len(signs) == 3:
            enough.set()
        if raises:
            raise RuntimeError("the caller's own mistake")

    async with opened(tmp_path, on_activity=sign) as box:
        calling = asyncio.create_task(
            box.terminal(f"until [ -e {tmp_path}/go ]; do sleep 0.02; done; echo done")
        )
        async with asyncio.timeout(20):
            await enough.wait()
        (tmp_path / "go").touch()
        assert (await calling)["output"] == "done\n"


async def test_a_profile_has_thirty_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert LOGIN == 30
    monkeypatch.setattr("hermetic.environments.options.LOGIN", 0.3)
    (tmp_path / ".bash_profile").write_text("sleep 600\n")
    async with hermetic.open("local", env={"HOME": str(tmp_path)}) as environment:
        result = await environment.run("echo works")
        assert result.output == "works\n"
        assert result.notes == (
            "the login profile did not finish within 0.3 s: the session was started without it",
        )


def test_limits_of_scripts_and_of_the_password_prompt_are_the_originals(tmp_path: Path) -> None:
    limits = CodeLimits()
    assert (limits.time, limits.calls, limits.stdout, limits.stderr) == (300, 50, 50_000, 10_000)
    assert PASSWORD == 45


async def test_settings_limit_the_time_and_the_calls_of_a_script(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "HERMETIC_CONFIG": str(tmp_path / "user.toml")}
    (tmp_path / "user.toml").write_text("[code_execution]\nmax_tool_calls = 2\n")
    settings = load(str(tmp_path), environ=environ)
    async with opened_in("local", {"login": False, "cwd": str(tmp_path)}, settings=settings) as box:
        calls = "from hermetic_tools import terminal\nfor n in range(3): print(terminal('true').get('exit_code'))"
        answer = await box.call("execute_code", code=calls)
        assert answer["tool_calls_made"] == 2, answer
    (tmp_path / "user.toml").write_text("[code_execution]\ntimeout = 1\n")
    settings = load(str(tmp_path), environ=environ)
    async with opened_in("local", {"login": False, "cwd": str(tmp_path)}, settings=settings) as box:
        began = time.monotonic()
        answer = await box.call("execute_code", code="import time; time.sleep(600)")
        assert answer["status"] == "timeout"
        assert time.monotonic() - began < 60
