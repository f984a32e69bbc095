"""A command that outlives its time can go on as a process instead of being killed."""

from hermetic import Environment, Exited, Session, Yielded
from hermetic.conformance.observing import alive, eventually, new_mark, output_of


async def test_it_goes_on_as_a_process(shell: Session) -> None:
    await shell.run(":")  # a shell that still starts would take of the time
    result = await shell.run("echo before; sleep 1; echo after", timeout=0.5, on_timeout="yield")
    assert isinstance(result.ending, Yielded)
    assert result.exit_code is None
    assert result.output == "before\n"
    assert result.process is not None
    assert result.process.id == result.ending.process_id
    assert await result.process.wait(10) == Exited(0)
    assert (await result.process.read()).data == b"before\nafter\n"
    assert (await result.process.read(7)).data == b"after\n"


async def test_the_session_is_free_with_the_state_before_it(shell: Session) -> None:
    await shell.run("v=1")
    result = await shell.run("v=2; sleep 0.5; v=3", timeout=0.1, on_timeout="yield")
    assert any("state" in note for note in result.notes), result.notes
    assert (await shell.run("echo $v; v=4")).output == "1\n"
    await result.process.wait(10)
    assert (await shell.run("echo $v")).output == "4\n"


async def test_it_can_be_killed_with_its_tree(env: Environment, shell: Session) -> None:
    await shell.run(":")  # a shell that still starts would take of the time
    mark = new_mark()
    result = await shell.run(f"setsid sleep {mark} & sleep {mark}", timeout=0.5, on_timeout="yield")
    assert len(await alive(env, mark)) == 2
    await result.process.kill()
    assert await alive(env, mark) == []
    assert (await shell.run("echo usable")).output == "usable\n"


async def test_one_that_ends_in_time_does_not_yield(shell: Session) -> None:
    result = await shell.run("v=1; echo quick", timeout=30, on_timeout="yield")
    assert (result.ending, result.process) == (Exited(0), None)
    assert (await shell.run("echo $v")).output == "1\n"


async def test_its_exit_code_is_told_at_its_end(shell: Session) -> None:
    result = await shell.run("sleep 0.4; exit 7", timeout=0.1, on_timeout="yield")
    assert await result.process.wait(10) == Exited(7)


async def test_an_argv_can_yield_too(shell: Session) -> None:
    result = await shell.run(["sh", "-c", "sleep 0.4; echo x"], timeout=0.1, on_timeout="yield")
    assert await output_of(result.process) == b"x\n"


async def test_several_can_go_on_at_once(shell: Session) -> None:
    await shell.run("v=kept")
    results = [
        await shell.run(f"sleep 0.5; echo {n} $v", timeout=0.05, on_timeout="yield")
        for n in range(4)
    ]
    outputs = [await output_of(result.process) for result in results]
    assert outputs == [f"{n} kept\n".encode() for n in range(4)]


async def test_it_is_listed_while_it_runs(env: Environment, shell: Session) -> None:
    result = await shell.run("sleep 30", timeout=0.1, on_timeout="yield")
    listed = {info.id: info for info in await env.processes()}
    assert listed[result.process.id].state == "running"
    await result.process.kill()


async def test_a_jobs_parent_that_was_yielded_keeps_its_jobs(shell: Session) -> None:
    result = await shell.run(
        "(sleep 0.3; exit 5) & sleep 0.1; wait $!; echo $?", timeout=0.05, on_timeout="yield"
    )
    assert await output_of(result.process) == b"5\n"


async def test_the_result_says_whether_it_waits_for_input(shell: Session) -> None:
    result = await shell.run("sleep 30", timeout=0.2, on_timeout="yield")
    assert result.waiting_for_input in (False, None)
    await result.process.kill()
    await eventually(lambda: shell.run("echo x"), lambda result: result.output == "x\n")
