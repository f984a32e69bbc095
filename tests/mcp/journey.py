"""Everything that one client does, over whichever transport: commands, logs, questions, secrets,
cancellation.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

from mcp import Client

from tests.mcp.clients import answer, eventually
from tests.mcp.test_asking import SECRET, User, reply
from tests.mcp.test_watching import subscribed, text
from tests.scenarios.living import is_alive

Connect = Callable[..., AbstractAsyncContextManager[Client]]


@asynccontextmanager
async def used(connect: Connect, era: str, directory: Path) -> AsyncIterator[tuple[int, str]]:
    """Connects, with settings that ask before `rm`, and uses all of it.

    Yields the pid of a process that still runs, and the address of the page on which the secret was
    typed.
    """
    heard: list[str] = []
    user = User(reply("once"))

    async def hear(message: Any) -> None:
        if getattr(message, "method", "") == "notifications/resources/updated":
            heard.append(str(message.params.uri))

    async with connect(era, elicitation_callback=user, message_handler=hear) as client:
        assert "terminal" in {tool.name for tool in (await client.list_tools()).tools}
        await watch_progress(client, directory)
        pid = await follow_a_log(client, era, directory, heard)
        (doomed := directory / "old").mkdir()
        done = await answer(client, "terminal", {"command": f"cd /; rm -rf {doomed} && echo gone"})
        assert (done["output"], doomed.exists(), len(user.forms)) == ("gone\n", False, 1)
        await type_secret(client, directory)
        await cancel(client, directory)
        assert is_alive(pid)
        yield pid, user.pages[0].url


async def watch_progress(client: Client, directory: Path) -> None:
    """A command whose output is seen while it runs."""
    seen: list[str] = []
    go = directory / "go"

    async def watch(_: float, __: float | None, message: str | None) -> None:
        seen.append(message or "")
        if "first" in "".join(seen):
            go.touch()

    command = f"echo first; until [ -e {go} ]; do sleep 0.05; done; echo last"
    done = await answer(client, "terminal", {"command": command}, progress_callback=watch)
    assert done["output"] == "first\nlast\n"


async def follow_a_log(client: Client, era: str, directory: Path, heard: list[str]) -> int:
    """A server in the background, whose log is a resource with a subscription; its pid."""
    command = (
        f"cd {directory}; echo up; until [ -e more ]; do sleep 0.05; done; echo more; sleep 1000"
    )
    started = await answer(client, "terminal", {"command": command, "background": True})
    log = f"hermetic://logs/{started['session_id']}"
    await answer(
        client, "process", {"action": "wait_for", "session_id": started["session_id"], "data": "up"}
    )
    assert "up" in text(await client.read_resource(log))
    async with subscribed(client, era, [log], heard):
        (directory / "more").touch()
        await eventually(lambda: log in heard)
    assert "more" in text(await client.read_resource(log))
    return int(started["pid"])


async def type_secret(client: Client, directory: Path) -> None:
    """A password that the user types on a page."""
    command = f'read -rs -p "Password: " x; echo "$x" > {directory}/typed'
    asking = await answer(client, "terminal", {"command": command, "background": True, "pty": True})
    typed = await answer(
        client, "type_secret", {"session_id": asking["session_id"], "reason": "It asks."}
    )
    assert typed["status"] == "typed"
    await answer(client, "process", {"action": "wait", "session_id": asking["session_id"]})
    assert (directory / "typed").read_text().strip() == SECRET


async def cancel(client: Client, directory: Path) -> None:
    """A long command that is given up, and whose tree ends."""
    pids = directory / "pids"
    command = f"(sleep 1000 & echo $!; sleep 1000 & echo $!) > {pids}.part; mv {pids}.part {pids}; sleep 1000"
    call = asyncio.create_task(client.call_tool("terminal", {"command": command}))
    await eventually(pids.exists)
    call.cancel()
    await eventually(lambda: not any(is_alive(int(pid)) for pid in pids.read_text().split()))
