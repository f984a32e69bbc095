"""The plugin for Hermes Agent: its own logic, with stand-ins for the modules of Hermes that it
uses.
"""

import json
import queue
import sys
import tempfile
import threading
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hermetic.contract.tool import Fields
from hermetic.hermes import plugin
from hermetic.hermes.agent import Executor
from hermetic.hermes.agent_environment import AgentEnvironment
from tests.environments.sshd import running
from tests.hermes.signals import Point
from tests.tools.terminal.test_sudo import PASSWORD, USER, let_in, user_with_password

SECONDS = 60.0  # for what takes far less
DANGEROUS = "rm -rf /srv/hermetic-no-such-directory"


class Context:
    """What Hermes gives a plugin."""

    def __init__(self, refuses: str = "") -> None:
        self.refuses = refuses
        self.tools: dict[str, Fields] = {}
        self.hooks: dict[str, Callable[..., Any]] = {}

    def register_tool(self, **given: Any) -> None:
        if self.refuses:
            raise PermissionError(self.refuses)
        self.tools[given["name"]] = given

    def register_hook(self, name: str, hook: Callable[..., Any]) -> None:
        self.hooks[name] = hook


class Agent:
    """The modules of Hermes, as far as the plugin uses them."""

    def __init__(self) -> None:
        self.is_interrupted = False
        self.delivers = True
        self.mode = "manual"
        self.approves: list[bool] = []
        self.asked: list[tuple[str, str, str]] = []
        self.recorded: list[Fields] = []
        self.overrides: dict[str, Fields] = {}
        self.environments: dict[str, Any] = {}
        self.variables: dict[str, str] = {}
        self.running: dict[str, Any] = {}
        self.finished: dict[str, Any] = {}
        self.consumed: set[str] = set()
        self.events: queue.Queue[Fields] = queue.Queue()
        self.watchers: list[Fields] = []
        self.bridged = 0
        self.config: Fields = {}
        self.home = Path(tempfile.gettempdir(), "hermes-no-such-home")
        self.password: Callable[[], str] | None = None  # of the calling thread

    def request(self, tool: str, reason: str, *, rule_key: str) -> Fields:
        self.asked.append((tool, reason, rule_key))
        return {"approved": self.approves.pop(0), "message": "the user said no"}

    def bridge(self) -> None:
        self.bridged += 1

    def finish(self, session: Any) -> None:
        self.finished[session.id] = self.running.pop(session.id)

    def modules(self) -> dict[str, dict[str, Any]]:
        registry = types.SimpleNamespace(
            _lock=threading.Lock(),
            _running=self.running,
            _completion_consumed=self.consumed,
            pending_watchers=self.watchers,
            completion_queue=self.events,
            _move_to_finished=self.finish,
            get=lambda id: self.running.get(id) or self.finished.get(id),
        )
        return {
            "tools": {"__path__": []},
            "tools.terminal_tool": {
                "_env_lock": threading.Lock(),
                "_active_environments": self.environments,
                "_resolve_container_task_id": lambda task: (
                    task if task in self.overrides else "default"
                ),
                "resolve_task_overrides": lambda task: self.overrides.get(task, {}),
                "_ensure_terminal_env_bridged": self.bridge,
                "_get_sudo_password_callback": lambda: self.password,
            },
            "tools.approval": {
                "get_current_session_key": lambda default="default": self.variables.get(
                    "KEY", default
                ),
                "request_tool_approval": self.request,
                "_get_approval_mode": lambda: self.mode,
            },
            "tools.env_passthrough": {
                "get_all_passthrough": lambda: frozenset(
                    self.config.get("terminal", {}).get("env_passthrough", ())
                )
            },
            "tools.credential_files": {
                "_resolve_hermes_home": lambda: self.home,
            },
            "tools.environments": {"__path__": []},
            "tools.environments.base": {"touch_activity_if_due": lambda state, label: None},
            "tools.interrupt": {"is_interrupted": lambda: self.is_interrupted},
            "tools.thread_context": {"propagate_context_to_thread": lambda function: function},
            "tools.process_registry": {
                "ProcessSession": types.SimpleNamespace,
                "process_registry": registry,
            },
            "tools.registry": {
                "registry": types.SimpleNamespace(
                    dispatch=lambda name, args, **_: json.dumps({"found": [name, args]})
                )
            },
            "gateway": {"__path__": []},
            "gateway.session_context": {
                "get_session_env": lambda name, default="": self.variables.get(name, default),
                "async_delivery_supported": lambda: self.delivers,
            },
            "hermes_cli": {"__path__": []},
            "hermes_cli.config": {"load_config": lambda: self.config},
            "agent": {"__path__": []},
            "agent.verification_evidence": {
                "record_terminal_result": lambda **given: self.recorded.append(given)
            },
        }


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> Agent:
    made = Agent()
    for name, content in made.modules().items():
        module = types.ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
        parent, _, child = name.rpartition(".")
        if parent:
            monkeypatch.setattr(sys.modules[parent], child, module, raising=False)
    return made


@pytest.fixture
def executor(agent: Agent) -> Iterator[Executor]:
    made = Executor()
    yield made
    made.close()


def run(executor: Executor, command: str, task: str | None = None, **more: Any) -> Fields:
    return executor.call("terminal", {"command": command, **more}, task, "session", None)


def use_ssh(monkeypatch: pytest.MonkeyPatch, options: Fields) -> None:
    """Lets commands run on another machine."""
    monkeypatch.setenv("TERMINAL_ENV", "ssh")
    monkeypatch.delenv("TERMINAL_CWD")
    for name, value in options.items():
        text = value if isinstance(value, str) else json.dumps(value)
        monkeypatch.setenv(f"HERMETIC_SSH_{name.upper()}", text)


# -- registering
def test_it_takes_over_seven_tools_under_a_name_of_its_own() -> None:
    context = Context()
    plugin.register(context)
    assert tuple(context.tools) == plugin.TOOLS
    assert {(tool["toolset"], tool["override"]) for tool in context.tools.values()} == {
        ("hermetic", True)
    }
    assert all(tool["schema"]["name"] == name for name, tool in context.tools.items())
    assert context.hooks == {}
    # Hermes reads settings when they are imported
    assert not {"tools", "gateway", "agent"} & set(sys.modules)


def test_without_the_permission_the_tools_are_blocked() -> None:
    context = Context(refuses="allow_tool_override is not set")
    plugin.register(context)
    block = context.hooks["pre_tool_call"]
    for name in plugin.TOOLS:
        answer = block(tool_name=name, args={}, task_id="t")
        assert answer["action"] == "block"
        assert "allow_tool_override" in answer["message"]
    assert block(tool_name="web_search", args={}) is None


def test_a_handler_answers_json_and_never_raises(
    agent: Agent, executor: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERMINAL_ENV", "modal")
    monkeypatch.setattr(plugin, "Executor", lambda: executor)
    context = Context()
    plugin.register(context)
    answer = json.loads(
        context.tools["terminal"]["handler"]({"command": "true"}, task_id="t", user_task="")
    )
    assert answer["exit_code"] == -1
    assert "modal" in answer["error"]


# -- calls
def test_tools_share_an_environment_and_commands_are_recorded(
    agent: Agent, executor: Executor, tmp_path: Path
) -> None:
    assert run(executor, "export A=1; cd /")["exit_code"] == 0
    assert run(executor, "echo $A; pwd", task="a subagent")["output"] == "1\n/\n"
    written = executor.call(
        "write_file", {"path": f"{tmp_path}/f", "content": "x"}, None, None, None
    )
    assert written["bytes_written"] == 1
    assert (agent.recorded[0]["command"], agent.recorded[0]["session_id"]) == (
        "export A=1; cd /",
        "session",
    )
    assert agent.bridged == 1


def test_overrides_give_a_task_an_environment_of_its_own(
    agent: Agent, executor: Executor, tmp_path: Path
) -> None:
    (tmp_path / "own").mkdir()
    agent.overrides["rollout"] = {"docker_image": "x", "cwd": str(tmp_path / "own")}
    assert run(executor, "export A=1; pwd", task="rollout")["output"] == f"{tmp_path}/own\n"
    assert run(executor, "echo -$A-")["output"] == "--\n"


def test_the_configuration_file_counts(
    agent: Agent, executor: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVICE_TOKEN", "passed-on")
    agent.mode = "off"
    agent.config = {
        "approvals": {"deny": ["git push --force*"], "timeout": 60},
        "code_execution": {"timeout": 1, "max_tool_calls": 3},
        "terminal": {"env_passthrough": ["SERVICE_TOKEN"]},
    }
    assert run(executor, "git push --force origin main")["status"] == "blocked"
    assert run(executor, 'test -n "$SERVICE_TOKEN"')["exit_code"] == 0
    answer = executor.call(
        "execute_code", {"code": "import time; time.sleep(600)"}, None, None, ["terminal"]
    )
    assert answer["status"] == "timeout"


def test_sessions_of_a_gateway_are_apart(agent: Agent, executor: Executor) -> None:
    agent.variables |= {"HERMES_SESSION_PLATFORM": "telegram", "KEY": "chat:1"}
    run(executor, "export A=1; cd /usr", task="s1")
    agent.variables["KEY"] = "chat:2"
    assert run(executor, "echo -$A-", task="s2")["output"] == "--\n"
    assert agent.environments["s1"].cwd == "/usr"
    assert agent.environments["s2"].cwd != "/usr"
    assert "default" not in agent.environments


def test_hermes_gate_is_asked_and_remembers_by_what_is_done(
    agent: Agent, executor: Executor
) -> None:
    agent.approves = [True, False, True]
    assert run(executor, DANGEROUS)["exit_code"] == 0
    answer = run(executor, DANGEROUS)
    assert answer["status"] == "blocked"
    assert "the user said no" in answer["error"]
    assert run(executor, f"{DANGEROUS}-other")["exit_code"] == 0
    tools, reasons, keys = zip(*agent.asked, strict=True)
    assert set(tools) == {"terminal"}
    assert all("/srv/hermetic-no-such-directory" in reason for reason in reasons)
    assert keys[0] == keys[1] != keys[2]
    agent.mode = "off"
    assert run(executor, DANGEROUS)["exit_code"] == 0
    assert len(agent.asked) == 3
    assert run(executor, "rm -rf /")["status"] == "blocked"


def test_the_password_for_sudo_comes_from_the_threads_callback(
    agent: Agent, executor: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent.mode = "off"
    asked: list[str] = []

    def password() -> str:
        asked.append(threading.current_thread().name)
        return PASSWORD

    # Other runs of pytest close their common directory to other users.
    with (
        tempfile.TemporaryDirectory(prefix="hm-", dir="/tmp") as at,
        user_with_password(),
        running(Path(at)) as sshd,
    ):
        let_in(Path(at), sshd.home)
        use_ssh(monkeypatch, {**sshd.options, "user": USER})
        assert run(executor, "sudo id -u")["exit_code"] == 1
        agent.password = password
        assert run(executor, "sudo id -u; sudo id -u")["output"] == "0\n0\n"
        assert len(asked) == 1
        executor.close()


def test_an_interrupt_of_the_thread_ends_its_command(
    agent: Agent, executor: Executor, tmp_path: Path
) -> None:
    point = Point(tmp_path, lambda: setattr(agent, "is_interrupted", True))
    answer = run(executor, f"echo before; {point.text}; sleep 600")
    point.join()
    assert (answer["exit_code"], answer["output"]) == (130, "before\n")


def test_a_script_has_the_enabled_tools_and_those_of_hermes(
    agent: Agent, executor: Executor
) -> None:
    code = (
        "import hermes_tools\n"
        "print([n for n in ('terminal', 'patch', 'web_search') if hasattr(hermes_tools, n)])\n"
        "print(hermes_tools.web_search('x', limit=2))\n"
    )
    answer = executor.call(
        "execute_code", {"code": code}, None, None, ["terminal", "web_search", "browser"]
    )
    assert answer["status"] == "success"
    assert (
        answer["output"]
        == "['terminal', 'web_search']\n{'found': ['web_search', {'query': 'x', 'limit': 2}]}\n"
    )


# -- processes
def test_a_background_process_is_in_hermes_registry_until_it_ends(
    agent: Agent, executor: Executor
) -> None:
    agent.variables |= {
        "HERMES_SESSION_PLATFORM": "telegram",
        "HERMES_SESSION_CHAT_ID": "7",
        "KEY": "chat:7",
    }
    answer = run(executor, "echo out; read line; exit 3", background=True, notify_on_complete=True)
    id = answer["session_id"]
    shadow = agent.running[id]
    assert (shadow.session_key, shadow.watcher_platform, shadow.watcher_chat_id) == (
        "chat:7",
        "telegram",
        "7",
    )
    assert [(one["session_id"], one["check_interval"]) for one in agent.watchers] == [(id, 5)]
    executor.call("process", {"action": "submit", "session_id": id}, None, None, None)
    event = agent.events.get(timeout=SECONDS)
    assert (event["type"], event["session_id"], event["exit_code"]) == ("completion", id, 3)
    deadline = time.monotonic() + SECONDS
    while id not in agent.finished and time.monotonic() < deadline:
        time.sleep(0.02)
    assert (shadow.exited, shadow.exit_code, shadow.output_buffer) == (True, 3, "out\n")


def test_an_end_that_was_shown_is_consumed(agent: Agent, executor: Executor) -> None:
    id = run(executor, "true", background=True)["session_id"]
    assert (
        executor.call("process", {"action": "wait", "session_id": id}, None, None, None)["status"]
        == "exited"
    )
    assert agent.consumed == {id}


def test_what_cannot_be_delivered_is_not_promised(agent: Agent, executor: Executor) -> None:
    agent.delivers = False
    answer = run(executor, "sleep 600", background=True, notify_on_complete=True)
    assert answer["notify_on_complete"] is False
    assert "process(action='poll')" in answer["notify_unsupported"]


# -- what Hermes itself needs
def test_modules_of_hermes_get_the_environment(
    agent: Agent, executor: Executor, tmp_path: Path
) -> None:
    run(executor, f"cd {tmp_path}; A=model; mkdir -p sub; cd sub")
    environment = agent.environments["default"]
    assert isinstance(environment, AgentEnvironment)
    assert environment.cwd == f"{tmp_path}/sub"
    assert environment.execute("pwd; A=hermes; cd /; exit 4") == {
        "output": f"{tmp_path}/sub\n",
        "returncode": 4,
    }
    assert environment.execute("cat", stdin_data="x")["output"] == "x"
    assert run(executor, "echo $A; pwd")["output"] == f"model\n{tmp_path}/sub\n"
    environment.cleanup()
    assert run(executor, "echo -$A-")["output"] == "--\n"


def test_files_that_the_model_is_told_of_are_on_another_machine(
    agent: Agent, executor: Executor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Skills, uploads and named credential files, under the names of the original; not its keys."""
    agent.home = tmp_path / "agent"
    for name in ("skills/greeting/say.sh", "cache/documents/letter", "tokens/mail", ".env"):
        (agent.home / name).parent.mkdir(parents=True, exist_ok=True)
        (agent.home / name).write_text(f"echo {name}\n")
    named = ["tokens/mail", "tokens/none yet", ".env", "/etc/passwd", "../x", 5, None, ""]
    agent.config = {"terminal": {"credential_files": named}}
    with (
        tempfile.TemporaryDirectory(prefix="hm-", dir="/tmp") as at,
        running(Path(at)) as sshd,
    ):
        use_ssh(monkeypatch, sshd.options)
        listed = "cd ~/.hermes && find -L . -type f | sort; sh skills/greeting/say.sh"
        assert run(executor, listed)["output"].splitlines() == [
            "./cache/documents/letter",
            "./skills/greeting/say.sh",
            "./tokens/mail",
            "skills/greeting/say.sh",
        ]
        (environment,) = agent.environments.values()
        assert environment.agent_visible_cache_base() == "~/.hermes"
        executor.close()
