"""`hermetic mcp` on standard input and output: tools, state, cancellation, in both protocol eras."""

import asyncio
import functools
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

import hermetic
from hermetic.mcp.connection import serve
from hermetic.mcp.greeting import greeting
from hermetic.registry.records import runtime_root
from tests.mcp.clients import ERAS, NEWEST, answer, connected, eventually, options_of
from tests.mcp.journey import used
from tests.mcp.test_asking import asks
from tests.mcp.test_leaving import HELLO, started
from tests.scenarios.living import is_alive

__all__ = ["asks"]  # a fixture

LISTED = {"terminal", "process", "execute_code", "read_file", "write_file", "patch", "search_files"}


@pytest.mark.parametrize("era", NEWEST)
async def test_a_client_finds_the_tools_and_runs_commands_in_one_shell(era: str) -> None:
    async with connected(era, stdio=True) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) >= LISTED
        hints = {
            name: tool.annotations for name, tool in tools.items() if tool.annotations is not None
        }
        assert hints.keys() == tools.keys()
        only_read = {name for name, one in hints.items() if one.read_only_hint}
        assert only_read - {"web_extract", "web_search"} == {"read_file", "search_files"}
        changing = {"terminal", "process", "execute_code", "write_file", "patch"}
        assert {name for name, one in hints.items() if one.destructive_hint} == changing
        first = await answer(client, "terminal", {"command": "cd /usr; greeting=hello"})
        assert first["exit_code"] == 0
        second = await answer(client, "terminal", {"command": "pwd; echo $greeting"})
        assert second["output"] == "/usr\nhello\n"


@pytest.mark.filterwarnings("ignore:resources/.*subscribe is removed")
@pytest.mark.parametrize("era", ERAS)
async def test_a_client_uses_everything_over_stdio_and_leaves_nothing(
    era: str, tmp_path: Path, asks: dict[str, Any]
) -> None:
    async with used(functools.partial(connected, stdio=True, **asks), era, tmp_path) as (pid, page):
        assert page.startswith("http://127.0.0.1:")
    assert not is_alive(pid)
    assert [name for name in os.listdir(runtime_root()) if not name.startswith(".")] == []


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


async def test_the_end_of_input_ends_the_environment_and_its_background_processes() -> None:
    async with connected("auto", stdio=True) as client:
        started = await answer(client, "terminal", {"command": "sleep 1000", "background": True})
        assert is_alive(started["pid"])
    await eventually(lambda: not is_alive(started["pid"]))


async def test_an_unknown_tool_and_a_wrong_argument_are_answers() -> None:
    async with connected("auto") as client:
        for name, arguments in (("nothing", {}), ("terminal", {"commnd": "x"})):
            result = await client.call_tool(name, arguments)
            assert result.is_error
            assert "error" in (await answer(client, name, arguments))


async def test_clients_and_their_tasks_share_nothing() -> None:
    async with connected("auto") as one, connected("legacy") as two:
        await answer(one, "terminal", {"command": "mine=1; sleep 1000 &"})
        other = {"meta": {"hermetic/task": "other"}}
        for client, options in ((two, {}), (one, other)):
            seen = await answer(
                client, "terminal", {"command": "echo ${mine-nothing}; jobs"}, **options
            )
            assert seen["output"] == "nothing\n"
        assert (await answer(one, "terminal", {"command": "echo $mine"}))["output"] == "1\n"


async def test_a_task_that_is_null_or_empty_is_the_usual_one() -> None:
    async with started() as server:
        await server.request("initialize", HELLO)
        for meta in ({}, {"hermetic/task": None}, {"hermetic/task": ""}):
            call = {"name": "terminal", "arguments": {"command": "n=x$n; echo $n"}, "_meta": meta}
            result = await server.request("tools/call", call)
        assert json.loads(result["content"][0]["text"])["output"] == "xxx\n"
        assert server.process.stdin is not None
        server.process.stdin.close()
        assert await asyncio.wait_for(server.process.wait(), 60) == 0


async def test_a_request_that_is_no_valid_message_is_answered() -> None:
    async with started() as server:
        await server.request("initialize", HELLO)
        assert server.process.stdin is not None
        assert server.process.stdout is not None
        for line in (
            b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"\\ud800"}}',
            b'{"jsonrpc":"2.0","id":"x","method":5}',
        ):
            server.process.stdin.write(line + b"\n")
            reply = json.loads(await server.process.stdout.readline())
            assert (reply["id"], reply["error"]["code"]) == (json.loads(line)["id"], -32600)
        call = {"name": "terminal", "arguments": {"command": "echo still here"}}
        assert "still here" in str(await server.request("tools/call", call))
        server.process.stdin.close()
        assert await asyncio.wait_for(server.process.wait(), 60) == 0


async def test_a_named_task_outlives_its_client() -> None:
    for output in ("first\n", "second\n"):
        async with connected("auto", "--task", "shared by mcp") as client:
            said = await answer(client, "terminal", {"command": "n=${n-first}; echo $n; n=second"})
            assert said["output"] == output
    await (await hermetic.attach("shared by mcp")).close(remove=True)


def first_request(version: str, method: str = "initialize") -> bytes:
    """The first line of a client."""
    about: dict[str, Any] = {
        "protocolVersion": version,
        "clientInfo": {"name": "x", "version": "1"},
    }
    params = {**about, "capabilities": {}}
    if method == "server/discover":
        meta = {**about, "clientCapabilities": {}}
        params = {
            "_meta": {f"io.modelcontextprotocol/{name}": value for name, value in meta.items()}
        }
    return json.dumps({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).encode()


@pytest.mark.parametrize(
    ("method", "version"),
    [
        *(
            ("initialize", version)
            for version in (*HANDSHAKE_PROTOCOL_VERSIONS, "2026-07-28", "1999-01-01")
        ),
        *(("server/discover", version) for version in MODERN_PROTOCOL_VERSIONS),
    ],
)
async def test_the_early_reply_is_the_one_that_the_sdk_gives(method: str, version: str) -> None:
    line = first_request(version, method)
    early = greeting(line)
    assert early is not None
    written: list[bytes] = []

    async def write(data: bytes) -> None:
        written.append(data)

    async def no_more() -> AsyncIterator[bytes]:
        await eventually(lambda: bool(written))
        return
        yield b""

    await serve(options_of((), {}), line, no_more(), write)
    assert json.loads(early.line) == json.loads(written[0])


@pytest.mark.parametrize(
    "line",
    [
        *(b"", b"{", b"[]", b"{}", b"null", b'{"jsonrpc":"2.0","id":1,"method":"ping"}'),
        first_request("1999-01-01", "server/discover"),
        first_request("2025-11-25").replace(b'"name"', b'"n"'),
        first_request("2025-11-25").replace(b"7", b"null"),
    ],
)
def test_anything_but_a_plain_first_request_is_left_to_the_sdk(line: bytes) -> None:
    assert greeting(line) is None


async def test_the_early_reply_is_written_once() -> None:
    line = first_request("2025-11-25")
    ping = json.dumps({"jsonrpc": "2.0", "id": 7, "method": "ping"}).encode()
    written: list[bytes] = []

    async def write(data: bytes) -> None:
        written.append(data)

    async def more() -> AsyncIterator[bytes]:
        yield ping
        await eventually(lambda: bool(written))

    await serve(options_of((), {}), line, more(), write, replied=7)
    [reply] = written
    assert json.loads(reply) == {"jsonrpc": "2.0", "id": 7, "result": {}}
