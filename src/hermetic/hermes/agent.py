"""Calls of Hermes Agent through the toolbox: with its settings, its user, its interrupts, its
notices and its tasks.
"""

import contextlib
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Collection
from typing import Any

import msgspec

from hermetic.config import Settings, load
from hermetic.contract.approval import Answer, ApprovalRequest, Denial
from hermetic.contract.concurrency import in_thread
from hermetic.contract.errors import ConfigError, ExecutionError
from hermetic.contract.tool import Fields, Tool
from hermetic.hermes.agent_environment import AgentEnvironment
from hermetic.hermes.agent_files import shown_files
from hermetic.hermes.code import SANDBOX_ALLOWED_TOOLS, answered
from hermetic.hermes.host import Caller, Host
from hermetic.hermes.notices import Shadows

NOT_DELIVERED = (
    "nothing can reach this session after its turn, so that neither notify_on_complete nor watch_patterns has an "
    "effect; the process runs: look at it with process(action='poll') or process(action='wait')"
)
LONGEST_QUESTION = 300.0  # seconds that a gateway waits for its user by default
# Kind → its option for names of variables that commands get from the agent's process.
PASSED = {"local": "passthrough", "docker": "forward_env", "podman": "forward_env"}
GATE_SECONDS = 30.0  # after Hermes' own timeout, which is the one that counts


class Executor:
    """Runs the tools of one Hermes process.

    Its toolbox is made with the first call, from the settings of then.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: Host | None = None
        self._shadows = Shadows()
        self._overridden: dict[str, Fields] = {}  # task → the overrides that were applied

    def __repr__(self) -> str:
        return f"<Executor{'' if self._made is None else f' in {self._made.kind}'}>"

    def call(
        self,
        name: str,
        arguments: Fields,
        task_id: str | None,
        session_id: str | None,
        enabled: Collection[str] | None,
    ) -> Fields:
        """The answer of a tool.

        Never an exception: the agent would run its own tool then, or end its turn.
        """
        try:
            host = self._host()
            task = self._prepared(host, task_id)
            asked, note = _without_promises(name, arguments)
            tools = (
                SANDBOX_ALLOWED_TOOLS.intersection(enabled or ())
                if name == "execute_code"
                else None
            )
            with self._shadows.gate.starting():
                answer = host.call(name, asked, task, _caller(name), script_tools=tools)
                self._shadows.seen(host, name, asked, answer, task, task_id)
        except (ExecutionError, ConfigError, OSError) as error:
            status = "disabled" if isinstance(error, ConfigError) else "error"
            return {"output": "", "exit_code": -1, "status": status, "error": str(error)}
        # Hermes looks for its session first where sessions do not share an environment.
        _offer(host, task, task_id or task if _gateway_key() else task)
        if name == "execute_code":
            return answered(answer)
        if name == "terminal" and not asked.get("background"):
            _record(asked, answer, session_id or task_id or task)
        return {**answer, **note}

    def close(self) -> None:
        """Ends the toolbox; environments of this process end with it."""
        with self._lock:
            made, self._made = self._made, None
        if made is not None:
            made.close()

    def _host(self) -> Host:
        with self._lock:
            if self._made is None:
                _read_settings()
                self._made = Host(_configured(load()), self._shadows.gate.take, _web_tools())
            return self._made

    def _prepared(self, host: Host, task_id: str | None) -> str:
        """The name of the call's task; its overrides are applied before it has an environment."""
        from tools.terminal_tool import _resolve_container_task_id, resolve_task_overrides

        task: str = _resolve_container_task_id(task_id)
        if key := _gateway_key():
            task = f"{task}-{key}"
        overrides = dict(resolve_task_overrides(task_id))
        if overrides and self._overridden.get(task) != overrides:
            self._overridden[task] = overrides
            with contextlib.suppress(ConfigError):  # it has an environment
                host.override(task, overrides)
        return task


def _read_settings() -> None:
    """Lets Hermes put its configuration file into the variables that the settings are read from."""
    from tools.terminal_tool import _ensure_terminal_env_bridged

    _ensure_terminal_env_bridged()


def _configured(settings: Settings) -> Settings:
    """The settings with those of Hermes' configuration file that no variable carries.

    Raises ConfigError.
    """
    from hermes_cli.config import load_config
    from tools.env_passthrough import get_all_passthrough

    config = load_config()
    asks, code = (config.get(name) or {} for name in ("approvals", "code_execution"))
    seconds = [float(asks.get(name) or 0) for name in ("timeout", "gateway_timeout")]
    # Hermes' own gate is asked, whatever its variables would mean elsewhere, and it has its own
    # timeout.
    approvals = msgspec.structs.replace(
        settings.approvals,
        answers="nobody",
        mode="ask",
        timeout=max(LONGEST_QUESTION, *seconds) + GATE_SECONDS,
        deny=(*settings.approvals.deny, *map(str, asks.get("deny") or ())),
    )
    limits = {"timeout": code.get("timeout"), "max_tool_calls": code.get("max_tool_calls")}
    given = {name: value for name, value in limits.items() if value is not None}
    scripts = msgspec.structs.replace(settings.code_execution, **given)
    options = dict(settings.options)
    if option := PASSED.get(settings.environment.kind):
        # Hermes leaves out the credentials of its own providers.
        options[option] = (*options.get(option, ()), *sorted(get_all_passthrough()))
    named = (config.get("terminal") or {}).get("credential_files")
    options |= shown_files(settings.environment.kind, options, named)
    return msgspec.structs.replace(
        settings, approvals=approvals, code_execution=scripts, options=options
    )


def _gateway_key() -> str:
    """The key of a gateway's session; empty elsewhere.

    Sessions of a gateway belong to different people.
    """
    from gateway.session_context import get_session_env
    from tools.approval import get_current_session_key

    if not get_session_env("HERMES_SESSION_PLATFORM", ""):
        return ""
    return hashlib.sha256(get_current_session_key().encode()).hexdigest()[:12]


def _without_promises(name: str, arguments: Fields) -> tuple[Fields, Fields]:
    """The arguments without notices that nothing could deliver, and fields of the answer that say
    so.
    """
    from gateway.session_context import async_delivery_supported

    promises = ("notify_on_complete", "watch_patterns", "check_interval")
    if name != "terminal" or not any(map(arguments.get, promises)) or async_delivery_supported():
        return arguments, {}
    kept = {word: value for word, value in arguments.items() if word not in promises}
    return kept, {"notify_on_complete": False, "notify_unsupported": NOT_DELIVERED}


def _offer(host: Host, task: str, key: str) -> None:
    """Gives Hermes' own modules (images, stored results) the environment of the task, under the
    name they look for.
    """
    from tools import terminal_tool

    with terminal_tool._env_lock:
        known = terminal_tool._active_environments.get(key)
        if not (isinstance(known, AgentEnvironment) and known.is_of(host)):
            terminal_tool._active_environments[key] = AgentEnvironment(host, task)


def _record(asked: Fields, answer: Fields, session_id: str) -> None:
    """Tells Hermes of a command that may have been a test run."""
    if not isinstance(answer.get("exit_code"), int) or answer.get("status"):
        return
    from agent.verification_evidence import record_terminal_result

    with contextlib.suppress(Exception):  # evidence is only a help
        record_terminal_result(
            command=asked.get("command", ""),
            cwd=asked.get("workdir"),
            session_id=session_id,
            exit_code=answer["exit_code"],
            output=answer.get("output", ""),
        )


# -- the user
def _caller(tool: str) -> Caller:
    """The ways back to the user of the calling thread. Hermes keeps them with the thread."""
    from tools.environments.base import touch_activity_if_due
    from tools.interrupt import is_interrupted
    from tools.terminal_tool import _get_sudo_password_callback
    from tools.thread_context import propagate_context_to_thread

    # a context is entered once at a time
    ask, turn = propagate_context_to_thread(_ask), threading.Lock()
    type_password = _get_sudo_password_callback()
    began = time.monotonic()
    activity = {"last_touch": began, "start": began}

    def approve(request: ApprovalRequest) -> Answer | Denial:
        with turn:
            answer: Answer | Denial = ask(tool, request)
            return answer

    def password(prompt: str) -> str | None:
        return None if type_password is None else type_password() or None

    return Caller(
        approve,
        password,
        is_interrupted,
        lambda: touch_activity_if_due(activity, f"{tool} running"),
    )


def _ask(tool: str, request: ApprovalRequest) -> Answer | Denial:
    """The answer of Hermes' gate. It remembers answers itself, by what exactly is done."""
    from tools.approval import _get_approval_mode, request_tool_approval

    if _get_approval_mode() == "off":
        return "once"
    exact = [need.exact for need in request.needs]
    key = (
        hashlib.sha256("\n".join(exact).encode()).hexdigest()[:24]
        if all(exact)
        else secrets.token_hex(12)
    )
    done = "; ".join(dict.fromkeys(need.decoded for need in request.needs)) or request.command
    said = request_tool_approval(tool, f"{request.reason}\n{done}", rule_key=f"hermetic:{key}")
    return (
        "once" if said.get("approved") else Denial(said.get("message") or "the user has denied it")
    )


# -- tools of Hermes that scripts may call
class SearchArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of `web_search`."""

    query: str
    limit: int = 5


class ExtractArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of `web_extract`."""

    urls: list[str]
    char_limit: int | None = None


def _web_tools() -> list[Tool[Any]]:
    return [
        Tool("web_search", "Searches the web.", SearchArguments, _by_hermes("web_search")),
        Tool(
            "web_extract",
            "Reads web pages as markdown.",
            ExtractArguments,
            _by_hermes("web_extract"),
        ),
    ]


def _by_hermes(name: str) -> Any:
    async def run(task: Any, arguments: msgspec.Struct) -> Fields:
        from tools.registry import registry

        given = {
            word: value
            for word, value in msgspec.structs.asdict(arguments).items()
            if value is not None
        }
        answer = await in_thread(lambda: registry.dispatch(name, given, task_id=task.id))
        try:
            found = json.loads(answer)
        except (TypeError, ValueError):
            found = answer
        return found if isinstance(found, dict) else {"result": found}

    return run
