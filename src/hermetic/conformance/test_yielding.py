"""A command that outlives its time can go on as a process instead of being killed."""

import asyncio

import hermetic
from hermetic.conformance.observing import alive, eventually, new_mark


async def test_it_goes_on_as_a_process(shell: hermetic.Session) -> None:
    await shell.run(":")  # a shell that still starts would take of the time
    result = await shell.run("echo before; sleep 1; echo after", timeout=0.5, on_timeout="yield")
    assert isinstance(result.ending, hermetic.Yielded)
    assert result.exit_code is None
    assert result.output == "before\n"
    assert result.process is not None
    assert result.process.id == result.ending.process_id
    assert await result.process.wait(10) == hermetic.Exited(0)
    assert (await result.process.read()).data == b"before\nafter\n"
    assert (await result.process.read(7)).data == b"after\n"


async def test_the_session_is_free_with_the_state_before_it(shell: hermetic.Session) -> None:
    await shell.run("v=1")
    result = await shell.run("v=2; sleep 0.5; v=3", timeout=0.1, on_timeout="yield")
    assert any("state" in note for note in result.notes), result.notes
    assert (await shell.run("echo $v; v=4")).output == "1\n"
    await result.process.wait(10)
    assert (await shell.run("echo $v")).output == "4\n"


async def test_it_can_be_killed_with_its_tree(environment: hermetic.Environment, shell: hermetic.Session) -> None:
    await shell.run(":")  # a shell that still starts would take of the time
    mark = new_mark()
    result = await shell.run(f"setsid sleep {mark} & sleep {mark}", timeout=0.5, on_timeout="yield")
    assert len(await alive(environment, mark)) == 2
    await result.process.kill()
    assert await alive(environment, mark) == []
    assert (await shell.run("echo usable")).output == "usable\n"


async def test_one_that_ends_in_time_does_not_yield(shell: hermetic.Session) -> None:
    result = await shell.run("v=1; echo quick", timeout=30, on_timeout="yield")
    assert (result.ending, result.process) == (hermetic.Exited(0), None)
    assert (await shell.run("echo $v")).output == "1\n"


async def test_its_exit_code_is_told_at_its_end(shell: hermetic.Session) -> None:
    result = await shell.run("sleep 0.4; exit 7", timeout=0.1, on_timeout="yield")
    assert await result.process.wait(10) == hermetic.Exited(7)


async def test_an_argv_can_yield_too(shell: hermetic.Session) -> None:
    result = await shell.run(["sh", "-c", "sleep 0.4; echo x"], timeout=0.1, on_timeout="yield")
    assert await result.process.wait(10) == hermetic.Exited(0)
    assert (await result.process.read()).data == b"x\n"


async def test_several_can_go_on_at_once(shell: hermetic.Session) -> None:
    await shell.run("v=kept")
    results = [await shell.run(f"sleep 0.5; echo {n} $v", timeout=0.05, on_timeout="yield") for n in range(4)]
    await asyncio.gather(*(result.process.wait(10) for result in results))
    outputs = [(await result.process.read()).data for result in results]
    assert outputs == [f"{n} kept\n".encode() for n in range(4)]


async def test_it_is_listed_while_it_runs(environment: hermetic.Environment, shell: hermetic.Session) -> None:
    result = await shell.run("sleep 30", timeout=0.1, on_timeout="yield")
    listed = {info.id: info for info in await environment.processes()}
    assert listed[result.process.id].state == "running"
    await result.process.kill()


async def test_a_jobs_parent_that_was_yielded_keeps_its_jobs(shell: hermetic.Session) -> None:
    result = await shell.run("(sleep 0.3; exit 5) & sleep 0.1; wait $!; echo $?", timeout=0.05, on_timeout="yield")
    await result.process.wait(10)
    assert (await result.process.read()).data == b"5\n"


async def test_the_result_says_whether_it_waits_for_input(shell: hermetic.Session) -> None:
    result = await shell.run("sleep 30", timeout=0.2, on_timeout="yield")
    assert result.waiting_for_input in (False, None)
    await result.process.kill()

    async def usable() -> bool:
        return (await shell.run("echo x")).output == "x\n"

    await eventually(usable)
