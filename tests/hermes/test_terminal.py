"""`terminal_tool` and the life of its environments, as callers of Hermes know them."""

import inspect
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from hermetic import hermes
from hermetic.contract.tool import Fields
from tests.environments.engines import need_engine, ours
from tests.environments.sshd import running
from tests.hermes.signals import Point
from tests.programs import need_variable
from tests.tools.terminal.test_sudo import PASSWORD, USER, let_in, user_with_password


def run(command: str, **more: Any) -> Fields:
    answer: Fields = json.loads(hermes.terminal_tool(command, **more))
    return answer


def test_it_takes_the_arguments_of_the_original() -> None:
    parameters = inspect.signature(hermes.terminal_tool).parameters
    defaults = {name: one.default for name, one in parameters.items() if name != "command"}
    assert list(parameters)[:8] == [
        "command",
        "background",
        "timeout",
        "task_id",
        "force",
        "workdir",
        "check_interval",
        "pty",
    ]
    assert defaults == {
        "background": False,
        "timeout": None,
        "task_id": None,
        "force": False,
        "workdir": None,
        "check_interval": None,
        "pty": False,
        "session_id": None,
        "notify_on_complete": False,
        "watch_patterns": None,
    }


def test_a_command_answers_output_exit_code_and_error() -> None:
    answer = run("echo grün; exit 3")
    assert (answer["output"], answer["exit_code"], answer["error"]) == ("grün\n", 3, None)
    assert "grün" in hermes.terminal_tool("echo grün")  # not escaped


def test_state_and_files_stay_with_the_task_and_tasks_are_apart(tmp_path: Path) -> None:
    run("echo x > file; export SEEN=1; cd /", task_id="a")
    assert run("echo $SEEN $PWD", task_id="a")["output"] == "1 /\n"
    assert run("echo -$SEEN- $PWD", task_id="b")["output"] == f"-- {tmp_path}\n"
    assert (tmp_path / "file").read_text() == "x\n"


def test_a_directory_holds_for_one_command(tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    assert run("pwd", workdir=str(tmp_path / "a b"))["output"] == f"{tmp_path}/a b\n"
    assert run("pwd")["output"] == f"{tmp_path}\n"


def test_a_timeout_ends_the_command_and_keeps_its_output() -> None:
    answer = run("echo before; sleep 600", timeout=1)
    assert answer["exit_code"] == 124
    assert answer["output"] == "before\n\n[Command timed out after 1s]"
    assert run("sleep 600", timeout=1)["output"] == "[Command timed out after 1s]"


def test_a_terminal_can_be_had_in_the_foreground() -> None:
    assert "a tty" in run("test -t 1 && echo a tty", pty=True)["output"]


@pytest.mark.parametrize("command", [None, 7, ["ls"]])
def test_a_command_that_is_no_text_is_an_error(command: Any) -> None:
    answer = json.loads(hermes.terminal_tool(command))
    assert (answer["exit_code"], answer["status"]) == (-1, "error")
    assert "string" in answer["error"]


def test_an_unknown_kind_is_named_with_the_valid_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERMINAL_ENV", "modul")
    answer = run("true")
    assert answer["exit_code"] == -1
    assert "docker" in answer["error"]
    assert hermes.check_terminal_requirements() is False


def test_a_background_process_answers_its_session() -> None:
    answer = run("sleep 600", background=True, task_id="t")
    assert answer["output"] == "Background process started"
    assert answer["session_id"].startswith("proc_")
    assert (answer["exit_code"], answer["error"]) == (0, None)
    assert answer["pid"] > 0


@pytest.fixture
def chat(monkeypatch: pytest.MonkeyPatch) -> Fields:
    """The conversation of a gateway, as a watcher's record names it."""
    route = {
        "platform": "telegram",
        "chat_id": "7",
        "user_id": "8",
        "user_name": "Ada",
        "thread_id": "9",
        "message_id": "10",
    }
    for name, value in {**route, "key": "chat:7"}.items():
        monkeypatch.setenv(f"HERMES_SESSION_{name.upper()}", value)
    return {"session_key": "chat:7", **route}


def test_a_short_check_interval_is_raised_and_queued(chat: Fields) -> None:
    answer = run("sleep 600", background=True, check_interval=5)
    assert "30" in answer["check_interval_note"]
    assert hermes.process_registry.pending_watchers == [
        {
            "session_id": answer["session_id"],
            "check_interval": 30,
            "notify_on_complete": False,
            **chat,
        }
    ]
    assert "check_interval_note" not in run("sleep 600", background=True, check_interval=60)


@pytest.mark.parametrize("interval", ["soon", float("nan"), float("inf"), [5]])
def test_a_check_interval_that_is_no_number_starts_nothing(interval: Any) -> None:
    answer = run("sleep 600", background=True, check_interval=interval)
    assert (answer["status"], answer["exit_code"]) == ("error", -1)
    assert "check_interval is a number" in answer["error"]
    assert not hermes.process_registry.has_any_active()


def test_a_gateway_watches_a_process_whose_end_is_to_be_notified(chat: Fields) -> None:
    answer = run("sleep 600", background=True, notify_on_complete=True)
    assert answer["notify_on_complete"] is True
    assert hermes.process_registry.pending_watchers == [
        {
            "session_id": answer["session_id"],
            "check_interval": 5,
            "notify_on_complete": True,
            **chat,
        }
    ]
    record = hermes.process_registry.get(answer["session_id"])
    assert record is not None
    assert (record.watcher_platform, record.watcher_chat_id, record.watcher_user_id) == (
        "telegram",
        "7",
        "8",
    )
    assert (record.watcher_thread_id, record.watcher_interval, record.session_key) == (
        "9",
        5,
        "chat:7",
    )


def test_without_a_gateway_no_watcher_is_queued_for_a_notice() -> None:
    run("sleep 600", background=True, notify_on_complete=True)
    assert hermes.process_registry.pending_watchers == []


# -- interrupts
def test_an_interrupt_ends_running_commands_and_those_that_come(tmp_path: Path) -> None:
    point = Point(tmp_path, lambda: hermes.set_interrupt_event(True))
    answer = run(f"echo before; {point.text}; sleep 600")
    point.join()
    hermes.set_interrupt_event(False)
    assert answer["exit_code"] == 130
    assert answer["output"] == "before\n\n[Command interrupted]"
    hermes.set_interrupt_event(True)
    assert run("echo not run")["exit_code"] == 130
    hermes.set_interrupt_event(False)
    assert run("echo run")["output"] == "run\n"


# -- approvals
DANGEROUS = "rm -rf /srv/hermetic-no-such-directory"


def test_without_a_user_a_dangerous_command_is_blocked() -> None:
    answer = run(DANGEROUS)
    assert (answer["exit_code"], answer["status"], answer["refused_by"]) == (
        -1,
        "blocked",
        "nobody",
    )
    assert "there is no user to ask here" in answer["error"]
    assert "said no" not in answer["error"]


@pytest.mark.parametrize(
    ("answer", "status"), [("once", None), ("deny", "blocked"), ("nonsense", "blocked")]
)
def test_the_callback_decides(answer: str, status: str | None) -> None:
    asked: list[tuple[str, str]] = []

    def callback(command: str, description: str) -> str:
        asked.append((command, description))
        return answer

    hermes.set_approval_callback(callback)
    assert run(DANGEROUS).get("status") == status
    assert asked[0][0] == DANGEROUS
    assert "deletes" in asked[0][1]


def test_a_callback_that_fails_is_a_denial_and_one_may_take_allow_permanent() -> None:
    def broken(command: str, description: str, *, allow_permanent: bool = True) -> str:
        raise RuntimeError("no window")

    hermes.set_approval_callback(broken)
    assert run(DANGEROUS)["status"] == "blocked"


def test_an_answer_for_the_session_is_remembered() -> None:
    count = 0

    def callback(command: str, description: str, *, allow_permanent: bool) -> str:
        nonlocal count
        count += 1
        return "session"

    hermes.set_approval_callback(callback)
    for _ in range(2):
        assert run(DANGEROUS)["exit_code"] == 0
    assert count == 1


def test_force_runs_what_the_user_has_approved(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(DANGEROUS, force=True)["exit_code"] == 0
    assert run(DANGEROUS)["status"] == "blocked"
    assert run("rm -rf /", force=True)["status"] == "blocked"  # never, whoever asks
    hermes.cleanup_all_environments()
    monkeypatch.setenv("HERMES_GATEWAY_SESSION", "1")
    answer = run(DANGEROUS)
    assert (answer["exit_code"], answer["status"]) == (-1, "approval_required")
    assert {"command", "description", "pattern_key", "error"} <= set(answer)
    assert run(DANGEROUS, force=True)["exit_code"] == 0


# -- environments
def test_open_environments_are_listed_and_closed(tmp_path: Path) -> None:
    assert hermes.get_active_environments_info() == {
        "count": 0,
        "task_ids": [],
        "workdirs": {},
        "total_disk_usage_mb": 0.0,
    }
    run("true", task_id="a")
    run("export KEPT=1", task_id="b")
    info = hermes.get_active_environments_info()
    assert (info["count"], sorted(info["task_ids"])) == (2, ["a", "b"])
    assert info["workdirs"] == {"a": str(tmp_path), "b": str(tmp_path)}
    assert info["total_disk_usage_mb"] >= 0
    hermes.cleanup_vm("a")
    assert hermes.get_active_environments_info()["task_ids"] == ["b"]
    hermes.cleanup_vm("never opened")
    assert hermes.cleanup_all_environments() == 1
    assert run("echo -$KEPT-", task_id="b")["output"] == "--\n"


def test_overrides_hold_for_their_task(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    hermes.register_task_env_overrides(
        "a", {"cwd": str(tmp_path / "own"), "docker_image": "none", "modal_image": "x"}
    )
    assert run("pwd", task_id="a")["output"] == f"{tmp_path}/own\n"
    assert run("pwd", task_id="b")["output"] == f"{tmp_path}\n"
    hermes.clear_task_env_overrides("a")
    hermes.cleanup_vm("a")
    assert run("pwd", task_id="a")["output"] == f"{tmp_path}\n"


def test_requirements_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert hermes.check_terminal_requirements() is True
    monkeypatch.setenv("TERMINAL_ENV", "ssh")
    assert hermes.check_terminal_requirements() is False
    monkeypatch.setenv("TERMINAL_SSH_HOST", "example.org")
    monkeypatch.setenv("TERMINAL_SSH_USER", "me")
    assert hermes.check_terminal_requirements() is True


def test_a_password_for_sudo_comes_from_the_callback(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def password() -> str:
        asked.append("asked")
        return PASSWORD

    # Other runs of pytest close their common directory to other users.
    with (
        tempfile.TemporaryDirectory(prefix="hm-", dir="/tmp") as at,
        user_with_password(),
        running(Path(at)) as sshd,
    ):
        let_in(Path(at), sshd.home)
        given = {**sshd.options, "user": USER}
        monkeypatch.setenv("TERMINAL_ENV", "ssh")
        monkeypatch.delenv("TERMINAL_CWD")
        for name, value in given.items():
            text = value if isinstance(value, str) else json.dumps(value)
            monkeypatch.setenv(f"HERMETIC_SSH_{name.upper()}", text)
        hermes.set_approval_callback(lambda command, description: "once")
        assert run("sudo id -u")["exit_code"] == 1
        hermes.set_sudo_password_callback(password)
        answer = run("sudo id -u; sudo id -u")
        assert answer["output"] == "0\n0\n", answer
        assert asked == ["asked"]  # it is remembered
        hermes.cleanup_all_environments()


def test_docker_runs_the_tools_in_one_container_for_each_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_engine("docker")
    monkeypatch.setenv("TERMINAL_ENV", "docker")
    monkeypatch.setenv("TERMINAL_DOCKER_IMAGE", "hermetic-test:no-such")
    monkeypatch.delenv("TERMINAL_CWD")
    assert hermes.check_terminal_requirements() is True
    hermes.register_task_env_overrides("a", {"docker_image": need_variable("IMAGE_TOOLS")})
    answer = run("echo inside > /root/f; pwd; test -e /.dockerenv && echo in docker", task_id="a")
    assert answer["output"] == "/root\nin docker\n"
    started = run("sleep 600", background=True, task_id="a")
    assert hermes.process_registry.has_active_processes("a")
    assert hermes.process_registry.kill_process(started["session_id"])["status"] == "killed"
    code = "from hermes_tools import read_file; print(read_file('/root/f')['content'])"
    assert "inside" in json.loads(hermes.execute_code(code, task_id="a"))["output"]
    assert len(ours("docker")) == 1
    hermes.cleanup_vm("a")
    assert ours("docker") == []


def test_a_call_that_waits_gives_signs_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermetic.hermes.activity.INTERVAL", 0.1)
    beats: list[str] = []
    hermes.set_activity_callback(beats.append)
    try:
        deadline = time.monotonic() + 60
        while not beats and time.monotonic() < deadline:
            run("sleep 0.5")
    finally:
        hermes.set_activity_callback(None)
    assert beats[0].startswith("terminal command running (")
