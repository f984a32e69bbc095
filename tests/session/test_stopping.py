"""A command that is told to stop by an event gives its result, with what it printed until then."""

import asyncio

import hermetic


async def test_setting_the_event_ends_the_command_and_returns_what_it_printed() -> None:
    async with hermetic.open("local", login=False) as env, asyncio.timeout(30):
        stop = asyncio.Event()
        begun = asyncio.Event()
        command = env.run(
            "X=1; echo begun; sleep 1000", cancel=stop, on_output=lambda _: begun.set()
        )
        running = asyncio.ensure_future(command)
        await begun.wait()
        stop.set()
        result = await running
        assert (result.ending, result.output) == (hermetic.Cancelled(), "begun\n")
        assert (await env.run("echo $X")).output == "\n"


async def test_an_event_that_is_never_set_changes_nothing() -> None:
    async with hermetic.open("local", login=False) as env:
        stop = asyncio.Event()
        assert (await env.run("echo a", cancel=stop)).output == "a\n"
        assert (await env.run("cat", stdin="b", cancel=stop)).output == "b"
        heard: list[bytes] = []
        await env.run("echo c", cancel=stop, on_output=heard.append)
        assert heard == [b"c\n"]


async def test_an_event_that_is_set_before_ends_it_too() -> None:
    async with hermetic.open("local", login=False) as env, asyncio.timeout(30):
        stop = asyncio.Event()
        stop.set()
        assert (await env.run("sleep 1000", cancel=stop)).ending == hermetic.Cancelled()
        assert (await env.run("sleep 1000", stdin="x", cancel=stop)).ending == hermetic.Cancelled()
