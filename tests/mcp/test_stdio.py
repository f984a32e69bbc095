"""`hermetic mcp` on standard input and output: tools, state, cancellation, in both protocol eras."""

import asyncio
from pathlib import Path

import pytest

from tests.mcp.clients import ERAS, answer, connected, eventually
from tests.scenarios.living import is_alive

LISTED = {"terminal", "process", "execute_code", "read_file", "write_file", "patch", "search_files"}


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_finds_the_tools_and_runs_commands_in_one_shell(era: str) -> None:
    async with connected(era) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) >= LISTED
        assert tools["read_file"].annotations is not None
        assert tools["read_file"].annotations.read_only_hint
        assert tools["terminal"].annotations is not None
        assert tools["terminal"].annotations.destructive_hint
        first = await answer(client, "terminal", {"command": "cd /usr; greeting=hello"})
        assert first["exit_code"] == 0
        second = await answer(client, "terminal", {"command": "pwd; echo $greeting"})
        assert second["output"] == "/usr\nhello\n"


@pytest.mark.parametrize("era", ERAS)
async def test_cancelling_a_call_ends_the_whole_tree(era: str, tmp_path: Path) -> None:
    async with connected(era) as client:
        pids = tmp_path / "pids"
        command = f"(sleep 1000 & echo $!; sleep 1000 & echo $!) > {pids}.part; mv {pids}.part {pids}; wait; sleep 1000"
        call = asyncio.create_task(client.call_tool("terminal", {"command": command}))
        await eventually(pids.exists)
        call.cancel()
        started = [int(pid) for pid in pids.read_text().split()]
        await eventually(lambda: not any(map(is_alive, started)))
        assert (await answer(client, "terminal", {"command": "echo next"}))["output"] == "next\n"


async def test_the_end_of_input_ends_the_environment_and_its_background_processes(tmp_path: Path) -> None:
    async with connected("auto") as client:
        started = await answer(client, "terminal", {"command": "sleep 1000", "background": True})
        assert is_alive(started["pid"])
    await eventually(lambda: not is_alive(started["pid"]))


async def test_an_unknown_tool_and_a_wrong_argument_are_answers(tmp_path: Path) -> None:
    async with connected("auto") as client:
        for name, arguments in (("nothing", {}), ("terminal", {"commnd": "x"})):
            result = await client.call_tool(name, arguments)
            assert result.is_error
            assert "error" in (await answer(client, name, arguments))
