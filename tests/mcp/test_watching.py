"""Progress; logs, files and recordings as resources; subscriptions, long commands, in both protocol
eras.
"""

import asyncio
import base64
import json
import os
import sys
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types
import pytest
from mcp import Client, MCPError

from hermetic.mcp import clients, progress, resources
from hermetic.mcp.client import Client as HermeticClient
from hermetic.recordings.cast import CastWriter, Header
from hermetic.recordings.store import Store
from hermetic.registry.records import runtime_root
from tests.mcp.clients import ERAS, NEWEST, answer, connected, eventually, in_process


@pytest.mark.parametrize("era", NEWEST)
async def test_a_long_command_reports_its_output_as_it_comes(era: str, tmp_path: Path) -> None:
    seen: list[str] = []
    go = tmp_path / "go"

    async def watch(_: float, __: float | None, message: str | None) -> None:
        seen.append(message or "")
        if "first" in "".join(seen):
            go.touch()

    async with connected(era) as client:
        command = f"echo first; until [ -e {go} ]; do sleep 0.05; done; echo last"
        done = await answer(client, "terminal", {"command": command}, progress_callback=watch)
        assert done["output"] == "first\nlast\n"
    assert "first" in "".join(seen)


async def test_a_scripts_progress_is_reported_without_secrets(tmp_path: Path) -> None:
    seen: list[str] = []
    go = tmp_path / "go"

    async def watch(_: float, __: float | None, message: str | None) -> None:
        seen.append(message or "")
        if "half way" in "".join(seen):
            go.touch()

    code = (
        "import os, time\nfrom hermetic_tools import progress\n"
        f"progress('half way with AKIA{'IOSFODNN7'}EXAMPLQ')\n"
        f"while not os.path.exists({str(go)!r}): time.sleep(0.05)\n"
    )
    async with connected("legacy") as client:
        done = await answer(client, "execute_code", {"code": code}, progress_callback=watch)
        assert done["status"] == "success", done
    assert "IOSFODNN7" not in "".join(seen)


async def test_a_silent_command_gives_a_sign_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PAUSE", 0.05)
    monkeypatch.setattr(progress, "ACTIVITY", 0.1)
    seen: list[str] = []
    alive = asyncio.Event()

    async def watch(_: float, __: float | None, message: str | None) -> None:
        seen.append(message or "")
        alive.set()

    async with in_process("legacy") as client:
        call = asyncio.create_task(
            answer(client, "terminal", {"command": "sleep 1000"}, progress_callback=watch)
        )
        await alive.wait()
        call.cancel()
    assert seen[0].startswith("running for ")


@pytest.mark.parametrize("era", NEWEST)
async def test_a_command_that_outlives_the_clients_patience_continues_as_a_process(
    era: str, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    async with connected(era, "--wait", "1") as client:
        command = f"until [ -e {go} ]; do sleep 0.05; done; echo done"
        for more in ({}, {"timeout": 100, "on_timeout": "kill"}):
            held = await answer(client, "terminal", {"command": command, **more})
            assert held["status"] == "yielded", held
        waited = await answer(
            client, "process", {"action": "wait", "session_id": held["session_id"], "timeout": 90}
        )
        assert waited["status"] == "timeout"
        script = await answer(client, "execute_code", {"code": "import time\ntime.sleep(1000)"})
        assert script["status"] == "yielded", script
        go.touch()
        ended = await answer(
            client, "process", {"action": "wait", "session_id": held["session_id"]}
        )
        assert "done" in ended["output"]


@pytest.mark.parametrize("era", ERAS)
async def test_how_long_a_call_waits_follows_from_the_clients_name(
    era: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert clients.WAIT == 50.0
    monkeypatch.setattr(clients, "WAIT", 0.5)
    for name, status in (("an unknown client", "yielded"), ("claude-code", None)):
        info = mcp_types.Implementation(name=name, version="1")
        async with in_process(era, client_info=info) as client:
            command = f"until [ -e {tmp_path}/go ]; do sleep 0.05; done; echo done"
            call = asyncio.create_task(answer(client, "terminal", {"command": command}))
            if status is None:
                assert not (await asyncio.wait([call], timeout=3))[0]
                (tmp_path / "go").touch()
            assert (await call).get("status") == status


async def test_a_notice_follows_the_next_answer() -> None:
    async with connected("auto") as client:
        process = {"command": "echo ready; exit 3", "background": True, "notify_on_complete": True}
        started = await answer(client, "terminal", process)

        async def follows() -> str:
            _, *more = (await client.call_tool("terminal", {"command": "true"})).content
            return "".join(block.text for block in more if isinstance(block, mcp_types.TextContent))

        text = ""
        while not text:
            text = await follows()
        assert started["session_id"] in text
        assert "ready" in text
        assert await follows() == ""


async def test_an_image_that_a_script_attaches_is_an_image() -> None:
    code = "from hermetic_tools import attach\nattach(bytes.fromhex('89504e470d0a1a0a') + bytes(9), 'dot.png')\n"
    async with connected("auto") as client:
        first, image = (await client.call_tool("execute_code", {"code": code})).content
    assert isinstance(image, mcp_types.ImageContent)
    assert image.mime_type == "image/png"
    assert base64.b64decode(image.data).startswith(b"\x89PNG")
    assert isinstance(first, mcp_types.TextContent)
    assert image.data not in first.text


@pytest.mark.parametrize("era", ERAS)
async def test_the_log_of_a_background_server_is_a_resource(era: str, tmp_path: Path) -> None:
    async with connected(era) as client:
        assert (await client.list_resources()).resources == []
        (tmp_path / "hello.txt").write_text("hi")
        command = f"cd {tmp_path}; exec python3 -u -m http.server 0 --bind 127.0.0.1"
        started = await answer(client, "terminal", {"command": command, "background": True})
        await answer(
            client,
            "process",
            {"action": "wait_for", "session_id": started["session_id"], "data": "Serving HTTP"},
        )
        [listed] = (await client.list_resources()).resources
        assert listed.uri == f"hermetic://logs/{started['session_id']}"
        assert "Serving HTTP on 127.0.0.1" in text(await client.read_resource(listed.uri))


@pytest.mark.parametrize("era", ERAS)
async def test_a_file_is_a_resource_and_a_protected_one_is_not(era: str, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("1|one\ntwo\n")
    (tmp_path / ".env").write_text("TOKEN=abc")
    (tmp_path / "dot.png").write_bytes(bytes.fromhex("89504e470d0a1a0a") + bytes(100))
    async with connected(era) as client:
        for _ in range(5):  # a client may read as often as it likes
            assert (
                text(await client.read_resource(f"hermetic://files{tmp_path}/notes.txt"))
                == "1|one\ntwo"
            )
        picture = (await client.read_resource(f"hermetic://files{tmp_path}/dot.png")).contents[0]
        assert isinstance(picture, mcp_types.BlobResourceContents)
        assert picture.mime_type == "image/png"
        for missing in (
            f"hermetic://files{tmp_path}/.env",
            "hermetic://files/nowhere/at/all",
            "hermetic://logs/x",
            "a:b",
        ):
            with pytest.raises(MCPError):
                await client.read_resource(missing)


async def test_a_file_that_read_file_does_not_show_is_no_resource(tmp_path: Path) -> None:
    secret = b"key=AKIA" + b"IOSFODNN7" + b"EXAMPLQ\n\0\n"
    for name in ("key.txt", "key.zip", "key.png"):
        (tmp_path / name).write_bytes(secret)
    (tmp_path / "huge.png").write_bytes(
        bytes.fromhex("89504e470d0a1a0a") + bytes(resources.MOST_IMAGE)
    )
    async with connected("auto") as client:
        for name in ("key.txt", "key.zip", "key.png"):
            with pytest.raises(MCPError, match="is a binary file, not text"):
                await client.read_resource(f"hermetic://files{tmp_path}/{name}")
        with pytest.raises(MCPError, match="the most is"):
            await client.read_resource(f"hermetic://files{tmp_path}/huge.png")


async def test_an_image_that_is_replaced_before_it_is_read_is_no_resource(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (picture := tmp_path / "dot.png").write_bytes(bytes.fromhex("89504e470d0a1a0a") + bytes(100))
    protected, plain = tmp_path / ".env", tmp_path / "plain"
    protected.write_bytes(picture.read_bytes())
    plain.write_bytes(b"secret\0")
    read_file, targets = HermeticClient.read_file, [protected, plain]

    async def read_then_replace(self: HermeticClient, *given: Any) -> dict[str, Any]:
        answer = await read_file(self, *given)
        picture.unlink()
        picture.symlink_to(targets.pop(0))
        return answer

    monkeypatch.setattr(HermeticClient, "read_file", read_then_replace)
    async with in_process("auto") as client:
        with pytest.raises(MCPError):
            await client.read_resource(f"hermetic://files{picture}")
        picture.unlink()
        picture.write_bytes(protected.read_bytes())
        with pytest.raises(MCPError):
            await client.read_resource(f"hermetic://files{picture}")
    assert targets == []


async def test_a_resource_of_another_task_opens_no_environment(tmp_path: Path) -> None:
    def opened() -> list[str]:
        return [name for name in os.listdir(runtime_root()) if not name.startswith(".")]

    (tmp_path / "notes.txt").write_text("one")
    uri = f"hermetic://files{tmp_path}/notes.txt"
    async with connected("auto") as client:
        with pytest.raises(MCPError, match="no environment is open for the task 'anything'"):
            await client.read_resource(f"{uri}?task=anything")
        assert opened() == []
        await answer(client, "terminal", {"command": "true"}, meta={"hermetic/task": "anything"})
        assert text(await client.read_resource(f"{uri}?task=anything")) == "one"
        assert len(opened()) == 1
        assert text(await client.read_resource(uri)) == "one"


@pytest.mark.filterwarnings("ignore:resources/.*subscribe is removed")
@pytest.mark.parametrize("era", NEWEST)
async def test_a_recording_is_a_resource_of_the_client_whose_environment_it_shows(
    era: str, tmp_path: Path
) -> None:
    heard: list[str] = []

    async def hear(message: Any) -> None:
        if isinstance(message, mcp_types.ResourceUpdatedNotification):
            heard.append(str(message.params.uri))

    async with connected(era, message_handler=hear) as client, connected(era) as other:
        await answer(other, "terminal", {"command": "true"})
        command = f"echo one; until [ -e {tmp_path}/go ]; do sleep 0.05; done; echo two"
        started = await answer(client, "terminal", {"command": command, "background": True})
        record = ("-m", "hermetic", "record", started["session_id"])
        recorder = await asyncio.create_subprocess_exec(
            sys.executable, *record, stdout=DEVNULL, stderr=DEVNULL
        )
        try:
            while len(listed := (await client.list_resources()).resources) < 2:  # noqa: ASYNC110 - nothing reports it
                await asyncio.sleep(0.05)
            assert [each.mime_type for each in listed] == ["text/plain", resources.CAST]
            uri = listed[1].uri
            async with subscribed(client, era, [uri], heard):
                (tmp_path / "go").touch()
                await recorder.wait()
                await eventually(lambda: uri in heard)
        finally:
            if recorder.returncode is None:
                recorder.terminate()
            await recorder.wait()
        header, *events = map(json.loads, text(await client.read_resource(uri)).splitlines())
        assert (header["version"], header["hermetic"]["process"]) == (2, started["session_id"])
        assert [data for _, kind, data in events if kind == "o"] == ["one\r\n", "two\r\n"]
        assert (await other.list_resources()).resources == []
        for stranger, name in (
            (other, uri),
            (client, "hermetic://recordings/../x"),
            (client, f"{uri}0"),
        ):
            with pytest.raises(MCPError, match=r"no recording .* of this environment is kept"):
                await stranger.read_resource(name)


async def test_a_long_recording_is_cut_after_a_whole_event(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(resources, "MOST_RECORDING", 400)
    async with in_process("auto") as client:
        await answer(client, "terminal", {"command": "true"})
        [environment] = [name for name in os.listdir(runtime_root()) if not name.startswith(".")]
        id, file = Store.of_user(os.environ).create()
        with file:
            header = Header(width=80, height=24, hermetic={"environment": environment})
            writer = CastWriter(file, header)
            for number in range(100):
                writer.output(number, b"line\r\n")
            writer.close()
        *_, last, mark = map(
            json.loads, text(await client.read_resource(f"hermetic://recordings/{id}")).splitlines()
        )
        assert last[1:] == ["o", "line\r\n"]
        assert mark == [
            last[0],
            "m",
            f"cut: the recording has {(tmp_path / f'hermetic/recordings/{id}.cast').stat().st_size} bytes",
        ]


@pytest.mark.filterwarnings("ignore:resources/.*subscribe is removed")
@pytest.mark.parametrize("era", ERAS)
async def test_a_subscriber_hears_of_new_output_and_of_a_changed_file(
    era: str, tmp_path: Path
) -> None:
    heard: list[str] = []

    async def hear(message: Any) -> None:
        if isinstance(message, mcp_types.ResourceUpdatedNotification):
            heard.append(str(message.params.uri))

    (tmp_path / "notes.txt").write_text("one")
    async with connected(era, message_handler=hear) as client:
        command = f"until [ -e {tmp_path}/go ]; do sleep 0.05; done; echo new; sleep 1000"
        started = await answer(client, "terminal", {"command": command, "background": True})
        log, file = (
            f"hermetic://logs/{started['session_id']}",
            f"hermetic://files{tmp_path}/notes.txt",
        )
        async with subscribed(client, era, [log, file], heard):
            (tmp_path / "go").touch()
            await eventually(lambda: log in heard)
            (tmp_path / "notes.txt").write_text("two, and longer")
            await eventually(lambda: file in heard)


@asynccontextmanager
async def subscribed(
    client: Client, era: str, uris: list[str], heard: list[str]
) -> AsyncIterator[None]:
    """Puts the URIs of updates into `heard`, in the way of the era."""
    if era == "legacy":
        for uri in uris:
            await client.subscribe_resource(uri)
        yield
        for uri in uris:
            await client.unsubscribe_resource(uri)
        return

    async def listen(subscription: Any) -> None:
        async for event in subscription:
            heard.append(event.uri)

    async with client.listen(resource_subscriptions=uris) as subscription:
        listening = asyncio.create_task(listen(subscription))
        yield
        listening.cancel()


def text(result: mcp_types.ReadResourceResult) -> str:
    [content] = result.contents
    assert isinstance(content, mcp_types.TextResourceContents)
    return content.text
