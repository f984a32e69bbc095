"""Toolboxes in other processes whose calls need an approval."""

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from hermetic.approvals.exchange import SharedRequest
from hermetic.approvals.settings import ApprovalSettings
from hermetic.approvals.watching import ApprovalWatch, Change

# dangerous by its text, and does nothing
BAD = "rm -rf /srv/hermetic-no-such-directory; echo it ran"
SECONDS = 60.0  # of patience: many times what anything here takes

_PROGRAM = """
import asyncio, sys
import msgspec
import hermetic
from hermetic.approvals.settings import ApprovalSettings
from hermetic.config.settings import Settings

async def main():
    approvals = msgspec.json.decode(sys.argv[1], type=ApprovalSettings)
    place = {"cwd": sys.argv[2], "login": False}
    async with hermetic.Toolbox(settings=Settings(approvals=approvals), options=place) as toolbox:
        print("ready", flush=True)
        for command in sys.argv[3:]:
            print(await toolbox.call("terminal", {"command": command}), flush=True)

asyncio.run(main())
"""


class Asker:
    """A process that calls the terminal tool."""

    def __init__(self, process: Process) -> None:
        self.process = process

    async def result(self) -> Any:
        """The answer of its next call."""
        assert self.process.stdout is not None
        async with asyncio.timeout(SECONDS):
            return json.loads(await self.process.stdout.readline())


@asynccontextmanager
async def asking(directory: object, *commands: str, **settings: Any) -> AsyncIterator[Asker]:
    """A process whose toolbox has these approval settings; it runs the commands one after the
    other.
    """
    given = ApprovalSettings(**{"answers": "queue", "timeout": SECONDS, **settings})
    words = (
        "-c",
        _PROGRAM,
        msgspec.json.encode(given).decode(),
        str(directory),
        *(commands or (BAD,)),
    )
    process = await asyncio.create_subprocess_exec(sys.executable, *words, stdout=PIPE)
    try:
        assert process.stdout is not None
        async with asyncio.timeout(SECONDS):
            assert await process.stdout.readline() == b"ready\n"
        yield Asker(process)
        async with asyncio.timeout(SECONDS):
            await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def next_change(watch: ApprovalWatch, wanted: str) -> Change:
    """The next change of this kind."""
    async with asyncio.timeout(SECONDS), watch.changes() as changes:
        async for change in changes:
            if change.change == wanted:
                return change
    raise AssertionError("the watch has ended")


async def pending(watch: ApprovalWatch) -> SharedRequest:
    """The one request that waits, once there is one."""
    if not watch.pending():
        await next_change(watch, "asked")
    [request] = watch.pending()
    return request
