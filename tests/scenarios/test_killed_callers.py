"""The caller of the tools dies by SIGKILL at any moment: the next one finds everything that was,
and is told once.
"""

import asyncio
import json
import os
import random
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.boxes import Box, opened_in
from tests.environments.engines import need_engine
from tests.programs import need_variable
from tests.sizes import scale

LINES = 400
# Says on its output what it knows: a line "asked N" before a start, "started N ID" after it, "told
# ID" for each notice.
CALLER = """
import asyncio, json, sys
from hermetic.toolbox import Toolbox

async def main():
    kind, options, task, lines = sys.argv[1:]
    toolbox = Toolbox(environment=kind, options=json.loads(options))
    async def listen():
        async for notice in toolbox.notices():
            print("told", notice.session_id, notice.exit_code, flush=True)
            print("handled", notice.session_id, flush=True)
    listening = asyncio.ensure_future(listen())
    for number in range(1000):
        print("asked", number, flush=True)
        command = f"for ((i = 0; i < {lines}; i++)); do echo {number} $i; done; exit {number % 100}"
        given = {"command": command, "background": True, "notify_on_complete": True}
        answer = json.loads(await toolbox.call("terminal", given, task_id=task))
        print("started", number, answer["session_id"], flush=True)
        if number % 5 == 0:
            await toolbox.call("terminal", {"command": "true"}, task_id=task)
        await asyncio.sleep(0.02)

asyncio.run(main())
"""


async def lived(kind: str, options: dict[str, Any], task: str, seconds: float) -> list[list[str]]:
    """What a caller said in its life, which is ended so long after its first start."""
    given = [kind, json.dumps(options), task, str(LINES)]
    caller = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CALLER, *given, stdout=asyncio.subprocess.PIPE
    )
    assert caller.stdout is not None
    async with asyncio.timeout(60):
        first = await caller.stdout.readline()
        await asyncio.sleep(seconds)
        os.kill(caller.pid, signal.SIGKILL)
        rest = await caller.stdout.read()
        await caller.wait()
    # The last line may be cut off.
    return [line.split() for line in (first + rest).decode().split("\n")[:-1]]


async def notices_of(box: Box, told: dict[str, int | None], expected: set[str]) -> None:
    """Takes notices in until the expected ones have come, and then none for a while."""
    while True:
        try:
            async with asyncio.timeout(1 if expected <= told.keys() else 30):
                notice = await box.next_notice()
        except TimeoutError:
            return
        assert notice.session_id not in told, "told twice to one caller"
        told[notice.session_id] = notice.exit_code


async def ended(box: Box, id: str, task: str) -> tuple[int, str]:
    """The exit code and the whole output, read by cursor."""
    text, cursor = "", 0
    while True:
        answer: Any = await box.process("poll", id, task, cursor=cursor)
        assert "dropped_bytes" not in answer
        text, cursor = text + answer["output"], answer["cursor"]
        if answer["status"] == "exited" and not answer["output"]:
            return answer["exit_code"], text


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "times"), [("local", 50), ("docker", 20)])
async def test_the_next_caller_finds_everything(kind: str, times: int, tmp_path: Path) -> None:
    options: dict[str, Any] = {"login": False}
    if kind == "docker":
        need_engine("docker")
        options |= {"image": need_variable("IMAGE_BASE"), "pids": 2048}
    turns = random.Random(5)
    for turn in range(scale(times)):
        task = f"killed-{os.getpid()}-{turn}"
        said = await lived(
            kind, options, task, turns.uniform(0, 1.2) + (turn % 2 if kind == "docker" else 0)
        )
        async with asyncio.timeout(120), opened_in(kind, options) as box:
            try:
                await compare(box, task, said)
            finally:
                await box.toolbox.fleet.close_task(task, remove=True)


async def compare(box: Box, task: str, said: list[list[str]]) -> None:
    """What the one that died said it did is what there is."""
    started = {words[2]: int(words[1]) for words in said if words[0] == "started"}
    asked = sum(words[0] == "asked" for words in said)
    before = {words[1]: int(words[2]) for words in said if words[0] == "told"}
    await box.process("list", task=task)  # the first call takes up what is to be told
    now: dict[str, int | None] = {}
    await notices_of(box, now, started.keys() - before.keys())
    listed = await box.process("list", task=task)
    # At most one start was under way when it died; it is there as a whole or not at all.
    assert "count" in listed, listed
    assert len(started) <= listed["count"] <= asked <= len(started) + 1
    async with box.toolbox.fleet.use(task) as environment:
        there = {info.id for info in await environment.processes() if info.kind == "process"}
    assert started.keys() <= there
    for id, number in started.items():
        code, text = await ended(box, id, task)
        assert code == number % 100
        assert text == "".join(f"{number} {line}\n" for line in range(LINES))
        assert before.get(id, now.get(id)) == code, "its end was told to nobody, or wrongly"
    assert (before.keys() | now.keys()) <= there
    for id in before.keys() & now.keys():
        # Told twice is only the one that it was told of last: it died before that was remembered.
        assert [words[1] for words in said if words[0] == "told"][-1] == id
