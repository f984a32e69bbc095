"""Kinds of cloud vendors: with the real SDKs where they are installed, and what is said where they
are not.
"""

import asyncio
import contextlib
import importlib.util
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest

import hermetic
from hermetic.contract.environment import NewEnvironment
from hermetic.contract.errors import NotInstalled
from hermetic.environments import catalog, daytona
from hermetic.environments.clouds import stream as streams
from hermetic.environments.clouds.hosted import NewSandbox
from hermetic.environments.clouds.stream import BRIDGE, answer_after, carried
from hermetic.environments.daytona import Daytona, TerminalStream
from hermetic.environments.remote import python_line
from hermetic.registry.records import new_id
from tests.clouds.vendors import KINDS, SDK, installed, standin
from tests.sizes import is_full

LONGEST_LINE = 4000  # characters that a terminal keeps for a shell without line editing


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_works_by_its_real_sdk(kind: str, tmp_path: Path) -> None:
    words = [
        "--noconftest",
        "-q",
        "-x",
        "-c",
        os.devnull,
        "-p",
        "no:cacheprovider",
        "-W",
        "error",
        f"--rootdir={SDK}",
    ]
    with standin(kind, tmp_path / "standin", cuts=True) as variables:
        environ = {
            **os.environ,
            **variables,
            "CLOUD_KIND": kind,
            "HERMETIC_DATA_DIR": str(tmp_path / "data"),
        }
        done = subprocess.run(
            [installed(kind), "-m", "pytest", *words, SDK / "test_cloud.py"],
            cwd=tmp_path,
            env=environ,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert "passed" in done.stdout
    assert not is_full() or "skipped" not in done.stdout


@pytest.fixture(params=KINDS)
def absent(request: pytest.FixtureRequest) -> str:
    """A kind whose SDK is not installed here."""
    kind: str = request.param
    assert importlib.util.find_spec(kind) is None, "the environment of the tests has no SDK"
    return kind


async def test_without_its_sdk_a_kind_says_what_to_install(absent: str) -> None:
    with pytest.raises(NotInstalled, match=rf"pip install 'hermetic\[{absent}\]'"):
        await hermetic.open(absent, image="x")
    finding = await catalog.find(absent).doctor()  # type: ignore[attr-defined]
    assert (finding.state, finding.advice) == ("missing", f"pip install 'hermetic[{absent}]'")
    assert await catalog.find(absent).collect("/", lambda id: None) == []  # type: ignore[attr-defined]


def test_the_line_that_opens_the_stream_fits_every_terminal() -> None:
    socket_path = "/var/tmp/hermetic-1000000000/run/t-0123456789abcdef.01234567/s"
    assert (
        len(python_line(BRIDGE, socket_path, "30", python="/home/somebody/.h/python3"))
        < LONGEST_LINE
    )


class Bridge:
    """A bridge as a process of this machine."""

    size = 64

    def __init__(self, path: str, silence: int) -> None:
        words = [sys.executable, "-I", "-S", "-c", BRIDGE, path, str(silence)]
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        self.writes = 0

    async def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        assert len(data) <= self.size
        self.writes += 1
        await asyncio.to_thread(self.process.stdin.write, data)

    async def read(self) -> bytes:
        assert self.process.stdout is not None
        return await asyncio.to_thread(self.process.stdout.read, 1 << 16)

    async def close(self) -> None:
        self.process.kill()

    def end(self) -> int:
        """Waits for it; its exit code."""
        code = self.process.wait(60)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()
        return code


async def _nothing() -> None:
    pass


async def test_bytes_pass_unchanged_in_messages_of_any_size(tmp_path: Path) -> None:
    data = os.urandom(100_000)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        bridge = Bridge(str(tmp_path / "s"), 60)
        loop = asyncio.get_running_loop()
        assert await answer_after(bridge, b"") == (b"+", b"")
        with carried(bridge, _nothing) as ours, listener.accept()[0] as resident:
            resident.setblocking(False)
            for sender, receiver in ((ours, resident), (resident, ours)):
                sending = asyncio.ensure_future(loop.sock_sendall(sender, data))
                came = b""
                while len(came) < len(data):
                    came += await loop.sock_recv(receiver, 1 << 16)
                await sending
                assert came == data
        await asyncio.to_thread(bridge.end)


async def test_an_idle_stream_is_kept_and_a_silent_one_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "KEEPALIVE", 0.1)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        bridge, silent = (Bridge(str(tmp_path / "s"), 3) for _ in range(2))
        assert await answer_after(bridge, b"") == (b"+", b"")
        with carried(bridge, _nothing):
            assert await asyncio.to_thread(silent.end) < 0  # by its alarm
            assert bridge.process.poll() is None
            assert bridge.writes > 10
        await asyncio.to_thread(bridge.end)


class Mute(Bridge):
    """A bridge whose answers are lost on their way."""

    async def read(self) -> bytes:
        await asyncio.get_running_loop().create_future()
        return b""


async def test_a_stream_without_answers_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "KEEPALIVE", 0.1)
    monkeypatch.setattr(streams, "SILENCE", 1.0)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        bridges = Bridge(str(tmp_path / "s"), 60), Mute(str(tmp_path / "s"), 60)
        assert await answer_after(bridges[0], b"") == (b"+", b"")
        with carried(bridges[0], _nothing) as answered, carried(bridges[1], _nothing) as silent:
            async with asyncio.timeout(30):
                assert await asyncio.get_running_loop().sock_recv(silent, 1) == b""
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(2):  # twice as long: the other is answered
                    await asyncio.get_running_loop().sock_recv(answered, 1)
        for bridge in bridges:
            await asyncio.to_thread(bridge.end)


class Closing:
    """A carrier that takes long to close."""

    size = 64

    def __init__(self) -> None:
        self.is_closing = asyncio.Event()

    async def write(self, data: bytes) -> None:
        pass

    async def read(self) -> bytes:
        await asyncio.get_running_loop().create_future()
        return b""

    async def close(self) -> None:
        self.is_closing.set()
        await asyncio.get_running_loop().create_future()


def test_a_stream_that_is_closing_when_its_event_loop_ends_is_closed() -> None:
    closed = []

    async def on_close() -> None:
        await asyncio.sleep(0)
        closed.append("the client")

    async def main() -> None:
        carrier = Closing()
        carried(carrier, on_close).close()
        await carrier.is_closing.wait()

    asyncio.run(main())
    assert closed == ["the client"]


async def test_the_answer_of_a_bridge_follows_the_noise_of_a_shell(tmp_path: Path) -> None:
    class Parts:
        size = 1

        def __init__(self, *parts: bytes) -> None:
            self.parts = [*parts, b""]

        async def read(self) -> bytes:
            return self.parts.pop(0)

        async def write(self, data: bytes) -> None:
            pass

        async def close(self) -> None:
            pass

    assert await answer_after(Parts(b"welcome\nMA", b"RK", b"+rest"), b"MARK") == (b"+", b"rest")
    assert await answer_after(Parts(b"welcome", b"MARK"), b"MARK") == (b"", b"")


class Swallowing(Daytona):
    """A vendor whose call returns though it was cancelled, as `asyncio.wait_for` of Python 3.11
    can.
    """

    creating: ClassVar[asyncio.Event]
    ended: ClassVar[list[str]] = []

    @classmethod
    def problem(cls) -> None:
        return None

    @classmethod
    @asynccontextmanager
    async def api(cls) -> AsyncIterator[Any]:
        yield cls({"image": "x"})

    async def create(self, new: NewSandbox, options: object) -> Any:
        self.creating.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.get_running_loop().create_future()

    async def named(self, name: str) -> Any:
        return self

    async def end(self, kept_for: str | None) -> None:
        self.ended.append("ended")


async def test_a_cancelled_start_ends_its_sandbox_though_the_sdk_swallows_that(
    tmp_path: Path,
) -> None:
    Swallowing.creating, backend = asyncio.Event(), Swallowing({"image": "x"})
    starting = asyncio.ensure_future(
        backend.start(
            NewEnvironment(
                id=new_id(), directory=str(tmp_path), spool=None, token=b"t" * 32, label=""
            )
        )
    )
    await Swallowing.creating.wait()
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert Swallowing.ended == ["ended"]


class Client:
    """A client of Daytona's SDK, and the module that makes it."""

    def __init__(self) -> None:
        self.closing, self.go_on = asyncio.Event(), asyncio.Event()
        self.is_closed = False

    class DaytonaConfig:
        """Has no option for events."""

        model_fields: ClassVar[dict[str, object]] = {}

        def __init__(self, **_: object) -> None:
            pass

    def AsyncDaytona(self, _: object) -> "Client":
        return self

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        self.closing.set()
        await self.go_on.wait()
        self.is_closed = True


async def test_a_client_of_the_sdk_is_closed_though_its_user_is_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = Client()
    monkeypatch.setattr(daytona, "_sdk", lambda: client)

    async def use() -> None:
        async with Daytona.api():
            pass

    using = asyncio.create_task(use())
    await client.closing.wait()
    using.cancel()
    asyncio.get_running_loop().call_later(0.05, client.go_on.set)
    with pytest.raises(asyncio.CancelledError):
        await using
    assert client.is_closed


class Terminal:
    """A terminal of Daytona's SDK that takes no input."""

    def __init__(self) -> None:
        self.creating, self.created = asyncio.Event(), asyncio.Event()
        self.ended: list[str] = []

    async def create_pty_session(self, id: str, on_data: object) -> "Terminal":
        self.creating.set()
        await self.created.wait()
        return self

    async def send_input(self, data: str) -> None:
        raise ConnectionError("the sandbox has ended")

    async def wait(self) -> None:
        await asyncio.get_running_loop().create_future()

    async def kill(self) -> None:
        self.ended.append("killed")
        raise ConnectionError("the sandbox has ended")

    async def disconnect(self) -> None:
        self.ended.append("disconnected")


async def test_a_terminal_whose_stream_does_not_open_is_ended() -> None:
    terminal = Terminal()
    terminal.created.set()
    with pytest.raises(ConnectionError, match="has ended"):
        await TerminalStream().open(terminal, "true")
    assert terminal.ended == ["killed", "disconnected"]
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_terminal_that_is_being_created_when_its_opener_is_cancelled_is_ended() -> None:
    terminal = Terminal()
    opening = asyncio.create_task(TerminalStream().open(terminal, "true"))
    await terminal.creating.wait()
    opening.cancel()
    terminal.created.set()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert terminal.ended == ["killed", "disconnected"]
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize(("make", "answer"), [(True, b"-"), (False, b"?")])
async def test_a_bridge_says_why_it_does_not_open(
    tmp_path: Path, make: bool, answer: bytes
) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        if make:
            listener.bind(str(tmp_path / "s"))  # no listener
        bridge = Bridge(str(tmp_path / "s"), 60)
        assert await bridge.read() == answer
        await asyncio.to_thread(bridge.end)
