"""Where the tools differ from the original on purpose; docs/tools.md lists the decisions."""

import asyncio
import json
from pathlib import Path

import pytest

import hermetic
from hermetic.approvals.settings import ApprovalSettings
from hermetic.config.settings import Settings
from hermetic.contract.notice import Notice
from hermetic.toolbox import Toolbox
from tests.boxes import Box, opened


async def test_a_timeout_above_600_s_is_cut_and_the_command_runs(tmp_path: Path) -> None:
    async with opened(tmp_path) as box:
        answer = await box.terminal("echo hi", timeout=601)
        assert (answer["output"], answer["exit_code"]) == ("hi\n", 0)
        assert "601 s is more than the 600 s" in answer["timeout_note"]
        assert "timeout_note" not in await box.terminal("true", timeout=600)


async def test_the_offset_of_a_log_is_the_number_of_its_first_line(tmp_path: Path) -> None:
    async with opened(tmp_path) as box:
        log = (await box.terminal("seq 10"))["log"]
        page = await box.process("log", log, offset=3, limit=2)
        assert (page["output"], page["showing"]) == ("3\n4", "lines 3 to 4")
        assert (await box.process("log", log, offset=1, limit=2))["output"] == "1\n2"
        assert (await box.process("log", log, offset=0, limit=2))["output"] == "9\n10"
        assert (await box.process("log", log, offset=11))["showing"] == "no lines"


async def test_a_match_is_reported_once_also_after_the_end(tmp_path: Path) -> None:
    told: list[Notice] = []
    came = asyncio.Event()

    async def sink(notice: Notice) -> None:
        told.append(notice)
        came.set()

    async with opened(tmp_path, on_notice=sink) as box:
        started = await box.terminal(
            "read -r go; echo MATCH; exit 3", background=True, watch_patterns=["MATCH"]
        )
        await box.process("submit", started["session_id"], data="go")
        ended = await box.process("wait", started["session_id"], timeout=60)
        assert (ended["status"], ended["output"]) == ("exited", "MATCH\n")
        async with asyncio.timeout(60):
            await came.wait()
    # and its end is not told again
    assert [(notice.kind, notice.output) for notice in told] == [("matched", "MATCH")]


async def test_env_files_of_the_workspace_are_written_unasked_and_journalled(
    tmp_path: Path,
) -> None:
    log, work = tmp_path / "decisions.jsonl", tmp_path / "work"
    work.mkdir()
    settings = Settings(approvals=ApprovalSettings(log=str(log)))
    box = Box(Toolbox(options={"login": False, "cwd": str(work)}, settings=settings))
    try:
        assert (await box.call("write_file", path=".env", content="A=1\n"))["bytes_written"] == 4
        assert (await box.terminal("echo A=2 >> .env"))["exit_code"] == 0
        assert (work / ".env").read_text() == "A=1\nA=2\n"
        read = await box.call("read_file", path=".env")
        assert read["status"] == "blocked"  # it is not shown
        decisions = [json.loads(line) for line in log.read_text().splitlines()]
        assert [(one["decision"], one["label"]) for one in decisions] == [
            ("allowed", "caution")
        ] * 2
    finally:
        await box.toolbox.close(remove=True)


async def test_credentials_for_aws_stay_with_the_caller_unless_they_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
    for name in (*secret, "AWS_PROFILE", "AWS_REGION"):
        monkeypatch.setenv(name, "set")
    shown = "for name in ${!AWS_@}; do echo $name; done"
    for passed in ((), secret[:2]):
        async with hermetic.open(
            "local", login=False, cwd=str(tmp_path), passthrough=passed
        ) as env:
            found = set((await env.run(shown)).output.split())
            assert found & {*secret, "AWS_PROFILE", "AWS_REGION"} == {
                *passed,
                "AWS_PROFILE",
                "AWS_REGION",
            }


async def test_a_profile_that_ends_its_shell_gives_a_shell_without_it_and_says_so(
    tmp_path: Path,
) -> None:
    (tmp_path / ".bash_profile").write_text("export EARLY=1\nexit 7\n")
    box = Box(Toolbox(options={"env": {"HOME": str(tmp_path)}, "cwd": str(tmp_path)}))
    try:
        answer = await box.terminal("echo [$EARLY]; pwd")
        assert (answer["output"], answer["exit_code"]) == (f"[]\n{tmp_path}\n", 0)
        assert any("profile" in note for note in answer["notes"])
        assert "notes" not in await box.terminal("true")
    finally:
        await box.toolbox.close(remove=True)
