"""A start that its caller cancels leaves no process that nobody knows, however the two cross."""

import asyncio
from typing import Any

import pytest

import hermetic
from hermetic.link.wire import Frame
from hermetic.session.keeping import link_of


def at_the_answer(link: Any, number: int, act: Any, *, before: bool) -> None:
    """Does something in the turn of the loop in which the answer to a request comes."""
    receive = link._receive

    def received(frame: Frame) -> None:
        is_it = frame.id == number
        if is_it and before:
            act()
        receive(frame)
        if is_it and not before:
            act()

    link._connection._receive = received


async def all_ended(env: hermetic.Environment) -> None:
    [info] = await env.processes()
    assert isinstance(await (await env.process(info.id)).wait(), hermetic.Signalled)


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
async def test_a_start_that_is_cancelled_as_its_answer_comes_leaves_nothing(before: bool) -> None:
    async with hermetic.open("local", login=False) as env, asyncio.timeout(20):
        link = link_of(env)
        starting = asyncio.ensure_future(env.start("sleep 1000"))
        at_the_answer(link, link.requests + 1, starting.cancel, before=before)
        with pytest.raises(asyncio.CancelledError):
            await starting
        await all_ended(env)


async def test_a_start_that_is_cancelled_while_the_connection_is_made_anew_leaves_nothing() -> None:
    """The process began before the connection broke, so that it exists when the start is repeated."""
    async with hermetic.open("local", login=False) as env, asyncio.timeout(20):
        link = link_of(env)
        starting = asyncio.ensure_future(env.start("sleep 1000"))
        connection: Any = link._connection
        broken = asyncio.Event()

        def break_off(frame: Frame) -> None:
            link.drop("the test breaks it")
            broken.set()

        connection._receive = break_off
        await broken.wait()
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        await all_ended(env)


async def test_a_process_that_was_there_before_outlives_a_cancelled_start() -> None:
    async with hermetic.open("local", login=False) as env, asyncio.timeout(20):
        link = link_of(env)
        await env.start("sleep 1000", id="mine")
        starting = asyncio.ensure_future(env.start("sleep 1000", id="mine"))
        at_the_answer(link, link.requests + 1, starting.cancel, before=False)
        with pytest.raises(asyncio.CancelledError):
            await starting
        await env.run("true")
        assert [info.state for info in await env.processes() if info.id == "mine"] == ["running"]
