"""`hermetic stop` and `hermetic release`."""

import asyncio
from pathlib import Path

from hermetic.fleet.stopping import release, stop
from hermetic.registry import holds
from hermetic.registry.records import Records, id_for_task, runtime_root
from tests.boxes import opened
from tests.cli.program import hermetic


async def command_line(*words: str) -> tuple[int, str, str]:
    done = await asyncio.to_thread(hermetic, *words)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


async def test_a_task_is_frozen_and_released(tmp_path: Path) -> None:
    async with opened(tmp_path) as box:
        began = await box.terminal("sleep 1000", background=True)
        code, said, _ = await command_line("stop", "t")
        assert (code, said) == (
            0,
            "t: 1 processes frozen; calls are held until `hermetic release`\n",
        )
        assert [hold.environment for hold in holds.holds()] == [id_for_task("t")]
        assert (await box.terminal("true"))["refused_by"] == "stopped"
        assert await command_line("release") == (0, "t: 1 processes go on\n", "")
        assert (await box.process("poll", began["session_id"]))["status"] == "running"
        code, said, _ = await command_line("stop", "--all", "--end")
        assert (code, said) == (
            0,
            "t: 1 processes ended; calls are held until `hermetic release`\n",
        )
        assert await command_line("release", "t") == (0, "t: 0 processes go on\n", "")
        assert (await box.process("poll", began["session_id"]))["status"] != "running"
        assert (await box.terminal("true", task="other"))["refused_by"] == "stopped"
        assert (await command_line("release", "--all"))[0] == 0
        assert (await box.terminal("true", task="other"))["exit_code"] == 0
    assert holds.holds() == []


async def test_a_task_without_an_environment_is_held_before_it_has_one(tmp_path: Path) -> None:
    async with opened(tmp_path) as box:
        code, said, note = await command_line("stop", "t")
        assert (code, said) == (0, "")
        assert note.startswith("hermetic: t has no environment; ")
        assert (await box.terminal("true"))["refused_by"] == "stopped"
        assert await command_line("release", "t") == (0, "", "")
        assert (await box.terminal("true"))["exit_code"] == 0


async def test_a_stop_of_all_says_that_it_holds_what_comes_later() -> None:
    code, said, note = await command_line("stop", "--all")
    assert (code, said) == (0, "")
    assert "opened later, calls are held until `hermetic release`" in note
    assert await command_line("release") == (0, "", "")


async def test_a_release_of_a_name_that_nothing_has_is_reported(tmp_path: Path) -> None:
    async with opened(tmp_path) as box:
        await box.terminal("true", task="web")
        assert (await command_line("stop", "--all"))[0] == 0
        assert (await command_line("release", "wbe"))[::2] == (0, "")  # all were held
        assert (await command_line("release"))[0] == 0
        code, said, problem = await command_line("release", "wbe", "web")
        assert (code, said) == (1, "web: 0 processes go on\n")
        assert problem.startswith(
            "hermetic: wbe has no environment and was not held; did you mean web?"
        )


async def test_what_to_stop_has_to_be_named() -> None:
    code, _, problem = await command_line("stop")
    assert (code, "name the tasks to stop, or give --all" in problem) == (2, True)


async def test_what_a_person_runs_in_the_task_goes_on(tmp_path: Path) -> None:
    async with opened(tmp_path) as box:
        began = await box.terminal("sleep 1000", background=True)
        command = (
            f"touch {tmp_path}/began; until [ -e {tmp_path}/end ]; do /bin/true; done; echo done"
        )
        running = asyncio.create_task(command_line("run", "--task", "t", "--", command))
        async with asyncio.timeout(60):
            while not (tmp_path / "began").exists():  # noqa: ASYNC110  # a file has no event
                await asyncio.sleep(0.02)
        records = Records(runtime_root())
        for _ in range(40):  # the person's shell forks all the time
            assert [
                done.processes for done in await stop(records, [id_for_task("t")], "freeze")
            ] == [1]
            await release(records, None)
        assert (await command_line("stop", "t"))[1].startswith("t: 1 processes frozen")
        (tmp_path / "end").touch()
        assert await running == (0, "done\n", "")
        assert await command_line("run", "--task", "t", "--", "echo new") == (0, "new\n", "")
        assert (await command_line("release"))[0] == 0
        assert (await box.process("poll", began["session_id"]))["status"] == "running"


async def test_what_a_person_left_running_in_the_background_goes_on_too(tmp_path: Path) -> None:
    async with opened(tmp_path) as box:
        await box.terminal("sleep 1000 & echo began")
        person = ("run", "--task", "t", "--", "sleep 1000 & echo $!")
        pid = int((await command_line(*person))[1])
        for words, count in (("stop t", 1), ("release", 1), ("stop t --end", 1), ("release", 0)):
            assert (await command_line(*words.split()))[1].startswith(f"t: {count} processes")
            assert state_of(pid) == "S"


def state_of(pid: int) -> str:
    """Its letter in /proc: S sleeps, T is stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
