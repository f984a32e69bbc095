"""Tasks whose environment is lost, ends, or belongs to another program: what the next answer says,
once.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import hermetic
from hermetic.config.settings import EnvironmentSettings, Settings
from hermetic.environments.containers.client import PROGRAMS, SETTINGS
from hermetic.registry.records import Records, id_for_task, runtime_root
from hermetic.session.keeping import link_of, record_of
from hermetic.toolbox import Toolbox
from hermetic.tools.base.task import MOST_TASKS, Histories, History
from tests.boxes import Box, appears, everywhere, on_this_side, opened, place


async def lose(box: Box, task: str = "t") -> None:
    """Kills the resident of a task's environment, and returns when the toolbox has noticed."""
    environment = await box.toolbox.fleet.get(task)
    kill_resident(environment)
    async with asyncio.timeout(60):
        while not link_of(environment).is_over:  # noqa: ASYNC110 (no event tells)
            await asyncio.sleep(0.02)


def kill_resident(environment: hermetic.Environment) -> None:
    record = record_of(environment)
    if record.pid is not None and environment.kind == "local":
        os.kill(record.pid, signal.SIGKILL)
        return
    subprocess.run(["docker", "kill", record.place["container"]], check=True, capture_output=True)


@everywhere
async def test_the_next_answer_after_a_loss_says_once_what_was_lost(
    tmp_path: Path, kind: str
) -> None:
    async with opened(tmp_path, kind) as box:
        assert "notes" not in await box.terminal("X=1; cd /usr")
        started = await box.terminal("sleep 1000 # the server", background=True)
        await lose(box)
        after = await box.terminal("echo [$X]; pwd")
        assert after["output"] == f"[]\n{tmp_path}\n"
        (note,) = after["notes"]
        assert "variables" in note
        assert f"(/usr): it is {tmp_path} now" in note
        assert f"{started['session_id']} (sleep 1000 # the server)" in note
        assert ("files that were only inside it" in note) == (kind == "docker")
        assert "notes" not in await box.terminal("pwd")


async def test_a_process_that_the_model_saw_end_is_not_named_as_lost(tmp_path: Path) -> None:
    async with opened(tmp_path) as box:
        ended = await box.terminal("true", background=True)
        await box.process("wait", ended["session_id"], timeout=60)
        await lose(box)
        (note,) = (await box.call("read_file", path="/etc/hostname"))["notes"]
        assert ended["session_id"] not in note


async def test_a_process_that_kill_all_ended_is_not_named_as_lost(tmp_path: Path) -> None:
    async with opened(tmp_path) as box:
        ended = await box.terminal("sleep 1000", background=True)
        assert await box.toolbox.kill_all("t") == 1
        await lose(box)
        (note,) = (await box.call("read_file", path="/etc/hostname"))["notes"]
        assert ended["session_id"] not in note


async def test_what_a_foreground_command_left_running_is_named_as_lost(tmp_path: Path) -> None:
    async with opened(tmp_path) as box:
        left = await box.terminal("sleep 1000 & echo left")
        ended = await box.terminal("sleep 1001 & echo left")
        await box.process("kill", ended["log"])
        await box.process("poll", left["log"])
        await lose(box)
        (note,) = (await box.call("read_file", path="/etc/hostname"))["notes"]
        assert f"{left['log']} (sleep 1000 & echo left)" in note
        assert ended["log"] not in note


async def test_the_call_at_the_moment_of_loss_says_what_to_do(tmp_path: Path) -> None:
    async with opened(tmp_path) as box:
        environment = await box.toolbox.fleet.get("t")
        calling = asyncio.create_task(box.terminal("echo begun > here; sleep 1000"))
        await appears(tmp_path / "here", 60)
        kill_resident(environment)
        answer = await calling
        assert (answer["exit_code"], answer["status"], answer["ending"]) == (-1, "error", "lost")
        assert "The next call starts a new environment" in answer["error"]
        assert "open a new one" not in json.dumps(answer)
        assert "notes" in await box.terminal("true")


async def test_a_script_at_the_moment_of_loss_says_what_to_do(tmp_path: Path) -> None:
    async with opened(tmp_path) as box:
        environment = await box.toolbox.fleet.get("t")
        calling = asyncio.create_task(
            box.call(
                "execute_code", code="import time; open('here', 'w').close(); time.sleep(1000)"
            )
        )
        await appears(tmp_path / "here", 60)
        kill_resident(environment)
        answer = await calling
        assert (answer["status"], "The next call starts a new environment" in answer["error"]) == (
            "error",
            True,
        )
        after = await box.call(
            "execute_code", code="from hermetic_tools import terminal; print(terminal('echo hi'))"
        )
        assert "hi" in after["output"]
        # the model gets it, not the script
        assert "ended, and a new one was started" in after["notes"][0]


async def test_a_call_that_waits_for_a_process_at_the_moment_of_loss_says_what_to_do(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as box:
        environment = await box.toolbox.fleet.get("t")
        started = await box.terminal("sleep 1000", background=True)
        waiting = asyncio.create_task(
            box.process("wait_for", started["session_id"], data="never", timeout=100)
        )
        async with asyncio.timeout(60):
            while not link_of(environment).is_busy:  # noqa: ASYNC110 (no event tells)
                await asyncio.sleep(0.02)
        kill_resident(environment)
        answer = await waiting
        assert "The next call starts a new environment" in answer["error"], answer
        assert "open a new one" not in answer["error"]


@on_this_side
async def test_read_history_ends_with_its_environment(tmp_path: Path, kind: str) -> None:
    (tmp_path / "a.txt").write_text("hello\n")
    async with opened(tmp_path, kind) as box:
        for _ in range(2):
            again = await box.call("read_file", path="a.txt")
        assert "hello" not in again.get("content", ""), again  # unchanged, and known to the model
        await lose(box)
        fresh = await box.call("read_file", path="a.txt")
        assert "hello" in fresh["content"]


async def test_an_environment_that_was_ended_on_purpose_is_reported_too(tmp_path: Path) -> None:
    async with opened(tmp_path) as box:
        await box.terminal("X=1")
        await box.toolbox.fleet.close_task("t", remove=True)
        assert "variables" in (await box.terminal("true"))["notes"][0]


async def test_the_default_task_belongs_to_its_toolbox_and_ends_with_it(tmp_path: Path) -> None:
    options = {"login": False, "cwd": str(tmp_path)}
    first, second = Toolbox(options=options), Toolbox(options=options)
    try:
        await first.call("terminal", {"command": "X=1; cd /usr"})
        answer = json.loads(await second.call("terminal", {"command": "echo [$X]; pwd"}))
        assert answer["output"] == f"[]\n{tmp_path}\n"
        assert "notes" not in answer
        assert Records(runtime_root()).of_task("default") is None
        assert len(Records(runtime_root()).all()) == 2
    finally:
        await first.close()
        await second.close()
    assert Records(runtime_root()).all() == []


async def test_the_default_task_ends_with_its_toolbox_also_when_it_was_idle(tmp_path: Path) -> None:
    toolbox = Toolbox(options={"login": False, "cwd": str(tmp_path)})
    try:
        await toolbox.call("terminal", {"command": "X=1"})
        assert await toolbox.fleet.close_task("default")  # as it happens after the idle time
        answer = json.loads(await toolbox.call("terminal", {"command": "echo [$X]"}))
        assert answer["output"] == "[1]\n"
        assert await toolbox.fleet.close_task("default")
    finally:
        await toolbox.close()
    assert Records(runtime_root()).all() == []


PROGRAM = """
import asyncio, os, sys
import hermetic

async def main():
    toolbox = hermetic.Toolbox(options={"login": False, "lease": 0.2})
    print(await toolbox.call("terminal", {"command": "pwd; echo [$X]; X=1"}), flush=True)
    if sys.argv[1] == "die":
        os.kill(os.getpid(), 9)
    if sys.argv[1] == "close":
        await toolbox.close()

asyncio.run(main())
"""


@pytest.mark.parametrize("how", ["die", "close", "leave"])
async def test_programs_in_two_directories_have_default_tasks_of_their_own(
    tmp_path: Path, how: str
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        words = [sys.executable, "-c", textwrap.dedent(PROGRAM), how]
        run = await asyncio.create_subprocess_exec(
            *words, cwd=tmp_path / name, stdout=asyncio.subprocess.PIPE
        )
        said, _ = await run.communicate()
        assert json.loads(said)["output"] == f"{tmp_path / name}\n[]\n"
        if how != "die":
            assert Records(runtime_root()).all() == []
    async with asyncio.timeout(60):
        while Records(runtime_root()).all():  # noqa: ASYNC110 (the lease ends them; no event tells)
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("is_named", [True, False])
async def test_a_named_task_of_another_directory_is_attached_and_says_which_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_named: bool
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    boxes = []
    try:
        for directory in (there, here):
            monkeypatch.chdir(directory)
            options: dict[str, Any] = {
                "login": False,
                **({"cwd": str(directory)} if is_named else {}),
            }
            boxes.append(Box(Toolbox(options=options)))
            if directory == there:
                assert "notes" not in await boxes[0].terminal("X=1")
        answer = await boxes[1].terminal("echo $X; pwd")
        assert (answer["output"], answer.get("status")) == (f"1\n{there}\n", None)
        (note,) = answer["notes"]
        assert f"started in {there}" in note
        assert f"not {here}" in note
        assert "notes" not in await boxes[1].terminal("true")
    finally:
        for box in boxes:
            await box.toolbox.close(remove=True)


async def test_other_options_of_a_living_task_are_still_refused(tmp_path: Path) -> None:
    async with opened(tmp_path) as box:
        await box.terminal("true")
        other = Box(Toolbox(options={**place("local", tmp_path), "env": {"A": "1"}}))
        try:
            answer = await other.terminal("true")
            assert (answer["status"], "env" in answer["error"]) == ("disabled", True)
        finally:
            await other.toolbox.close()


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("docker", {"image": "x"}),
        ("podman", {"image": "x"}),
        ("sandbox", {}),
        ("ssh", {"host": "h"}),
        ("apptainer", {"image": "docker://x"}),
    ],
)
@pytest.mark.parametrize("tool", ["terminal", "read_file", "execute_code"])
async def test_a_kind_whose_program_is_missing_is_disabled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, options: dict[str, Any], tool: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for setting in (name for names in SETTINGS.values() for name in names):
        monkeypatch.delenv(setting, raising=False)
    monkeypatch.setitem(PROGRAMS, "docker", ("docker", "podman"))  # and none by its whole path
    given = {
        "terminal": {"command": "true"},
        "read_file": {"path": "x"},
        "execute_code": {"code": "print(1)"},
    }
    box = Box(Toolbox(environment=kind, options=options))
    try:
        answer = await box.call(tool, **given[tool])
        assert (answer["status"], answer["exit_code"]) == ("disabled", -1), answer
        assert "install" in answer["error"]
    finally:
        await box.toolbox.close()


async def test_asking_what_runs_opens_no_environment(tmp_path: Path) -> None:
    async with opened(tmp_path) as box:
        assert await box.toolbox.running("t") == []
        assert await box.toolbox.kill_all("t") == 0
        assert not (runtime_root() / id_for_task("t")).exists()


async def test_the_end_of_an_episode_kills_the_processes_of_every_task_at_once(
    tmp_path: Path,
) -> None:
    stubborn = "trap '' TERM; echo ready; while :; do sleep 1; done"
    async with opened(tmp_path) as box:
        started = [
            (task, (await box.terminal(stubborn, task, background=True))["session_id"])
            for task in "aaabb"
        ]
        for task, id in started:
            assert (await box.process("wait_for", id, task, data="ready", timeout=60))[
                "status"
            ] == "matched"
        await box.terminal("sleep 1000", "lost", background=True)
        await lose(box, "lost")
        assert await box.toolbox.kill_all() == 5
        for task, id in started:
            assert (await box.process("poll", id, task))["termination_source"] == "kill_all"
        assert await box.toolbox.kill_all() == 0


def test_histories_of_many_tasks_are_bounded() -> None:
    histories = Histories()
    first = histories.of("0")
    assert histories.of("0") is first
    for number in range(MOST_TASKS):
        histories.of(f"t{number}")
    assert histories.of("0") is not first


def test_a_note_names_a_few_of_many_processes() -> None:
    history = History()
    history.meet("r1", "/", separate_files=False)
    for number in range(25):
        history.started[f"proc_{number}"] = "x" * 500
    assert history.meet("r2", "/", separate_files=False)
    (note,) = history.notes
    assert "and 15 more" in note
    assert len(note) < 1500


async def test_tasks_of_one_process_are_not_shared(tmp_path: Path) -> None:
    own = Settings(environment=EnvironmentSettings(across_processes=False))
    options = {"cwd": str(tmp_path), "login": False}

    async def say(box: Toolbox, command: str) -> str:
        return str(
            json.loads(await box.call("terminal", {"command": command}, task_id="t"))["output"]
        )

    async with (
        Toolbox(settings=own, options=options) as first,
        Toolbox(settings=own, options=options) as second,
    ):
        await say(first, "X=first")
        await say(second, "X=second")
        assert [await say(box, "echo $X") for box in (first, second)] == ["first\n", "second\n"]
        assert Records(runtime_root()).of_task("t") is None
    assert Records(runtime_root()).all() == []
    async with Toolbox(options=options) as first, Toolbox(options=options) as second:
        await say(first, "X=shared")
        assert await say(second, "echo $X") == "shared\n"
    async with hermetic.attach("t") as shared:
        await shared.close(remove=True)
