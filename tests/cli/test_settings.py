"""Every command obeys the settings, from whatever source they come; the command line's own options
override them.
"""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

import hermetic as library
from hermetic.cli.dispatch import COMMANDS, main
from tests.cli.program import COMMAND, as_json, hermetic
from tests.environments.engines import need_engine
from tests.mcp.clients import answer, connected
from tests.mcp.http_clients import mcp_server, over_http
from tests.programs import need, need_variable
from tests.serve.conftest import no_tokens_left

__all__ = ["no_tokens_left"]  # a fixture

HERE = os.readlink("/proc/self/ns/pid")


class Where(NamedTuple):
    """A user's home and a project that is the current directory."""

    home: Path
    project: Path
    setenv: Callable[[str, str], None]

    def user(self, text: str) -> None:
        file = self.home / ".config" / "hermetic" / "config.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


@pytest.fixture
def where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Where:
    (tmp_path / "me").mkdir()
    (tmp_path / "app").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    monkeypatch.chdir(tmp_path / "app")
    return Where(tmp_path / "me", tmp_path / "app", monkeypatch.setenv)


def by_user(where: Where, kind: str) -> None:
    where.user(f'[environment]\nkind = "{kind}"\n')


def by_project(where: Where, kind: str) -> None:
    (where.project / "hermetic.toml").write_text(f'[environment]\nkind = "{kind}"\n')


SOURCES: dict[str, Callable[[Where, str], None]] = {
    "user's file": by_user,
    "project's file": by_project,
    "HERMETIC_ENVIRONMENT": lambda where, kind: where.setenv("HERMETIC_ENVIRONMENT", kind),
    "TERMINAL_ENV": lambda where, kind: where.setenv("TERMINAL_ENV", kind),
}
every_source = pytest.mark.parametrize("source", SOURCES)
# All sources are read by one function. What runs in the configured kind is put to each of them; the
# rest at full size.
any_source = pytest.mark.parametrize(
    "source",
    [
        name if name == "user's file" else pytest.param(name, marks=pytest.mark.full)
        for name in SOURCES
    ],
)


def set_kind(where: Where, source: str, kind: str = "sandbox") -> None:
    if kind == "sandbox":
        need("bwrap")
    SOURCES[source](where, kind)


SCRIPT = "import os; print(os.readlink('/proc/self/ns/pid'))\n"
RUNNING: dict[str, tuple[str, ...]] = {
    "run": ("run", "--", "readlink /proc/self/ns/pid"),
    "code": ("code", "s.py"),
}


@every_source
def test_what_runs_runs_in_the_configured_kind(where: Where, source: str) -> None:
    set_kind(where, source)
    runs_elsewhere(hermetic(*RUNNING["run"]))


@any_source
def test_scripts_and_shells_run_there_too(where: Where, source: str) -> None:
    set_kind(where, source)
    (where.project / "s.py").write_text(SCRIPT)
    runs_elsewhere(hermetic(*RUNNING["code"]))
    runs_elsewhere(hermetic("shell", stdin=b"readlink /proc/self/ns/pid; exit\n"))
    (where.project / "tasks").write_text('{"command": "readlink /proc/self/ns/pid"}\n')
    assert hermetic("fleet", "run", "--tasks", "tasks").returncode == 0
    results = (where.project / "tasks.results.jsonl").read_text()
    assert "pid:[" in results
    assert HERE not in results


@any_source
async def test_mcp_clients_get_it_over_both_transports(where: Where, source: str) -> None:
    set_kind(where, source)
    variables = {
        name: os.environ[name]
        for name in ("HERMETIC_ENVIRONMENT", "TERMINAL_ENV")
        if name in os.environ
    }
    async with (
        connected("auto", variables=variables) as by_stdio,
        mcp_server() as server,
        over_http(server, "auto") as by_http,
    ):
        for client in (by_stdio, by_http):
            told = (await answer(client, "terminal", {"command": "readlink /proc/self/ns/pid"}))[
                "output"
            ]
            assert told.startswith("pid:[")
            assert told.strip() != HERE


def runs_elsewhere(done: "subprocess.CompletedProcess[bytes]") -> None:
    assert done.returncode == 0, done.stderr
    assert b"pid:[" in done.stdout
    assert HERE.encode() not in done.stdout


@pytest.mark.parametrize("words", RUNNING.values(), ids=RUNNING)
def test_the_command_line_overrides_the_kind(where: Where, words: tuple[str, ...]) -> None:
    set_kind(where, "HERMETIC_ENVIRONMENT")
    (where.project / "s.py").write_text(SCRIPT)
    done = hermetic(words[0], "--env", "local", *words[1:])
    assert HERE.encode() in done.stdout, done.stderr


@any_source
def test_a_task_lives_in_the_configured_kind(where: Where, source: str) -> None:
    set_kind(where, source)
    try:
        assert hermetic("run", "--task", "configured", "--", "true").returncode == 0
        [found] = [one for one in as_json("envs") if one["task"] == "configured"]
        assert found["kind"] == "sandbox"
        assert (
            hermetic("run", "--task", "configured", "--", "readlink /proc/self/ns/pid")
            .stdout.decode()
            .strip()
            != HERE
        )
        where.setenv("HERMETIC_ENVIRONMENT", "local")
        done = hermetic("run", "--task", "configured", "--", "true")
        assert done.returncode == 2
        assert (
            b"lives with other options than your settings or the defaults: kind; name its kind"
            in done.stderr
        )
        assert b"hermetic rm configured" in done.stderr
    finally:
        assert hermetic("rm", "configured").returncode == 0


@any_source
def test_the_demonstration_opens_the_configured_kind(where: Where, source: str) -> None:
    set_kind(where, source)
    assert b"Opened a sandbox environment" in hermetic("demo", "--no-prompt").stdout


@every_source
def test_config_shows_it(where: Where, source: str) -> None:
    set_kind(where, source)
    assert as_json("config")["settings"]["environment.kind"] == "sandbox"


OTHERS: dict[str, tuple[tuple[str, ...], int]] = {
    "ps": (("ps",), 0),
    "top": (("top",), 0),
    "logs": (("logs", "shown"), 0),
    "attach": (("attach", "shown"), 0),
    "secret": (("secret", "shown"), 1),
    "kill": (("kill", "shown"), 0),
    "envs": (("envs",), 0),
    "wait": (("wait", "shown"), 0),
    "inspect": (("inspect", "shown"), 0),
    "cp": (("cp", "with settings:/etc/passwd", "."), 0),
    "stop": (("stop", "with settings"), 0),
    "release": (("release", "with settings"), 0),
    "completion": (("completion", "bash"), 0),
    "gc": (("gc", "with settings"), 0),
    "rm": (("rm", "with settings"), 0),
    "policy": (("policy", "check", "ls"), 0),
    "mcp": (("mcp", "--print-config", "codex"), 0),
    "serve": (("serve", "--port", "-1"), 2),
    "approvals": (("approvals",), 0),
    "port": (("port", "no such task", "8000"), 1),
    "record": (("record", "-f", "recorded.cast", "--", "true"), 0),
    "play": (("play", "recorded.cast"), 0),
    "version": (("version",), 0),
    "runtime": (("runtime", "list"), 0),
    "doctor": (("doctor",), 0),
}


def test_every_command_is_driven_here() -> None:
    driven = (
        {words[0] for words in RUNNING.values()}
        | {"shell", "fleet", "demo", "config"}
        | OTHERS.keys()
    )
    driven |= {"events"}  # reads no settings; test_background.py drives it
    assert driven == set(COMMANDS)


@any_source
def test_the_other_commands_work_with_any_settings(
    where: Where, source: str, capfd: pytest.CaptureFixture[str]
) -> None:
    set_kind(where, source)
    with library.blocking.open("local", task="with settings") as env:
        env.start("true", id="shown").wait(20)
        for words, code in OTHERS.values():
            assert main(words) == code, (words, capfd.readouterr().err)


def test_the_command_lines_options_go_before_the_settings(where: Where, tmp_path: Path) -> None:
    where.user(
        f'[environments.local]\nenv = {{ A = "1", B = "1" }}\ncwd = "{tmp_path}"\nlogin = false\n'
    )
    assert hermetic("run", "--", "echo $A $PWD").stdout.decode() == f"1 {tmp_path}\n"
    done = hermetic("run", "-o", 'env={"A": "2"}', "-o", "cwd=/", "--", "echo $A $PWD")
    assert done.stdout == b"2 /\n"
    assert hermetic("run", "--cwd", "/tmp", "--", "pwd").stdout == b"/tmp\n"


def test_the_originals_directory_is_obeyed(where: Where, tmp_path: Path) -> None:
    where.setenv("TERMINAL_CWD", str(tmp_path))
    (where.project / "s.py").write_text("import os; print(os.getcwd())\n")
    for words in (("run", "--", "pwd"), ("code", "s.py")):
        assert hermetic(*words).stdout.decode() == f"{tmp_path}\n"


def test_options_of_a_kind_hold_also_where_the_command_line_names_it(where: Where) -> None:
    need("bwrap")
    where.user('[environments.sandbox]\nenv = { A = "of sandboxes" }\n')
    assert hermetic("run", "--env", "sandbox", "--", "echo $A").stdout == b"of sandboxes\n"
    assert hermetic("run", "--", "echo $A").stdout == b"\n"


def test_the_configured_image_is_used(where: Where) -> None:
    need_engine("docker")
    where.setenv("TERMINAL_DOCKER_IMAGE", need_variable("IMAGE_BASE"))
    done = hermetic("run", "--env", "docker", "--", "echo in $((6 * 7))")
    assert (done.returncode, done.stdout) == (0, b"in 42\n"), done.stderr


def test_a_private_environment_ends_soon_whatever_the_lease(where: Where) -> None:
    where.user("[environment]\nlease = 4000\nunattended = 5000\n")
    [found] = msgspec.json.decode(hermetic("run", "--", f"{' '.join(COMMAND)} envs --json").stdout)
    assert (found["options"]["lease"], found["options"]["unattended"]) == (30, 30)


CODE = "[code_execution]\ntimeout = 77\nmax_tool_calls = 1\ntimezone = 'Asia/Tokyo'\n"
CALLS = """\
import os
from hermetic_tools import terminal
print(os.environ.get('TZ'))
for _ in range(2):
    print(terminal('echo called')['output'].strip())
"""


def test_code_obeys_its_section(where: Where) -> None:
    where.user(CODE)
    (where.project / "s.py").write_text(CALLS)
    assert hermetic("code", "s.py").stdout.split() == [b"Asia/Tokyo", b"called"]
    assert hermetic("code", "--calls", "2", "s.py").stdout.split() == [
        b"Asia/Tokyo",
        b"called",
        b"called",
    ]


def test_code_is_isolated_where_the_settings_say_so(where: Where) -> None:
    need("bwrap")
    where.user("[code_execution]\nisolated = true\n")
    (where.project / "s.py").write_text(SCRIPT)
    done = hermetic("code", "s.py")
    assert (done.returncode, HERE.encode() in done.stdout) == (0, False), done.stderr


def test_a_scripts_time_is_that_of_the_settings(where: Where) -> None:
    where.user("[code_execution]\ntimeout = 0.5\n")
    (where.project / "s.py").write_text("import time; time.sleep(600)")
    assert hermetic("code", "s.py").returncode == 124


def test_the_library_reads_no_settings(where: Where) -> None:
    where.user('[environment]\nkind = "ssh"\n[environments.local]\nenv = { A = "1" }\n')
    where.setenv("HERMETIC_ENVIRONMENT", "ssh")
    with library.blocking.open("local") as env:
        assert env.run("echo ${A-none}").output == "none\n"
    with library.blocking.Toolbox() as toolbox:
        assert "none" in toolbox.call(
            "terminal", {"command": "echo ${A-none}"}, task_id="reads no settings"
        )
        toolbox.close(remove=True)


def test_code_knows_the_password_of_the_original(where: Where) -> None:
    where.setenv("SUDO_PASSWORD", "pass-of-the-user")
    (where.project / "s.py").write_text("print('pass-of-' + 'the-user')\n")
    done = hermetic("code", "--json", "s.py")
    assert done.returncode == 0
    assert b"pass-of-the-user" not in done.stdout


def test_what_was_left_out_of_the_settings_is_a_note(where: Where) -> None:
    need_engine("docker")
    where.setenv("TERMINAL_DOCKER_IMAGE", need_variable("IMAGE_BASE"))
    where.setenv("TERMINAL_CWD", "/home/me/app")
    done = hermetic("run", "--env", "docker", "-v", "pwd")
    assert done.stdout == b"/root\n"
    assert b"hermetic: TERMINAL_CWD=/home/me/app was left out" in done.stderr
