"""`hermetic approvals`: what agents of other processes ask, on the command line."""

import asyncio
import os
import pty
import signal
import sys
from pathlib import Path

import msgspec

from hermetic.approvals import exchange
from hermetic.approvals.watching import ApprovalWatch
from tests.approvals.asking import BAD, SECONDS, asking, pending
from tests.cli.program import hermetic


async def command_line(*words: str) -> tuple[int, str, str]:
    done = await asyncio.to_thread(hermetic, "approvals", *words)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


async def test_without_questions_nothing_is_listed_and_nothing_is_left() -> None:
    assert await command_line() == (0, "", "")
    assert await command_line("list", "--json") == (0, "[]\n", "")
    assert not exchange.exchange_path().exists()


async def test_a_question_is_listed_and_answered_by_the_start_of_its_id(tmp_path: Path) -> None:
    async with ApprovalWatch("test") as watch, asking(tmp_path) as asker:
        request = await pending(watch)
        code, shown, _ = await command_line("list")
        assert code == 0
        assert shown.startswith(f"{request.id}: asked ")
        assert f"pid {asker.process.pid}" in shown
        assert "!! " in shown
        assert BAD in shown
        [listed] = msgspec.json.decode((await command_line("list", "--json"))[1])
        assert (listed["id"], listed["command"], listed["where"]["pid"]) == (
            request.id,
            BAD,
            asker.process.pid,
        )
        assert await command_line("answer", request.id[:8], "once") == (0, "", "")
        assert (await asker.result())["output"].strip() == "it ran"
        code, _, problem = await command_line("answer", request.id, "once")
        assert code == 1
        assert "no question" in problem


async def test_a_denial_carries_its_reason_to_the_model(tmp_path: Path) -> None:
    async with ApprovalWatch("test") as watch, asking(tmp_path) as asker:
        request = await pending(watch)
        code, _, problem = await command_line("answer", request.id, "once", "--reason", "no")
        assert (code, "deny alone" in problem) == (2, True)
        assert await command_line(
            "answer", request.id, "deny", "--reason", "use the staging host"
        ) == (0, "", "")
        assert "the user said no: use the staging host" in (await asker.result())["error"]


async def test_a_question_outlives_the_consoles_that_show_it(tmp_path: Path) -> None:
    """A console that is killed leaves its files; the next one removes them."""
    code = (
        "import asyncio\n"
        "from hermetic.approvals.watching import ApprovalWatch\n"
        "async def main():\n"
        "    async with ApprovalWatch('killed') as watch:\n"
        "        with watch.attend():\n"
        "            print('ready', flush=True)\n"
        "            await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    console = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE
    )
    assert console.stdout is not None
    assert await console.stdout.readline() == b"ready\n"
    async with asking(tmp_path, answers="nobody") as asker:  # asks because a console attends
        async with ApprovalWatch("test") as watch:
            request = await pending(watch)
        console.send_signal(signal.SIGKILL)
        await console.communicate()
        [listed] = msgspec.json.decode((await command_line("--json"))[1])
        assert listed["id"] == request.id
        assert await command_line("answer", request.id, "once") == (0, "", "")
        assert (await asker.result())["exit_code"] == 0
    assert exchange.names() == []


async def test_watch_asks_at_the_terminal(tmp_path: Path) -> None:
    main, terminal = pty.openpty()
    watch = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "import os, fcntl, sys; os.setsid(); fcntl.ioctl(0, 0x540E, 0);"
        "os.execv(sys.executable, [sys.executable, '-m', 'hermetic', 'approvals', 'watch'])",
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
    )
    os.close(terminal)
    try:
        shown = await read_until(main, "until Ctrl-C")
        async with asking(tmp_path, answers="nobody") as asker:
            shown = await read_until(main, "is no: ")
            assert BAD in shown
            os.write(main, b"o\n")
            assert (await asker.result())["exit_code"] == 0
            await read_until(main, "answered with once by the command line")
        watch.send_signal(signal.SIGINT)
        async with asyncio.timeout(SECONDS):
            assert await watch.wait() == 130
    finally:
        if watch.returncode is None:
            watch.kill()
            await watch.wait()
        os.close(main)


async def read_until(terminal: int, text: str) -> str:
    """What is shown up to the text."""
    loop, shown = asyncio.get_running_loop(), ""
    while text not in shown:
        ready = asyncio.Event()
        loop.add_reader(terminal, ready.set)
        try:
            async with asyncio.timeout(SECONDS):
                await ready.wait()
        finally:
            loop.remove_reader(terminal)
        shown += os.read(terminal, 65536).decode()
    return shown
