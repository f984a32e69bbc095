"""Processes: started, read by offset, written to, signalled, waited for, found again."""

import asyncio
import time
from typing import Any

import pytest

from hermetic import (
    Ending,
    Environment,
    Exited,
    InputClosed,
    InvalidArgument,
    Session,
    Signalled,
    UnknownProcess,
)
from hermetic.conformance.observing import alive, eventually, new_mark, output_of

ENDS: dict[str, tuple[str | list[str], dict[str, Any], Ending, bytes | None]] = {
    "an argv, without a shell": (["printf", "%s|", "$HOME", "a b"], {}, Exited(0), b"$HOME|a b|"),
    "a missing program, as in a shell": (["no-such-program"], {}, Exited(127), None),
    "a text that is no option of bash": ("-p 2>&-; echo 1", {}, Exited(0), b"1\n"),
    "a directory, as in a shell": (["/tmp"], {}, Exited(126), None),
    "the null device as input": ("cat", {"stdin": "null"}, Exited(0), b""),
    "text as input": ("cat", {"stdin": "whole\n"}, Exited(0), b"whole\n"),
    "bytes as input": ("cat", {"stdin": b"\xff\0"}, Exited(0), b"\xff\0"),
    "large input": ("wc -c", {"stdin": b"x" * 3_000_000}, Exited(0), b"3000000\n"),
    "its own cwd and env": (
        "pwd; echo $A",
        {"cwd": "/tmp", "env": {"A": "b c"}},
        Exited(0),
        b"/tmp\nb c\n",
    ),
}


@pytest.mark.parametrize(("command", "options", "ending", "output"), ENDS.values(), ids=ENDS.keys())
async def test_it_ends_with_this_output(
    shell: Session, command: str, options: dict[str, Any], ending: Ending, output: bytes | None
) -> None:
    process = await shell.start(command, **options)
    assert await process.wait(20) == ending
    assert output is None or (await process.read()).data.lstrip(b" ") == output


async def test_a_process_runs_while_the_caller_goes_on(shell: Session) -> None:
    process = await shell.start("sleep 0.3; echo done; exit 4")
    status = await process.status()
    assert (status.state, status.ending, status.pid) == ("running", None, process.pid)
    assert abs(status.started - time.time()) < 3600
    assert await process.wait(10) == Exited(4)
    after = await process.status()
    assert (after.state, after.ending) == ("ended", Exited(4))
    assert (await process.read()).data == b"done\n"


async def test_a_signal_is_told_as_such(shell: Session) -> None:
    assert await (await shell.start("kill -9 $$")).wait(10) == Signalled(9)


async def test_output_is_read_by_offset_as_often_as_one_likes(shell: Session) -> None:
    process = await shell.start("printf 0123456789")
    await process.wait(10)
    for _ in range(2):
        chunk = await process.read(3, limit=4)
        assert (chunk.data, chunk.start, chunk.end, chunk.ended) == (b"3456", 3, 7, False)
    rest = await process.read(7)
    assert (rest.data, rest.ended) == (b"789", True)


READS = {
    "without wait, never blocks": ("sleep 30", None, (b"", False), 0, 5),
    "at the first byte": ("sleep 0.2; echo x; sleep 30", 20, (b"x\n", False), 0, 5),
    "at the end": ("sleep 0.2", 20, (b"", True), 0, 5),
    "after that time": ("sleep 30", 0.2, (b"", False), 0.15, 2),
}


@pytest.mark.parametrize(
    ("text", "wait", "read", "least", "most"), READS.values(), ids=READS.keys()
)
async def test_a_read_returns(
    shell: Session,
    text: str,
    wait: float | None,
    read: tuple[bytes, bool],
    least: float,
    most: float,
) -> None:
    process = await shell.start(text)
    began = time.perf_counter()
    chunk = await process.read(wait=wait)
    assert (chunk.data, chunk.ended) == read
    assert least <= time.perf_counter() - began < most


async def test_what_is_written_arrives(shell: Session) -> None:
    process = await shell.start("cat")
    await process.write("ß ")
    await process.write(b"\xff\x00")
    await process.submit("line")
    await process.close_input()
    assert await process.wait(10) == Exited(0)
    assert (await process.read()).data == "ß ".encode() + b"\xff\x00line\n"


async def test_much_can_be_written_to_a_slow_reader(shell: Session) -> None:
    process = await shell.start("sleep 0.3; wc -c")
    for _ in range(5):
        await process.write(b"x" * 1_000_000)
    await process.close_input()
    assert (await output_of(process, 20)).strip() == b"5000000"


@pytest.mark.parametrize("why", ["it was closed", "the process has ended", "there was none"])
async def test_writing_to_closed_input_is_told(shell: Session, why: str) -> None:
    process = await shell.start(
        "cat; sleep 30", stdin="null" if why == "there was none" else "pipe"
    )
    if why == "it was closed":
        await process.close_input()
    elif why == "the process has ended":
        await process.kill()
    with pytest.raises(InputClosed) as caught:
        await process.write("x")
    assert caught.value.process_id == process.id


async def test_stderr_can_be_kept_apart(env: Environment, shell: Session) -> None:
    process = await shell.start("echo o; echo e >&2", separate=True)
    assert await output_of(process) == b"o\n"
    assert (await env.read_log(f"{process.id}/err")).data == b"e\n"


async def test_a_signal_reaches_the_whole_tree(shell: Session) -> None:
    text = "trap 'echo {0}' USR1; echo up; while :; do sleep 0.02; done"
    process = await shell.start(f"({text.format('child')}) & {text.format('parent')}")
    for _ in range(2):
        await process.wait_for("up", timeout=10)
    await process.signal("USR1")
    for _ in range(2):
        await process.wait_for("child|parent", timeout=10, pattern=True)
    seen = (await process.read()).data
    assert b"child" in seen
    assert b"parent" in seen


async def test_a_signal_can_be_for_the_process_alone(shell: Session) -> None:
    process = await shell.start(
        "sleep 300 & trap 'kill -0 $! && echo alive; exit' USR1; echo up; wait"
    )
    await process.wait_for("up", timeout=10)
    await process.signal("SIGUSR1", tree=False)
    assert await process.wait(10) == Exited(0)
    assert b"alive" in (await process.read()).data


@pytest.mark.parametrize("signal", ["NOSUCH", 0, -1, 1000])
async def test_a_signal_that_does_not_exist_is_refused(shell: Session, signal: str | int) -> None:
    process = await shell.start("sleep 30")
    with pytest.raises(InvalidArgument):
        await process.signal(signal)
    assert (await process.status()).state == "running"


async def test_killing_an_ended_process_ends_only_what_it_left(
    env: Environment, shell: Session
) -> None:
    mark = new_mark()
    process = await shell.start(f"setsid sleep {mark} & exit 3")
    await process.wait(10)
    assert await process.kill() == Exited(3)
    assert await alive(env, mark) == []


async def test_waiting_in_vain_leaves_the_process_alone(shell: Session) -> None:
    process = await shell.start("sleep 30")
    with pytest.raises(TimeoutError):
        await process.wait(0.1)
    assert (await process.status()).state == "running"


async def test_wait_for_searches_on_from_the_last_match(shell: Session) -> None:
    process = await shell.start("echo tick one; sleep 0.1; echo tick two; sleep 30")
    assert await process.wait_for("tick", timeout=10) == (0, 4)
    assert await process.wait_for("tick", timeout=10) == (9, 13)
    with pytest.raises(TimeoutError):
        await process.wait_for("tick", timeout=0.2)
    assert (await process.status()).state == "running"


async def test_wait_for_takes_patterns(shell: Session) -> None:
    process = await shell.start("echo 'listening on 127.0.0.1:8080 now'; sleep 30")
    start, end = await process.wait_for(r":\d+", pattern=True, timeout=10)
    assert (await process.read(start, limit=end - start)).data == b":8080"


async def test_wait_for_finds_a_text_that_came_in_two_pieces(shell: Session) -> None:
    process = await shell.start("printf rea; sleep 0.2; printf dy; sleep 30")
    assert await process.wait_for("ready", timeout=10) == (0, 5)


async def test_wait_for_tells_that_nothing_can_come_any_more(shell: Session) -> None:
    process = await shell.start("echo nothing of interest")
    with pytest.raises(EOFError):
        await process.wait_for("ready", timeout=10)


async def test_a_process_is_found_by_its_id(env: Environment, shell: Session) -> None:
    process = await shell.start("echo found; sleep 30", id=f"found.{shell.name}")
    again = await env.process(process.id)
    assert (again.id, again.pid) == (f"found.{shell.name}", process.pid)
    await again.wait_for("found", timeout=10)


async def test_an_unknown_process_is_told(env: Environment) -> None:
    with pytest.raises(UnknownProcess) as caught:
        await env.process("nobody")
    assert caught.value.process_id == "nobody"


async def test_starting_twice_with_one_id_starts_once(
    env: Environment, shell: Session, directory: str
) -> None:
    text, id = f"echo x >>'{directory}/f'; echo up; sleep 30", f"once.{shell.name}"
    first, second = await asyncio.gather(shell.start(text, id=id), shell.start(text, id=id))
    third = await shell.start("echo something else", id=id)
    assert first.pid == second.pid == third.pid
    await first.wait_for("up", timeout=10)
    await first.kill()
    fourth = await shell.start(text, id=id)
    assert (await fourth.status()).state == "ended"
    assert await env.read_file(f"{directory}/f") == "x\n"


async def test_a_tag_is_kept_with_its_process(env: Environment, shell: Session) -> None:
    process = await shell.start("exit 3", tag="ß first")
    await process.wait(10)
    assert process.info.tag == "ß first"
    await process.set_tag("second")
    assert (await env.process(process.id)).info.tag == "second"
    assert {info.id: info.tag for info in await env.processes()}[process.id] == "second"
    other = await env.process(process.id)
    assert await other.swap_tag("second", "third") == "done"
    assert await process.swap_tag("second", "fourth") == "changed"
    assert process.info.tag == "third"


async def test_what_runs_is_listed(env: Environment, shell: Session) -> None:
    process = await shell.start("echo listed; sleep 30", cwd="/tmp")
    await process.wait_for("listed", timeout=10)
    info = {info.id: info for info in await env.processes()}[process.id]
    assert (info.kind, info.state, info.cwd, info.out, info.session) == (
        "process",
        "running",
        "/tmp",
        7,
        shell.name,
    )
    assert (info.command, info.pty) == ("echo listed; sleep 30", False)


async def test_starts_and_ends_are_told_as_they_happen(env: Environment, shell: Session) -> None:
    await shell.run("true")
    async with env.events() as events:
        process = await shell.start("exit 5")
        told: list[tuple[str, Ending | None]] = []
        while len(told) < 2:
            event = await anext(events)
            if event.process is not None and event.process.id == process.id:
                told.append((event.event, event.process.ending))
    assert told == [("started", None), ("ended", Exited(5))]


async def test_many_processes_run_at_once(shell: Session) -> None:
    processes = await asyncio.gather(*(shell.start(f"echo {n}; cat") for n in range(50)))
    assert len({process.pid for process in processes}) == 50
    await asyncio.gather(*(process.wait_for("\n", timeout=20) for process in processes))
    await asyncio.gather(*(process.close_input() for process in processes))
    assert set(await asyncio.gather(*(process.wait(20) for process in processes))) == {Exited(0)}
    assert [(await process.read()).data for process in processes] == [
        b"%d\n" % n for n in range(50)
    ]


async def test_late_output_of_a_child_goes_into_the_log_of_its_process(shell: Session) -> None:
    process = await shell.start("(sleep 0.3; echo late) & echo early")
    assert await process.wait(10) == Exited(0)
    await eventually(process.read, lambda chunk: chunk.data == b"early\nlate\n")


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("echo \0", {}),
        ([], {}),
        ("true", {"cwd": "/no/such/directory"}),
        ("true", {"pty": True, "rows": 0}),
        ("true", {"env": {"": "x"}}),
        ("true", {"tag": "x" * 2049}),
        *(("true", {"id": id}) for id in ("", "a b", "a/b", "x" * 65, "ß")),
    ],
)
async def test_a_start_that_cannot_be_is_refused(
    shell: Session, command: str, options: dict[str, Any]
) -> None:
    with pytest.raises(InvalidArgument):
        await shell.start(command, **options)


async def test_an_exit_of_the_session_does_not_touch_processes(shell: Session) -> None:
    process = await shell.start("sleep 30")
    await shell.run("exit 1")
    await shell.close()
    assert (await process.status()).state == "running"
