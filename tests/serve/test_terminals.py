"""Terminals over the real server: HTTP, a WebSocket, and every rule of their start and end."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

import hermetic
from hermetic.serve import frames
from hermetic.session.environment import Environment
from tests.boxes import place
from tests.scenarios.living import with_argument
from tests.serve.serving import Client, serving

SECONDS = 60.0
SHELL = "PS1='$ ' exec bash --norc --noprofile -i"


@asynccontextmanager
async def socket_to(
    client: Client, ticket: str | None = None, **more: Any
) -> AsyncIterator[ClientConnection]:
    """A WebSocket of a program, greeted."""
    ticket = ticket or (await client.post("/ticket")).json["ticket"]
    headers = {"Authorization": f"Bearer {client.token}"} if client.token else {}
    options = {
        "subprotocols": ["hermetic.tab.1"],
        "additional_headers": headers,
        "compression": None,
        **more,
    }
    async with connect(f"ws://{client.host}/api/v1/tab", proxy=None, **options) as websocket:
        await websocket.send(json.dumps({"op": "hello", "ticket": ticket}))
        yield websocket


class Screen:
    """One terminal on channel 1: what came of it."""

    def __init__(self, websocket: ClientConnection) -> None:
        self.websocket = websocket
        self.output = b""
        self.events: list[dict[str, Any]] = []
        self.inputs = 0

    async def attach(self, environment: str, process: str, offset: int | None = None) -> None:
        """Attaches, and waits for the event that says so."""
        given = {
            "channel": 1,
            "environment": environment,
            "process": process,
            "from": offset,
            "rows": 24,
            "cols": 80,
        }
        await self.websocket.send(json.dumps({"op": "attach", **given}))
        await self.event("attached")

    async def type(self, data: bytes) -> None:
        """Sends input."""
        self.inputs += 1
        await self.websocket.send(frames.pack(frames.INPUT, 1, self.inputs, data))

    async def event(self, name: str) -> dict[str, Any]:
        """The next event of that name."""
        async with asyncio.timeout(SECONDS):
            while not (found := [one for one in self.events if one["event"] == name]):
                await self._receive()
        self.events.remove(found[0])
        return found[0]

    async def shows(self, text: bytes) -> None:
        """Returns when the text was printed."""
        async with asyncio.timeout(SECONDS):
            while text not in self.output:
                await self._receive()

    async def _receive(self) -> None:
        message = await self.websocket.recv()
        if isinstance(message, str):
            self.events.append(json.loads(message))
        elif message[0] == frames.OUTPUT:
            self.output += message[13:]
            position = int.from_bytes(message[5:13], "big") + len(message) - 13
            await self.websocket.send(frames.pack(frames.ACK, 1, position))


async def executed(argument: str) -> None:
    """Returns when a program with this argument runs."""
    async with asyncio.timeout(SECONDS):
        while not with_argument(argument):  # noqa: ASYNC110  # no event tells of an exec
            await asyncio.sleep(0.01)


@asynccontextmanager
async def console(*scopes: str, **options: Any) -> AsyncIterator[tuple[Environment, Client]]:
    """A local environment, and a client of a server."""
    async with hermetic.open("local", login=False, **options) as environment, serving() as server:
        yield environment, Client(server, *(scopes or ("drive",)))


async def start(client: Client, environment: Environment, **wanted: Any) -> dict[str, Any]:
    """A new terminal."""
    answer = await client.post(f"/environments/{environment.id}/terminals", wanted)
    assert answer.status == 200, answer
    return dict(answer.json)


async def test_a_terminal_over_http_and_a_websocket() -> None:
    async with console() as (environment, client):
        made = await start(client, environment, command=SHELL)
        assert (made["who"], made["terminal"], made["personal"]) == ("person", True, True)
        listed = (await client.get("/terminals")).json["terminals"]
        assert [(one["environment"], one["id"]) for one in listed] == [(environment.id, made["id"])]
        async with socket_to(client) as websocket:
            screen = Screen(websocket)
            assert (await screen.event("hello"))["scopes"] == ["drive"]
            await screen.attach(environment.id, made["id"])
            await screen.type(b"sleep 9661 &\r")
            await executed("9661")
            await screen.type(b"echo $((6 * 7))\r")
            await screen.shows(b"42\r\n")
            path = f"/environments/{environment.id}/terminals/{made['id']}"
            assert (await client.delete(path)).json == {"ended": ["sleep 9661"]}
            ended = await screen.event("ended")
            assert (ended["cleared"], ended["left"]) == (["sleep 9661"], 0)
        assert (await client.get("/terminals")).json["terminals"] == []
        assert (
            await client.delete(f"/environments/{environment.id}/terminals/unknown")
        ).status == 404


async def test_a_terminal_gets_the_environments_variables_and_none_of_the_servers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with console(env={"OURS": "inside"}) as (environment, client):
        monkeypatch.setenv("OF_THE_SERVER", "secret")
        command = 'echo "<$TERM $COLORTERM $HERMES_WEBUI_TERMINAL $OURS $OF_THE_SERVER$(printenv LINES)$PWD>"'
        made = await start(client, environment, command=command, cwd="/tmp")
        process = await environment.process(made["id"])
        await process.wait()
        assert (await process.read()).data == b"<xterm-256color truecolor 1 inside /tmp>\r\n"


@pytest.mark.parametrize(
    ("shell", "command"), [("/bin/sh", "/bin/sh -i"), ("/no/such", None), ("/bin/cat", "/bin/cat")]
)
async def test_the_shell_is_the_users_own_or_one_on_the_path(
    shell: str, command: str | None
) -> None:
    async with console(env={"SHELL": shell}) as (environment, client):
        made = await start(client, environment)
        assert made["command"] == command or made["command"].endswith(("/zsh -i", "/bash -i"))
        await client.delete(f"/environments/{environment.id}/terminals/{made['id']}")


async def test_a_bash_marks_its_commands_for_itself_alone() -> None:
    async with (
        console(env={"SHELL": "/bin/bash", "PS1": "$ "}) as (environment, client),
        socket_to(client) as websocket,
    ):
        made = await start(client, environment)
        screen = Screen(websocket)
        await screen.attach(environment.id, made["id"])
        await screen.type(b"\r")  # an empty line is no command
        await screen.type(b"set -u; (exit 7)\r")
        await screen.shows(b"\x1b]133;D;7\x07")
        await screen.type(b"env | grep -c -e PS0 -e PROMPT_COMMAND\r")
        await screen.shows(b"\x1b]133;C\x070\r\n\x1b]133;D;1\x07")
        await client.delete(f"/environments/{environment.id}/terminals/{made['id']}")
        data = (await (await environment.process(made["id"])).read()).data
        assert re.findall(rb"\x1b]133;([CD;\d]+)\x07", data) == [b"C", b"D;7", b"C", b"D;1"]


async def test_ctrl_c_reaches_a_plain_sh() -> None:
    async with (
        console(env={"SHELL": "/bin/sh"}) as (environment, client),
        socket_to(client) as websocket,
    ):
        made = await start(client, environment)
        screen = Screen(websocket)
        await screen.attach(environment.id, made["id"])
        await screen.type(b"sleep 9662\r")
        await executed("9662")
        await screen.type(b"\x03")
        await screen.type(b"echo a''live\r")
        await screen.shows(b"alive\r\n")
        await client.delete(f"/environments/{environment.id}/terminals/{made['id']}")


async def test_input_for_an_ended_terminal_is_refused() -> None:
    async with console() as (environment, client), socket_to(client) as websocket:
        made = await start(client, environment, command=SHELL)
        screen = Screen(websocket)
        await screen.attach(environment.id, made["id"])
        await screen.type(b"exit\r")
        assert (await screen.event("ended"))["exit_code"] == 0
        await websocket.send(json.dumps({"op": "take", "channel": 1}))
        assert (await screen.event("error"))["code"] == "no_channel"
        await screen.attach(environment.id, made["id"])  # its output and its end are still there
        assert (await screen.event("ended"))["exit_code"] == 0


async def test_a_slow_close_delays_no_other_terminal() -> None:
    async with console() as (environment, client):
        trap = "trap '' HUP TERM; echo ready; while :; do read -t 600 line; done"
        stubborn = await start(client, environment, session="a", command=trap)
        process = await environment.process(stubborn["id"])
        await process.wait_for("ready", timeout=SECONDS)
        path = f"/environments/{environment.id}/terminals/{stubborn['id']}"
        closing = asyncio.create_task(client.delete(path))
        other = await start(client, environment, session="b", command="read line")
        assert not closing.done()
        assert (await closing).json == {"ended": []}
        await client.delete(f"/environments/{environment.id}/terminals/{other['id']}")


async def test_a_restart_starts_the_same_anew(tmp_path: Path) -> None:
    async with console() as (environment, client):
        made = await start(client, environment, cwd=str(tmp_path), command=SHELL, rows=30)
        path = f"/environments/{environment.id}/terminals/{made['id']}"
        again = (await client.post(f"{path}/restart")).json
        assert again["id"] != made["id"]
        assert [again[name] for name in ("cwd", "command", "rows")] == [str(tmp_path), SHELL, 30]
        await client.delete(f"/environments/{environment.id}/terminals/{again['id']}")


async def test_a_tab_without_a_valid_ticket_is_refused() -> None:
    async with console() as (_, client):
        used = (await client.post("/ticket")).json["ticket"]
        async with socket_to(client, used) as websocket:
            await Screen(websocket).event("hello")
        for ticket in ("", "wrong", used):
            async with socket_to(client, ticket or "-") as websocket:
                with pytest.raises(ConnectionClosed) as closed:
                    await websocket.recv()
                assert closed.value.rcvd is not None
                assert closed.value.rcvd.code == 4401
        with pytest.raises(InvalidStatus):
            async with socket_to(client, "-", additional_headers={"Origin": "http://evil.example"}):
                pass
        with pytest.raises(InvalidStatus):
            async with socket_to(client, "-", subprotocols=None):
                pass


async def test_an_unknown_environment_is_an_event_and_the_tab_goes_on() -> None:
    async with console() as (environment, client), socket_to(client) as websocket:
        screen = Screen(websocket)
        given = {"op": "attach", "channel": 1, "environment": "e-000000000000", "process": "x"}
        await websocket.send(json.dumps(given))
        error = await screen.event("error")
        assert (error["code"], error["channel"]) == ("unknown_environment", 1)
        made = await start(client, environment, command="echo fine")
        await screen.attach(environment.id, made["id"])
        await screen.shows(b"fine")


async def test_an_oversized_frame_ends_its_tab_alone() -> None:
    async with console() as (environment, client), socket_to(client) as other:
        async with socket_to(client) as websocket:
            await websocket.send(bytes(1 << 20))
            await websocket.wait_closed()
        made = await start(client, environment, command="echo fine")
        screen = Screen(other)
        await screen.attach(environment.id, made["id"])
        await screen.shows(b"fine")


async def test_a_viewer_cannot_start_or_end_terminals() -> None:
    async with console("view") as (environment, client):
        path = f"/environments/{environment.id}/terminals"
        for answer in (
            await client.post(path, {}),
            await client.delete(f"{path}/x"),
            await client.post(f"{path}/x/restart"),
        ):
            assert (answer.status, answer.code) == (403, "scope_missing")


async def test_a_terminal_in_a_container(tmp_path: Path) -> None:
    async with (
        hermetic.open("docker", **place("docker", tmp_path)) as environment,
        serving() as server,
    ):
        client = Client(server, "drive")
        made = await start(client, environment)
        async with socket_to(client) as websocket:
            screen = Screen(websocket)
            await screen.attach(environment.id, made["id"])
            await screen.type(b"cat /proc/1/comm; echo o''k\r")
            await screen.shows(b"ok\r\n")
        await client.delete(f"/environments/{environment.id}/terminals/{made['id']}")
