"""What a program of this user puts into the directory of approval requests without being one of
ours.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from hermetic.approvals import exchange, watching
from hermetic.approvals.exchange import Asked, Listed, Message, Settled, SharedRequest
from hermetic.approvals.prompt import described
from hermetic.approvals.watching import ApprovalWatch
from hermetic.contract.approval import Need
from hermetic.registry.private import make_private
from tests.approvals.asking import SECONDS, asking, pending

ESCAPE = "\x1b]52;c;cm0gLXJmIC8=\x07\x9b2J"


@asynccontextmanager
async def publishing(name: str, *requests: SharedRequest) -> AsyncIterator[None]:
    """A socket in the directory that sends these requests to every console."""
    messages: list[Message] = [Listed(len(requests)), *map(Asked, requests)]
    content = b"".join(map(exchange.packed, messages))
    loop, sending = asyncio.get_running_loop(), set[asyncio.Task[None]]()
    path = make_private(exchange.exchange_path(), "test") / name
    with contextlib.ExitStack() as stack:
        # Not asyncio's server: when that is closed, connections that it has just accepted stay
        # open.
        listener = stack.enter_context(
            socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        )
        listener.bind(str(path))
        stack.callback(exchange.remove, path)
        listener.listen()

        def accept() -> None:
            connection = stack.enter_context(listener.accept()[0])
            connection.setblocking(False)
            sending.add(loop.create_task(loop.sock_sendall(connection, content)))

        loop.add_reader(listener, accept)
        try:
            yield
        finally:
            loop.remove_reader(listener)
            for task in sending:
                task.cancel()
            await asyncio.gather(*sending, return_exceptions=True)


@pytest.mark.parametrize("name", ["ask-0", "ask-z"])  # before and behind the real one
async def test_a_request_with_the_id_of_another_is_not_shown(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asking(tmp_path) as asker:
        async with ApprovalWatch("first") as first:
            real = await pending(first)
        monkeypatch.setattr("hermetic.approvals.watching.is_inside", lambda pid: pid == os.getpid())
        harmless = msgspec.structs.replace(real, command="ls")
        async with publishing(name, harmless), ApprovalWatch("one") as one:
            assert [(request.id, request.command) for request in one.pending()] == [
                (real.id, real.command)
            ]
            assert (await one.answer(real.id, "once")).answer == "once"
        assert (await asker.result())["exit_code"] == 0


async def test_a_request_whose_id_is_none_is_not_shown(tmp_path: Path) -> None:
    async with asking(tmp_path) as asker, ApprovalWatch("one") as one:
        real = await pending(one)
        odd = msgspec.structs.replace(real, id=f"ask_{ESCAPE}")
        async with publishing("ask-odd", odd), ApprovalWatch("two") as two:
            assert [request.id for request in two.pending()] == [real.id]
        await one.answer(real.id, "deny")
        await asker.result()


async def test_a_process_that_floods_is_shown_in_part_and_others_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "MOST_PENDING", 10)
    monkeypatch.setattr(watching, "MOST_BYTES", 1 << 20)
    async with asking(tmp_path) as asker, ApprovalWatch("one") as one:
        real = await pending(one)
        many = [msgspec.structs.replace(real, id=f"ask_many_{number}") for number in range(50)]
        long = [
            msgspec.structs.replace(real, id=f"ask_long_{n}", command="x" * 400_000)
            for n in range(5)
        ]
        async with (
            publishing("ask-many", *many),
            publishing("ask-more", *many[25:]),
            ApprovalWatch("two") as two,
        ):
            shown = {request.id for request in two.pending()}
            assert real.id in shown
            assert len(shown) == 1 + 10
        async with publishing("ask-long", *long), ApprovalWatch("three") as three:
            assert {request.id for request in three.pending()} == {
                real.id,
                "ask_long_0",
                "ask_long_1",
            }
        assert (await one.answer(real.id, "once")).answer == "once"
        assert (await asker.result())["exit_code"] == 0


async def test_a_process_has_few_sockets_and_is_read_at_a_bounded_rate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "MOST_SOCKETS", 2)
    monkeypatch.setattr(watching, "MESSAGES_A_SECOND", 4)
    async with (
        asking(tmp_path) as asker,
        ApprovalWatch("one") as one,
        contextlib.AsyncExitStack() as flood,
    ):
        real = await pending(one)
        for number in range(5):
            odd = msgspec.structs.replace(real, id=f"ask_{number}")
            await flood.enter_async_context(publishing(f"ask-{number}", odd))
        async with ApprovalWatch("two") as two:
            assert len(two.pending()) == 1 + 2
        many = [msgspec.structs.replace(real, id=f"ask_many_{number}") for number in range(8)]
        began = asyncio.get_running_loop().time()
        reader = asyncio.StreamReader()
        reader.feed_data(b"".join(exchange.packed(Asked(request)) for request in many))
        reader.feed_eof()
        assert len([line async for line in watching._slowly(reader)]) == 8
        assert asyncio.get_running_loop().time() - began >= 1.0
        await one.answer(real.id, "deny")
        await asker.result()


async def test_no_field_of_a_request_or_an_answer_reaches_the_terminal_unescaped(
    tmp_path: Path,
) -> None:
    async with asking(tmp_path) as asker, ApprovalWatch("one") as one:
        real = await pending(one)
        need = Need(decoded=ESCAPE, reason=ESCAPE, category=ESCAPE, rule=ESCAPE)
        odd: SharedRequest = msgspec.structs.replace(
            real,
            command=ESCAPE,
            task=ESCAPE,
            environment=ESCAPE,
            needs=(need,),
            scope={ESCAPE: ESCAPE},
            circumstances={ESCAPE: ESCAPE},
            reason=ESCAPE,
        )
        settled = Settled(id=real.id, outcome="answered", answer=ESCAPE, by=ESCAPE, reason=ESCAPE)
        for text in (described(odd), settled.described()):
            assert not {"\x1b", "\x07", "\x9b"} & set(text)
        await one.answer(real.id, "deny")
        await asker.result()


async def test_other_files_in_the_directory_stop_nothing() -> None:
    directory = make_private(exchange.exchange_path(), "test")
    fifo, odd = directory / f"{exchange.WATCH}1-0", exchange.hold(f"{exchange.ATTENDS}odd")
    os.mkfifo(fifo)
    try:
        async with asyncio.timeout(SECONDS):
            assert not await asyncio.to_thread(exchange.is_attended)
            async with ApprovalWatch("one") as one:
                assert one.pending() == []
    finally:
        os.close(odd[1])
        odd[0].unlink(missing_ok=True)
        exchange.remove(fifo)
    assert not directory.exists()
