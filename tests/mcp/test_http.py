"""MCP over streamable HTTP at `/mcp` of `hermetic serve`, with the official client in both protocol
eras.
"""

import asyncio
import functools
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import MCPError

from hermetic.mcp import presence
from hermetic.registry.records import runtime_root
from hermetic.serve import mcp as mcp_door
from hermetic.serve.tokens import Scope
from tests.cli.program import hermetic as command_line
from tests.mcp.clients import ERAS, NEWEST, answer, eventually
from tests.mcp.http_clients import mcp_server, over_http, token
from tests.mcp.journey import used
from tests.mcp.test_asking import User, asks, reply
from tests.scenarios.living import is_alive
from tests.serve.conftest import no_tokens_left
from tests.serve.serving import Client as HttpClient
from tests.sizes import is_full

__all__ = ["asks", "no_tokens_left"]  # fixtures

pytestmark = pytest.mark.filterwarnings("ignore:resources/.*subscribe is removed")


# A client that starts a process and is killed during a call.
LEAVING = """
import asyncio, httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

async def main():
    async with httpx2.AsyncClient(headers={{"Authorization": "Bearer {token}"}}, trust_env=False) as http_client:
        async with Client(streamable_http_client("{url}", http_client=http_client), mode="{era}") as client:
            await client.call_tool("terminal", {{"command": "sleep 1000 & echo $! > {folder}/one"}})
            await client.call_tool("terminal", {{"command": "echo $BASHPID > {folder}/two; sleep 1000"}})

asyncio.run(main())
"""


def environments() -> list[str]:
    """Directories of environments that are recorded."""
    return [name for name in os.listdir(runtime_root()) if name.startswith(("t-", "e-"))]


@pytest.fixture
def settings(asks: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's user has settings that ask before a file is removed."""
    for name, value in asks["variables"].items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("settings")
@pytest.mark.parametrize("era", ERAS)
async def test_a_client_uses_everything_over_http_and_leaves_nothing(
    era: str, tmp_path: Path
) -> None:
    async with mcp_server(lease=5) as server:
        async with used(functools.partial(over_http, server), era, tmp_path) as (pid, page):
            assert page.startswith(f"{server.access.url}mcp/secret/")
        await eventually(lambda: not is_alive(pid))
        await eventually(lambda: environments() == [])


@pytest.mark.parametrize("era", NEWEST)
async def test_clients_share_nothing_whatever_token_they_have(era: str) -> None:
    async with mcp_server() as server:
        shared = token(server)
        async with (
            over_http(server, era, shared) as one,
            over_http(server, era, shared) as same_token,
            over_http(server, era, shared, {"Hermetic-Client": "x"}) as same_token_named,
            over_http(server, era) as other,
        ):
            await answer(one, "terminal", {"command": "mine=1"})
            for client in (same_token, same_token_named, other):
                assert (await answer(client, "terminal", {"command": "echo ${mine-no}"}))[
                    "output"
                ] == "no\n"
            own_task = {"meta": {"hermetic/task": "other"}}
            assert (await answer(one, "terminal", {"command": "echo ${mine-no}"}, **own_task))[
                "output"
            ] == "no\n"
            assert (await answer(one, "terminal", {"command": "echo ${mine-no}"}))[
                "output"
            ] == "1\n"


async def test_a_session_answers_the_token_that_began_it_alone() -> None:
    initialize = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "x", "version": "1"},
        },
    }
    listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    sent = {"Accept": "application/json, text/event-stream"}
    async with mcp_server() as server:
        owner, thief = HttpClient(server, "mcp"), HttpClient(server, "mcp")
        begun = await owner.send("POST", "/mcp", initialize, headers=sent)
        session = {**sent, "Mcp-Session-Id": begun.headers["mcp-session-id"]}
        assert (await thief.send("POST", "/mcp", listing, headers=session)).status == 404
        assert (await thief.send("DELETE", "/mcp", headers=session)).status == 404
        assert (await owner.send("POST", "/mcp", listing, headers=session)).status == 200


@pytest.mark.parametrize("era", NEWEST)
async def test_a_client_that_disappears_leaves_nothing_after_its_lease(
    era: str, tmp_path: Path
) -> None:
    async with mcp_server(lease=5) as server:
        program = LEAVING.format(
            url=f"{server.access.url}mcp", token=token(server), era=era, folder=tmp_path
        )
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", program)
        await eventually(
            lambda: (tmp_path / "two").exists() and bool((tmp_path / "two").read_text())
        )
        pids = [int((tmp_path / name).read_text()) for name in ("one", "two")]
        process.kill()
        await process.wait()
        await eventually(lambda: not any(map(is_alive, pids)))
        await eventually(lambda: environments() == [])


@pytest.mark.usefixtures("settings")
async def test_an_open_question_outlasts_the_lease(tmp_path: Path) -> None:
    answered = asyncio.Event()
    user = User(reply("once"))

    async def think(context: Any, params: Any) -> Any:
        await answered.wait()
        return await user(context, params)

    (doomed := tmp_path / "old").mkdir()
    async with (
        mcp_server(lease=0.3) as server,
        over_http(server, "auto", elicitation_callback=think) as client,
    ):
        call = asyncio.create_task(
            answer(client, "terminal", {"command": f"x=1; cd /; rm -rf {doomed}"})
        )
        await asyncio.sleep(1.5)
        answered.set()
        assert (await call)["exit_code"] == 0


@pytest.mark.slow
async def test_many_clients_at_once_over_http_have_an_environment_each() -> None:
    pids: list[int] = []
    count = 50 if is_full() else 8
    async with mcp_server() as server:

        async def one(number: int) -> None:
            async with over_http(server, ERAS[number % 2]) as client:
                assert (await answer(client, "terminal", {"command": f"mine={number}"}))[
                    "exit_code"
                ] == 0
                started = await answer(
                    client, "terminal", {"command": "sleep 1000", "background": True}
                )
                pids.append(started["pid"])
                assert (await answer(client, "terminal", {"command": "echo $mine"}))[
                    "output"
                ] == f"{number}\n"

        await asyncio.gather(*map(one, range(count)))
    assert len(set(pids)) == count
    assert not any(map(is_alive, pids))
    assert environments() == []


async def test_the_end_of_the_server_ends_the_environments_of_its_clients() -> None:
    async with mcp_server() as server, over_http(server, "auto") as client:
        started = await answer(client, "terminal", {"command": "sleep 1000", "background": True})
        assert is_alive(started["pid"])
        server.stop()
        await eventually(lambda: not is_alive(started["pid"]))


async def test_only_a_token_with_the_scope_is_let_in() -> None:
    discover = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    async with mcp_server() as server:
        nobody = await HttpClient(server).send("POST", "/mcp", discover)
        assert (nobody.status, nobody.headers["www-authenticate"]) == (
            401,
            'Bearer realm="hermetic"',
        )
        wrong = await HttpClient(server).send(
            "POST", "/mcp", discover, headers={"Authorization": "Bearer x"}
        )
        assert wrong.status == 401
        viewer = await HttpClient(server, "view").send("POST", "/mcp", discover)
        assert (viewer.status, viewer.code) == (403, "scope_missing")
        client = HttpClient(server, "mcp")
        foreign = await client.send(
            "POST", "/mcp", discover, headers={"Origin": "http://evil.example"}
        )
        assert (foreign.status, foreign.code) == (403, "foreign_origin")
        named = await client.send("POST", "/mcp", discover, headers={"Host": "evil.example"})
        assert (named.status, named.code) == (403, "wrong_host")
        page = await HttpClient(server).log_in()
        cookie = await HttpClient(server).send("POST", "/mcp", discover, headers={"Cookie": page})
        assert cookie.status == 401
        assert (await client.get("/environments")).status == 403  # the scope is for /mcp alone
        assert (await client.send("GET", "/.well-known/oauth-protected-resource")).status == 404
        scopes: tuple[Scope, ...] = ("mcp", "drive", "admin")
        for scope in scopes:
            async with over_http(server, "auto", token(server, scope)) as let_in:
                assert (await let_in.list_tools()).tools


async def test_the_command_line_makes_a_token_and_checks_the_environments_of_clients() -> None:
    made = command_line("serve", "token", "--scope", "mcp")
    async with (
        mcp_server() as server,
        over_http(server, "auto", made.stdout.decode().strip()) as client,
    ):
        assert (await client.list_tools()).tools
    for words in (["--env", "nonsense"], ["-o", "nonsense=1"]):
        wrong = command_line("serve", "--port", "0", *words)
        assert (wrong.returncode, b"nonsense" in wrong.stderr) == (2, True)


async def test_a_revoked_token_ends_what_is_open(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(mcp_door, "TOKEN_CHECK_SECONDS", 0.05)
    async with mcp_server(lease=1) as server:
        secret = token(server)
        async with over_http(server, "auto", secret) as client:
            command = f"echo $$ > {tmp_path}/pid; sleep 1000"
            call = asyncio.create_task(client.call_tool("terminal", {"command": command}))
            await eventually(
                lambda: (tmp_path / "pid").exists() and bool((tmp_path / "pid").read_text())
            )
            found = server.access.store.find(secret, "bearer")
            assert found is not None
            server.access.store.revoke(found)
            await eventually(lambda: not is_alive(int((tmp_path / "pid").read_text())))
            with pytest.raises(MCPError):
                await call
        await eventually(lambda: environments() == [])


async def test_without_the_extra_the_answer_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "mcp" else find(name)
    )
    async with mcp_server() as server:
        missing = await HttpClient(server).send("POST", "/mcp", {})
        assert missing.status == 501
        assert "hermetic[mcp]" in missing.json["error"]["advice"]


async def test_a_server_takes_no_more_clients_than_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presence, "MOST", 1)
    async with mcp_server() as server, over_http(server, "auto") as first:
        assert (await answer(first, "terminal", {"command": "true"}))["exit_code"] == 0
        async with over_http(server, "legacy") as second:
            with pytest.raises(MCPError, match="1 clients are connected"):
                await second.list_tools()
