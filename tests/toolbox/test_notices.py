"""Notices of background processes: ends and watched lines."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.boxes import on_this_side, opened, place


@on_this_side
async def test_an_end_is_told_once(tmp_path: Path, kind: str) -> None:
    async with opened(tmp_path, kind) as box:
        started = await box.terminal("echo bye; exit 3", background=True, notify_on_complete=True)
        notice = await box.next_notice()
        assert (notice.kind, notice.session_id, notice.exit_code) == (
            "completed",
            started["session_id"],
            3,
        )
        assert notice.output == "bye\n"
        assert notice.text.startswith("[IMPORTANT:")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await box.next_notice()


@on_this_side
async def test_an_end_that_was_learned_otherwise_is_not_told(tmp_path: Path, kind: str) -> None:
    async with opened(tmp_path, kind) as box:
        started = await box.terminal("sleep 0.2", background=True, notify_on_complete=True)
        await box.process("wait", started["session_id"], timeout=20)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await box.next_notice()


@on_this_side
async def test_a_line_that_was_watched_for_is_told(tmp_path: Path, kind: str) -> None:
    async with opened(tmp_path, kind) as box:
        started = await box.terminal(
            "echo Server ready on 80; sleep 100", background=True, watch_patterns=["ready on"]
        )
        notice = await box.next_notice()
        assert (notice.kind, notice.pattern, notice.output) == (
            "matched",
            "ready on",
            "Server ready on 80",
        )
        assert notice.session_id == started["session_id"]


async def test_an_interval_that_is_too_short_is_raised(tmp_path: Path) -> None:
    async with opened(tmp_path) as box:
        started = await box.terminal("sleep 100", background=True, check_interval=5)
        assert "30" in started["check_interval_note"]


CALLER = """
import asyncio, json, sys
from hermetic.toolbox import Toolbox

async def main():
    toolbox = Toolbox(environment=sys.argv[1], options=json.loads(sys.argv[2]))
    given = {"command": sys.argv[3], "background": True, "notify_on_complete": True}
    answer = json.loads(await toolbox.call("terminal", given, task_id="t"))
    print(answer["session_id"], flush=True)
    await asyncio.sleep(1000)

asyncio.run(main())
"""


@on_this_side
async def test_the_next_caller_finds_what_runs_and_is_told_of_its_end(
    tmp_path: Path, kind: str
) -> None:
    async with opened(tmp_path, kind) as box:
        text = f"echo one; until [ -e {tmp_path}/go ]; do sleep 0.05; done; echo two; exit 4"
        caller = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            CALLER,
            kind,
            json.dumps(place(kind, tmp_path)),
            text,
            stdout=asyncio.subprocess.PIPE,
        )
        assert caller.stdout is not None
        id = (await caller.stdout.readline()).decode().strip()
        os.kill(caller.pid, signal.SIGKILL)
        await caller.wait()
        [listed] = (await box.process("list"))["processes"]
        assert (listed["session_id"], listed["status"], listed["notify_on_complete"]) == (
            id,
            "running",
            True,
        )
        (tmp_path / "go").touch()
        notice = await box.next_notice()
        assert (notice.session_id, notice.exit_code, notice.output) == (id, 4, "one\ntwo\n")
        await box.toolbox.fleet.close_task("t", remove=True)


@on_this_side
async def test_notify_and_watch_exclude_each_other(tmp_path: Path, kind: str) -> None:
    async with opened(tmp_path, kind) as box:
        given: dict[str, Any] = {"notify_on_complete": True, "watch_patterns": ["x"]}
        started = await box.terminal("echo x; sleep 0.1", background=True, **given)
        assert "watch_patterns" in started["watch_patterns_ignored"]
        assert (started["notify_on_complete"], "watch_patterns" in started) == (True, False)
        async with asyncio.timeout(20):
            assert (await box.next_notice()).kind == "completed"
