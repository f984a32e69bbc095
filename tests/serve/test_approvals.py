"""Approval requests at the server: listed, answered once, still pending after the server was
killed.
"""

import asyncio
import signal
from pathlib import Path
from typing import Any

from hermetic.approvals import exchange
from hermetic.approvals.settings import ApprovalSettings
from hermetic.config.settings import Settings
from tests.approvals.asking import BAD, asking
from tests.boxes import opened
from tests.serve.serving import SECONDS, Client, HttpClient, program, serving
from tests.sizes import is_full

MOMENTS = 20 if is_full() else 2  # at which a server is killed


def subscribed(server: Any, *, answers: bool = True) -> "asyncio.Queue[Any]":
    """Events on approvals, as an open tab gets them."""
    events: asyncio.Queue[Any] = asyncio.Queue()

    def take(event: Any) -> None:
        if event["event"] == "approval":
            events.put_nowait(event)

    server.console.hub.subscribe(take, answers=answers)
    return events


async def test_a_request_is_shown_at_once_and_its_answer_releases_the_call(tmp_path: Path) -> None:
    async with serving() as server, asyncio.timeout(3 * SECONDS):
        events, client = subscribed(server), Client(server, "approve")
        async with asking(tmp_path, answers="nobody") as asker:  # it asks because a tab is open
            event = await events.get()
            assert (event["change"], event["approval"].command) == ("asked", BAD)
            [listed] = (await client.get("/approvals")).json["approvals"]
            assert (listed["id"], listed["where"]["pid"]) == (
                event["approval"].id,
                asker.process.pid,
            )
            assert listed["needs"][0]["decoded"].startswith("rm -rf")
            answer = await client.post(f"/approvals/{listed['id']}", {"answer": "once"})
            assert (answer.status, answer.json["answered"]["answer"]) == (200, "once")
            assert (await asker.result())["exit_code"] == 0
            event = await events.get()
            assert (event["change"], event["answered"]["answer"]) == ("answered", "once")
            late = await client.post(
                f"/approvals/{listed['id']}", {"answer": "deny", "reason": "no"}
            )
            assert (late.status, late.json["answered"]["answer"], late.code) == (
                409,
                "once",
                "already_answered",
            )
            assert "test at the console" in late.json["answered"]["by"]


async def test_without_a_person_who_may_answer_nothing_is_asked(tmp_path: Path) -> None:
    async with serving() as server:
        subscribed(server, answers=False)
        assert not exchange.is_attended()
        leave = server.console.hub.subscribe(lambda event: None, answers=True)
        assert exchange.is_attended()
        leave()
        assert not exchange.is_attended()


async def test_a_denial_with_a_reason_and_the_scopes(tmp_path: Path) -> None:
    async with serving() as server, asyncio.timeout(3 * SECONDS):
        events = subscribed(server)
        async with asking(tmp_path) as asker:
            id = (await events.get())["approval"].id
            viewer = Client(server, "view")
            assert len((await viewer.get("/approvals")).json["approvals"]) == 1
            for scopes in (("view",), ("drive",)):
                refused = await Client(server, *scopes).post(f"/approvals/{id}", {"answer": "once"})
                assert (refused.status, refused.code) == (403, "scope_missing")
            client = Client(server, "approve")
            assert (
                await client.post(f"/approvals/{id}", {"answer": "once", "reason": "x"})
            ).status == 400
            assert (await client.post(f"/approvals/{id}", {"answer": "maybe"})).status == 400
            assert (await client.post("/approvals/ask_no", {"answer": "once"})).status == 404
            await client.post(
                f"/approvals/{id}", {"answer": "deny", "reason": "use the staging host"}
            )
            assert "the user said no: use the staging host" in (await asker.result())["error"]


async def test_a_request_is_still_pending_after_the_server_was_killed(tmp_path: Path) -> None:
    ids = set()
    async with asyncio.timeout(10 * SECONDS), asking(tmp_path, timeout=10 * SECONDS) as asker:
        for moment in range(MOMENTS + 1):
            async with program("--port", "0") as (server, url):
                base, _, token = url.partition("#token=")
                client = HttpClient(base)
                origin = {"Origin": client.origin}
                answer = await client.post("/login", {"token": token}, headers=origin)
                page = {**origin, "Cookie": answer.headers["set-cookie"].partition(";")[0]}
                [request] = (await client.get("/approvals", headers=page)).json["approvals"]
                ids.add(request["id"])
                if moment == MOMENTS:
                    path = f"/approvals/{request['id']}"
                    assert (await client.post(path, {"answer": "once"}, headers=page)).status == 200
                else:
                    asking_again = asyncio.create_task(client.get("/approvals", headers=page))
                    await asyncio.sleep(0.001 * moment)  # before, during and after an answer
                    server.send_signal(signal.SIGKILL)
                    await server.wait()
                    await asyncio.gather(asking_again, return_exceptions=True)
        assert (await asker.result())["exit_code"] == 0
    assert len(ids) == 1


async def test_history_has_the_decisions_of_the_journal(tmp_path: Path) -> None:
    approvals = ApprovalSettings(mode="deny")
    async with opened(tmp_path, settings=Settings(approvals=approvals)) as box, serving() as server:
        await box.terminal(BAD)
        await box.terminal("true")
        answer = (await Client(server, "view").get("/approvals/history?limit=1")).json
        assert [one["decision"] for one in answer["decisions"]] == ["allowed"]
        answer = (await Client(server, "view").get("/approvals/history")).json
        assert (answer["decisions"][1]["by"], answer["decisions"][1]["command"]) == ("mode", BAD)
