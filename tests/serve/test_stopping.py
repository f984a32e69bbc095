"""Stop and release by the API."""

import asyncio
from pathlib import Path
from typing import Any

from hermetic.registry.records import id_for_task
from tests.boxes import opened
from tests.serve.serving import SECONDS, Client, serving


async def test_one_environment_and_all_are_stopped_and_released(tmp_path: Path) -> None:
    id = id_for_task("t")
    async with opened(tmp_path) as box, serving() as server, asyncio.timeout(3 * SECONDS):
        await box.terminal("sleep 1000", background=True)
        client = Client(server, "drive")
        changed = changes_of(server)
        for environment in (id, None):
            answer = await client.post("/stop", {"environment": environment})
            assert [one["processes"] for one in answer.json["environments"]] == [1]
            assert await changed.get() is True
            [listed] = (await client.get("/environments")).json["environments"]
            assert listed["held"] is True
            assert (await box.terminal("true"))["refused_by"] == "stopped"
            await client.post("/release", {"environment": environment})
            assert await changed.get() is False
            assert (await box.terminal("true"))["exit_code"] == 0
        answer = await client.post("/stop", {"environment": id, "mode": "end"})
        assert (answer.status, answer.json["environments"][0]["processes"]) == (200, 1)
        await client.post("/release")


async def test_only_a_person_who_drives_stops_what_is_known(tmp_path: Path) -> None:
    async with serving() as server:
        assert (await Client(server, "view").post("/stop")).status == 403
        client = Client(server, "drive")
        assert (await client.post("/stop", {"environment": "e-1"})).status == 404
        assert (await client.post("/stop", {"mode": "burn"})).status == 400
        for path in ("/stop", "/release"):  # another field would mean every environment
            answer = await client.post(path, {"task": "web"})
            assert (answer.status, answer.json["error"]["message"]) == (
                400,
                "There is no field 'task'.",
            )


def changes_of(server: Any) -> "asyncio.Queue[bool]":
    """Whether the environment is held, after each change."""
    changes: asyncio.Queue[bool] = asyncio.Queue()

    def take(event: Any) -> None:
        if event["event"] == "environment" and event["change"] == "changed":
            changes.put_nowait(event["environment"].held)

    server.console.hub.subscribe(take)
    return changes
