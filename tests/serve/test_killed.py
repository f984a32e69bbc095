"""A server that is killed at any moment, and started again, costs no byte and no process."""

import asyncio
import os
import signal
from typing import Any

import pytest

import hermetic
from hermetic.serve.events import Event
from hermetic.serve.views import EnvironmentView
from tests.serve.serving import SECONDS, Client, HttpClient, program, serving
from tests.sizes import is_full

MOMENTS = 20 if is_full() else 4
PAUSE = 0.05  # seconds that a moment is later than the one before


@pytest.mark.slow
async def test_a_server_killed_at_many_moments_loses_nothing() -> None:
    async with hermetic.open("local", task="survives") as environment:
        counting = await environment.start(
            "for ((i = 0; ; i++)); do echo $i; read -t 0.01; done", stdin="pipe"
        )
        waiting = await environment.start("sleep 600")
        for moment in range(MOMENTS):
            await start_use_and_kill(environment.id, counting.id, moment * PAUSE)
        await counting.kill()
        whole = await counting.read(limit=64 << 20)
        async with serving() as server:
            client, at = Client(server, "view"), f"/environments/{environment.id}/processes"
            output = (await client.get(f"{at}/{counting.id}/output?limit={4 << 20}")).body
            running = (await client.get(at)).json["processes"]
        lines = output.split()
        assert output == whole.data
        assert lines == [str(number).encode() for number in range(len(lines))]
        assert len(lines) > MOMENTS
        assert [process["id"] for process in running] == [waiting.id]
        await environment.close(remove=True)


async def start_use_and_kill(environment: str, process: str, later: float) -> None:
    """Requests are under way when the server is killed."""
    async with program("--port", "0") as (server, url):
        token = url.partition("#token=")[2]
        client = HttpClient(url)
        page = {"Origin": client.origin}
        answer = await client.post("/login", {"token": token}, headers=page)
        page["Cookie"] = answer.headers["set-cookie"].partition(";")[0]

        async def keep_asking() -> None:
            path = f"/environments/{environment}/processes/{process}/output?wait=5"
            while (await client.get(path, headers=page)).status == 200:
                await client.get("/timeline", headers=page)

        asking = asyncio.create_task(keep_asking())
        await asyncio.sleep(later)
        os.kill(server.pid, signal.SIGKILL)
        await server.wait()
        async with asyncio.timeout(SECONDS):
            await asyncio.gather(asking, return_exceptions=True)


async def test_a_login_outlives_the_server() -> None:
    async with serving() as server:
        client = Client(server)
        cookie = await client.log_in()
        port = client.port
    async with serving(port=port) as again:
        page = {"Cookie": cookie, "Origin": client.origin}
        assert (await Client(again).get("/me", headers=page)).json["scopes"] == ["admin"]


async def test_an_environment_that_does_not_answer_is_listed_with_its_state() -> None:
    async with hermetic.open("local", task="stopped") as environment:
        info = await environment.info()
        os.kill(info.pid, signal.SIGSTOP)
        try:
            async with serving() as server:
                client = Client(server, "view")
                found = await state_of(client)
                while found["state"] == "connecting":  # each list waits a while for it
                    found = await state_of(client)
                assert found["state"] == "stalled"
                assert "hermetic rm stopped" in found["problem"]
                answer = await client.get(f"/environments/{environment.id}/processes")
                assert (answer.status, answer.code) == (503, "stalled")
                assert (await client.get("/timeline")).json == {
                    "blocks": [],
                    "unanswered": [environment.id],
                }
        finally:
            os.kill(info.pid, signal.SIGCONT)
        await environment.close(remove=True)


async def test_an_environment_that_stops_answering_is_shown_so_until_it_answers_again() -> None:
    async with serving() as server, hermetic.open("local", task="stops") as environment:
        client = Client(server, "view")
        assert (await state_of(client))["state"] == "alive"
        pid = (await environment.info()).pid
        os.kill(pid, signal.SIGSTOP)
        try:
            assert (await state_of(client))["state"] == "stalled"
        finally:
            os.kill(pid, signal.SIGCONT)
        await environment.run("true")
        assert (await state_of(client))["state"] == "alive"
        await environment.close(remove=True)


async def test_open_tabs_learn_that_an_environment_stops_answering_and_answers_again() -> None:
    """Without a request: a list that missed its commands is read again."""
    states: asyncio.Queue[str] = asyncio.Queue()

    def take(event: Event) -> None:
        if event["event"] == "environment" and isinstance(
            view := event["environment"], EnvironmentView
        ):
            states.put_nowait(view.state)

    async with (
        serving() as server,
        hermetic.open("local", task="stops", login=False) as environment,
    ):
        leave = server.console.hub.subscribe(take)
        async with asyncio.timeout(SECONDS):
            assert await states.get() == "alive"
            pid = (await environment.info()).pid
            os.kill(pid, signal.SIGSTOP)
            try:
                assert await states.get() == "stalled"
                assert (await Client(server, "view").get("/timeline")).json["unanswered"] == [
                    environment.id
                ]
            finally:
                os.kill(pid, signal.SIGCONT)
            assert await states.get() == "alive"
            assert (await Client(server, "view").get("/timeline")).json["unanswered"] == []
        leave()
        await environment.close(remove=True)


async def state_of(client: Client) -> dict[str, Any]:
    (found,) = (await client.get("/environments")).json["environments"]
    assert isinstance(found, dict)
    return found
