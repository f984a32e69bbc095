"""The blocking face: the same names and signatures, the same answers."""

import collections.abc
import contextlib
import functools
import gc
import inspect
import json
import os
import signal
import subprocess
import sys
import threading
import time
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hermetic
from hermetic import ConfigError, InvalidArgument, blocking, toolbox
from hermetic.contract import notice as contract_notice
from hermetic.contract import tool as contract_tool
from hermetic.fleet import fleet, opening
from hermetic.registry.records import runtime_root
from hermetic.resident.lazy import load
from hermetic.session import environment, process, session

# What the toolbox imports for type checkers alone.
LAZY_NAMES = {
    **vars(collections.abc),
    **vars(contract_tool),
    **vars(contract_notice),
    **vars(load(toolbox.parts)),
}
FACES: list[tuple[type, type]] = [
    (session.Session, blocking.Session),
    (environment.Environment, blocking.Environment),
    (process.Process, blocking.Process),
    (fleet.Fleet, blocking.Fleet),
    (toolbox.Toolbox, blocking.Toolbox),
]


def public(face: type) -> dict[str, Any]:
    return {
        name: inspect.getattr_static(face, name)
        for name in dir(face)
        if not name.startswith("_") and not isinstance(inspect.getattr_static(face, name), type)
    }


def parameters(function: Callable[..., object]) -> dict[str, tuple[object, ...]]:
    """Name → kind, default, type; the names behind `**options` are looked up where they are
    written.
    """
    hints = typing.get_type_hints(function, localns=LAZY_NAMES, include_extras=True)
    found: dict[str, tuple[object, ...]] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD:
            found[name] = (parameter.kind, parameter.default, hints.get(name))
    return found


@pytest.mark.parametrize(("ours", "theirs"), FACES, ids=lambda face: face.__module__)
def test_both_faces_have_the_same_names(ours: type, theirs: type) -> None:
    assert set(public(ours)) == set(public(theirs))


@pytest.mark.parametrize(("ours", "theirs"), FACES, ids=lambda face: face.__module__)
def test_both_faces_have_the_same_signatures(ours: type, theirs: type) -> None:
    for name, function in public(ours).items():
        if isinstance(function, property | functools.cached_property):
            assert isinstance(public(theirs)[name], property)
            continue
        assert parameters(public(theirs)[name]) == parameters(function), name


def test_a_fleet_and_a_toolbox_are_made_with_the_same_options() -> None:
    assert parameters(blocking.Fleet.__init__) == parameters(fleet.Fleet.__init__)
    assert parameters(blocking.Toolbox.__init__) == parameters(toolbox.Toolbox.__init__)


def test_a_toolbox_without_await(tmp_path: Path) -> None:
    with hermetic.blocking.Toolbox(options={"login": False, "cwd": str(tmp_path)}) as tools:

        def call(name: str, **given: Any) -> Any:
            return json.loads(tools.call(name, given, task_id="t"))

        assert call("terminal", command="X=1; pwd")["output"] == f"{tmp_path}\n"
        started = call(
            "terminal", command="echo bye; exit 3", background=True, notify_on_complete=True
        )
        with tools.notices("t") as notices:
            told = next(notices)
        assert (told.session_id, told.exit_code) == (started["session_id"], 3)
        assert call("terminal", command="sleep 1000", background=True)["exit_code"] == 0
        assert len(tools.running("t")) == tools.kill_all("t") == 1
        with tools.fleet.use("t") as env:
            assert env.run("echo $X").output == "1\n"
        assert [schema["name"] for schema in tools.schemas("mcp")][:2] == ["terminal", "process"]
        waiting = threading.Timer(0.5, tools.interrupt, ["t"])
        waiting.start()
        assert call("terminal", command="sleep 1000")["status"] == "interrupted"
        waiting.join()
        assert tools.fleet.close_task("t", remove=True)
        assert call("terminal", command="echo [$X]")["output"] == "[]\n"
        tools.close(remove=True)
    with pytest.raises(hermetic.EnvironmentUnavailable, match="closed"):
        tools.call("terminal", {"command": "true"})
    with pytest.raises(hermetic.ConfigError):
        hermetic.blocking.Toolbox(environment="dokker")


def test_a_fleet_without_await() -> None:
    with hermetic.blocking.Fleet("local", login=False) as kept:
        kept.warm(1)
        first = kept.get("one")
        assert first.run("X=1; echo up").output == "up\n"
        with kept.use("one") as same:
            assert (same.id, same.run("echo $X").output) == (first.id, "1\n")
            assert kept.info().tasks[0].users == 1
        first.close()
        assert kept.get("one").run("echo $X").output == "1\n"
        assert kept.tasks == ["one"]
        assert kept.gc() == []
        assert kept.close(remove=True) == 1
    assert list(runtime_root().iterdir()) == []


def test_open_and_attach_have_the_same_signatures() -> None:
    for name in ("open", "attach"):
        assert parameters(getattr(blocking, name)) == parameters(getattr(opening, name))


def test_the_same_work_without_await(tmp_path: Path) -> None:
    with hermetic.blocking.open("local", cwd=tmp_path) as env:
        assert env.run("echo hi; cd /; A=1").output == "hi\n"
        assert env.run("pwd; echo $A").output == "/\n1\n"
        assert env.session("b").run("echo [$A]").output == "[]\n"
        child = env.start("read x; echo $x")
        child.submit("hello")
        child.wait_for("hello", timeout=10)
        assert child.wait(10) == hermetic.Exited(0)
        assert env.process(child.id).read().data == b"hello\n"
        env.write_file(str(tmp_path / "f"), "text")
        assert env.read_file(str(tmp_path / "f")) == "text"
        with pytest.raises(hermetic.InvalidArgument):
            env.run("true", timeout=0)
        assert env.id in repr(env)


def test_a_yielded_command_gives_a_blocking_process() -> None:
    with hermetic.blocking.open("local") as env:
        result = env.run("sleep 0.3; echo late", timeout=0.05, on_timeout="yield")
        assert isinstance(result.process, blocking.Process)
        assert result.process.wait(10) == hermetic.Exited(0)


def test_events_are_a_plain_iterator() -> None:
    with hermetic.blocking.open("local") as env, env.events() as events:
        env.start("true", id="p").wait(10)
        assert [next(events).event, next(events).event] == ["started", "ended"]


def test_a_task_is_attached_to_and_removed() -> None:
    with hermetic.blocking.open("local", task="blocking") as env:
        env.run("X=1")
    with hermetic.blocking.attach("blocking") as again:
        assert again.run("echo $X").output == "1\n"
        again.close(remove=True)
    with pytest.raises(hermetic.EnvironmentUnavailable):
        hermetic.blocking.attach("blocking")
    with pytest.raises(hermetic.EnvironmentUnavailable):
        again.run("true")


def test_an_interrupt_ends_the_command_first() -> None:
    def interrupt(_signal: int, _frame: object) -> None:
        raise KeyboardInterrupt

    earlier = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with hermetic.blocking.open("local") as env:
            timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGUSR1))
            timer.start()
            began = time.monotonic()
            with pytest.raises(KeyboardInterrupt):
                env.run("sleep 600")
            assert time.monotonic() - began < 10
            timer.join()
            assert all(one.state == "ended" for one in env.processes())
    finally:
        signal.signal(signal.SIGUSR1, earlier)


def test_threads_share_an_environment() -> None:
    with hermetic.blocking.open("local") as env:
        outputs: dict[int, str] = {}

        def work(number: int) -> None:
            outputs[number] = env.run(f"echo {number}").output

        threads = [threading.Thread(target=work, args=(number,)) for number in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert outputs == {number: f"{number}\n" for number in range(10)}


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_exit_in_a_callback_ends_the_command_and_reaches_the_caller(
    kind: type[BaseException],
) -> None:
    def leave(_: object) -> None:
        raise kind

    with blocking.open("local", login=False) as env:
        with pytest.raises(kind):
            env.run("echo x; sleep 60", on_output=leave)
        log = env.start("echo x; sleep 60").id
        with pytest.raises(kind):
            env.follow_log(log, leave)
        assert env.run("echo on").output == "on\n"


def test_a_toolbox_names_a_wrong_option_at_once() -> None:
    with pytest.raises(ConfigError, match="'local' has no option 'leese'; did you mean 'lease'"):
        blocking.Toolbox(options={"leese": 3})
    with blocking.Toolbox() as box:
        wrong: Any = print
        with pytest.raises(InvalidArgument, match=r"a tool is a hermetic\.Tool, not builtin"):
            box.register(wrong)
        wrong = 3
        answer = json.loads(box.call("terminal", {"command": "true"}, task_id=wrong))
        assert answer["error"].startswith("a task must be a text that is not empty, not 3")


def test_a_blocking_call_inside_on_output_is_refused() -> None:
    with hermetic.blocking.open("local") as env, pytest.raises(RuntimeError, match="async API"):
        env.run("echo x; sleep 5", on_output=lambda _: env.run("true"))


def python(text: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60)


def test_an_environment_used_after_a_fork_says_so() -> None:
    done = python("""
import os, hermetic
with hermetic.blocking.open("local") as env:
    if os.fork() == 0:
        try:
            env.run("true")
        except hermetic.EnvironmentUnavailable as error:
            print(error, flush=True)
        env.close()
        os._exit(0)
    os.wait()
    print(env.run("echo parent").output)
""")
    assert "was opened before a fork" in done.stdout
    assert "parent" in done.stdout


def test_an_environment_that_is_never_closed_ends_with_the_program() -> None:
    done = python("""
import hermetic
env = hermetic.blocking.open("local")
kept = env.start("sleep 600")
print(env.info().pid, env.id)
""")
    assert (done.returncode, done.stderr) == (0, "")
    pid, id = done.stdout.split()
    assert not Path(f"/proc/{pid}").exists()
    assert not (runtime_root() / id).exists()


def test_a_program_ends_though_its_environment_does_not_answer() -> None:
    began = time.monotonic()
    done = python("""
import hermetic, os, signal
env = hermetic.blocking.open("local", lease=0.1, unattended=0.1)
pid = env.info().pid
os.kill(pid, signal.SIGSTOP)
print(pid, env.id)
""")
    pid, id = done.stdout.split()
    with contextlib.suppress(ProcessLookupError):  # its guardian may have ended it
        os.kill(int(pid), signal.SIGCONT)
    assert done.returncode == 0
    assert time.monotonic() - began < 50
    assert not (runtime_root() / f"{id}.lock").exists()
    deadline = time.monotonic() + 20
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_task_outlives_a_program_that_does_not_close_it() -> None:
    done = python("""
import hermetic
env = hermetic.blocking.open("local", task="left open")
env.run("X=1")
""")
    assert (done.returncode, done.stderr) == (0, "")
    with hermetic.blocking.attach("left open") as env:
        assert env.run("echo $X").output == "1\n"
        env.close(remove=True)


def open_and_start() -> tuple[list[blocking.Process], int]:
    env = blocking.open("local")
    return [env.start("sleep 600")], env.info().pid


def test_an_environment_that_is_forgotten_is_closed_with_a_warning() -> None:
    held, pid = open_and_start()
    gc.collect()
    assert held[0].status().state == "running"  # whoever holds a process holds its environment
    with pytest.warns(ResourceWarning, match="was never closed"):
        held.clear()
    deadline = time.monotonic() + 20
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
