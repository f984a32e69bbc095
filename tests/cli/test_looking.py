"""`ps`, `logs`, `kill`, `envs` and `rm` see what other processes opened."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import hermetic
from hermetic.cli.manage import list_environments, state_of
from hermetic.contract.errors import EnvironmentUnavailable
from hermetic.fleet.opening import attach_environment
from tests.cli.program import as_json, running
from tests.cli.program import hermetic as program


@asynccontextmanager
async def opened(task: str | None = None) -> AsyncIterator[hermetic.Environment]:
    environment = await hermetic.open("local", task=task)
    try:
        yield environment
    finally:
        await environment.close(remove=True)


async def call(*words: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of the command line."""
    done = await asyncio.to_thread(program, *words)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


async def test_ps_shows_what_runs_where() -> None:
    async with opened("shown") as first, opened() as second:
        await first.start("echo hello; sleep 300", id="one")
        await second.start("sleep\t300", id="two")
        ended = await second.start("exit 3", id="three")
        await ended.wait(10)
        code, listed, _ = await call("ps")
        assert code == 0
        rows = {line.split()[0]: line for line in listed.splitlines()[1:]}
        assert rows.keys() == {"one", "two"}
        assert "shown" in rows["one"]
        assert second.id in rows["two"]
        assert "three" in (await call("ps", "-a"))[1]
        assert "one" not in (await call("ps", "--in", second.id))[1]
        data = {info["id"]: info for info in await asyncio.to_thread(as_json, "ps", "-a")}
        assert data["one"]["task"] == "shown"
        assert data["one"]["state"] == "running"
        assert data["three"]["ending"] == ["exited", 3]


async def test_ps_cannot_be_made_to_draw_on_the_terminal() -> None:
    async with opened() as environment:
        await environment.start("sleep 300 # \x1b[2J\x07", id="drawer")
        assert "\x1b" not in (await call("ps"))[1]


async def test_logs_prints_what_was_printed() -> None:
    async with opened() as environment:
        process = await environment.start(
            r"printf 'a\377b'; echo e >&2; sleep 300", separate=True, id="logged"
        )
        await process.wait_for("b", timeout=10)
        done = await asyncio.to_thread(program, "logs", "logg")
        assert (done.returncode, done.stdout) == (0, b"a\xffb")
        assert (
            await asyncio.to_thread(program, "logs", "logged", "--offset", "1")
        ).stdout == b"\xffb"
        assert (await asyncio.to_thread(program, "logs", "logged", "--stderr")).stdout == b"e\n"
        assert await call("logs", "logged", "--offset", "99") == (0, "", "")
        code, _, said = await call("logs", "logged", "--tail", "-1")
        assert (code, "--tail is a number of lines" in said) == (2, True)


async def test_logs_follows_to_the_end() -> None:
    async with opened() as environment:
        process = await environment.start("echo up; read -r line; echo got $line", id="followed")
        with running("logs", "-f", "followed") as following:
            assert following.stdout is not None
            assert await asyncio.to_thread(following.stdout.readline) == b"up\n"
            await process.submit("it")
            assert await asyncio.to_thread(following.stdout.read) == b"got it\n"
            assert following.wait(20) == 0


async def test_kill_ends_processes_by_the_start_of_their_ids() -> None:
    async with opened() as environment:
        first = await environment.start("sleep 300", id="victim-1")
        second = await environment.start("sleep 300", id="victim-2")
        code, _, said = await call("kill", "victim")
        assert code == 1
        assert "victim-1" in said
        assert "victim-2" in said
        code, told, _ = await call("kill", "victim-1", "victim-2")
        assert code == 0
        assert "victim-1: ended by SIGTERM" in told
        assert isinstance(await first.wait(10), hermetic.Signalled)
        assert isinstance(await second.wait(10), hermetic.Signalled)


async def test_kill_can_send_any_signal() -> None:
    async with opened() as environment:
        process = await environment.start(
            "trap 'echo heard; exit 9' USR1; echo up; while :; do sleep 0.02; done", id="u"
        )
        await process.wait_for("up", timeout=10)
        assert (await call("kill", "--signal", "USR1", "u"))[0] == 0
        assert await process.wait(10) == hermetic.Exited(9)


async def test_an_unknown_process_is_told() -> None:
    for words in (("logs", "nobody"), ("kill", "nobody"), ("attach", "nobody")):
        code, _, said = await call(*words)
        assert code == 1
        assert "nobody" in said
        assert "hermetic ps -a" in said


async def test_the_name_of_a_task_leads_to_its_processes() -> None:
    async with opened("two words") as environment:
        for name, quoted in (("two words", "'two words'"), (environment.id, environment.id)):
            code, _, said = await call("logs", name)
            assert code == 1
            assert f"`hermetic ps -a --in {quoted}` lists its processes" in said


async def test_envs_shows_all_environments() -> None:
    async with opened("listed") as environment:
        await environment.start("sleep 300")
        code, listed, _ = await call("envs")
        assert code == 0
        row = next(line for line in listed.splitlines() if environment.id in line)
        assert "listed" in row
        assert "alive" in row
        data = next(
            env for env in await asyncio.to_thread(as_json, "envs") if env["id"] == environment.id
        )
        assert (data["kind"], data["task"], data["alive"]) == ("local", "listed", True)
        assert data["info"]["processes"] == 1


async def test_rm_ends_environments_by_task_id_or_the_start_of_one() -> None:
    first = await hermetic.open("local", task="removed")
    second = await hermetic.open("local", task="removed too")
    await first.start("sleep 300")
    await first.close()
    await second.close()
    code, told, said = await call("rm", "removed", second.id[:8], "nobody")
    assert (code, told.splitlines()) == (1, ["removed", "removed too"])
    assert "nobody" in said
    assert (await call("envs"))[1].count("\n") == 1


async def test_rm_all_ends_everything_and_rm_alone_asks_what() -> None:
    await (await hermetic.open("local", task="one of all")).close()
    assert (await call("rm"))[0] == 2
    assert (await call("rm", "--all"))[0] == 0
    assert await asyncio.to_thread(as_json, "envs") == []


async def test_a_record_whose_resident_is_gone_is_shown_and_taken_away() -> None:
    environment = await hermetic.open("local", task="short", lease=0.1)
    pid = (await environment.info()).pid
    await environment.close()

    def is_over() -> bool:
        try:
            with open(f"/proc/{pid}/comm") as name:
                return not name.read().startswith("hermetic")
        except OSError:
            return True

    async with asyncio.timeout(20):
        while not is_over():  # noqa: ASYNC110 - somebody else's child
            await asyncio.sleep(0.02)
    assert all(not env["alive"] for env in await asyncio.to_thread(as_json, "envs"))
    assert (await call("rm", "--all"))[0] == 0
    assert await asyncio.to_thread(as_json, "envs") == []


def test_a_task_with_other_options_says_how_to_end_it() -> None:
    try:
        assert program("run", "--task", "a b", "--", "true").returncode == 0
        done = program("run", "--task", "a b", "-o", "lease=5", "--", "true")
        assert done.returncode == 2
        assert done.stderr.endswith(b"leave them out, or end it first: hermetic rm 'a b'\n")
        words = ("code", "--task", "a b", "-o", "lease=5", "-")
        assert b"`hermetic rm 'a b'`" in program(*words, stdin=b"print(1)").stderr
    finally:
        assert program("rm", "a b").returncode == 0


def test_removing_prints_no_control_characters() -> None:
    task = "odd\x1b[2J\n"
    assert program("run", "--task", task, "--", "true").returncode == 0
    assert program("rm", task).stdout.decode() == "odd�[2J⏎\n"


async def test_rm_ends_one_session_alone() -> None:
    async with opened("reset") as environment:
        other = environment.session("other")
        for session in (environment, other):
            await session.run("export KEPT=1")
        assert await call("rm", "reset", "--session", "other") == (0, "reset\n", "")
        assert (await other.run("echo ${KEPT-none}")).output == "none\n"
        assert (await environment.run("echo ${KEPT-none}")).output == "1\n"
        assert await call("rm", "reset", "--session", "") == (0, "reset\n", "")
        assert (await environment.run("echo ${KEPT-none}")).output == "none\n"
        code, _, said = await call("rm", "reset", "--session", "missing")
        assert (code, "no session 'missing'" in said) == (1, True)


async def test_ps_and_envs_show_what_a_command_left_running() -> None:
    async with opened("leaves") as environment:
        result = await environment.run("sleep 99999 & echo $!")
        rows = (await call("ps", "--in", "leaves"))[1].splitlines()[1:]
        assert len(rows) == 1
        assert result.log in rows[0]
        assert "1 left" in rows[0]
        [seen] = [
            one for one in await asyncio.to_thread(as_json, "envs") if one["task"] == "leaves"
        ]
        assert seen["info"]["processes"] == 1
        assert (await call("kill", result.log, "--in", "leaves"))[0] == 0
        assert len((await call("ps", "--in", "leaves"))[1].splitlines()) == 1


async def test_an_environment_whose_engine_does_not_answer_is_alive_with_an_unknown_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def unknown(environment: hermetic.Environment, spool_bytes: int | None) -> int:
        raise hermetic.EnvironmentUnavailable("the engine does not answer")

    monkeypatch.setattr("hermetic.cli.manage.disk_bytes", unknown)
    async with hermetic.open("local", task="sized", login=False) as env:
        [seen] = [seen for seen in await list_environments() if seen.known.record.id == env.id]
        assert seen.info is not None
        assert seen.disk is None
        assert state_of(seen) == "alive"
        await env.close(remove=True)


@pytest.mark.parametrize(
    "words", ["envs", "ps", "inspect looked-at", "completion --names processes"]
)
async def test_who_only_looks_prolongs_no_lease(words: str) -> None:
    await (await hermetic.open("local", task="looked-at", lease=0.5)).close()
    observer = await attach_environment("looked-at", observes=True)

    async def look() -> None:
        while True:
            await call(*words.split())

    looking = asyncio.create_task(look())
    async with asyncio.timeout(30):
        with contextlib.suppress(EnvironmentUnavailable):
            async for _ in observer.events():
                pass
    looking.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await looking
    await observer.close()


@pytest.mark.parametrize(
    "words", ["logs -f followed", "wait followed", "attach followed", "record -f FILE followed"]
)
async def test_who_follows_one_process_prolongs_no_other_lease(words: str, tmp_path: Path) -> None:
    async with opened("watched") as environment:
        process = await environment.start("cat", id="followed")
        await (await hermetic.open("local", task="idle", lease=0.5)).close()
        observer = await attach_environment("idle", observes=True)
        following = asyncio.create_task(
            call(*words.replace("FILE", str(tmp_path / "cast")).split())
        )
        async with asyncio.timeout(20):
            with contextlib.suppress(EnvironmentUnavailable):
                async for _ in observer.events():
                    pass
        await observer.close()
        await process.kill()
        await following


async def test_events_end_with_an_environment_that_no_client_uses() -> None:
    await (await hermetic.open("local", task="followed", lease=0.5)).close()
    assert await call("events", "--in", "followed") == (0, "followed  gone\n", "")


async def test_envs_counts_the_clients_that_use_an_environment() -> None:
    async with opened("counted") as environment:
        (row,) = await asyncio.to_thread(as_json, "envs")
        assert (row["task"], row["info"]["clients"]) == (environment.task, 1)
