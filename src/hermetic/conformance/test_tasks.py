"""Tasks: an environment outlives its caller, is found again by its task or id, and ends when it
should.
"""

import asyncio
import json
import signal
import sys

import pytest

import hermetic
from hermetic import (
    Cancelled,
    ConfigError,
    Environment,
    EnvironmentUnavailable,
    Exited,
    Lost,
    Signalled,
)
from hermetic.conformance.observing import alive, eventually, new_mark
from hermetic.conformance.plugin import Open, Subject

STARTER = """
import asyncio, json, sys
import hermetic

async def main():
    kind, options, task, text = json.loads(sys.argv[1])
    env = await hermetic.open(kind, task=task, **options)
    await env.run("cd /tmp; export WHO=first; f() { echo f; }")
    process = await env.start(text, id="printer")
    await process.wait_for("ready", timeout=30)
    print(env.id, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


async def test_without_a_task_leaving_ends_everything(env: Environment, subject: Subject) -> None:
    mark = new_mark()
    async with hermetic.open(subject.kind, **subject.options) as own:
        await own.start(f"setsid sleep {mark} & sleep {mark}")
        await own.run(f"nohup sleep {mark} >/dev/null 2>&1 &")
        await eventually(lambda: alive(own, mark))
    assert await alive(env, mark) == []
    with pytest.raises(EnvironmentUnavailable):
        await hermetic.attach(own.id)


async def test_with_a_task_leaving_leaves_it_alive(open_another: Open, task: str) -> None:
    first = await open_another(task=task)
    await first.run("v=kept; cd /tmp")
    process = await first.start("echo one; sleep 0.5; echo two; sleep 30")
    await first.close()
    second = await open_another(task=task)
    assert second.id == first.id
    assert (await second.run("echo $v $PWD")).output == "kept /tmp\n"
    again = await second.process(process.id)
    await again.wait_for("two", timeout=10)
    assert (await again.read()).data == b"one\ntwo\n"


async def test_an_environment_is_attached_to_by_task_and_by_id(
    open_another: Open, task: str
) -> None:
    first = await open_another(task=task)
    await first.run("v=1")
    for name in (task, first.id):
        async with hermetic.attach(name) as second:
            assert (await second.run("echo $v")).output == "1\n"
    assert (await first.run("echo $v")).output == "1\n"


async def test_attaching_to_nobody_is_told(task: str) -> None:
    with pytest.raises(EnvironmentUnavailable, match=task):
        await hermetic.attach(task)


async def test_removing_ends_it_now(open_another: Open, task: str) -> None:
    first = await open_another(task=task)
    await first.run("v=1")
    await first.close(remove=True)
    with pytest.raises(EnvironmentUnavailable):
        await hermetic.attach(task)
    second = await open_another(task=task)
    assert (await second.run('echo "[$v]"')).output == "[]\n"


async def test_two_may_attach_at_once_and_see_the_same(open_another: Open, task: str) -> None:
    first = await open_another(task=task)
    second = await open_another(task=task)
    process = await first.start("cat")
    other = await second.process(process.id)
    await other.submit("from the second")
    await process.wait_for("from the second", timeout=10)
    assert (await process.read()).data == (await other.read()).data
    await process.close_input()
    assert await process.wait(10) == await other.wait(10) == Exited(0)
    await second.close()
    assert (await first.run("echo still here")).output == "still here\n"


async def test_one_of_two_claims_a_process_and_the_other_when_that_one_leaves(
    open_another: Open, task: str
) -> None:
    first = await open_another(task=task)
    second = await open_another(task=task)
    process = await first.start("cat", tag="a")
    other = await second.process(process.id)
    waiting = asyncio.ensure_future(other.claim())
    await process.claim()
    assert await other.swap_tag("a", "b", claimed=True) == "claimed"
    assert await process.swap_tag("a", "b", claimed=True) == "done"
    assert not waiting.done()
    await first.close()
    async with asyncio.timeout(10):
        await waiting
    assert (other.info.tag, await other.swap_tag("b", "c", claimed=True)) == ("b", "done")


async def test_opening_one_task_twice_at_the_same_time_gives_one_environment(
    open_another: Open, task: str
) -> None:
    first, second = await asyncio.gather(open_another(task=task), open_another(task=task))
    assert first.id == second.id
    assert (await first.info()).pid == (await second.info()).pid


async def test_other_options_for_a_living_task_are_refused_unless_it_is_replaced(
    open_another: Open, task: str
) -> None:
    first = await open_another(task=task, lease=120)
    await first.run("v=1")
    with pytest.raises(ConfigError, match="lease"):
        await open_another(task=task, lease=121)
    assert (await (await open_another(task=task, lease=120)).run("echo $v")).output == "1\n"
    replaced = await open_another(task=task, lease=121, replace=True)
    assert (await replaced.run('echo "[$v]"')).output == "[]\n"


async def test_an_unknown_kind_or_option_is_refused_and_the_valid_ones_are_named(
    subject: Subject,
) -> None:
    with pytest.raises(ConfigError, match="lease") as caught:
        await hermetic.open(subject.kind, **subject.options, leese=1)
    assert caught.value.setting == "leese"
    with pytest.raises(ConfigError, match=subject.kind):
        await hermetic.open("nowhere")


async def test_the_environment_tells_about_itself(
    open_another: Open, task: str, subject: Subject
) -> None:
    own = await open_another(task=task)
    info = await own.info()
    assert (info.id, info.kind, info.task) == (own.id, subject.kind, task)
    assert info.pid > 0
    assert info.clients == 1
    assert own.isolation.kind == subject.kind


async def ends_by_itself(task: str) -> bool:
    """Whether the environment of a task ends.

    A look attaches and renews its clocks: each comes later than the last.
    """
    for seconds in (1.5, 3, 6, 12, 24):
        await asyncio.sleep(seconds)
        try:
            found = await hermetic.attach(task)
        except EnvironmentUnavailable:
            return True
        await found.close()
    return False


async def test_it_ends_itself_when_nobody_is_attached_and_nothing_runs(
    open_another: Open, task: str
) -> None:
    own = await open_another(task=task, lease=0.1)
    await own.run("true")
    await own.close()
    assert await ends_by_itself(task)


async def test_it_stays_while_something_runs(open_another: Open, task: str) -> None:
    mark = new_mark()
    own = await open_another(task=task, lease=0.1)
    await own.start(f"sleep {mark}")
    await own.close()
    await asyncio.sleep(0.6)  # longer than the lease, which does not count while something runs
    async with hermetic.attach(task) as again:
        assert len(await alive(again, mark)) == 1
        await again.close(remove=True)


async def test_it_ends_what_runs_when_its_time_is_over(
    env: Environment, open_another: Open, task: str
) -> None:
    mark = new_mark()
    own = await open_another(task=task, lease=0.1, unattended=1)
    await own.start(f"sleep {mark}")
    await own.close()
    assert await ends_by_itself(task)
    assert await alive(env, mark) == []  # where places see each other's processes


async def test_a_caller_killed_by_sigkill_costs_nothing(
    open_another: Open, subject: Subject, task: str
) -> None:
    text = (
        "echo ready; for ((i = 0; i < 3000; i++)); do echo line $i; ((i % 300)) || sleep 0.05; done"
    )
    given = json.dumps([subject.kind, subject.options, task, text])
    starter = await asyncio.create_subprocess_exec(
        sys.executable, "-c", STARTER, given, stdout=asyncio.subprocess.PIPE
    )
    assert starter.stdout is not None
    id = (await starter.stdout.readline()).decode().strip()
    starter.send_signal(signal.SIGKILL)
    await starter.wait()
    second = await open_another(task=task)
    assert second.id == id
    process = await second.process("printer")
    assert await process.wait(30) == Exited(0)
    whole = "ready\n" + "".join(f"line {n}\n" for n in range(3000))
    assert (await process.read()).data.decode() == whole
    assert (await second.run("echo $WHO $PWD; f")).output == "first /tmp\nf\n"


async def test_a_closed_environment_says_so(open_another: Open) -> None:
    own = await open_another()
    await own.close()
    await own.close()
    with pytest.raises(EnvironmentUnavailable):
        await own.run("true")


async def test_a_command_of_an_environment_that_is_removed_is_lost(
    open_another: Open, task: str
) -> None:
    first = await open_another(task=task)
    second = await open_another(task=task)
    running = asyncio.create_task(first.run("echo up; sleep 60"))
    await eventually(second.processes, lambda infos: any(info.state == "running" for info in infos))
    await second.close(remove=True)
    async with asyncio.timeout(10):
        try:
            result = await running
        except EnvironmentUnavailable:
            return
    assert isinstance(result.ending, Lost | Cancelled | Signalled)
    assert result.exit_code != 0
