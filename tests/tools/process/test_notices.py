"""What is told of processes: once, in order, to whoever takes it, and again only where nobody had
it.
"""

import asyncio
import json
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hermetic.contract import limits
from hermetic.contract.errors import ConfigError
from hermetic.contract.notice import Notice
from hermetic.tools.base.notices import Notices, nothing
from hermetic.tools.base.show import Show
from hermetic.tools.process.webhook import Webhook
from tests.boxes import on_this_side, opened, place
from tests.programs import need


class Receiver:
    """A web server that answers with the given status codes, then with 204."""

    def __init__(self, statuses: list[int]) -> None:
        self.statuses = statuses
        self.got: list[Any] = []
        self.keys: list[str] = []
        self.came = asyncio.Event()
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        fields = {
            line.partition(": ")[0].lower(): line.partition(": ")[2]
            for line in head.split("\r\n")[1:]
            if line
        }
        body = await reader.readexactly(int(fields["content-length"]))
        status = self.statuses.pop(0) if self.statuses else 204
        if status:
            writer.write(f"HTTP/1.1 {status} Said\r\nContent-Length: 0\r\n\r\n".encode())
            await writer.drain()
        writer.close()
        if head.startswith("POST /hook?key=1 HTTP/1.1\r\n"):
            self.got.append(json.loads(body))
            self.keys.append(fields["idempotency-key"])
            self.came.set()


@asynccontextmanager
async def receiving(*statuses: int, certificate: Path | None = None) -> AsyncIterator[Receiver]:
    receiver, context = Receiver(list(statuses)), None
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0, ssl=context)
    scheme = "https" if context else "http"
    receiver.url = f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook?key=1"
    async with server:
        yield receiver


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Long pauses are noted and not waited for."""
    paused: list[float] = []
    sleep = asyncio.sleep

    async def pause(seconds: float) -> None:
        if seconds >= 1:
            paused.append(seconds)
        await sleep(min(seconds, 0.02))

    monkeypatch.setattr(asyncio, "sleep", pause)
    return paused


async def until_told(box: Any, id: str, seconds: float = 20) -> None:
    """Returns when the process's tag says that its end was told."""
    async with asyncio.timeout(seconds), box.toolbox.fleet.use("t") as environment:
        while not json.loads((await environment.process(id)).info.tag).get("told"):  # noqa: ASYNC110 (no event tells)
            await asyncio.sleep(0.02)


async def test_a_web_address_gets_each_notice_until_it_has_it(
    tmp_path: Path, quick: list[float]
) -> None:
    async with receiving(500, 0, 404) as receiver, opened(tmp_path, webhook=receiver.url) as box:
        started = await box.terminal("echo bye; exit 3", background=True, notify_on_complete=True)
        await until_told(box, started["session_id"])
        assert len(receiver.got) == 4
        assert all(got == receiver.got[0] for got in receiver.got)
        assert len(set(receiver.keys)) == 1
        assert quick[:3] == [1.0, 2.0, 4.0]
        got = receiver.got[0]
        assert (got["kind"], got["exit_code"], got["output"]) == ("completed", 3, "bye\n")
        assert (got["session_id"], got["task_id"]) == (started["session_id"], "t")


def certificate_for(name: str, at: Path) -> Path:
    """A certificate that nobody but itself vouches for, with its key."""
    openssl = need("openssl")
    words = [
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-subj",
        "/CN=test",
    ]
    key, certificate = at / f"{name}.key", at / f"{name}.crt"
    files = [
        "-addext",
        f"subjectAltName=IP:{name}",
        "-days",
        "2",
        "-keyout",
        str(key),
        "-out",
        str(certificate),
    ]
    subprocess.run([openssl, *words, *files], check=True, capture_output=True)
    (at / f"{name}.pem").write_text(certificate.read_text() + key.read_text())
    return at / f"{name}.pem"


async def test_a_web_address_is_trusted_by_the_certificates_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, other = (certificate_for(name, tmp_path) for name in ("127.0.0.1", "127.0.0.2"))
    notice = Notice(kind="completed", task_id="t", id="n", text="ß")
    async with receiving(certificate=good) as receiver:
        with pytest.raises(ssl.SSLCertVerificationError):
            await Webhook(receiver.url)(notice)
        monkeypatch.setenv("SSL_CERT_FILE", str(good))
        await Webhook(receiver.url)(notice)
        assert [got["text"] for got in receiver.got] == ["ß"]
    monkeypatch.setenv("SSL_CERT_FILE", str(other))
    async with receiving(certificate=other) as receiver:
        # it is the certificate of another address
        with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
            await Webhook(receiver.url)(notice)
        assert receiver.got == []


@on_this_side
async def test_a_notice_that_nobody_took_is_told_to_the_next_caller(
    tmp_path: Path, kind: str
) -> None:
    async with (
        receiving(*[500] * 1000) as receiver,
        opened(tmp_path, kind, webhook=receiver.url) as box,
    ):
        started = await box.terminal("exit 3", background=True, notify_on_complete=True)
        async with asyncio.timeout(20):
            await receiver.came.wait()
        await box.toolbox.close()  # the environment lives on
    async with opened(tmp_path, kind) as box:
        await box.process("list")
        async with asyncio.timeout(20):
            notice = await box.next_notice()
        assert (notice.session_id, notice.exit_code) == (started["session_id"], 3)
        assert notice.id == receiver.got[0]["id"]
        await box.toolbox.fleet.close_task("t", remove=True)


@pytest.mark.parametrize(
    "url", ["ftp://x/", "http://", "//x", "http://x:99999/", "http://a b/", "http://x/\r\nA: b"]
)
async def test_what_is_no_web_address_is_told_at_once(url: str) -> None:
    with pytest.raises(ConfigError, match="webhook"):
        Webhook(url)


async def test_a_callback_that_fails_is_called_again_and_keeps_the_order(
    tmp_path: Path, quick: list[float]
) -> None:
    got: list[str] = []

    async def take(notice: Notice) -> None:
        got.append(notice.session_id)
        if len(got) == 1:
            raise RuntimeError("not now")

    async with opened(tmp_path, on_notice=take) as box:
        first = await box.terminal("exit 1", background=True, notify_on_complete=True)
        await until_told(box, first["session_id"])
        second = await box.terminal("exit 2", background=True, notify_on_complete=True)
        await until_told(box, second["session_id"])
        assert got == [first["session_id"], first["session_id"], second["session_id"]]


async def test_a_plain_function_gets_each_notice_once(tmp_path: Path, quick: list[float]) -> None:
    got: list[str] = []

    def take(notice: Notice) -> None:
        got.append(notice.session_id)

    async with opened(tmp_path, on_notice=take) as box:
        first = await box.terminal("exit 1", background=True, notify_on_complete=True)
        await until_told(box, first["session_id"])
        assert got == [first["session_id"]]


async def test_who_waits_is_told_and_nobody_else(tmp_path: Path) -> None:
    told: list[str] = []

    async def take(notice: Notice) -> None:
        told.append(notice.session_id)

    async with opened(tmp_path, on_notice=take) as box:
        for _ in range(10):
            started = await box.terminal(
                "sleep 0.1; exit 5", background=True, notify_on_complete=True
            )
            ended = await box.process("wait", started["session_id"], timeout=20)
            assert (ended["status"], ended["exit_code"]) == ("exited", 5)
        last = await box.terminal("exit 6", background=True, notify_on_complete=True)
        await until_told(box, last["session_id"])
        assert told == [last["session_id"]]


CALLER = """
import asyncio, json, sys
from hermetic.toolbox import Toolbox

async def take(notice):
    print(notice.id, flush=True)
    if sys.argv[3] == "dies":
        await asyncio.sleep(1000)

async def main():
    sink = None if sys.argv[3] == "nobody" else take
    toolbox = Toolbox(environment=sys.argv[1], options=json.loads(sys.argv[2]), on_notice=sink)
    given = {"command": "exit 3", "background": True, "notify_on_complete": True}
    id = json.loads(await toolbox.call("terminal", given, task_id="t"))["session_id"]
    async with toolbox.fleet.use("t") as environment:
        process = await environment.process(id)
        await process.wait()
        if sys.argv[3] == "nobody":
            print("ended", flush=True)
        while sys.argv[3] == "takes" and not json.loads(process.info.tag).get("told"):
            process = await environment.process(id)
    if sys.argv[3] == "takes":
        print("done", flush=True)
    await asyncio.sleep(1000)

asyncio.run(main())
"""


@on_this_side
@pytest.mark.parametrize(
    ("how", "is_repeated"), [("nobody", False), ("dies", True), ("takes", None)]
)
async def test_what_a_caller_that_was_killed_may_have_had_is_marked(
    tmp_path: Path, kind: str, how: str, is_repeated: bool | None
) -> None:
    words = (sys.executable, "-c", CALLER, kind, json.dumps(place(kind, tmp_path)), how)
    async with asyncio.timeout(60), opened(tmp_path, kind) as box:
        caller = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
        assert caller.stdout is not None
        said = [(await caller.stdout.readline()).decode().strip()]
        if how == "takes":
            said.append((await caller.stdout.readline()).decode().strip())
            assert said[1] == "done"
        caller.kill()
        await caller.wait()
        await box.process("list")
        if is_repeated is None:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(box.next_notice(), 0.5)
        else:
            notice = await box.next_notice()
            assert (notice.exit_code, notice.repeated) == (3, is_repeated)
            assert not is_repeated or notice.id == said[0]
        await box.toolbox.fleet.close_task("t", remove=True)


@on_this_side
async def test_an_end_that_was_shown_is_not_told_to_the_next_caller_either(
    tmp_path: Path, kind: str
) -> None:
    async with opened(tmp_path, kind) as box:
        shown = await box.terminal("echo 1", background=True, notify_on_complete=True)
        async with box.toolbox.fleet.use("t") as environment:
            await (await environment.process(shown["session_id"])).wait(20)
        await asyncio.sleep(0.3)  # its notice waits now, and nobody has taken it
        assert (await box.process("log", shown["session_id"]))["output"] == "1"
        await box.toolbox.close()
    async with opened(tmp_path, kind) as box:
        assert len((await box.process("list"))["processes"]) == 1
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await box.next_notice()
        await box.toolbox.fleet.close_task("t", remove=True)


@on_this_side
async def test_a_match_that_was_told_is_not_told_to_the_next_caller_and_a_later_one_is(
    tmp_path: Path, kind: str
) -> None:
    command = (
        f"echo ready 1; until [ -e {tmp_path}/go ]; do sleep 0.05; done; echo ready 2; sleep 1000"
    )
    async with opened(tmp_path, kind) as box:
        await box.terminal(command, background=True, watch_patterns=["ready"])
        async with asyncio.timeout(20):
            assert (await box.next_notice()).output == "ready 1"
        await box.toolbox.close()
    async with opened(tmp_path, kind) as box:
        [listed] = (await box.process("list"))["processes"]
        assert (listed["watch_patterns"], listed["detached"]) == (["ready"], True)
        (tmp_path / "go").touch()
        async with asyncio.timeout(20):
            assert (await box.next_notice()).output == "ready 2"
        await box.toolbox.fleet.close_task("t", remove=True)


@on_this_side
async def test_of_two_callers_that_live_the_one_who_started_it_is_told(
    tmp_path: Path, kind: str
) -> None:
    async with asyncio.timeout(60), opened(tmp_path, kind) as box, opened(tmp_path, kind) as other:
        text = f"until [ -e {tmp_path}/go ]; do sleep 0.05; done; echo ready; exit 4"
        started = await box.terminal(text, background=True, notify_on_complete=True)
        watched = await box.terminal(text, background=True, watch_patterns=["ready"])
        listed = await other.process("list")
        assert [one["detached"] for one in listed["processes"]] == [True, True]
        (tmp_path / "go").touch()
        assert (await other.process("wait", started["session_id"], timeout=20))["exit_code"] == 4
        told = {
            notice.session_id: notice.kind
            for notice in [await box.next_notice(), await box.next_notice()]
        }
        assert told == {started["session_id"]: "completed", watched["session_id"]: "matched"}
        await until_told(box, watched["session_id"])
        await box.toolbox.close()
        with pytest.raises(TimeoutError):  # what was told is not told again by who comes next
            await asyncio.wait_for(other.next_notice(), 0.5)
        await other.toolbox.fleet.close_task("t", remove=True)


async def test_who_claims_a_process_while_the_way_was_broken_tells_of_it(tmp_path: Path) -> None:
    async with asyncio.timeout(60), opened(tmp_path) as box, opened(tmp_path) as other:
        started = await box.terminal("read -r x; exit 4", background=True, notify_on_complete=True)
        await other.process("list")  # follows it now, behind the first one
        async with box.toolbox.fleet.use("t") as environment:
            connection = environment._link._connection
            assert connection is not None
            assert connection._transport is not None
            connection._transport.abort()
            assert (await other.process("submit", started["session_id"], data="x"))[
                "status"
            ] == "ok"
            notice = await other.next_notice()
            assert (notice.session_id, notice.exit_code) == (started["session_id"], 4)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(box.next_notice(), 0.5)
        await other.toolbox.close()


async def test_who_ended_it_is_remembered_beside_what_was_told(tmp_path: Path) -> None:
    async with asyncio.timeout(60), opened(tmp_path) as box, opened(tmp_path) as other:
        started = await box.terminal("sleep 1000", background=True, notify_on_complete=True)
        assert (await other.process("kill", started["session_id"]))["status"] == "killed"
        assert (await box.next_notice()).ending == "signalled"
        await until_told(box, started["session_id"])
        [listed] = (await box.process("list"))["processes"]
        assert listed["termination_source"] == "process.kill"


async def test_after_the_last_match_only_the_end_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hermetic.contract.limits.NOTICE_MATCHES", 1)
    async with opened(tmp_path) as box:
        await box.terminal(
            "echo ready; read -r x; exit 3", background=True, watch_patterns=["ready"]
        )
        async with asyncio.timeout(20):
            told = [await box.next_notice(), await box.next_notice()]
            [listed] = (await box.process("list"))["processes"]
            await box.process("close", listed["session_id"])
            told.append(await box.next_notice())
        assert [notice.kind for notice in told] == ["matched", "watch_disabled", "completed"]
        assert told[-1].exit_code == 3


async def test_an_ended_process_that_was_only_watched_is_settled(tmp_path: Path) -> None:
    async with opened(tmp_path) as box:
        started = await box.terminal("echo ready", background=True, watch_patterns=["ready"])
        async with asyncio.timeout(20):
            assert (await box.next_notice()).output == "ready"
        await until_told(box, started["session_id"])


@on_this_side
async def test_letting_go_of_a_place_is_not_the_end_of_its_processes(
    tmp_path: Path, kind: str
) -> None:
    async with opened(tmp_path, kind) as box:
        text = f"until [ -e {tmp_path}/go ]; do sleep 0.05; done; exit 4"
        started = await box.terminal(text, background=True, notify_on_complete=True)
        await box.toolbox.fleet.close_task("t")
        [listed] = (await box.process("list"))["processes"]
        assert listed["status"] == "running"
        (tmp_path / "go").touch()
        async with asyncio.timeout(20):
            notice = await box.next_notice()
        assert (notice.session_id, notice.ending, notice.exit_code) == (
            started["session_id"],
            "exited",
            4,
        )
        await box.toolbox.fleet.close_task("t", remove=True)


async def test_what_falls_out_of_a_full_queue_is_counted() -> None:
    queue = Notices(Show())
    for number in range(limits.NOTICES + 5):
        queue.tell(Notice(kind="progress", task_id="a", text=str(number)), nothing)
    queue.tell(Notice(kind="progress", task_id="b", text="b"), nothing)
    stream = queue.stream("a")
    first = await anext(stream)
    assert (first.kind, first.suppressed) == ("missed", 6)
    assert (await anext(stream)).text == "6"
    assert (await anext(queue.stream("b"))).text == "b"
    await queue.close()


class Frozen:
    """A place that does not answer until it is thawed."""

    def __init__(self) -> None:
        self.thawed = asyncio.Event()

    async def give(self) -> bool:
        await self.thawed.wait()
        return True

    async def take(self) -> None:
        await self.thawed.wait()


def tell(queue: Notices, task: str, place: Frozen | None = None) -> None:
    for number in ("1", "2"):
        marks = (place.take, place.give) if place is not None else (nothing,)
        queue.tell(Notice(kind="progress", task_id=task, text=f"{task} {number}"), *marks)


async def test_a_place_that_does_not_answer_holds_up_its_own_notices_alone_in_a_stream() -> None:
    queue, place = Notices(Show()), Frozen()
    tell(queue, "frozen", place)
    tell(queue, "quick")
    stream = queue.stream()
    async with asyncio.timeout(20):
        assert [(await anext(stream)).text for _ in range(2)] == ["quick 1", "quick 2"]
        waiting = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0.1)
        tell(queue, "later")
        assert (await waiting).text == "later 1"
        place.thawed.set()
        assert sorted([(await anext(stream)).text for _ in range(3)]) == [
            "frozen 1",
            "frozen 2",
            "later 2",
        ]
    await queue.close()


async def test_a_place_that_does_not_answer_holds_up_its_own_notices_alone_before_sinks() -> None:
    got: list[str] = []
    came = asyncio.Event()

    async def sink(notice: Notice) -> None:
        got.append(notice.text)
        came.set()

    async def until(count: int) -> None:
        async with asyncio.timeout(20):
            while len(got) < count:
                came.clear()
                await came.wait()

    queue, place = Notices(Show(), [sink]), Frozen()
    tell(queue, "frozen", place)
    tell(queue, "quick")
    await until(2)
    assert got == ["quick 1", "quick 2"]
    place.thawed.set()
    await until(4)
    assert got[2:] == ["frozen 1", "frozen 2"]
    await queue.close()


async def test_a_place_that_answers_slowly_is_told_of_in_the_end() -> None:
    async def give() -> bool:
        await asyncio.sleep(1.5)
        return True

    queue = Notices(Show())
    queue.tell(Notice(kind="progress", task_id="slow", text="slow"), nothing, give)
    async with asyncio.timeout(20):
        assert (await anext(queue.stream())).text == "slow"
    await queue.close()


async def test_what_cannot_be_noted_as_taken_holds_nobody_up() -> None:
    got: list[str] = []
    second = asyncio.Event()

    async def sink(notice: Notice) -> None:
        got.append(notice.text)
        if len(got) == 2:
            second.set()

    queue, place = Notices(Show(), [sink]), Frozen()
    queue.tell(Notice(kind="progress", task_id="frozen", text="frozen"), place.take)
    queue.tell(Notice(kind="progress", task_id="quick", text="quick"), nothing)
    async with asyncio.timeout(20):
        await second.wait()
    assert got == ["frozen", "quick"]
    place.thawed.set()
    await queue.close()


async def test_closing_does_not_wait_for_ever_for_a_place_that_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hermetic.tools.base.notices.CLOSING", 0.1)
    queue, place = Notices(Show()), Frozen()
    queue.tell(Notice(kind="progress", task_id="frozen", text="frozen"), place.take)
    stream = queue.stream()
    assert (await anext(stream)).text == "frozen"
    async with asyncio.timeout(10):
        await queue.close()
