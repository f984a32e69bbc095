"""What the API shows of environments and processes, also of those that other programs opened."""

import asyncio
import os
import signal
import sys

import pytest

import hermetic
from hermetic.contract.errors import InvalidArgument
from tests.environments.engines import need_engine
from tests.programs import need_variable
from tests.serve.serving import SECONDS, Client, program, serving

VIEW = "view"
OPENER = """
import asyncio, hermetic
async def main():
    async with hermetic.open("local", task="other-program") as environment:
        process = await environment.start("echo hello; sleep 600")
        await process.read(wait=60)
        print(environment.id, process.id, flush=True)
        await asyncio.to_thread(input)
        await environment.close(remove=True)
asyncio.run(main())
"""


async def test_an_environment_of_another_program_is_listed_with_its_processes() -> None:
    opener = await asyncio.create_subprocess_exec(
        sys.executable, "-c", OPENER, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert opener.stdin is not None
    assert opener.stdout is not None
    id, process = (await opener.stdout.readline()).decode().split()
    async with serving() as server:
        client = Client(server, VIEW)
        (found,) = (await client.get("/environments")).json["environments"]
        assert (found["id"], found["task"], found["kind"], found["state"]) == (
            id,
            "other-program",
            "local",
            "alive",
        )
        assert found["processes"] == 1
        (running,) = (await client.get(f"/environments/{id}/processes")).json["processes"]
        assert (running["id"], running["who"], running["state"]) == (process, "agent", "running")
        output = await client.get(f"/environments/{id}/processes/{process}/output")
        assert output.body == b"hello\n"
        assert output.headers["hermetic-end"] == "6"
        assert output.headers["content-type"] == "application/octet-stream"
        opener.stdin.write(b"\n")
        await opener.wait()
        assert (await client.get("/environments")).json["environments"] == []


async def test_a_container_is_shown_with_processes_files_and_changes() -> None:
    need_engine("docker")
    image = need_variable("IMAGE_TOOLS")
    async with serving() as server, hermetic.open("docker", image=image) as environment:
        client, at = Client(server, "view"), f"/environments/{environment.id}"
        (found,) = (await client.get("/environments")).json["environments"]
        assert (found["kind"], found["image"], found["state"]) == ("docker", image, "alive")
        assert found["isolation"]["separate_processes"] is True
        process = await environment.start("echo inside > made.txt; echo written; sleep 600")
        assert (
            await client.get(f"{at}/processes/{process.id}/output?wait=20")
        ).body == b"written\n"
        detail = (await client.get(f"{at}/processes/{process.id}")).json
        assert "sleep 600" in [member["command"] for member in detail["tree"]]
        assert "made.txt" in [
            entry["name"] for entry in (await client.get(f"{at}/files")).json["entries"]
        ]
        assert (await client.get(f"{at}/file?path=made.txt")).body == b"inside\n"
        assert (await client.get(f"{at}/changes")).status == 200


async def test_an_environment_appears_and_goes_without_a_request() -> None:
    async with serving() as server:
        events: asyncio.Queue[tuple[str, str]] = asyncio.Queue()

        def take(event: object) -> None:
            assert isinstance(event, dict)
            if event["event"] == "environment":
                events.put_nowait((event["change"], event["environment"].id))
            elif event["event"] == "process":
                events.put_nowait((event["change"], event["process"].command))

        leave = server.console.hub.subscribe(take)
        async with asyncio.timeout(SECONDS):
            async with hermetic.open("local") as environment:
                assert await events.get() == ("appeared", environment.id)
                await environment.run("true")
                assert await events.get() == ("started", "true")
                assert await events.get() == ("ended", "true")
            assert await events.get() == ("gone", environment.id)
        leave()


async def test_a_watched_environment_still_ends_with_its_lease() -> None:
    async with serving() as server:
        client = Client(server, VIEW)
        async with hermetic.open("local", task="short", lease=0.2) as environment:
            assert [
                one["id"] for one in (await client.get("/environments")).json["environments"]
            ] == [environment.id]
            assert (await environment.info()).clients == 1
        gone = asyncio.Event()
        leave = server.console.hub.subscribe(
            lambda event: gone.set() if event.get("change") == "gone" else None
        )
        if (await client.get("/environments")).json["environments"]:
            async with asyncio.timeout(SECONDS):
                await gone.wait()
        leave()


async def test_a_command_runs_and_is_killed() -> None:
    async with serving() as server, hermetic.open("local") as environment:
        client = Client(server, "drive")
        answer = await client.post(
            f"/environments/{environment.id}/run", {"command": "echo started; sleep 600"}
        )
        process = answer.json["process"]
        assert process["who"] == "person"
        at = f"/environments/{environment.id}/processes/{process['id']}"
        assert (await client.get(f"{at}/output?wait=20")).body == b"started\n"
        killed = await client.post(f"{at}/kill", {"grace": 0})
        assert killed.json["ending"] == ["signalled", signal.SIGKILL]
        assert (await client.get(f"/environments/{environment.id}/processes")).json[
            "processes"
        ] == []
        (ended,) = (await client.get(f"/environments/{environment.id}/processes?all=1")).json[
            "processes"
        ]
        assert ended["state"] == "ended"


async def test_a_timeout_that_is_none_is_refused() -> None:
    async with serving() as server, hermetic.open("local", login=False) as environment:
        path = f"/environments/{environment.id}/run"
        for timeout in (-1, 0):
            assert (
                await Client(server, "drive").post(
                    path, {"command": "sleep 9671", "timeout": timeout}
                )
            ).status == 400
        assert await environment.processes() == []


async def test_an_offset_beyond_all_output_is_refused_with_the_right_words() -> None:
    async with serving() as server, hermetic.open("local", login=False) as environment:
        process = await environment.start("echo here")
        await process.wait()
        path, client = (
            f"/environments/{environment.id}/processes/{process.id}/output",
            Client(server, "view"),
        )
        for offset in (-1, 1 << 62, 1 << 64, 10**40):
            answer = await client.get(f"{path}?offset={offset}")
            assert answer.status == 400
            assert "offset" in answer.json["error"]["message"]
        assert (await client.get(f"{path}?offset={(1 << 62) - 1}")).body == b""
        with pytest.raises(InvalidArgument, match="more than 64 bits"):
            await process.read(1 << 64)


async def test_a_killed_server_leaves_everything_running() -> None:
    async with hermetic.open("local", task="survivor") as environment:
        process = await environment.start("echo before; sleep 600")
        async with program("--port", "0") as (server, url):
            assert url.startswith("http://127.0.0.1:")
            os.kill(server.pid, signal.SIGKILL)
            await server.wait()
        assert (await process.status()).state == "running"
        async with serving() as again:
            client = Client(again, VIEW)
            assert [
                one["id"] for one in (await client.get("/environments")).json["environments"]
            ] == [environment.id]
            output = await client.get(
                f"/environments/{environment.id}/processes/{process.id}/output"
            )
            assert output.body == b"before\n"
        await environment.close(remove=True)


async def test_values_of_variables_are_not_shown() -> None:
    async with (
        serving() as server,
        hermetic.open("local", env={"API_KEY": "s3cret-value"}) as environment,
    ):
        answer = await Client(server, VIEW).get(f"/environments/{environment.id}")
        assert answer.json["options"]["env"] == {"API_KEY": "***"}
        assert b"s3cret-value" not in answer.body
        assert b"token" not in answer.body


async def test_an_unknown_environment_or_process_is_reported() -> None:
    async with serving() as server, hermetic.open("local") as environment:
        client = Client(server, VIEW)
        assert (await client.get("/environments/e-000000000000")).code == "unknown_environment"
        missing = await client.get(f"/environments/{environment.id}/processes/none")
        assert (missing.status, missing.code) == (404, "unknown_process")
