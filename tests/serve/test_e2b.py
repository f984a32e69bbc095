"""E2B's API without its SDK: what its requests and answers are on the wire."""

import asyncio
import base64
import hashlib
import json
import os
import struct
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from hermetic.serve.clients import ClientOptions
from hermetic.serve.e2b.connect import RpcError
from hermetic.serve.e2b.files import form_files
from tests.programs import need
from tests.serve.serving import Answer, Client, serving

HEAD = struct.Struct(">BI")


class Sandbox:
    """A sandbox by the requests that an SDK sends."""

    def __init__(self, client: Client, created: dict[str, Any]) -> None:
        self.client = client
        self.id = created["sandboxID"]
        self.token = created["envdAccessToken"]
        self.headers = {
            "E2b-Sandbox-Id": self.id,
            "X-Access-Token": self.token,
            "Authorization": None,
        }

    async def call(self, method: str, **fields: Any) -> Answer:
        return await self.client.send("POST", f"/e2b/{method}", fields, headers=self.headers)

    async def stream(
        self, method: str, *messages: dict[str, Any], **headers: str
    ) -> list[dict[str, Any]]:
        """The messages of a stream, to its end."""
        sent = b"".join(
            HEAD.pack(0, len(text)) + text
            for text in (json.dumps(one).encode() for one in messages)
        )
        more = {
            **self.headers,
            "Content-Type": "application/connect+json",
            "Content-Length": str(len(sent)),
            **headers,
        }
        answer = await self.client.send("POST", f"/e2b/{method}", raw=sent, headers=more)
        found, data = [], answer.body
        while data:
            _, length = HEAD.unpack_from(data)
            found.append(json.loads(data[HEAD.size : HEAD.size + length]))
            data = data[HEAD.size + length :]
        return found

    async def run(self, command: str, **headers: str) -> tuple[str, str, dict[str, Any]]:
        """What a command printed, and its last message but the end."""
        start = {"process": {"cmd": "/bin/bash", "args": ["-l", "-c", command]}, "stdin": False}
        messages = await self.stream("process.Process/Start", start, **headers)
        printed = {"stdout": b"", "stderr": b""}
        for message in messages:
            for name, data in message.get("event", {}).get("data", {}).items():
                printed[name] += base64.b64decode(data)
        last = messages[-2].get("event", {}).get("end") or messages[-1]
        return printed["stdout"].decode(), printed["stderr"].decode(), last


async def control(client: Client, method: str, path: str, body: object = None) -> Answer:
    headers = {"X-API-Key": client.token, "Authorization": None}
    return await client.send(method, f"/e2b{path}", body, headers=headers)


@asynccontextmanager
async def sandboxes(**options: Any) -> AsyncIterator[Client]:
    """An owner at a server whose sandboxes are those of bubblewrap."""
    need("bwrap")
    async with serving(clients=ClientOptions(kind="sandbox", options=options)) as server:
        yield Client(server, "e2b")


async def created(client: Client, **wanted: Any) -> Sandbox:
    answer = await control(client, "POST", "/v2/sandboxes", {"templateID": "base", **wanted})
    assert answer.status == 201, answer
    return Sandbox(client, answer.json)


async def test_a_sandbox_runs_commands_and_has_files() -> None:
    async with sandboxes() as client:
        sandbox = await created(client, envVars={"A": "1"}, metadata={"of": "me"})
        assert await sandbox.run("echo $A; echo err >&2; exit 3") == (
            "1\n",
            "err\n",
            {"exitCode": 3, "exited": True, "status": "exit status 3", "error": "exit status 3"},
        )
        late = await sandbox.run("echo begun; sleep 1000", **{"Connect-Timeout-Ms": "2000"})
        assert (late[0], late[2]["error"]["code"]) == ("begun\n", "deadline_exceeded")
        # Files.
        body = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a/b.txt"\r\n\r\nhello\r\n\r\n--x--\r\n'
        kind = {"Content-Type": "multipart/form-data; boundary=x", "Content-Length": str(len(body))}
        written = await client.send(
            "POST", "/e2b/files", raw=body, headers={**sandbox.headers, **kind}
        )
        [file] = written.json
        assert file["name"] == "b.txt"
        read = await client.send("GET", f"/e2b/files?path={file['path']}", headers=sandbox.headers)
        assert read.body == b"hello\r\n"
        assert (
            await client.send("GET", "/e2b/files?path=/nowhere", headers=sandbox.headers)
        ).status == 404
        await sandbox.run("ln -s b.txt a/link; printf x > 'a/odd\nname'")
        listed = (await sandbox.call("filesystem.Filesystem/ListDir", path=".", depth=2)).json[
            "entries"
        ]
        assert [entry["name"] for entry in listed] == ["a", "b.txt", "link", "odd\nname"]
        assert [entry["type"][10:] for entry in listed] == ["DIRECTORY", "FILE", "SYMLINK", "FILE"]
        assert (listed[1]["size"], listed[2]["symlinkTarget"]) == ("7", "b.txt")
        assert (await sandbox.call("filesystem.Filesystem/MakeDir", path="a")).status == 409
        assert (await sandbox.call("filesystem.Filesystem/MakeDir", path="c/d")).status == 200
        moved = await sandbox.call(
            "filesystem.Filesystem/Move", source="a/b.txt", destination="c/e"
        )
        assert moved.json["entry"]["path"].endswith("/c/e")
        assert (await sandbox.call("filesystem.Filesystem/Remove", path="a")).status == 200
        assert (await sandbox.call("filesystem.Filesystem/Stat", path="a")).json[
            "code"
        ] == "not_found"


async def test_a_directory_is_watched() -> None:
    async with sandboxes() as client:
        sandbox = await created(client)
        await sandbox.run("mkdir w; echo 1 > w/old; echo 1 > w/gone")
        watcher = (await sandbox.call("filesystem.Filesystem/CreateWatcher", path="w")).json
        await sandbox.run("rm w/gone; echo longer > w/old; touch w/new")
        events = (await sandbox.call("filesystem.Filesystem/GetWatcherEvents", **watcher)).json[
            "events"
        ]
        assert [(event["name"], event["type"][11:]) for event in events] == [
            ("gone", "REMOVE"),
            ("new", "CREATE"),
            ("old", "WRITE"),
        ]
        assert (await sandbox.call("filesystem.Filesystem/RemoveWatcher", **watcher)).status == 200
        assert (
            await sandbox.call("filesystem.Filesystem/GetWatcherEvents", **watcher)
        ).status == 404


async def test_a_process_is_listed_typed_into_and_killed() -> None:
    async with sandboxes() as client:
        sandbox = await created(client)
        start = {"process": {"cmd": "cat"}, "stdin": True, "tag": "mine"}
        stream = asyncio.create_task(sandbox.stream("process.Process/Start", start))
        pid = await _pid(sandbox)
        by_pid = {"process": {"pid": pid}}
        typed = {"input": {"stdin": base64.b64encode(b"one\n").decode()}}
        assert (await sandbox.call("process.Process/SendInput", **by_pid, **typed)).status == 200
        done = await sandbox.stream(
            "process.Process/StreamInput", {"start": by_pid}, {"data": typed}
        )
        assert done == [{}, {}]
        assert (
            await sandbox.call("process.Process/CloseStdin", process={"tag": "mine"})
        ).status == 200
        messages = await stream
        printed = b"".join(
            base64.b64decode(message["event"]["data"]["stdout"])
            for message in messages
            if "data" in message.get("event", {})
        )
        assert printed == b"one\none\n"
        start = {"process": {"cmd": "sleep", "args": ["1000"]}}
        stream = asyncio.create_task(sandbox.stream("process.Process/Start", start))
        killed = {"process": {"pid": await _pid(sandbox)}, "signal": "SIGNAL_SIGKILL"}
        assert (await sandbox.call("process.Process/SendSignal", **killed)).status == 200
        assert (await stream)[-2]["event"]["end"]["status"] == "signal: 9"
        assert (await sandbox.call("process.Process/SendSignal", **killed)).status == 404
        assert (await sandbox.call("process.Process/Nonsense")).json["code"] == "unimplemented"


async def _pid(sandbox: Sandbox) -> int:
    async with asyncio.timeout(60):
        while not (running := (await sandbox.call("process.Process/List")).json["processes"]):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    return int(running[0]["pid"])


async def test_a_sandbox_is_paused_resumed_listed_and_ends_at_its_time() -> None:
    async with sandboxes() as client:
        sandbox = await created(client, metadata={"of": "me"}, timeout=600)
        await created(client)
        await sandbox.run(
            "(while :; do date +%s%N > new; mv new tick; sleep 0.05; done) > /dev/null 2>&1 &"
        )
        assert (await control(client, "POST", f"/sandboxes/{sandbox.id}/pause")).status == 204
        assert (await control(client, "POST", f"/sandboxes/{sandbox.id}/pause")).status == 409
        assert (await sandbox.call("process.Process/List")).status == 502
        [paused] = (await control(client, "GET", "/v2/sandboxes?state=paused")).json
        assert (paused["sandboxID"], paused["metadata"]) == (sandbox.id, {"of": "me"})
        assert len((await control(client, "GET", "/v2/sandboxes")).json) == 2
        page = await control(client, "GET", "/v2/sandboxes?limit=1")
        assert (len(page.json), page.headers["x-next-token"]) == (1, "1")
        assert len((await control(client, "GET", "/v2/sandboxes?metadata=of%3Dme")).json) == 1
        resumed = await control(
            client, "POST", f"/v2/sandboxes/{sandbox.id}/connect", {"timeout": 600}
        )
        assert resumed.json["envdAccessToken"] == sandbox.token
        ticked, _, end = await sandbox.run(
            "until [ -e tick ]; do sleep 0.05; done; before=$(cat tick); "
            'until now=$(cat tick) && [ "$now" != "$before" ]; do sleep 0.05; done; echo ticks'
        )
        assert (ticked, end["exitCode"]) == ("ticks\n", 0)
        assert (
            await control(client, "POST", f"/sandboxes/{sandbox.id}/timeout", {"timeout": 0})
        ).status == 204
        async with asyncio.timeout(60):
            while (await client.send("GET", "/e2b/health", headers=sandbox.headers)).status != 502:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert (await control(client, "DELETE", f"/sandboxes/{sandbox.id}")).status == 404


async def test_a_sandbox_that_pauses_at_its_time_can_be_resumed() -> None:
    async with sandboxes() as client:
        sandbox = await created(client, timeout=0, autoPause=True)
        async with asyncio.timeout(60):
            while not (await control(client, "GET", "/v2/sandboxes?state=paused")).json:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        await control(client, "POST", f"/v2/sandboxes/{sandbox.id}/connect", {"timeout": 600})
        assert (await sandbox.run("echo on"))[0] == "on\n"
        refused = await control(
            client, "POST", "/v2/sandboxes", {"templateID": "base", "network": {"denyOut": ["*"]}}
        )
        assert (refused.status, "network" in refused.json["message"]) == (400, True)


async def test_keys_tokens_and_signatures_let_in_whom_they_should(tmp_path: Path) -> None:
    async with sandboxes() as client:
        sandbox = await created(client)
        assert (await control(Client(client.server, "drive"), "GET", "/v2/sandboxes")).status == 403
        other = Client(client.server, "e2b")
        assert (await control(other, "GET", "/v2/sandboxes")).json == []
        assert (await control(other, "DELETE", f"/sandboxes/{sandbox.id}")).status == 404
        assert (
            await client.send("GET", "/e2b/v2/sandboxes", headers={"Authorization": None})
        ).status == 401
        assert (await client.get("/environments")).status == 403  # the scope is for /e2b alone
        thief = Sandbox(client, {"sandboxID": sandbox.id, "envdAccessToken": "x"})
        assert (await thief.call("process.Process/List")).status == 401
        await sandbox.run("echo signed > f")
        for expires, status in ((int(time.time()) + 60, 200), (int(time.time()) - 60, 401)):
            text = f"f:read::{sandbox.token}:{expires}".encode()
            signature = (
                f"v1_{base64.b64encode(hashlib.sha256(text).digest()).rstrip(b'=').decode()}"
            )
            query = urlencode(
                {"path": "f", "signature": signature, "signature_expiration": expires}
            )
            read = await client.send("GET", f"/e2b/files?{query}", headers={"Authorization": None})
            assert read.status == status
            query = urlencode(
                {"path": "/etc/passwd", "signature": signature, "signature_expiration": expires}
            )
            assert (
                await client.send("GET", f"/e2b/files?{query}", headers={"Authorization": None})
            ).status == 401


async def test_a_revoked_key_closes_its_sandboxes() -> None:
    async with sandboxes() as client:
        sandbox = await created(client)
        key = client.access.store.find(str(client.token), "bearer")
        assert key is not None
        client.access.store.revoke(key)
        assert (await sandbox.call("process.Process/List")).status == 401
        assert (
            await client.send("GET", "/e2b/files?path=x", headers=sandbox.headers)
        ).status == 401


def basic(user: str) -> str:
    """How an SDK names a user."""
    return "Basic " + base64.b64encode(f"{user}:".encode()).decode()


async def test_another_user_is_refused_where_none_can_be() -> None:
    async with sandboxes() as client:
        sandbox = await created(client)
        own = (await sandbox.run("id -un"))[0].strip()
        for name in (own, "user"):  # E2B's older SDKs always name the user of its templates
            assert (await sandbox.run("id -un", Authorization=basic(name)))[0].strip() == own
        for wrong in (basic("nobody"), "Basic ="):
            start = {"process": {"cmd": "/usr/bin/touch", "args": ["/tmp/there"]}}
            [refused] = await sandbox.stream("process.Process/Start", start, Authorization=wrong)
            assert refused["error"]["code"] in ("invalid_argument", "unauthenticated")
            sandbox.headers["Authorization"] = wrong
            assert (
                await sandbox.call("filesystem.Filesystem/MakeDir", path="/tmp/there")
            ).status in (
                400,
                401,
            )
            sandbox.headers["Authorization"] = None
        for method in ("GET", "POST"):
            answer = await client.send(
                method, "/e2b/files?path=new&username=nobody", headers=sandbox.headers, raw=b"x"
            )
            assert (answer.status, "leave user out" in answer.json["message"]) == (400, True)
        assert (await sandbox.run("ls /tmp/there new"))[2]["exitCode"] == 2


async def test_a_kind_that_does_not_isolate_is_refused() -> None:
    async with serving(clients=ClientOptions(kind="local")) as server:
        refused = await control(
            Client(server, "e2b"), "POST", "/v2/sandboxes", {"templateID": "base"}
        )
        assert refused.status == 400
        assert "--env docker" in refused.json["message"]


async def test_each_sandbox_has_a_workspace_of_its_own_which_ends_with_it() -> None:
    async with sandboxes() as client:
        one, two = await created(client), await created(client)
        folders = [(await sandbox.run("touch x; pwd"))[0].strip() for sandbox in (one, two)]
        assert len(set(folders)) == 2
        await control(client, "DELETE", f"/sandboxes/{one.id}")
        assert existing(folders) == folders[1:]
    assert existing(folders) == []


def existing(folders: list[str]) -> list[str]:
    return [folder for folder in folders if os.path.exists(folder)]


def test_a_form_is_read_byte_by_byte() -> None:
    body = (
        b'--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\nContent-Type: a/b\r\n\r\n\r\n--\0\n\r\n'
        b'--b\r\ncontent-disposition: form-data; name="file"; filename="%22y"\r\n\r\n\r\n--b--\r\n'
    )
    assert list(form_files('multipart/form-data; boundary="b"', body)) == [
        ("x", b"\r\n--\0\n"),
        ('"y', b""),
    ]
    with pytest.raises(RpcError):
        list(form_files("multipart/form-data", body))
