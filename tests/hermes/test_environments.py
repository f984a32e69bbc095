"""Environment objects by their Hermes names: all arguments, `execute`, `cleanup`, and the extension
point.
"""

import inspect
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hermetic import hermes
from hermetic.hermes.handles import ProcessHandle, ThreadedProcessHandle
from tests.environments.apptainers import Apptainers
from tests.environments.engines import need_engine, ours
from tests.environments.sshd import shared_options
from tests.programs import need_variable
from tests.sizes import at_full_size

NAMES = {
    hermes.LocalEnvironment: {"cwd": "", "timeout": 60, "env": None},
    hermes.DockerEnvironment: {
        "image": ...,
        "cwd": "/root",
        "timeout": 60,
        "cpu": 0,
        "memory": 0,
        "disk": 0,
        "persistent_filesystem": False,
        "task_id": "default",
        "volumes": None,
        "forward_env": None,
        "env": None,
        "network": True,
        "host_cwd": None,
        "auto_mount_cwd": False,
        "run_as_host_user": False,
        "extra_args": None,
        "persist_across_processes": True,
    },
    hermes.SSHEnvironment: {
        "host": ...,
        "user": ...,
        "cwd": "~",
        "timeout": 60,
        "port": 22,
        "key_path": "",
    },
    hermes.SingularityEnvironment: {
        "image": ...,
        "cwd": "/root",
        "timeout": 60,
        "cpu": 0,
        "memory": 0,
        "disk": 0,
        "persistent_filesystem": False,
        "task_id": "default",
    },
    hermes.ModalEnvironment: {
        "image": ...,
        "cwd": "/root",
        "timeout": 60,
        "modal_sandbox_kwargs": None,
        "persistent_filesystem": True,
        "task_id": "default",
    },
    hermes.DaytonaEnvironment: {
        "image": ...,
        "cwd": "/home/daytona",
        "timeout": 60,
        "cpu": 1,
        "memory": 5120,
        "disk": 10240,
        "persistent_filesystem": True,
        "task_id": "default",
    },
    hermes.BaseEnvironment: {"cwd": ..., "timeout": ..., "env": None},
}


@pytest.mark.parametrize("kind", NAMES, ids=lambda kind: kind.__name__)
def test_it_takes_the_arguments_of_the_original(kind: type[hermes.BaseEnvironment]) -> None:
    found = {
        name: one
        for name, one in inspect.signature(kind).parameters.items()
        if one.kind is not one.KEYWORD_ONLY
    }
    assert {
        name: ... if one.default is one.empty else one.default for name, one in found.items()
    } == NAMES[kind]
    execute = inspect.signature(kind.execute).parameters
    assert list(execute)[:5] == ["self", "command", "cwd", "timeout", "stdin_data"]


class Popen(hermes.BaseEnvironment):
    """The extension point: bash is started, all else is the base class."""

    def __init__(self, cwd: str, timeout: float = 60, env: dict[str, str] | None = None) -> None:
        super().__init__(cwd, timeout, env)
        self.logins: list[bool] = []
        self.is_clean = False
        self.init_session()

    def get_temp_dir(self) -> str:
        return os.environ["HOME"]

    def _run_bash(
        self,
        cmd_string: str,
        *,
        login: bool = False,
        timeout: float = 120,
        stdin_data: str | None = None,
    ) -> ProcessHandle:
        self.logins.append(login)
        words = ["bash", *(["-l"] if login else []), "-c", cmd_string]
        stdin = subprocess.DEVNULL if stdin_data is None else subprocess.PIPE
        proc = subprocess.Popen(
            words,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        if proc.stdin is not None and stdin_data is not None:
            with proc.stdin as pipe:
                pipe.write(stdin_data.encode())
        return proc

    def cleanup(self) -> None:
        self.is_clean = True


class Heredoc(Popen):
    """One whose processes have no input of their own."""

    _stdin_mode = "heredoc"


class Called(Popen):
    """One that is reached by a blocking call alone."""

    def _run_bash(
        self,
        cmd_string: str,
        *,
        login: bool = False,
        timeout: float = 120,
        stdin_data: str | None = None,
    ) -> ProcessHandle:
        proc = super()._run_bash(cmd_string, login=login, timeout=timeout, stdin_data=stdin_data)
        assert isinstance(proc, subprocess.Popen)
        assert proc.stdout is not None
        pipe = proc.stdout

        def call() -> tuple[str, int]:
            with pipe:
                output = pipe.read().decode()
            return output, proc.wait()

        return ThreadedProcessHandle(call, lambda: os.killpg(proc.pid, signal.SIGKILL))


Make = Callable[[Path], hermes.BaseEnvironment]


def docker(directory: Path, **more: Any) -> hermes.DockerEnvironment:
    need_engine("docker")
    directory.chmod(0o777)
    image = need_variable("IMAGE_TOOLS")
    return hermes.DockerEnvironment(
        image,
        str(directory),
        volumes=[f"{directory}:{directory}"],
        persist_across_processes=False,
        **more,
    )


def ssh(directory: Path) -> hermes.SSHEnvironment:
    given = shared_options()
    return hermes.SSHEnvironment(
        given["host"],
        given["user"],
        str(directory),
        60,
        given["port"],
        given["key"],
        settings=given["settings"],
    )


KINDS: dict[str, Make] = {
    "popen": lambda directory: Popen(str(directory)),
    "heredoc": lambda directory: Heredoc(str(directory)),
    "called": lambda directory: Called(str(directory)),
    "local": lambda directory: hermes.LocalEnvironment(str(directory)),
    "docker": docker,
    "ssh": ssh,
}


ELSEWHERE = ("docker", "ssh")


@pytest.fixture(params=KINDS)
def anywhere(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[hermes.BaseEnvironment]:
    """An environment of each kind."""
    environment = KINDS[request.param](tmp_path)
    yield environment
    environment.cleanup()


@pytest.fixture(
    params=[*(kind for kind in KINDS if kind not in ELSEWHERE), *at_full_size(*ELSEWHERE)]
)
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[hermes.BaseEnvironment]:
    """One for each way to run a command; at full size one of each kind."""
    environment = KINDS[request.param](tmp_path)
    yield environment
    environment.cleanup()


def test_a_command_answers_output_and_returncode(anywhere: hermes.BaseEnvironment) -> None:
    assert anywhere.execute("echo out; echo err >&2; exit 3") == {
        "output": "out\nerr\n",
        "returncode": 3,
    }
    assert anywhere.execute("printf 'no newline, grün'") == {
        "output": "no newline, grün",
        "returncode": 0,
    }
    assert anywhere.execute("true") == {"output": "", "returncode": 0}
    assert anywhere.execute("echo 'it'\"'\"'s'; echo \"$((1 + 1))\" '$x'") == {
        "output": "it's\n2 $x\n",
        "returncode": 0,
    }


def test_exported_variables_and_the_directory_survive(
    anywhere: hermes.BaseEnvironment, tmp_path: Path
) -> None:
    assert anywhere.cwd == str(tmp_path)
    anywhere.execute("export A='b c' GONE=1; f() { echo called; }; mkdir -p 'd d'; cd 'd d'")
    assert anywhere.cwd == f"{tmp_path}/d d"
    anywhere.execute("unset GONE; cd ..")
    assert anywhere.execute("echo $A -$GONE-; f; pwd") == {
        "output": f"b c --\ncalled\n{tmp_path}\n",
        "returncode": 0,
    }


def test_a_directory_is_entered_or_the_code_is_126(
    made: hermes.BaseEnvironment, tmp_path: Path
) -> None:
    assert made.execute("pwd", "/")["output"] == "/\n"
    assert made.cwd == "/"
    assert made.execute("echo not run", str(tmp_path / "missing"))["returncode"] == 126
    home = made.execute("cd ~; pwd -P")["output"].strip()
    assert made.execute("pwd -P", "~")["output"].strip() == home


def test_a_directory_that_is_gone_costs_nothing_else(
    made: hermes.BaseEnvironment, tmp_path: Path
) -> None:
    made.execute("mkdir gone; cd gone; rmdir ../gone")
    assert made.execute("echo fine")["output"].endswith("fine\n")


def test_input_is_read(anywhere: hermes.BaseEnvironment) -> None:
    assert (
        anywhere.execute("cat; echo .", stdin_data="a $b\nc\n")["output"].replace("\n\n.", "\n.")
        == "a $b\nc\n.\n"
    )


def test_a_timeout_keeps_the_output(anywhere: hermes.BaseEnvironment) -> None:
    answer = anywhere.execute("echo before; sleep 600", timeout=1)
    assert answer == {
        "output": "before\n\n[Command timed out after 1s]",
        "returncode": 124,
    } or isinstance(anywhere, Called)
    assert answer["returncode"] == 124
    assert anywhere.execute("echo usable")["output"] == "usable\n"
    with pytest.raises(ValueError, match="above zero"):
        anywhere.execute("true", timeout=0)


def test_an_interrupt_ends_a_command(made: hermes.BaseEnvironment) -> None:
    timer = threading.Timer(0.5, hermes.set_interrupt_event, [True])
    timer.start()
    answer = made.execute("sleep 600")
    timer.join()
    hermes.set_interrupt_event(False)
    assert answer["returncode"] == 130
    assert answer["output"].endswith("[Command interrupted]")


def test_a_background_child_does_not_hold_the_call(made: hermes.BaseEnvironment) -> None:
    if isinstance(made, Called):
        return  # its function returns with the pipe
    answer = made.execute("sleep 600 & echo $!; disown")
    assert answer["returncode"] == 0
    assert made.execute(f"kill {int(answer['output'])}")["returncode"] == 0


def test_much_output_comes_whole(made: hermes.BaseEnvironment) -> None:
    assert len(made.execute("head -c 1000000 /dev/zero | tr '\\0' x")["output"]) == 1_000_000


def test_bash_is_started_as_a_handle(made: hermes.BaseEnvironment) -> None:
    handle = made._run_bash("cat; exit 5", stdin_data="typed")
    with handle.stdout as pipe:
        assert pipe.read() == b"typed"
    assert handle.wait(60) == 5
    assert (handle.poll(), handle.returncode) == (5, 5)
    endless = made._run_bash("sleep 600")
    with pytest.raises(subprocess.TimeoutExpired):
        endless.wait(0.1)
    assert endless.poll() is None
    endless.kill()
    assert endless.wait(60) != 0
    endless.stdout.close()


# -- the base class
def test_state_is_kept_where_a_command_exits(tmp_path: Path) -> None:
    environment = Popen(str(tmp_path))
    assert environment.execute("export A=1; cd /; exit 7") == {"output": "", "returncode": 7}
    assert environment.execute("echo $A; pwd")["output"] == "1\n/\n"


def test_the_login_shell_is_read_once(tmp_path: Path) -> None:
    profile = Path(os.environ["HOME"], ".bash_profile")
    profile.write_text("export FROM_PROFILE=1; _private() { :; }\n")
    try:
        environment = Popen(str(tmp_path))
        assert environment.execute("echo $FROM_PROFILE")["output"] == "1\n"
        assert environment.logins == [True, False]
    finally:
        profile.unlink()


def test_without_a_session_every_command_has_a_login_shell(tmp_path: Path) -> None:
    class Broken(Popen):
        def _run_bash(self, cmd_string: str, *, login: bool = False, **more: Any) -> ProcessHandle:
            if not self.logins:
                self.logins.append(login)
                raise RuntimeError("not yet")
            return super()._run_bash(cmd_string, login=login, **more)

    environment = Broken(str(tmp_path))
    assert environment.execute("echo fine") == {"output": "fine\n", "returncode": 0}
    assert environment.logins == [True, True]


def test_a_subclass_must_start_bash_and_clean_up() -> None:
    environment = hermes.BaseEnvironment("/", 60)
    with pytest.raises(NotImplementedError, match="_run_bash"):
        environment.execute("true")
    with pytest.raises(NotImplementedError):
        environment.cleanup()


def test_stop_is_cleanup(tmp_path: Path) -> None:
    environment = Popen(str(tmp_path))
    environment.stop()
    assert environment.is_clean


def test_an_exception_of_a_call_is_in_its_result() -> None:
    def fail() -> tuple[str, int]:
        raise ConnectionError("no network")

    handle = ThreadedProcessHandle(fail)
    with handle.stdout as pipe:
        assert pipe.read() == b"ConnectionError: no network"
    assert handle.wait(60) == 1
    handle.kill()


def test_ctrl_c_ends_the_command_first(tmp_path: Path) -> None:
    code = (
        "import hermetic.hermes, signal, threading\n"
        f"env = hermetic.hermes.LocalEnvironment({str(tmp_path)!r})\n"
        "threading.Timer(0.5, signal.raise_signal, [signal.SIGINT]).start()\n"
        "try:\n    env.execute('sleep 600')\n"
        "except KeyboardInterrupt:\n    print(env.execute('jobs; pgrep -cx sleep -P $$; true')['output'].split())\n"
        "env.cleanup()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout == "['0']\n", done.stderr


# -- what kinds have besides
def test_local_gives_variables_and_ends_with_cleanup(tmp_path: Path) -> None:
    environment = hermes.LocalEnvironment(str(tmp_path), env={"GIVEN": "yes"})
    assert environment.execute("echo $GIVEN")["output"] == "yes\n"
    environment.cleanup()
    environment.cleanup()
    with pytest.raises(RuntimeError, match="cleaned up"):
        environment.execute("true")


def test_a_container_of_a_task_is_used_again_and_removed_by_force(tmp_path: Path) -> None:
    need_engine("docker")
    image = need_variable("IMAGE_TOOLS")
    first = hermes.DockerEnvironment(
        image, task_id="a/b", env={"GIVEN": 7, "bad name": "x", "list": []}, cpu=1
    )
    assert first.execute("echo $GIVEN; echo x > /root/kept; pwd") == {
        "output": "7\n/root\n",
        "returncode": 0,
    }
    first.cleanup()
    assert len(ours("docker")) == 1
    second = hermes.DockerEnvironment(image, "/tmp", task_id="a/b", env={"GIVEN": 7}, cpu=1)
    assert second.execute("cat /root/kept; pwd")["output"] == "x\n/tmp\n"
    second.cleanup(force_remove=True)
    assert second.wait_for_cleanup() is True
    assert ours("docker") == []


def test_ssh_needs_a_host_and_a_user_and_says_why_it_cannot_connect() -> None:
    with pytest.raises(ValueError, match="host and user"):
        hermes.SSHEnvironment("", "me")
    with pytest.raises(RuntimeError):
        hermes.SSHEnvironment("127.0.0.1", "me", port=1, settings={"ConnectTimeout": "2"})


def test_singularity_runs_a_command_in_an_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = hermes.SingularityEnvironment(Apptainers(tmp_path, monkeypatch).image)
    try:
        assert environment.execute("pwd; cd /; export A=1")["output"] == "/root\n"
        assert environment.execute("pwd; echo $A") == {"output": "/\n1\n", "returncode": 0}
    finally:
        environment.cleanup()


# -- containers
def test_find_docker_follows_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "engine"
    program.write_text("#!/bin/sh\n")
    monkeypatch.setenv("HERMES_DOCKER_BINARY", str(program))
    assert hermes.find_docker() != str(program)  # it cannot be run
    hermes.find_docker.cache_clear()
    program.chmod(0o755)
    assert hermes.find_docker() == str(program)
    hermes.find_docker.cache_clear()
    monkeypatch.delenv("HERMES_DOCKER_BINARY")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert hermes.find_docker() in (None, "/usr/local/bin/docker")


def test_ended_containers_of_the_original_are_reaped_by_age_and_profile() -> None:
    engine = need_engine("docker")
    words = [
        engine,
        "run",
        "--detach",
        "--label",
        "hermes-agent=1",
        "--label",
        "hermes-profile=hermetic-test",
    ]
    made = subprocess.run(
        [*words, need_variable("IMAGE_TOOLS"), "true"], capture_output=True, text=True, check=True
    )
    id = made.stdout.strip()
    try:
        subprocess.run([engine, "wait", id], capture_output=True, check=True, timeout=60)
        reap = hermes.reap_orphan_containers
        assert reap(max_age_seconds=3600, profile_filter="hermetic-test") == 0
        assert reap(max_age_seconds=0, profile_filter="another") == 0
        assert reap(max_age_seconds=0, profile_filter="hermetic-test", docker_exe=engine) == 1
        assert reap(max_age_seconds=0, profile_filter="hermetic-test") == 0
        assert reap(docker_exe="/no/such/engine") == 0
    finally:
        subprocess.run([engine, "rm", "--force", id], capture_output=True)
