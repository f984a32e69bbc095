"""Processes: started, read by offset, written to, signalled, waited for, found again."""

import asyncio
import time

import pytest

import hermetic
from hermetic.conformance.observing import alive, eventually, new_mark


async def test_a_process_runs_while_the_caller_goes_on(shell: hermetic.Session) -> None:
    process = await shell.start("sleep 0.3; echo done; exit 4")
    status = await process.status()
    assert (status.state, status.ending) == ("running", None)
    assert status.pid == process.pid
    assert abs(status.started - time.time()) < 3600
    assert await process.wait(10) == hermetic.Exited(4)
    after = await process.status()
    assert (after.state, after.ending) == ("ended", hermetic.Exited(4))
    assert (await process.read()).data == b"done\n"


async def test_an_argv_is_started_without_a_shell(shell: hermetic.Session) -> None:
    process = await shell.start(["printf", "%s|", "$HOME", "a b"])
    assert await process.wait(10) == hermetic.Exited(0)
    assert (await process.read()).data == b"$HOME|a b|"


async def test_a_program_that_is_not_there_ends_like_in_a_shell(shell: hermetic.Session) -> None:
    assert await (await shell.start(["no-such-program"])).wait(10) == hermetic.Exited(127)
    assert await (await shell.start(["/tmp"])).wait(10) == hermetic.Exited(126)


async def test_a_signal_is_told_as_such(shell: hermetic.Session) -> None:
    process = await shell.start("kill -9 $$")
    assert await process.wait(10) == hermetic.Signalled(9)


async def test_output_is_read_by_offset_as_often_as_one_likes(shell: hermetic.Session) -> None:
    process = await shell.start("printf 0123456789")
    await process.wait(10)
    for _ in range(2):
        chunk = await process.read(3, limit=4)
        assert (chunk.data, chunk.start, chunk.end, chunk.ended) == (b"3456", 3, 7, False)
    rest = await process.read(7)
    assert (rest.data, rest.ended) == (b"789", True)


async def test_a_read_without_wait_never_blocks(shell: hermetic.Session) -> None:
    process = await shell.start("sleep 30")
    chunk = await process.read()
    assert (chunk.data, chunk.ended) == (b"", False)
    await process.kill()


async def test_a_read_with_wait_returns_at_the_first_byte(shell: hermetic.Session) -> None:
    process = await shell.start("sleep 0.2; echo x; sleep 30")
    began = time.perf_counter()
    chunk = await process.read(wait=20)
    assert (chunk.data, chunk.ended) == (b"x\n", False)
    assert time.perf_counter() - began < 5
    await process.kill()


async def test_a_read_with_wait_returns_at_the_end(shell: hermetic.Session) -> None:
    process = await shell.start("sleep 0.2")
    chunk = await process.read(wait=20)
    assert (chunk.data, chunk.ended) == (b"", True)


async def test_a_read_with_wait_returns_after_that_time(shell: hermetic.Session) -> None:
    process = await shell.start("sleep 30")
    began = time.perf_counter()
    chunk = await process.read(wait=0.2)
    assert (chunk.data, chunk.ended) == (b"", False)
    assert 0.15 < time.perf_counter() - began < 2
    await process.kill()


async def test_what_is_written_arrives(shell: hermetic.Session) -> None:
    process = await shell.start("cat")
    await process.write("ß ")
    await process.write(b"\xff\x00")
    await process.submit("line")
    await process.close_input()
    assert await process.wait(10) == hermetic.Exited(0)
    assert (await process.read()).data == "ß ".encode() + b"\xff\x00line\n"


async def test_much_can_be_written_to_a_slow_reader(shell: hermetic.Session) -> None:
    process = await shell.start("sleep 0.3; wc -c")
    for _ in range(5):
        await process.write(b"x" * 1_000_000)
    await process.close_input()
    await process.wait(20)
    assert (await process.read()).data.strip() == b"5000000"


async def test_writing_to_closed_input_is_told(shell: hermetic.Session) -> None:
    process = await shell.start("cat; sleep 30")
    await process.close_input()
    with pytest.raises(hermetic.InputClosed) as caught:
        await process.write("x")
    assert caught.value.process_id == process.id
    await process.kill()


async def test_writing_to_an_ended_process_is_told(shell: hermetic.Session) -> None:
    process = await shell.start("true")
    await process.wait(10)
    with pytest.raises(hermetic.InputClosed):
        await process.write("x")


async def test_writing_where_there_is_no_input_is_told(shell: hermetic.Session) -> None:
    process = await shell.start("sleep 30", stdin="null")
    with pytest.raises(hermetic.InputClosed):
        await process.write("x")
    await process.kill()


@pytest.mark.parametrize(("stdin", "output"), [("null", b""), ("whole\n", b"whole\n"), (b"\xff\0", b"\xff\0")])
async def test_input_can_be_given_whole(shell: hermetic.Session, stdin: str | bytes, output: bytes) -> None:
    process = await shell.start("cat", stdin=stdin)
    assert await process.wait(10) == hermetic.Exited(0)
    assert (await process.read()).data == output


async def test_large_input_can_be_given_whole(shell: hermetic.Session) -> None:
    process = await shell.start("wc -c", stdin=b"x" * 3_000_000)
    await process.wait(20)
    assert (await process.read()).data.strip() == b"3000000"


async def test_stderr_can_be_kept_apart(environment: hermetic.Environment, shell: hermetic.Session) -> None:
    process = await shell.start("echo o; echo e >&2", separate=True)
    await process.wait(10)
    assert (await process.read()).data == b"o\n"
    assert (await environment.read_log(f"{process.id}/err")).data == b"e\n"


async def test_cwd_and_env_are_for_that_process(shell: hermetic.Session, directory: str) -> None:
    process = await shell.start("pwd; echo $A", cwd=directory, env={"A": "b c"})
    await process.wait(10)
    assert (await process.read()).data.decode() == f"{directory}\nb c\n"


async def test_a_signal_reaches_the_whole_tree(shell: hermetic.Session) -> None:
    process = await shell.start("(trap 'echo child' USR1; echo up; while :; do sleep 0.02; done) & "
                                "trap 'echo parent' USR1; echo up; while :; do sleep 0.02; done")  # fmt: skip
    await process.wait_for("up", timeout=10)
    await process.wait_for("up", timeout=10)
    await process.signal("USR1")
    await process.wait_for("child|parent", timeout=10, pattern=True)
    await process.wait_for("child|parent", timeout=10, pattern=True)
    seen = (await process.read()).data
    assert b"child" in seen
    assert b"parent" in seen
    await process.kill(grace=0)


async def test_a_signal_can_be_for_the_process_alone(shell: hermetic.Session) -> None:
    process = await shell.start("sleep 300 & trap 'kill -0 $! && echo alive; exit' USR1; echo up; wait")
    await process.wait_for("up", timeout=10)
    await process.signal("SIGUSR1", tree=False)
    assert await process.wait(10) == hermetic.Exited(0)
    assert b"alive" in (await process.read()).data
    await process.kill(grace=0)


@pytest.mark.parametrize("signal", ["NOSUCH", 0, -1, 1000])
async def test_a_signal_that_does_not_exist_is_refused(shell: hermetic.Session, signal: str | int) -> None:
    process = await shell.start("sleep 30")
    with pytest.raises(hermetic.InvalidArgument):
        await process.signal(signal)
    assert (await process.status()).state == "running"
    await process.kill()


async def test_killing_an_ended_process_does_nothing(shell: hermetic.Session) -> None:
    process = await shell.start("exit 3")
    await process.wait(10)
    assert await process.kill() == hermetic.Exited(3)


async def test_killing_an_ended_process_ends_what_it_left(
    environment: hermetic.Environment, shell: hermetic.Session
) -> None:
    mark = new_mark()
    process = await shell.start(f"setsid sleep {mark} & exit 0")
    await process.wait(10)
    await process.kill()
    assert await alive(environment, mark) == []


async def test_waiting_in_vain_leaves_the_process_alone(shell: hermetic.Session) -> None:
    process = await shell.start("sleep 30")
    with pytest.raises(TimeoutError):
        await process.wait(0.1)
    assert (await process.status()).state == "running"
    await process.kill()


async def test_wait_for_searches_on_from_the_last_match(shell: hermetic.Session) -> None:
    process = await shell.start("echo tick one; sleep 0.1; echo tick two; sleep 30")
    assert await process.wait_for("tick", timeout=10) == (0, 4)
    assert await process.wait_for("tick", timeout=10) == (9, 13)
    with pytest.raises(TimeoutError):
        await process.wait_for("tick", timeout=0.2)
    assert (await process.status()).state == "running"
    await process.kill()


async def test_wait_for_takes_patterns(shell: hermetic.Session) -> None:
    process = await shell.start("echo 'listening on 127.0.0.1:8080 now'; sleep 30")
    start, end = await process.wait_for(r":\d+", pattern=True, timeout=10)
    assert (await process.read(start, limit=end - start)).data == b":8080"
    await process.kill()


async def test_wait_for_finds_a_text_that_came_in_two_pieces(shell: hermetic.Session) -> None:
    process = await shell.start("printf rea; sleep 0.2; printf dy; sleep 30")
    assert await process.wait_for("ready", timeout=10) == (0, 5)
    await process.kill()


async def test_wait_for_tells_that_nothing_can_come_any_more(shell: hermetic.Session) -> None:
    process = await shell.start("echo nothing of interest")
    with pytest.raises(EOFError):
        await process.wait_for("ready", timeout=10)


async def test_a_process_is_found_by_its_id(environment: hermetic.Environment, shell: hermetic.Session) -> None:
    process = await shell.start("echo found; sleep 30", id=f"found.{shell.name}")
    again = await environment.process(process.id)
    assert (again.id, again.pid) == (f"found.{shell.name}", process.pid)
    await again.wait_for("found", timeout=10)
    await again.kill()


async def test_an_unknown_process_is_told(environment: hermetic.Environment) -> None:
    with pytest.raises(hermetic.UnknownProcess) as caught:
        await environment.process("nobody")
    assert caught.value.process_id == "nobody"


@pytest.mark.parametrize("id", ["", "a b", "a/b", "x" * 65, "ß"])
async def test_an_id_that_does_not_fit_is_refused(shell: hermetic.Session, id: str) -> None:
    with pytest.raises(hermetic.InvalidArgument):
        await shell.start("true", id=id)


async def test_starting_twice_with_one_id_starts_once(
    environment: hermetic.Environment, shell: hermetic.Session, directory: str
) -> None:
    text, id = f"echo x >>'{directory}/f'; sleep 30", f"once.{shell.name}"
    first, second = await asyncio.gather(shell.start(text, id=id), shell.start(text, id=id))
    third = await shell.start("echo something else", id=id)
    assert first.pid == second.pid == third.pid
    await eventually(lambda: has_size(environment, f"{directory}/f", 2))
    await first.kill()
    fourth = await shell.start(text, id=id)
    assert (await fourth.status()).state == "ended"
    assert await environment.read_file(f"{directory}/f") == "x\n"


async def has_size(environment: hermetic.Environment, path: str, size: int) -> bool:
    try:
        return len(await environment.read_bytes(path)) == size
    except FileNotFoundError:
        return False


async def test_a_tag_is_kept_with_its_process(environment: hermetic.Environment, shell: hermetic.Session) -> None:
    process = await shell.start("exit 3", tag="ß first")
    await process.wait(10)
    assert process.info.tag == "ß first"
    await process.set_tag("second")
    assert (await environment.process(process.id)).info.tag == "second"
    assert {info.id: info.tag for info in await environment.processes()}[process.id] == "second"
    other = await environment.process(process.id)
    assert await other.swap_tag("second", "third") == "done"
    assert await process.swap_tag("second", "fourth") == "changed"
    assert process.info.tag == "third"
    with pytest.raises(hermetic.InvalidArgument, match="at most 2048 bytes"):
        await shell.start("true", tag="x" * 2049)


async def test_what_runs_is_listed(environment: hermetic.Environment, shell: hermetic.Session) -> None:
    process = await shell.start("echo listed; sleep 30", cwd="/tmp")
    await process.wait_for("listed", timeout=10)
    info = {info.id: info for info in await environment.processes()}[process.id]
    assert (info.kind, info.state, info.cwd, info.out, info.session) == ("process", "running", "/tmp", 7, shell.name)
    assert info.command == "echo listed; sleep 30"
    assert not info.pty
    await process.kill()


async def test_starts_and_ends_are_told_as_they_happen(
    environment: hermetic.Environment, shell: hermetic.Session
) -> None:
    await shell.run("true")
    async with environment.events() as events:
        process = await shell.start("exit 5")
        told = []
        async for event in events:
            if event.process is not None and event.process.id == process.id:
                told.append((event.event, event.process.ending))
            if len(told) == 2:
                break
    assert told == [("started", None), ("ended", hermetic.Exited(5))]


async def test_many_processes_run_at_once(environment: hermetic.Environment, shell: hermetic.Session) -> None:
    processes = await asyncio.gather(*(shell.start(f"echo {n}; cat") for n in range(50)))
    assert len({process.pid for process in processes}) == 50
    await asyncio.gather(*(process.wait_for("\n", timeout=20) for process in processes))
    await asyncio.gather(*(process.close_input() for process in processes))
    endings = await asyncio.gather(*(process.wait(20) for process in processes))
    assert set(endings) == {hermetic.Exited(0)}
    assert [(await process.read()).data for process in processes] == [b"%d\n" % n for n in range(50)]


async def test_late_output_of_a_child_goes_into_the_log_of_its_process(shell: hermetic.Session) -> None:
    process = await shell.start("(sleep 0.3; echo late) & echo early")
    assert await process.wait(10) == hermetic.Exited(0)

    async def is_whole() -> bool:
        return (await process.read()).data == b"early\nlate\n"

    await eventually(is_whole)


async def test_a_command_that_cannot_be_is_refused(shell: hermetic.Session) -> None:
    for command, options in (
        ("echo \0", {}),
        ([], {}),
        ("true", {"cwd": "/no/such/directory"}),
        ("true", {"pty": True, "rows": 0}),
        ("true", {"env": {"": "x"}}),
    ):
        with pytest.raises(hermetic.InvalidArgument):
            await shell.start(command, **options)


async def test_an_exit_of_the_session_does_not_touch_processes(shell: hermetic.Session) -> None:
    process = await shell.start("sleep 30")
    await shell.run("exit 1")
    await shell.close()
    assert (await process.status()).state == "running"
    await process.kill()
