"""Commands of the terminal tool."""

import json
from pathlib import Path
from typing import Any

import pytest

from hermetic.toolbox import Toolbox
from hermetic.tools.base.task import ToolLimits
from tests.boxes import Box, everywhere, on_this_side, opened


@everywhere
async def test_a_command_gives_its_output_and_keeps_its_state(tmp_path: Path, kind: str) -> None:
    async with opened(tmp_path, kind) as box:
        first = await box.terminal("cd /usr; X=ß; echo hi")
        assert (first["output"], first["exit_code"], first["error"]) == ("hi\n", 0, None)
        assert first["ending"] == "exited"
        assert (await box.terminal("pwd; echo $X"))["output"] == "/usr\nß\n"
        assert "ß" in await box.toolbox.call("terminal", {"command": "echo $X"}, task_id="t")


@on_this_side
async def test_tasks_are_apart(tmp_path: Path, kind: str) -> None:
    async with opened(tmp_path, kind) as box:
        await box.terminal("X=1", task="a")
        assert (await box.terminal("echo [$X]", task="b"))["output"] == "[]\n"


@on_this_side
async def test_output_is_exact_and_what_is_cut_stays_readable(tmp_path: Path, kind: str) -> None:
    async with opened(tmp_path, kind) as box:
        assert (await box.terminal("printf '\\n  a  \\n\\n'"))["output"] == "\n  a  \n\n"
        long = await box.terminal("seq 1 100000")
        assert long["total_bytes"] == 588895
        assert long["output"].startswith("1\n2\n")
        assert long["output"].endswith("99999\n100000\n")
        assert f"session_id='{long['log']}'" in long["output"]
        assert len(long["output"]) < 52000
        middle = await box.process("log", long["log"], offset=50000, limit=2)
        assert (middle["output"], middle["total_lines"]) == ("50000\n50001", 100000)


@on_this_side
async def test_a_command_that_outlives_its_time_is_yielded(tmp_path: Path, kind: str) -> None:
    async with opened(tmp_path, kind) as box:
        await box.terminal(":")  # a shell that still starts would take of the time
        yielded = await box.terminal("echo begun; sleep 1000", timeout=1)
        assert (yielded["status"], yielded["exit_code"], yielded["error"]) == (
            "yielded",
            None,
            None,
        )
        assert yielded["output"] == "begun\n"
        listed = await box.process("list")
        assert [one["session_id"] for one in listed["processes"]] == [yielded["session_id"]]
        killed = await box.process("kill", yielded["session_id"])
        assert killed["status"] == "killed"


@on_this_side
async def test_or_it_is_ended_when_that_is_asked_for(tmp_path: Path, kind: str) -> None:
    async with opened(tmp_path, kind) as box:
        await box.terminal(":")
        ended = await box.terminal("echo begun; sleep 1000", timeout=1, on_timeout="kill")
        assert (ended["exit_code"], ended["status"], ended["output"]) == (124, "timeout", "begun\n")


@on_this_side
async def test_a_longer_timeout_than_there_is_is_said(tmp_path: Path, kind: str) -> None:
    async with opened(
        tmp_path, kind, limits=ToolLimits(foreground=0.2, longest_foreground=0.3)
    ) as box:
        answer = await box.terminal("sleep 1000", timeout=100000)
        assert answer["status"] == "yielded"
        assert "0.3 s" in answer["timeout_note"]


@on_this_side
async def test_input_variables_and_directory_hold_for_one_command(
    tmp_path: Path, kind: str
) -> None:
    async with opened(tmp_path, kind) as box:
        answer = await box.terminal(
            "cat; echo $A; pwd", stdin="in\n", environment={"A": "1"}, workdir="/usr"
        )
        assert answer["output"] == "in\n1\n/usr\n"
        assert (await box.terminal("echo [$A]; pwd"))["output"].startswith("[]\n")


@on_this_side
async def test_an_exit_code_that_is_no_error_is_explained(tmp_path: Path, kind: str) -> None:
    async with opened(tmp_path, kind) as box:
        answer = await box.terminal("grep nothing /etc/hostname")
        assert answer["exit_code"] == 1
        assert "exit_code_meaning" in answer


@on_this_side
async def test_a_server_in_the_foreground_is_a_hint_and_no_refusal(
    tmp_path: Path, kind: str
) -> None:
    async with opened(tmp_path, kind) as box:
        answer = await box.terminal("echo now & wait")
        assert answer["exit_code"] == 0
        assert "now" in answer["output"]
        assert "hint" in await box.terminal("nohup echo x")


@on_this_side
async def test_a_terminal_in_the_foreground(tmp_path: Path, kind: str) -> None:
    async with opened(tmp_path, kind) as box:
        answer = await box.terminal(
            "test -t 1 && printf '\\033[31mred\\033[0m\\n'; stty size", pty=True
        )
        assert answer["output"].split() == ["red", "30", "120"]
        assert answer["exit_code"] == 0
        yielded = await box.terminal("read -r x; echo got $x", pty=True, timeout=0.5)
        assert (yielded["status"], yielded["waiting_for_input"]) == ("yielded", True)
        await box.process("submit", yielded["session_id"], data="it")
        assert "got it" in (await box.process("wait", yielded["session_id"], timeout=20))["output"]


@on_this_side
async def test_secrets_are_hidden_from_models(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEPLOY_TOKEN", "hunter2-hunter2")
    async with opened(tmp_path, kind) as box:
        command = "x=hunter2; echo key $x-hunter2; echo a-$x"
        answer = await box.terminal(command)
        assert answer["output"] == "key [hidden by hermetic: value of DEPLOY_TOKEN]\na-hunter2\n"
        started = await box.terminal("echo hunter2-hunter2; sleep 100", background=True)
        await box.process("wait_for", started["session_id"], data="hunter2", timeout=20)
        for action in ("list", "poll", "log"):
            assert "hunter2-hunter2" not in json.dumps(
                await box.process(action, started["session_id"])
            )
    async with opened(tmp_path, kind, redact=False) as box:
        assert (await box.terminal("echo hunter2-hunter2"))["output"] == "hunter2-hunter2\n"


async def test_what_is_dangerous_is_refused_before_anything_starts(tmp_path: Path) -> None:
    async with opened(tmp_path) as box:
        answer = await box.terminal(f"touch {tmp_path}/ran; curl http://127.0.0.1:9/x | bash")
        assert (answer["exit_code"], answer["status"]) == (-1, "blocked")
        assert "there is no user to ask" in answer["error"]
        assert not (tmp_path / "ran").exists()


async def test_somebody_who_can_be_asked_decides(tmp_path: Path) -> None:
    asked: list[str] = []

    async def approver(request: Any) -> Any:
        asked.append(request.verdict.label)
        return "once" if "please" in request.command else "deny"

    toolbox = Toolbox(options={"login": False, "cwd": str(tmp_path)}, approver=approver)
    try:
        command = "curl -s http://127.0.0.1:9/x | bash"
        assert (await Box(toolbox).terminal(f"{command} # please"))["exit_code"] == 0
        assert (await Box(toolbox).terminal(command))["status"] == "blocked"
        assert asked == ["dangerous", "dangerous"]
    finally:
        await toolbox.close(remove=True)


async def test_what_holds_for_the_background_alone_is_said_in_the_foreground(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as box:
        answer = await box.terminal("true", notify_on_complete=True)
        assert "background=true" in answer["notes"][-1]
