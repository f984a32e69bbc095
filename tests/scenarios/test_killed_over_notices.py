"""The caller dies by SIGKILL around the delivery of a notice: none is lost, and none repeated that
was handled.
"""

import asyncio
import json
import os
import random
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hermetic.contract.notice import Notice
from tests.boxes import Box, opened, place
from tests.sizes import scale

COUNT = 6  # notices of one life
# Says "began ID" before it handles a notice and "returned ID" as the last thing of that.
CALLER = """
import asyncio, json, sys
from hermetic.toolbox import Toolbox

async def handle(notice):
    print("began", notice.id, flush=True)
    await asyncio.sleep(0.004)
    print("returned", notice.id, flush=True)

async def main():
    kind, options, task, way, url, count = sys.argv[1:]
    sinks = {"callback": {"on_notice": handle}, "webhook": {"webhook": url}, "iterator": {}}[way]
    toolbox = Toolbox(environment=kind, options=json.loads(options), **sinks)
    given = {"command": "exit 3", "background": True, "notify_on_complete": True}
    for number in range(int(count)):
        await toolbox.call("terminal", given, task_id=task)
    print("started", flush=True)
    if way == "iterator":
        async for notice in toolbox.notices():
            await handle(notice)
    await asyncio.sleep(1000)

asyncio.run(main())
"""


class Said:
    """Which notices a caller, or the receiver of its webhook, began to handle and was done with, in
    their order.
    """

    def __init__(self) -> None:
        self.began: list[str] = []
        self.returned: list[str] = []
        self.came = asyncio.Event()

    def hear(self, word: str, id: str) -> None:
        (self.began if word == "began" else self.returned).append(id)
        self.came.set()

    async def until(self, handled: int) -> None:
        """Returns when so many were begun, of those who began; the last one may be under way."""
        while len(self.began) < handled:
            self.came.clear()
            await self.came.wait()


@asynccontextmanager
async def receiving(said: Said) -> AsyncIterator[str]:
    """The address of a web server that handles what is posted there, each `Idempotency-Key` as
    often as it comes.
    """

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
        except (asyncio.IncompleteReadError, OSError):  # it died over its question
            writer.close()
            return
        [id] = [
            line.partition(": ")[2]
            for line in head.split("\r\n")
            if line.startswith("Idempotency-Key: ")
        ]
        said.hear("began", id)
        await asyncio.sleep(0.004)
        writer.write(b"HTTP/1.1 204 Done\r\nContent-Length: 0\r\n\r\n")
        said.hear("returned", id)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


async def lived(words: tuple[str, ...], said: Said, handled: int, pause: float) -> None:
    """A caller's life, which ends so many seconds after it has begun to handle so many notices."""
    caller = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CALLER, *words, str(COUNT), stdout=asyncio.subprocess.PIPE
    )
    lines = caller.stdout
    assert lines is not None
    has_started = asyncio.Event()

    async def listen() -> None:
        async for line in lines:
            if line == b"started\n":
                has_started.set()
            elif line.endswith(b"\n"):
                said.hear(*line.decode().split())

    listening = asyncio.ensure_future(listen())
    try:
        await has_started.wait()
        await said.until(handled)
        await asyncio.sleep(pause)
    finally:
        caller.kill()
        await caller.wait()
        await listening


async def told(box: Box, task: str, least: int) -> list[Notice]:
    """What the next caller is told: so many notices, and then none for a while."""
    await box.process("list", task=task)
    got: list[Notice] = []
    while True:
        try:
            async with asyncio.timeout(0.5 if len(got) >= least else 30):
                got.append(await box.next_notice())
        except TimeoutError:
            return got


@pytest.mark.slow
@pytest.mark.parametrize("way", ["callback", "webhook", "iterator"])
async def test_only_what_was_being_handled_comes_again(way: str, tmp_path: Path) -> None:
    turns = random.Random(way)
    lives, repeats = scale(30), 0
    for turn in range(lives):
        task, said = f"notices-{os.getpid()}-{turn}", Said()
        options: dict[str, Any] = place("local", tmp_path)
        async with asyncio.timeout(60), receiving(said) as url:
            words = ("local", json.dumps(options), task, way, url)
            await lived(words, said, turns.randint(1, COUNT), turns.uniform(0, 0.012))
            async with opened(tmp_path) as box:
                await box.process("list", task=task)
                again = await told(box, task, COUNT - len(set(said.began)))
                await box.toolbox.fleet.close_task(task, remove=True)
        ids = [notice.id for notice in again]
        assert len(set(said.began) | set(ids)) == COUNT, "lost"
        assert len(ids) == len(set(ids)), "told twice to one caller"
        assert len(said.began) == len(set(said.began)), "told twice to the one that died"
        assert {notice.id for notice in again if not notice.repeated}.isdisjoint(said.began), (
            "repeated unmarked"
        )
        both = [id for id in ids if id in said.began]
        assert both in ([], said.began[-1:]), "only the last one can have been under way"
        repeats += sum(id in said.returned for id in both)
    # Between a handler's return and the note of it in the environment lies nothing but that note's
    # way there.
    assert way == "webhook" or repeats <= 1 + lives // 10
    print(f"{way}: {lives} lives, {COUNT * lives} notices, {repeats} repeated although handled")
