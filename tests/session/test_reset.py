"""Starting a session over, on purpose."""

import asyncio

import pytest

import hermetic
import hermetic.blocking
from hermetic import Cancelled, ConfigError, InvalidArgument
from hermetic.contract.limits import SESSIONS, TASK_LENGTH
from tests.scenarios.living import begin


async def test_a_session_that_is_reset_starts_from_the_login_state() -> None:
    async with hermetic.open("local", login=False) as environment:
        for session in (environment, environment.session("other")):
            await session.run("cd /tmp; export KEPT=1; greet() { echo hello; }")
            kept = await session.start("sleep 1000")
            assert await session.reset()
            after = await session.run("echo ${KEPT-none}; pwd; type -t greet")
            assert after.output == f"none\n{environment._record.options['cwd']}\n", after
            assert (await kept.status()).state == "running"
            await session.run("KEPT=2")
            assert (await session.run("echo $KEPT")).output == "2\n"


async def test_a_reset_ends_what_runs_in_the_session_and_nothing_else() -> None:
    async with hermetic.open("local", login=False) as environment:
        other = await begin(environment.session("other"), "echo up; sleep 1000")
        first = await begin(environment, "echo up; sleep 1000")
        second = await begin(environment, "echo up; sleep 1000")
        assert await environment.reset()
        async with asyncio.timeout(20):
            assert [(await running).ending for running in (first, second)] == [
                Cancelled(),
                Cancelled(),
            ]
        assert not other.done()
        assert (await environment.run("echo fine")).output == "fine\n"
        other.cancel()
        await asyncio.wait([other])


async def test_there_is_nothing_to_reset_in_a_session_without_commands() -> None:
    async with hermetic.open("local", login=False) as environment:
        assert not await environment.session("new").reset()


def test_the_blocking_face_resets_too() -> None:
    with hermetic.blocking.open("local", login=False) as environment:
        for session in (environment, environment.session("other")):
            session.run("export KEPT=1")
            assert session.reset()
            assert session.run("echo ${KEPT-none}").output == "none\n"


async def test_there_is_a_limit_of_sessions_that_says_what_to_do() -> None:
    async with hermetic.open("local", login=False) as environment:
        for number in range(SESSIONS - 1):  # the default one counts
            await environment.session(f"s{number}").state()
        with pytest.raises(
            InvalidArgument, match=r"128 sessions .* hermetic rm TASK --session NAME"
        ) as refused:
            await environment.session("more").run("echo more")
        assert refused.value.argument == "session"
        assert (await environment.session("s0").run("echo fine")).output == "fine\n"
        await environment.session("s1").close()
        assert (await environment.session("more").run("echo more")).output == "more\n"


async def test_a_task_has_a_bounded_length() -> None:
    with pytest.raises(ConfigError, match="5000 characters, the most is 512"):
        await hermetic.open("local", task="t" * 5000)
    with pytest.raises(InvalidArgument, match="5000 characters, the most is 512"):
        await hermetic.attach("t" * 5000)
    environment = await hermetic.open("local", task="t" * TASK_LENGTH, login=False)
    await environment.close(remove=True)


async def test_a_task_is_valid_text() -> None:
    with pytest.raises(ConfigError, match="not valid UTF-8") as refused:
        await hermetic.open("local", task="a\udc9b")
    assert refused.value.setting == "task"
    with pytest.raises(InvalidArgument, match="not valid UTF-8"):
        await hermetic.attach("a\udc9b")
