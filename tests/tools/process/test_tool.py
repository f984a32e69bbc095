"""The process tool on real processes: searches that go on, bounded answers, interruption, what is
remembered.
"""

import asyncio
import json
from pathlib import Path

import pytest

from hermetic.contract.limits import HANDLES, LISTED_BY_TOOL
from hermetic.tools.base.task import ToolLimits
from tests.boxes import appears, on_this_side, opened


@on_this_side
async def test_a_search_goes_on_behind_the_last_match(tmp_path: Path, kind: str) -> None:
    async with opened(tmp_path, kind) as box:
        id = (await box.terminal("echo go; while read -r x; do echo go $x; done", background=True))[
            "session_id"
        ]
        first = await box.process("wait_for", id, data="go", timeout=20)
        assert (first["status"], first["cursor"]) == ("matched", 2)
        assert (await box.process("wait_for", id, data="go", timeout=0.3))["status"] == "timeout"
        await box.process("submit", id, data="on")
        second = await box.process("wait_for", id, data=r"go \w+", pattern=True, timeout=20)
        assert (second["status"], second["cursor"]) == ("matched", 8)
        await box.process("close", id)
        assert (await box.process("wait_for", id, data="never", timeout=20))["status"] == "exited"


@pytest.mark.parametrize("action", ["wait", "wait_for"])
@on_this_side
async def test_an_interrupt_ends_the_waiting_and_not_the_process(
    tmp_path: Path, kind: str, action: str
) -> None:
    async with opened(tmp_path, kind) as box:
        id = (await box.terminal("echo up; sleep 1000", background=True))["session_id"]
        await box.process("wait_for", id, data="up", timeout=20)
        waiting = asyncio.ensure_future(box.process(action, id, data="never"))
        async with asyncio.timeout(20):
            while not waiting.done():  # an interrupt that comes before the call waits is for nobody
                box.toolbox.interrupt("t")
                await asyncio.wait([waiting], timeout=0.1)
            answer = await waiting
        assert (answer["status"], answer["output"]) == ("interrupted", "up\n")
        assert (await box.process("poll", id))["status"] == "running"


@on_this_side
async def test_typing_into_a_process_that_does_not_read_ends(tmp_path: Path, kind: str) -> None:
    async with opened(tmp_path, kind) as box:
        id = (await box.terminal("sleep 1000", background=True))["session_id"]
        answer = await box.process("write", id, data="x" * 3_000_000, timeout=0.5)
        assert answer["status"] == "timeout"
        assert "does not read" in answer["error"]


@on_this_side
async def test_a_log_that_grows_faster_than_it_is_read_is_answered(
    tmp_path: Path, kind: str
) -> None:
    async with opened(tmp_path, kind) as box:
        id = (await box.terminal("yes", background=True))["session_id"]
        await box.process("wait_for", id, data="y", timeout=20)
        async with asyncio.timeout(60):
            answer = await box.process("log", id, limit=3)
        assert answer["output"] == "y\ny\ny"
        await box.process("kill", id)


async def test_a_log_is_cut_to_the_budget_and_says_which_lines_it_shows(tmp_path: Path) -> None:
    async with opened(tmp_path, limits=ToolLimits(output=1000)) as box:
        id = (await box.terminal("seq 1 10000; printf %05000d 7", background=True))["session_id"]
        await box.process("wait", id, timeout=20)
        from_start = await box.process("log", id, offset=1, limit=1_000_000)
        assert from_start["showing"] == "lines 1 to 277"
        assert from_start["output"].splitlines()[-1] == "277"
        assert (await box.process("log", id, offset=278, limit=1))["output"] == "278"
        last = await box.process("log", id, offset=10001)
        assert last["output"] == "0" * 2000 + " [3,000 more characters]"
        assert last["total_lines"] == 10001


@pytest.mark.parametrize(
    ("offset", "limit"), [(0, 3), (0, 10**9), (1, 2), (150_000, 4), (299_999, 10), (300_001, 1)]
)
async def test_a_page_of_a_long_log_has_the_right_lines(
    tmp_path: Path, offset: int, limit: int
) -> None:
    long = [*map(str, range(1, 300_001)), "ä" * 70_000]
    (tmp_path / "long").write_text("\n".join(long))
    async with opened(tmp_path, limits=ToolLimits(output=5000)) as box:
        id = (await box.terminal("cat long", background=True))["session_id"]
        await box.process("wait", id, timeout=20)
        answer = await box.process("log", id, limit=limit, offset=offset)
        first, last = (int(word) for word in answer["showing"].removeprefix("lines ").split(" to "))
        shown = [
            line if len(line) < 2000 else f"{line[:2000]} [{len(line) - 2000:,} more characters]"
            for line in long
        ]
        assert answer["total_lines"] == 300_001
        assert answer["output"] == "\n".join(shown[first - 1 : last])
        assert (first == offset) if offset else (last == 300_001)
        assert 1 <= last - first + 1 <= limit


async def test_a_flood_that_is_watched_leaves_the_loop_free(tmp_path: Path) -> None:
    async with opened(tmp_path) as box:
        id = (await box.terminal("yes needle", background=True, watch_patterns=["needle"]))[
            "session_id"
        ]
        async with asyncio.timeout(20):
            assert (await box.next_notice()).pattern == "needle"
        async with asyncio.timeout(20):
            for _ in range(3):
                await box.process("poll", id)
            assert (await box.process("kill", id))["status"] == "killed"


async def test_a_list_has_room_for_what_runs(tmp_path: Path) -> None:
    async with opened(tmp_path) as box:
        old = (await box.terminal("sleep 1000", background=True))["session_id"]
        ids = [
            (await box.terminal("true", background=True))["session_id"]
            for _ in range(LISTED_BY_TOOL + 3)
        ]
        for id in ids:
            assert (await box.process("wait", id))["status"] == "exited"
        answer = await box.process("list")
        assert answer["count"] == LISTED_BY_TOOL + 4
        assert len(answer["processes"]) == LISTED_BY_TOOL
        assert answer["processes"][0]["session_id"] == old
        assert "4 older" in answer["note"]


@on_this_side
async def test_a_list_shows_what_a_foreground_command_left_running(
    tmp_path: Path, kind: str
) -> None:
    async with opened(tmp_path, kind) as box:
        running = asyncio.ensure_future(box.terminal("echo here; touch there; sleep 1000"))
        await appears(tmp_path / "there")
        [listed] = (await box.process("list"))["processes"]
        assert (listed["origin"], listed["status"], listed["output_preview"]) == (
            "foreground",
            "running",
            "here\n",
        )
        box.toolbox.interrupt("t")
        await running
        assert (await box.process("list"))["processes"] == []


@on_this_side
async def test_who_ended_it_is_told(tmp_path: Path, kind: str) -> None:
    async with opened(tmp_path, kind) as box:
        first = (await box.terminal("sleep 1000", background=True, check_interval=50))["session_id"]
        assert (await box.process("poll", first))["check_interval"] == 50
        killed = await box.process("kill", first, grace=1)
        assert (killed["status"], killed["exit_code"], killed["completion_reason"]) == (
            "killed",
            143,
            "killed",
        )
        assert (await box.process("poll", first))["termination_source"] == "process.kill"
        second = (await box.terminal("sleep 1000", background=True))["session_id"]
        assert await box.toolbox.running("t") == [second]
        later = (await box.process("list"))["processes"][-1]["started_at"] + 0.001
        assert await box.toolbox.kill_all(since=later) == 0
        assert await box.toolbox.kill_all(since=later - 0.002) == 1
        assert (await box.process("poll", second))["termination_source"] == "kill_all"
        third = (await box.terminal("exit 3", background=True))["session_id"]
        ended = await box.process("wait", third, timeout=20)
        assert (ended["completion_reason"], "termination_source" in ended) == ("exited", False)


@on_this_side
async def test_too_many_at_once_are_refused(tmp_path: Path, kind: str) -> None:
    async with opened(tmp_path, kind, limits=ToolLimits(running=2)) as box:
        ids = [(await box.terminal("sleep 1000", background=True))["session_id"] for _ in range(2)]
        refused = await box.terminal("sleep 1000", background=True)
        assert refused["exit_code"] == -1
        assert "kill" in refused["error"]
        await box.process("kill", ids[0])
        assert (await box.terminal("sleep 1000", background=True))["error"] is None


async def test_a_secret_at_the_border_of_what_is_shown_is_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "correct-horse-battery-staple"
    monkeypatch.setenv("DEPLOY_TOKEN", secret)
    async with opened(tmp_path) as box:
        command = f"echo {secret}; printf %0990d 1  # {'x' * 150} {secret}"
        id = (await box.terminal(command, background=True))["session_id"]
        await box.process("wait", id, timeout=20)
        for answer in (await box.process("poll", id), await box.process("list")):
            text = json.dumps(answer)
            assert not any(secret[at : at + 8] in text for at in range(len(secret) - 7))


@on_this_side
async def test_a_secret_that_comes_in_parts_is_never_shown_in_parts(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "correct-horse-battery-staple"
    monkeypatch.setenv("DEPLOY_TOKEN", secret)
    (tmp_path / "first").write_text(secret[:15])
    (tmp_path / "second").write_text(secret[15:])
    command = (
        "printf 'key ß %s' $(cat first); read -r x; printf '%s on\\n' $(cat second); read -r x"
    )
    async with opened(tmp_path, kind) as box:
        yielded = await box.terminal(command, pty=True, timeout=1)
        id = (await box.terminal(command, background=True))["session_id"]
        await box.process("wait_for", id, data="horse", timeout=20)
        first = await box.process("poll", id, cursor=0)
        assert (first["output"], first["cursor"]) == ("key ß ", 7)
        assert (await box.process("log", id))["output"] == "key ß "
        answers = [yielded, first, await box.process("poll", id), await box.process("list")]
        await box.process("submit", id, data="")
        await box.process("wait_for", id, data="staple on", timeout=20)
        second = await box.process("poll", id, cursor=first["cursor"])
        assert second["output"] == "[hidden by hermetic: value of DEPLOY_TOKEN] on\n"
        answers += [await box.process("poll", id, cursor=cursor) for cursor in range(7, 40)]
        assert second["cursor"] == len(f"key ß {secret} on\n".encode())
        text = json.dumps(answers)
        assert not any(secret[at : at + 8] in text for at in range(len(secret) - 7))


@on_this_side
async def test_two_looks_at_once_see_the_same_screen(tmp_path: Path, kind: str) -> None:
    async with opened(tmp_path, kind) as box:
        command = (
            "for ((i = 0; i < 3000; i++)); do printf '%070d\\n' $i; done; echo end; sleep 1000"
        )
        id = (await box.terminal(command, background=True, pty=True))["session_id"]
        await box.process("wait_for", id, data="end", timeout=20)
        looks = await asyncio.gather(*(box.process("screen", id) for _ in range(4)))
        assert all(look["screen"] == looks[0]["screen"] for look in looks)
        assert looks[0]["screen"][-2:] == ["end", ""]


async def test_a_screen_that_is_not_drawn_from_all_output_says_so(tmp_path: Path) -> None:
    async with opened(tmp_path) as box:
        fill = "for ((i = 0; i < 300; i++)); do printf '\\033#8'; done; echo end; sleep 1000"
        id = (await box.terminal(fill, background=True, pty=True))["session_id"]
        await box.process("resize", id, rows=250, cols=400)
        await box.process("wait_for", id, data="end", timeout=20)
        assert "last part" in (await box.process("screen", id))["screen_note"]
        assert "screen_note" not in await box.process("screen", id)


async def test_more_processes_at_once_than_are_remembered(tmp_path: Path) -> None:
    async with opened(tmp_path) as box:
        started = [
            await box.terminal(f"echo {number}", background=True) for number in range(HANDLES + 10)
        ]
        ids = [one["session_id"] for one in started]
        for _ in range(2):
            logs = await asyncio.gather(*(box.process("wait", id, timeout=20) for id in ids))
            assert [log["output"] for log in logs] == [f"{number}\n" for number in range(len(ids))]


ECHO = 'stty -echo 2> /dev/null; while IFS= read -r -n 1 x; do printf %s "$x"; done'


@pytest.mark.parametrize("with_cursor", [True, False])
async def test_a_secret_that_comes_letter_by_letter_is_not_read_letter_by_letter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_cursor: bool
) -> None:
    secret = "s3cr3t-v4lue-0f-m1ne"
    monkeypatch.setenv("APP_TOKEN", secret)
    async with opened(tmp_path, policy="off") as box:
        id = (await box.terminal(ECHO, background=True))["session_id"]
        read, cursor = "", 0
        for count, letter in enumerate(f"<{secret}>", 1):
            await box.process("write", id, data=letter)
            async with asyncio.timeout(20):
                while True:
                    answer = await box.process("poll", id, cursor=cursor if with_cursor else None)
                    if answer["cursor"] + answer.get("more_bytes", 0) >= count:
                        break
            read = read + answer["output"] if with_cursor else answer["output_preview"]
            cursor = answer["cursor"]
            assert secret[:4] not in read, read
        assert read.replace("[hidden by hermetic: value of APP_TOKEN]", "").strip("<>") in (
            "",
            secret[:3],
        ), read
        await box.process("kill", id)
