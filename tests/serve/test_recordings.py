"""Recordings by the API: started, shown at the process, downloaded, ended, removed."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import hermetic
from hermetic.serve.access import bearer_grant
from hermetic.serve.tokens import TokenStore
from tests.serve.serving import SECONDS, Client, HttpClient, program, serving


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


async def test_a_process_is_recorded_until_it_is_stopped() -> None:
    async with (
        hermetic.open("local", login=False) as env,
        serving() as server,
        asyncio.timeout(3 * SECONDS),
    ):
        client = Client(server, "drive")
        process = await env.start("echo hello; read line; echo got $line", pty=True)
        await process.wait_for("hello", timeout=SECONDS)
        wanted = {"environment": env.id, "process": process.id}
        id = (await client.post("/recordings", wanted)).json["id"]
        assert (await client.post("/recordings", wanted)).json["id"] == id
        [shown] = (await client.get(f"/environments/{env.id}/processes")).json["processes"]
        assert shown["recording"] == id
        await until_recorded(client, id, "hello")
        [listed] = (await client.get("/recordings")).json["recordings"]
        assert (listed["id"], listed["is_running"]) == (id, True)
        assert (listed["environment"], listed["process"]) == (env.id, process.id)
        assert (await client.post(f"/recordings/{id}/stop")).status == 204
        [listed] = (await client.get("/recordings")).json["recordings"]
        assert listed["is_running"] is False
        await process.submit("x")
        await process.wait(SECONDS)
        answer = await client.get(f"/recordings/{id}")
        assert answer.headers["content-type"] == "application/x-asciicast"
        header, *events = map(json.loads, answer.body.splitlines())
        assert (header["version"], header["width"], header["height"]) == (2, 80, 24)
        assert "hello" in "".join(event[2] for event in events)
        assert (await client.delete(f"/recordings/{id}")).status == 204
        for refused in (
            await client.get(f"/recordings/{id}"),
            await client.delete(f"/recordings/{id}"),
        ):
            assert (refused.status, refused.code) == (404, "unknown_recording")


async def test_a_server_that_ends_keeps_what_it_recorded() -> None:
    async with hermetic.open("local", login=False) as env:
        async with serving() as server:
            client = Client(server, "drive")
            process = await env.start("echo hello; sleep 1000")
            id = (
                await client.post("/recordings", {"environment": env.id, "process": process.id})
            ).json["id"]
            await until_recorded(client, id, "hello")
        async with serving() as server:
            [listed] = (await Client(server, "view").get("/recordings")).json["recordings"]
            assert (listed["id"], listed["is_running"]) == (id, False)
        await process.kill()


async def test_terminals_are_recorded_by_a_setting() -> None:
    async with hermetic.open("local", login=False) as env:
        server: Any
        async with automatic("terminals") as server, asyncio.timeout(3 * SECONDS):
            client = Client(server, "view")
            await client.get("/environments")
            await (await env.start("echo on pipes")).wait()
            await (await env.start("echo on a terminal", pty=True)).wait()
            while not (listed := (await client.get("/recordings")).json["recordings"]):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
            assert [one["command"] for one in listed] == ["echo on a terminal"]
            # no page is open: nothing is sampled for one
            assert b"\nhermetic_console_tabs 0\n" in (await client.send("GET", "/metrics")).body


def automatic(wanted: str) -> Any:
    return serving(record=wanted)


async def test_the_setting_holds_unless_the_option_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[console]\nrecord = "terminals"\n')
    config.chmod(0o600)
    monkeypatch.setenv("HERMETIC_CONFIG", str(config))
    token = TokenStore.of_this_user().create(bearer_grant("test", ("view",), 600))
    async with hermetic.open("local", login=False) as env:
        for words, expected in (((), True), (("--record", "none"), False)):
            async with program("--port", "0", *words) as (_, url):
                client = HttpClient(url.partition("#")[0], token)
                await client.get("/environments")
                process = await env.start("read line", pty=True)
                shown = f"/environments/{env.id}/processes/{process.id}"
                if expected:
                    async with asyncio.timeout(SECONDS):
                        while (await client.get(shown)).json["recording"] is None:  # noqa: ASYNC110
                            await asyncio.sleep(0.02)
                else:
                    await (await env.start("true", pty=True)).wait()
                    assert (await client.get(shown)).json["recording"] is None
                await process.kill()


async def test_who_may_only_look_records_nothing_and_paths_lead_nowhere() -> None:
    async with serving() as server:
        viewer, driver = Client(server, "view"), Client(server, "drive")
        wanted = {"environment": "e-1", "process": "p-1"}
        assert (await viewer.post("/recordings", wanted)).status == 403
        assert (await driver.post("/recordings", wanted)).status == 404
        for id in ("..%2f..%2fetc%2fpasswd", "rec-1", "%2e%2e"):
            assert (await viewer.get(f"/recordings/{id}")).status == 404


async def until_recorded(client: Client, id: str, text: str) -> None:
    async with asyncio.timeout(SECONDS):
        while text not in (await client.get(f"/recordings/{id}")).body.decode():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
