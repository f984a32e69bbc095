"""The parts of a toolbox, made from its arguments and settings."""

import contextlib
import os
import secrets
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import Any, get_args
from weakref import WeakSet

import msgspec

from hermetic.approvals.approvals import Approvals
from hermetic.approvals.gate import PolicyGate
from hermetic.config.settings import Settings
from hermetic.contract.approval import Approver, Mode, Policy, Reviewer
from hermetic.contract.errors import ConfigError, EnvironmentUnavailable, NotPermitted
from hermetic.contract.limits import RESULT, RESULT_PREVIEW
from hermetic.contract.tool import DEFAULT_TASK, Fields, Tool
from hermetic.fleet.fleet import Borrow, Fleet, directory_elsewhere, ids_of, is_lost, serve_tools
from hermetic.link.failures import ResidentGone
from hermetic.redaction.known_secrets import KnownSecret
from hermetic.redaction.redactor import Redactor
from hermetic.registry.holds import held, holds_path
from hermetic.session.environment import Environment
from hermetic.session.keeping import record_of
from hermetic.tools.approval import approval_tool
from hermetic.tools.base.keeping import keep
from hermetic.tools.base.notices import Notices, Sink
from hermetic.tools.base.show import Show
from hermetic.tools.base.task import AFTER_LOSS, Histories, Task, ToolLimits
from hermetic.tools.code.arguments import CodeLimits, CodeOptions
from hermetic.tools.code.tool import CodeMode, Printed
from hermetic.tools.files.access import FileMemory
from hermetic.tools.files.patch import patch_tool
from hermetic.tools.files.read import read_file_tool
from hermetic.tools.files.search import search_files_tool
from hermetic.tools.files.write import write_file_tool
from hermetic.tools.process.tool import process_tool
from hermetic.tools.process.webhook import Webhook
from hermetic.tools.terminal.sudo import AskPassword, Passwords, SudoAnswers
from hermetic.tools.terminal.tool import terminal_tool
from hermetic.tools.web.tool import Web

PREVIEW = RESULT_PREVIEW  # characters
_ELSEWHERE = (
    "The task {0!r} was opened before by another program, and its shell started in {1}. That directory holds, not {2}: "
    "relative paths start where its shell is. Use another task id to work in {2}."
)


def _check_choices(
    policy: object, functions: Mapping[str, object], values: Mapping[str, tuple[object, type]]
) -> None:
    """Raises ConfigError for what would judge commands in another way than its caller believes, or
    would fail in a model's call.
    """
    words = get_args(Policy)
    if policy is not None and policy not in words:
        known = ", ".join(map(repr, words))
        raise ConfigError(
            f"policy must be one of {known} or None, not {policy!r}", setting="policy"
        )
    for name, function in functions.items():
        if function is not None and not callable(function):
            raise ConfigError(
                f"the {name} must be a function, not {type(function).__name__}", setting=name
            )
    for name, (value, kind) in values.items():
        if value is not None and not isinstance(value, kind):
            raise ConfigError(
                f"the {name} must be of the type {kind.__name__}, not {type(value).__name__}",
                setting=name,
            )


class Parts:
    """What a toolbox works with. `call(task, tool, arguments)` runs a tool for a script."""

    def __init__(
        self,
        call: Callable[[str, str, Mapping[str, Any]], Awaitable[Mapping[str, Any]]],
        *,
        environment: str | None,
        options: Mapping[str, Any] | None,
        policy: Policy | None,
        approver: Approver | None,
        reviewer: Reviewer | None,
        limits: ToolLimits | None,
        sudo_password: str | None,
        ask_password: AskPassword | None,
        redact: bool | None,
        on_notice: Sink | None,
        webhook: str | None,
        on_activity: Callable[[str], object] | None,
        code: CodeOptions | None,
        on_progress: Callable[[str, str], object] | None,
        on_script_output: Printed | None,
        settings: Settings | None,
    ) -> None:
        _check_choices(
            policy,
            {
                "approver": approver,
                "reviewer": reviewer,
                "ask_password": ask_password,
                "on_notice": on_notice,
                "on_activity": on_activity,
                "on_progress": on_progress,
                "on_script_output": on_script_output,
            },
            {
                "options": (options, Mapping),
                "limits": (limits, ToolLimits),
                "sudo_password": (sudo_password, str),
                "code": (code, CodeOptions),
                "settings": (settings, Settings),
            },
        )
        chosen = settings or Settings()
        kind = environment or chosen.environment.kind
        # They are of that kind alone.
        own = chosen.options if kind == chosen.environment.kind else {}
        wanted = {**own, **(options or {})}
        mode: Mode = chosen.approvals.mode if policy is None or policy == "off" else policy
        is_sandboxed = mode == "sandbox-first" and kind == "local"
        self.fleet = (
            Fleet("sandbox", **_sandboxed(wanted)) if is_sandboxed else Fleet(kind, **wanted)
        )
        self.outside = Fleet(kind, **wanted) if is_sandboxed else None  # around the sandboxes
        self.apart = Fleet("sandbox")  # for scripts that run apart from what their tools act on
        owns_all = not chosen.environment.across_processes
        serve_tools(self.fleet, DEFAULT_TASK, owns_all=owns_all)
        serve_tools(self.apart, _scripts_of(DEFAULT_TASK))
        if self.outside is not None:
            serve_tools(self.outside, _outside_of(DEFAULT_TASK), owns_all=owns_all)
        self.limits = limits or _limits_of(chosen)
        self._secrets = chosen.known_secrets(os.environ)
        is_redacting = chosen.redaction.enabled if redact is None else redact
        self._show = Show(Redactor(self._secrets) if is_redacting else None)
        self._known = Redactor(self._secrets, patterns=False)
        self.approvals = Approvals(
            msgspec.structs.replace(chosen.approvals, mode=mode),
            approver=approver,
            reviewer=reviewer,
            keeps=settings is not None,
            sources=chosen.sources,
            redact=lambda text: (self._show.redactor or self._known).redact(text),
            mask=lambda text: self._known.redact(text),
        )
        self._gate = None if policy == "off" else PolicyGate(self.approvals)
        password = chosen.sudo.password if sudo_password is None else sudo_password
        self.sudo = SudoAnswers(Passwords(password, ask_password, chosen.sudo.timeout), self._learn)
        self._activity = on_activity
        webhooks = [] if webhook is None else [Webhook(webhook)]
        self.notices = Notices(
            self._show, webhooks if on_notice is None else [on_notice, *webhooks]
        )
        self.code = CodeMode(
            code or code_options(chosen),
            self.usable,
            call,
            tell=on_progress or (lambda task_id, text: None),
            printed=on_script_output,
            apart=lambda task_id: partial(Borrow, self.apart, _scripts_of(task_id)),
        )
        self.files = FileMemory()
        self.histories = Histories()
        tools: tuple[Tool[Any], ...] = (
            terminal_tool(self.sudo),
            process_tool(),
            self.code.tool(),
            read_file_tool(self.files),
            write_file_tool(self.files, chosen.files.write_root),
            patch_tool(self.files, chosen.files.write_root),
            search_files_tool(self.files),
            approval_tool(self.approvals),
        )
        self.own = frozenset(tool.name for tool in tools)
        self.tools = {
            tool.name: tool
            for tool in (*tools, *Web(chosen.web, os.environ, _denied_hosts(chosen)).tools())
        }
        # Where processes of earlier callers are followed.
        self._rearmed: WeakSet[Environment] = WeakSet()
        self._caller = secrets.token_hex(4)
        self._holds = holds_path()

    def usable(self) -> list[Tool[Any]]:
        """The tools that are not disabled."""
        return [
            tool for tool in self.tools.values() if tool.missing is None or tool.missing() is None
        ]

    def task(
        self,
        task_id: str,
        *,
        is_scripted: bool = False,
        script_tools: Collection[str] | None = None,
    ) -> Task:
        """One call's task."""
        outside = self.outside
        return Task(
            task_id,
            borrow=partial(self.borrow, task_id),
            gate=self._gate,
            notices=self.notices,
            show=self._show,
            limits=self.limits,
            history=self.histories.of(task_id),
            activity=self._activity,
            caller=self._caller,
            is_scripted=is_scripted,
            script_tools=script_tools,
            outside=None if outside is None else partial(Borrow, outside, _outside_of(task_id)),
            check_held=partial(self.check_held, task_id),
        )

    def check_held(self, task_id: str) -> None:
        """Raises NotPermitted while a person has stopped the task."""
        if (
            os.access(self._holds, os.F_OK)
            and (hold := held(*ids_of(self.fleet, task_id))) is not None
        ):
            raise NotPermitted(hold.message, reason=hold.message, by="stopped")

    def borrow(self, task_id: str) -> Borrow:
        """The task's environment for a block."""
        return Borrow(self.fleet, task_id, partial(self._meet, task_id))

    def is_lost(self, task_id: str) -> bool:
        """Whether the environment of the task's last call is gone."""
        return is_lost(self.fleet, task_id)

    async def _meet(self, task_id: str, environment: Environment) -> None:
        """Notes for the task that its environment is another one; follows processes of earlier
        callers there.
        """
        if environment in self._rearmed:
            return
        self._rearmed.add(environment)
        record, history = record_of(environment), self.histories.of(task_id)
        is_first = not history.resident
        start = record.options.get("cwd") or record.options.get("workspace") or "?"
        if history.meet(
            record.resident, start, separate_files=environment.isolation.separate_files
        ):
            self.files.forget_task(task_id)
        if is_first and (directories := directory_elsewhere(self.fleet, task_id, environment)):
            history.notes.append(_ELSEWHERE.format(task_id, *directories))
        with contextlib.suppress(EnvironmentUnavailable):
            await self.notices.rearm(environment)

    def shows_known(self, text: str) -> bool:
        """Whether an answer holds a known secret: in a path or an error, which tools do not show as
        text.
        """
        return self._show.redactor is not None and self._known.shows_known(text)

    def hide_known(self, value: Any) -> Any:
        """The same without known secrets in any text."""
        if isinstance(value, str):
            return self._known.redact(value)
        if isinstance(value, Mapping):
            return {self.hide_known(name): self.hide_known(one) for name, one in value.items()}
        if isinstance(value, list | tuple):
            return [self.hide_known(one) for one in value]
        return value

    def _learn(self, password: str) -> None:
        """Hides a password from models before it is given out."""
        secret = KnownSecret("the password for sudo", password)
        if secret not in self._secrets:
            self._secrets.append(secret)
            self._known = Redactor(self._secrets, patterns=False)
            if self._show.redactor is not None:
                self._show.redactor = Redactor(self._secrets)

    async def close(self, *, remove: bool) -> None:
        """Closes everything; `remove=True` ends the environments."""
        self.sudo.close()
        await self.approvals.close()
        await self.code.close()
        await self.apart.close(remove=True)
        await self.notices.close()
        await self.fleet.close(remove=remove)
        if self.outside is not None:
            await self.outside.close(remove=remove)


async def keep_long(task: Task, text: str) -> Fields | None:
    """The start of an answer that is too long, and the id by which the process tool reads all of
    it; None: it fits.
    """
    if len(text) <= RESULT:
        return None
    id = await keep(task, text, "result")
    read = f"process(action='poll', session_id={id!r}, cursor=0)"
    return {
        "preview": text[:PREVIEW],
        "total_characters": len(text),
        "session_id": id,
        "hint": f"the answer is too long; {read} reads all of it, from cursor to cursor",
    }


def after_loss(error: EnvironmentUnavailable) -> str:
    """Why the environment was lost, and what to do after that."""
    return f"{error.reason if isinstance(error, ResidentGone) else error}; {AFTER_LOSS}"


def _scripts_of(task_id: str) -> str:
    return f"scripts of {task_id}"


def _outside_of(task_id: str) -> str:
    return f"{task_id}, outside"


def _sandboxed(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a sandbox around the directory that a local environment would begin in."""
    kept = {
        name: value
        for name, value in options.items()
        if name in ("env", "lease", "unattended", "login")
    }
    return {
        **kept,
        **({"workspace": os.path.abspath(options["cwd"])} if options.get("cwd") else {}),
    }


def _denied_hosts(settings: Settings) -> list[str]:
    """Hosts that need an approval in commands: the web tools do not request one."""
    return [
        rule.network
        for rule in settings.approvals.rules
        if rule.network and rule.decision != "allow"
    ]


def _limits_of(settings: Settings) -> ToolLimits:
    terminal = settings.terminal
    return ToolLimits(
        foreground=terminal.timeout,
        longest_foreground=terminal.longest_timeout,
        output=terminal.output_characters,
        read=settings.files.read_characters,
        kill_grace=terminal.kill_grace,
    )


def code_options(settings: Settings) -> CodeOptions:
    """How scripts run by these settings."""
    code = settings.code_execution
    return CodeOptions(
        limits=CodeLimits(time=code.timeout, calls=code.max_tool_calls),
        timezone=code.timezone,
        passthrough=code.passthrough,
        isolated=code.isolated,
        warm=code.warm,
    )
