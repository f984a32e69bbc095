"""Background processes: the terminal tool starts them, the process tool works with them."""

import json
from pathlib import Path
from typing import Any

from tests.boxes import on_this_side, opened


@on_this_side
async def test_the_life_of_a_background_process(tmp_path: Path, kind: str) -> None:
    async with opened(tmp_path, kind) as box:
        started = await box.terminal(
            "echo up; while read -r x; do echo got $x; done; exit 7", background=True
        )
        assert started["output"] == "Background process started"
        assert (started["exit_code"], started["error"]) == (0, None)
        assert "hint" in started
        id = started["session_id"]
        assert (await box.process("wait_for", id, data="up", timeout=20))["status"] == "matched"
        first = await box.process("poll", id, cursor=0)
        assert (first["status"], first["output"]) == ("running", "up\n")
        assert (await box.process("poll", id, cursor=first["cursor"]))["output"] == ""
        await box.process("submit", id, data="ß")
        await box.process("wait_for", id, data="got", timeout=20)
        assert (await box.process("poll", id, cursor=first["cursor"]))["output"] == "got ß\n"
        assert (await box.process("close", id))["status"] == "ok"
        ended = await box.process("wait", id, timeout=20)
        assert (ended["status"], ended["exit_code"]) == ("exited", 7)
        assert ended["output"] == "up\ngot ß\n"
        assert (await box.process("kill", id))["status"] == "already_exited"
        assert (await box.process("log", id))["output"] == "up\ngot ß"


@on_this_side
async def test_a_poll_by_cursor_has_no_gap_and_no_repeat(tmp_path: Path, kind: str) -> None:
    async with opened(tmp_path, kind) as box:
        started = await box.terminal(
            "for ((i = 0; i < 20000; i++)); do echo $i ß; done", background=True
        )
        text, cursor = "", 0
        while True:
            answer = await box.process("poll", started["session_id"], cursor=cursor)
            text, cursor = text + answer["output"], answer["cursor"]
            if answer["status"] == "exited" and not answer["output"]:
                break
        assert text == "".join(f"{number} ß\n" for number in range(20000))


@on_this_side
async def test_a_screen_and_keys(tmp_path: Path, kind: str) -> None:
    async with opened(tmp_path, kind) as box:
        started = await box.terminal("cat", background=True, pty=True)
        id = started["session_id"]
        await box.process("keys", id, data=["a", "b", "enter"])
        assert (await box.process("wait_for", id, data="ab", on="screen", timeout=20))[
            "status"
        ] == "matched"
        shown = await box.process("screen", id)
        assert (shown["screen"][0], shown["rows"], shown["cols"], shown["alternate"]) == (
            "ab",
            30,
            120,
            False,
        )
        assert set(shown["cursor"]) == {"row", "col"}
        assert (await box.process("resize", id, rows=10, cols=40))["status"] == "ok"
        shown = await box.process("screen", id)
        assert (shown["rows"], shown["cols"]) == (10, 40)
        await box.process("keys", id, data="ctrl-d")
        assert (await box.process("wait", id, timeout=20))["exit_code"] == 0


BAD_ACTIONS: list[tuple[dict[str, Any], str]] = [
    ({"action": "wait_for", "data": "(", "pattern": True}, "no regular expression"),
    ({"action": "wait_for", "data": "(", "pattern": True}, "pattern=False"),
    ({"action": "wait_for", "data": "x", "on": "screen"}, "pty=true"),
    ({"action": "wait_for"}, "needs data: the text"),
    ({"action": "wait_for", "data": ""}, "empty"),
    ({"action": "wait_for", "data": "x", "timeout": 0}, "above zero"),
    ({"action": "wait_for", "data": "x", "on": "moon"}, "use one of output, screen"),
    ({"action": "write"}, "needs data"),
    ({"action": "write", "data": "\ud800"}, "Unicode"),
    ({"action": "keys", "data": "ctrl-nothing"}, "ctrl-nothing"),
    ({"action": "screen"}, "pty=true"),
    ({"action": "resize", "rows": 10, "cols": 10}, "terminal"),
    ({"action": "resize", "rows": 0, "cols": 10}, "1"),
    ({"action": "poll", "cursor": 10**9}, "cursor"),
    ({"action": "poll", "cursor": -1}, "cursor"),
    ({"action": "log", "limit": 0}, "limit"),
    ({"action": "kill", "grace": -1}, "grace"),
]


@on_this_side
async def test_what_cannot_be_done_to_a_process_is_told_and_leaves_it_alone(
    tmp_path: Path, kind: str
) -> None:
    async with opened(tmp_path, kind) as box:
        id = (await box.terminal("sleep 100", background=True))["session_id"]
        for given, says in BAD_ACTIONS:
            answer = json.loads(
                await box.toolbox.call("process", {**given, "session_id": id}, task_id="t")
            )
            assert says in answer["error"], given
            assert (await box.process("poll", id))["status"] == "running"


@on_this_side
async def test_input_that_a_terminal_does_not_read_ends_with_the_time(
    tmp_path: Path, kind: str
) -> None:
    async with opened(tmp_path, kind) as box:
        answer = await box.terminal(
            "sleep 1000", pty=True, stdin="x\n" * 1_000_000, timeout=0.5, on_timeout="kill"
        )
        assert (answer["status"], answer["exit_code"]) == ("timeout", 124)
