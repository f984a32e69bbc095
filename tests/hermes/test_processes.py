"""`process_registry`: every method, its arguments and the shape of its answer."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermetic import hermes
from hermetic.contract.tool import Fields
from hermetic.hermes import process_registry as registry
from hermetic.hermes.process_session import ProcessSession
from tests.cli.program import eventually
from tests.environments.engines import need_engine, ours
from tests.programs import need_variable

SECONDS = 60.0  # for what takes far less


def start(command: str, **more: Any) -> str:
    answer = json.loads(hermes.terminal_tool(command, background=True, task_id="t", **more))
    id: str = answer["session_id"]
    return id


def events(count: int) -> list[tuple[Fields, str]]:
    """Waits for so many events."""
    found: list[tuple[Fields, str]] = []
    deadline = time.monotonic() + SECONDS
    while len(found) < count and time.monotonic() < deadline:
        found.append((event := registry.completion_queue.get(timeout=SECONDS), event["message"]))
    return found


def test_poll_describes_a_process_while_it_runs_and_after() -> None:
    id = start("echo hello; read line; exit 3")
    running = registry.poll(id)
    assert set(running) >= {
        "session_id",
        "command",
        "status",
        "pid",
        "uptime_seconds",
        "output_preview",
    }
    assert (running["session_id"], running["status"]) == (id, "running")
    assert running["command"] == "echo hello; read line; exit 3"
    assert isinstance(running["uptime_seconds"], int)
    registry.submit_stdin(id, "go")
    registry.wait(id)
    ended = registry.poll(id)
    assert (ended["status"], ended["exit_code"], ended["completion_reason"]) == (
        "exited",
        3,
        "exited",
    )
    assert (ended["output_preview"], ended["termination_source"]) == ("hello\n", "")


@pytest.mark.parametrize(
    "action", ["poll", "read_log", "wait", "kill_process", "submit_stdin", "close_stdin"]
)
def test_an_unknown_process_is_not_found(action: str) -> None:
    answer = getattr(registry, action)("proc_none")
    assert answer["status"] == "not_found"
    assert "proc_none" in answer["error"]
    assert registry.get("proc_none") is None
    assert registry.write_stdin("proc_none", "x")["status"] == "not_found"


def test_get_gives_the_record() -> None:
    id = start("seq 3; sleep 600")
    deadline = time.monotonic() + SECONDS
    record = registry.get(id)
    while (
        record is not None and record.output_buffer.count("\n") < 2 and time.monotonic() < deadline
    ):
        time.sleep(0.02)  # no event says when output has come
        record = registry.get(id)
    assert record is not None
    assert (record.id, record.task_id, record.command) == (id, "t", "seq 3; sleep 600")
    assert (record.exited, record.exit_code, record.detached, record.pid_scope) == (
        False,
        None,
        False,
        "host",
    )
    assert record.output_buffer.split() == ["1", "2", "3"]
    assert record.pid


def test_a_log_is_read_by_lines() -> None:
    id = start("seq 1000")
    registry.wait(id)
    last = registry.read_log(id)
    assert (last["total_lines"], last["showing"], last["status"]) == (1000, "200 lines", "exited")
    assert last["output"].splitlines()[0] == "801"
    assert registry.read_log(id, offset=10, limit=2)["output"] == "11\n12"
    assert registry.read_log(id, limit=3)["output"] == "998\n999\n1000"
    assert registry.read_log(id, offset=-5, limit=-5)["output"] == "1000"


def test_wait_ends_with_the_process_a_timeout_or_an_interrupt() -> None:
    id = start("echo out; read line; exit 4")
    late = registry.wait(id, timeout=1)
    assert late["status"] == "timeout"
    assert "1s" in late["timeout_note"]
    threading.Timer(0.3, hermes.set_interrupt_event, [True]).start()
    stopped = registry.wait(id)
    hermes.set_interrupt_event(False)
    assert (stopped["status"], stopped["output"]) == ("interrupted", "out\n")
    assert "note" in stopped
    registry.close_stdin(id)
    ended = registry.wait(id, timeout=100_000)
    assert (ended["status"], ended["exit_code"], ended["output"]) == ("exited", 4, "out\n")
    assert "timeout_note" in ended  # it was reduced
    refused = registry.wait(id, timeout=-1)
    assert (refused["status"], "timeout" in refused["error"]) == ("error", True)


def test_input_is_written_submitted_and_closed() -> None:
    id = start("cat")
    assert registry.write_stdin(id, "one ") == {"status": "ok", "bytes_written": 4}
    assert registry.submit_stdin(id, "two")["status"] == "ok"
    assert registry.close_stdin(id)["status"] == "ok"
    assert registry.wait(id)["output"] == "one two\n"
    assert registry.write_stdin(id, "x") == {
        "status": "already_exited",
        "error": "Process has already finished",
    }


def test_a_terminal_is_given_where_it_is_asked_for() -> None:
    id = start("test -t 0 && echo a tty", pty=True)
    assert "a tty" in registry.wait(id)["output"]


def test_kill_ends_the_tree_and_says_how(tmp_path: Path) -> None:
    id = start("sleep 600 & sleep 600")
    killed = registry.kill_process(id)
    assert set(killed) >= {
        "status",
        "session_id",
        "completion_reason",
        "termination_source",
        "output",
        "exit_code",
    }
    assert (killed["status"], killed["completion_reason"]) == ("killed", "killed")
    assert killed["termination_source"] == "process.kill"
    assert killed["exit_code"] == 143
    again = registry.kill_process(id)
    assert (again["status"], again["exit_code"]) == ("already_exited", 143)


def test_kill_all_ends_those_of_a_task_or_all() -> None:
    start("sleep 600")
    start("sleep 600")
    hermes.terminal_tool("sleep 600", background=True, task_id="b")
    assert registry.kill_all(task_id="t") == 2
    assert (registry.has_active_processes("t"), registry.has_active_processes("b")) == (False, True)
    assert registry.kill_all() == 1
    assert registry.kill_all() == 0


def test_running_processes_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_SESSION_KEY", "chat:1")
    assert (registry.count_running(), registry.has_any_active()) == (0, False)
    id = start("sleep 600")
    assert (registry.count_running(), registry.has_any_active()) == (1, True)
    assert registry.has_active_for_session("chat:1")
    assert registry.has_active_for_session("chat:1", max_active_age=3600)
    assert not registry.has_active_for_session("chat:1", max_active_age=0)
    assert not registry.has_active_for_session("chat:2")
    registry.kill_process(id)
    assert not registry.has_active_for_session("chat:1")


def test_sessions_are_listed_by_task_and_session_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_SESSION_KEY", "chat:1")
    first = start("echo shown; sleep 600")
    hermes.terminal_tool("sleep 600", background=True, task_id="b")
    assert [one["session_id"] for one in registry.list_sessions(task_id="t")] == [first]
    assert len(registry.list_sessions()) == 2
    both = registry.list_sessions(task_id="t", session_key="chat:1")
    assert [one.get("session_scoped", False) for one in both] == [False, True]
    registry.kill_process(first)
    entry = registry.list_sessions(task_id="t")[0]
    assert set(entry) >= {
        "session_id",
        "command",
        "cwd",
        "pid",
        "started_at",
        "uptime_seconds",
        "status",
        "output_preview",
        "exit_code",
    }
    assert entry["status"] == "exited"
    time.strptime(entry["started_at"], "%Y-%m-%dT%H:%M:%S")


def test_a_list_says_what_is_watched_and_what_is_notified() -> None:
    start("sleep 600")
    notified = start("sleep 600", notify_on_complete=True)
    watched = start("read line; echo ready; sleep 600", watch_patterns=["ready", "failed"])
    plain, told, seen = registry.list_sessions(task_id="t")
    assert not {"notify_on_complete", "watch_patterns"} & set(plain)
    assert (told["session_id"], told["notify_on_complete"], "watch_patterns" in told) == (
        notified,
        True,
        False,
    )
    assert (seen["session_id"], seen["watch_patterns"], seen["watch_hit"]) == (
        watched,
        ["ready", "failed"],
        False,
    )
    registry.submit_stdin(watched)
    events(1)
    assert registry.list_sessions(task_id="t")[2]["watch_hit"] is True


# -- notices
def test_an_end_is_notified_once_and_drained_by_its_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HERMES_SESSION_KEY", "chat:1")
    id = start("echo result; exit 5", notify_on_complete=True)
    [(event, _)] = events(1)
    registry.completion_queue.put(event)
    assert registry.drain_notifications("chat:2") == []
    assert registry.drain_notifications(owns_event=lambda event: False) == []
    [(event, text)] = registry.drain_notifications("chat:1")
    assert (event["type"], event["session_id"], event["session_key"]) == (
        "completion",
        id,
        "chat:1",
    )
    assert (event["exit_code"], event["command"]) == (5, "echo result; exit 5")
    assert text.startswith("[IMPORTANT:")
    assert "result" in event["output"]
    assert registry.drain_notifications("chat:1") == []


def test_an_end_that_comes_before_its_record_has_the_session_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HERMES_SESSION_KEY", "chat:1")
    track, gate = registry.track, registry.notices

    def late(*words: Any, **more: Any) -> ProcessSession:
        eventually(lambda: bool(gate.held), SECONDS)
        return track(*words, **more)

    monkeypatch.setattr(registry, "track", late)
    id = start("exit 5", notify_on_complete=True)
    [(event, _)] = events(1)
    assert (event["session_id"], event["session_key"]) == (id, "chat:1")
    assert gate.held == []


def test_an_end_that_was_waited_for_is_not_notified() -> None:
    id = start("sleep 0.3", notify_on_complete=True)
    assert not registry.is_completion_consumed(id)
    registry.wait(id)
    assert registry.is_completion_consumed(id)
    assert registry.drain_notifications() == []


def test_a_watched_pattern_is_notified() -> None:
    id = start("read line; echo server ready; sleep 600", watch_patterns=["ready"])
    assert registry.is_session_waiting(id)
    registry.submit_stdin(id)
    [(event, text)] = events(1)
    assert (event["type"], event["pattern"]) == ("watch_match", "ready")
    assert "server ready" in event["output"]
    assert text.startswith("[IMPORTANT:")
    assert not registry.is_session_waiting(id)
    assert not registry.is_session_waiting("proc_none")


def test_a_front_end_is_asked_to_close_its_view() -> None:
    id = start("sleep 600")
    assert registry.request_close_terminal(id)["status"] == "error"
    closed: list[str] = []
    registry.on_close = lambda session, id: closed.append(id)
    try:
        assert registry.request_close_terminal(id)["closed"] == id
    finally:
        registry.on_close = None
    assert closed == [id]
    assert registry.poll(id)["status"] == "running"


# -- starting
def test_a_process_is_spawned_on_this_machine(tmp_path: Path) -> None:
    session = registry.spawn_local(
        "pwd; echo $GIVEN", str(tmp_path), "t", "chat:1", {"GIVEN": "yes"}
    )
    assert isinstance(session, hermes.ProcessSession)
    assert (session.task_id, session.session_key, session.cwd) == ("t", "chat:1", str(tmp_path))
    assert registry.wait(session.id)["output"] == f"{tmp_path}\nyes\n"
    shown = registry.spawn_local("test -t 0 && echo a tty", use_pty=True)
    assert "a tty" in registry.wait(shown.id)["output"]


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[hermes.LocalEnvironment]:
    made = hermes.LocalEnvironment(cwd=str(tmp_path))
    yield made
    made.cleanup()


def test_a_process_is_spawned_through_an_environment(
    environment: hermes.LocalEnvironment, tmp_path: Path
) -> None:
    environment.execute("export GIVEN=yes")
    session = registry.spawn_via_env(
        environment, "pwd; echo $GIVEN; cat; exit 6", task_id="t", session_key="k"
    )
    assert session.pid_scope == "sandbox"
    assert registry.poll(session.id)["status"] == "running"
    assert registry.submit_stdin(session.id, "typed")["status"] == "ok"
    registry.close_stdin(session.id)
    ended = registry.wait(session.id)
    assert (ended["exit_code"], ended["output"]) == (6, f"{tmp_path}\nyes\ntyped\n")
    assert registry.read_log(session.id, limit=1)["output"] == "typed"
    other = registry.spawn_via_env(environment, "sleep 600", cwd="/")
    assert registry.kill_process(other.id)["status"] == "killed"


def test_a_process_in_a_container_is_found_again_by_the_next_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    need_engine("docker")
    monkeypatch.setenv("TERMINAL_ENV", "docker")
    monkeypatch.setenv("TERMINAL_DOCKER_IMAGE", need_variable("IMAGE_TOOLS"))
    monkeypatch.delenv("TERMINAL_CWD")
    code = (
        "import json, os, sys\nfrom hermetic import hermes\n"
        "answer = json.loads(hermes.terminal_tool('echo begun; exec sleep 600', background=True))\n"
        "print(answer['session_id'], flush=True)\nos._exit(0)\n"
    )
    id = subprocess.check_output([sys.executable, "-c", code], text=True, timeout=SECONDS).strip()
    try:
        assert registry.recover_from_checkpoint() == 1
        assert registry.recover_from_checkpoint() == 0
        found = registry.poll(id)
        assert (found["status"], found["detached"], found["output_preview"]) == (
            "running",
            True,
            "begun\n",
        )
        assert "earlier" in found["note"]
        [listed] = registry.list_sessions()
        assert (listed["session_id"], listed["detached"]) == (id, True)
        assert registry.kill_process(id)["status"] == "killed"
    finally:
        hermes.cleanup_vm("default")
    assert ours("docker") == []


def test_nothing_is_recovered_where_nothing_outlives_the_process() -> None:
    start("sleep 600")
    assert registry.recover_from_checkpoint() == 0
