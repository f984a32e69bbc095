"""The real Hermes Agent runs a scripted task with the plugin, and without it.

Run where `hermes-agent` is installed.
"""

import importlib
import inspect
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from benchmarks.hermes_agent import Model, run_side, steps
from hermetic import hermes
from tests.environments.sshd import running
from tests.tools.terminal.test_sudo import PASSWORD, USER, let_in, user_with_password

IMAGE = os.environ.get("IMAGE_TOOLS", "")

# Names of the package that `hermetic.hermes` has too, by the module that defines them.
NAMES = {
    "tools.code_execution_tool": (
        "build_execute_code_schema",
        "execute_code",
        "generate_hermes_tools_module",
    ),
    "tools.environments.base": ("BaseEnvironment", "set_activity_callback"),
    "tools.environments.daytona": ("DaytonaEnvironment",),
    "tools.environments.docker": ("DockerEnvironment", "find_docker", "reap_orphan_containers"),
    "tools.environments.local": ("LocalEnvironment",),
    "tools.environments.modal": ("ModalEnvironment",),
    "tools.environments.singularity": ("SingularityEnvironment",),
    "tools.environments.ssh": ("SSHEnvironment",),
    "tools.process_registry": ("ProcessRegistry", "ProcessSession"),
    "tools.terminal_tool": (
        "check_terminal_requirements",
        "cleanup_all_environments",
        "cleanup_vm",
        "clear_task_env_overrides",
        "register_task_env_overrides",
        "set_approval_callback",
        "set_sudo_password_callback",
        "terminal_tool",
    ),
}
# Arguments that differ on purpose: the one argument of setters has a longer name, a task ends with
# its container, and a record holds nothing of the package's own way to run a process.
OTHERWISE = {
    "cleanup_vm.force_remove",
    "set_activity_callback.cb",
    "set_approval_callback.cb",
    "set_sudo_password_callback.cb",
    "ProcessSession.host_start_time",
    "ProcessSession.max_output_chars",
    "ProcessSession.process",
    "SingularityEnvironment.cwd",
}


def arguments(function: Any) -> dict[str, Any]:
    """Public arguments and their defaults."""
    found = inspect.signature(function).parameters.values()
    return {
        one.name: one.default
        for one in found
        if not one.name.startswith("_") and one.name != "self"
    }


def differing(name: str, theirs: Any, ours: Any) -> list[str]:
    """Arguments of a function of the package that ours lacks, or has with another default."""
    takes_all = any(
        one.kind is one.VAR_KEYWORD for one in inspect.signature(ours).parameters.values()
    )
    mine, found = arguments(ours), []
    for argument, default in arguments(theirs).items():
        if argument == "kwargs" or (argument not in mine and takes_all):
            continue
        if argument not in mine or repr(mine[argument]) != repr(default):
            found.append(f"{name}.{argument}")
    return found


def test_the_module_has_the_names_and_arguments_of_the_package() -> None:
    found = set()
    for home, names in NAMES.items():
        for name in names:
            theirs, ours = getattr(importlib.import_module(home), name), getattr(hermes, name)
            found.update(differing(name, theirs, ours))
            methods = (
                [word for word in dir(theirs) if not word.startswith("_")]
                if inspect.isclass(theirs)
                else []
            )
            for method in methods:
                if inspect.isfunction(function := getattr(theirs, method)):
                    found.update(differing(f"{name}.{method}", function, getattr(ours, method)))
    assert found == OTHERWISE


@pytest.mark.parametrize("kind", ["local", "docker"])
def test_a_task_ends_as_it_does_with_hermes_alone(kind: str) -> None:
    ours, alone = (run_side(side, kind, image=IMAGE) for side in ("hermetic", "hermes"))
    assert len(ours["steps"]) >= 12
    found = {step["step"]: step["outcome"] for step in ours["steps"]}
    expected = {step["step"]: step["outcome"] for step in alone["steps"]}
    # A command that exceeds its timeout goes on as a process here.
    assert (found.pop("timeout"), expected.pop("timeout")) == (
        ["yielded", ["before"]],
        [124, ["before"]],
    )
    assert found == expected
    assert (ours["toolset"], alone["toolset"]) == ("hermetic", "terminal")
    assert all(
        "log" in step["answer"]
        for step in ours["steps"]
        if step["step"] in ("foreground", "run it")
    )
    assert len(ours["asked"]) == len(alone["asked"]) == 2
    for side in (ours, alone):
        assert side["notice"].startswith("[IMPORTANT: Background process proc_")
        assert "built" in side["notice"]
    assert ours["files"] == alone["files"]


@pytest.mark.parametrize("kind", ["local", "docker"])
def test_settings_tasks_sessions_and_hermes_own_modules_are_wired_through(
    kind: str, tmp_path: Path
) -> None:
    (work := tmp_path / "work").mkdir()
    work.chmod(0o777)
    variables = {
        name: value for name, value in os.environ.items() if not name.startswith("TERMINAL_")
    }
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.adapters.real.hermes_session",
            kind,
            IMAGE,
            tmp_path / "home",
            work,
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        env={**variables, "HOME": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    seen = json.loads(done.stdout)
    inside = str(work) if kind == "local" else "/workspace"
    assert seen["configured"] == {
        "cwd": f"{inside}\n",
        "passed": "yes no\n",
        "denied": "blocked",
        "calls": 1,
    }
    assert seen["modules"] == {
        "image": ["image/png", "file" if kind == "local" else "container"],
        "stored": "200000",
        "own": {"output": "-none-\n", "returncode": 3},  # a shell apart from the model's
        "model": "/\nmodel\n",
        "cwd": "/",
        "persistent": True,
    }
    assert seen["files"] == {
        "skill": "hello from a skill\n",
        "letter": "dear agent\n",
        "hint": None if kind == "local" else "/root/.hermes/cache/documents/letter.txt",
        "named": "{}\n",
        "keys": 0 if kind == "local" else 1,
    }
    assert (seen["apart"]["subagent"], seen["apart"]["override"]) == ("main\n", "/usr\nnone\n")
    for number, session in enumerate(seen["apart"]["gateway"], 1):
        assert (session["said"], session["active"], session["watcher"]) == ("none\n", True, True)
        assert session["route"] == ["telegram", str(number), "u", "t", f"k{number}"]
        assert session["ended"] == [True, 5, True]
    assert seen["ended"] == {"before": "1\n", "after": "gone\n"}


# A process of Hermes whose user types a password. It is read from standard input.
SUDO = """
import json, os, sys
from pathlib import Path
home, password = Path(sys.argv[1]), sys.stdin.read()
entries = {"hermetic": {"allow_tool_override": True}}
plugins = {"enabled": ["hermetic"], "entries": entries}
config = {"terminal": {"backend": "ssh"}, "approvals": {"mode": "off"}, "plugins": plugins}
home.mkdir()
(home / "config.yaml").write_text(json.dumps(config))
os.environ["HERMES_HOME"] = str(home)
from hermes_cli.plugins import discover_plugins
discover_plugins()
from tests.adapters.real.hermes_session import terminal
from tools.terminal_tool import set_sudo_password_callback
asked = []
refused = terminal("sudo id -u")
set_sudo_password_callback(lambda: asked.append(1) or password)
done = terminal("sudo id -u; sudo id -u")
print(json.dumps([refused["exit_code"], done, len(asked)]))
"""


def test_the_password_for_sudo_comes_from_hermes_own_callback(tmp_path: Path) -> None:
    # Other runs of pytest close their common directory to other users.
    with (
        tempfile.TemporaryDirectory(prefix="hm-", dir="/tmp") as at,
        user_with_password(),
        running(Path(at)) as sshd,
    ):
        let_in(Path(at), sshd.home)
        given = {
            f"HERMETIC_SSH_{name.upper()}": value if isinstance(value, str) else json.dumps(value)
            for name, value in {**sshd.options, "user": USER}.items()
        }
        done = subprocess.run(
            [sys.executable, "-c", SUDO, tmp_path / "home"],
            input=PASSWORD,
            capture_output=True,
            text=True,
            timeout=300,
            env={**os.environ, **given, "HOME": str(tmp_path)},
        )
    assert done.returncode == 0, done.stderr[-3000:]
    code, answer, asked = json.loads(done.stdout)
    assert (code, answer["output"].splitlines()[:2], asked) == (1, ["0", "0"], 1)
    assert "log" in answer  # the tool is Hermetic's
    assert PASSWORD not in done.stdout + done.stderr


def test_without_the_permission_nothing_runs() -> None:
    found = run_side("hermetic", "local", only=1, forbidden=True)
    assert "allow_tool_override" in found["steps"][0]["answer"]["error"]
    assert found["files"] == []


def test_the_command_line_loads_the_plugin_in_its_own_order(tmp_path: Path) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    script = [step for step in steps(str(work)) if step[0] in ("foreground", "background")]
    model = Model(script)
    model.until = len(script)
    config: dict[str, Any] = {
        "model": {
            "default": "fake",
            "provider": "custom",
            "base_url": model.url,
            "api_key": "none",
        },
        "plugins": {
            "enabled": ["hermetic"],
            "entries": {"hermetic": {"allow_tool_override": True}},
        },
    }
    (home / "config.yaml").write_text(json.dumps(config))
    hermes = Path(sys.executable).parent / "hermes"
    done = subprocess.run(
        [hermes, "-z", "go", "--toolsets", "terminal,file,code_execution"],
        cwd=work,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "HERMES_HOME": str(home), "HOME": str(tmp_path)},
    )
    model.shutdown()
    assert done.returncode == 0, done.stderr[-2000:]
    answers = dict(model.results)
    assert "log" in answers["foreground"], answers
    assert "notify_unsupported" in answers["background"]  # nothing reaches a run of one turn
