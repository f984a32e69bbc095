"""Mistakes of a caller that the types would name: each error says what to write instead."""

import asyncio
import copy
import pickle
import threading
from typing import Any

import pytest

import hermetic
from hermetic import EnvironmentUnavailable, InvalidArgument


def test_an_environment_that_was_not_awaited_says_so() -> None:
    opening: Any = hermetic.open("local", cwd="/")
    assert repr(opening) == "<Opening by hermetic.open('local', …): await it, or use `async with`>"
    with pytest.raises(
        AttributeError, match=r"no 'run'; write `await hermetic.open\('local', …\)`"
    ):
        opening.run("true")
    attached: Any = hermetic.attach("a")
    with pytest.raises(TypeError, match=r"`async with hermetic.attach\('a'\) as env`"), attached:
        pass
    copy.copy(opening)
    assert not hasattr(attached, "id")


async def test_an_opening_is_entered_once_at_a_time() -> None:
    opening = hermetic.open("local", login=False)
    for _ in range(2):
        async with opening as env:
            with pytest.raises(RuntimeError, match=r"call hermetic\.open\(.*\) again"):
                async with opening:
                    pass
            assert (await env.run("echo one")).output == "one\n"
        with pytest.raises(EnvironmentUnavailable, match="closed"):
            await env.run("true")


def test_another_event_loop_is_refused_before_anything_is_sent() -> None:
    async def opened() -> hermetic.Environment:
        return await hermetic.open("local", login=False)

    with asyncio.Runner() as first, asyncio.Runner() as second:
        env = first.run(opened())
        process = first.run(env.start("cat"))
        for call in (env.run("true"), env.info(), process.write(b"x"), env.close()):
            with pytest.raises(EnvironmentUnavailable, match="event loop that opened it; use one"):
                second.run(call)
        assert first.run(env.run("echo on")).output == "on\n"
        first.run(env.close())


def test_a_fleet_of_another_event_loop_says_so() -> None:
    fleet = hermetic.Fleet("local", login=False)
    with asyncio.Runner() as first, asyncio.Runner() as second:
        first.run(fleet.get("a"))

        async def use() -> None:
            async with fleet.use("a") as env:
                await env.run("true")

        with pytest.raises(EnvironmentUnavailable, match="event loop that opened it"):
            second.run(use())
        first.run(fleet.close(remove=True))


async def test_an_event_of_threads_is_no_way_to_cancel() -> None:
    async with hermetic.open("local", login=False) as env:
        wrong: Any = threading.Event()
        with pytest.raises(InvalidArgument, match=r"asyncio.Event, not threading.Event; where"):
            await env.run("true", cancel=wrong)


async def test_what_cannot_travel_to_another_process_says_what_can() -> None:
    async with hermetic.open("local", login=False) as env:
        process = await env.start("sleep 60")
        for held in (env, env.session("b"), process):
            with pytest.raises(TypeError, match=rf"cannot be copied or sent.*attach.*{env.id}"):
                pickle.dumps(held)
        result = await env.run("sleep 60", timeout=0.1, on_timeout="yield")
        with pytest.raises(TypeError, match=rf"process\('{result.log}'\)"):
            copy.deepcopy(result)


async def test_input_of_another_type_is_named() -> None:
    async with hermetic.open("local", login=False) as env:
        wrong: Any = 3
        process = await env.start("cat")
        for call in (
            env.run("cat", stdin=wrong),
            env.write_file("/x", wrong),
            process.write(wrong),
        ):
            with pytest.raises(InvalidArgument, match="must be text or bytes, not int"):
                await call
        await process.kill()
