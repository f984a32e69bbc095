"""The tools by name, for many tasks: JSON in, JSON text out, never an exception for what a model can act on."""

import asyncio
import contextlib
import json
import logging
import os
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from typing import Any
from weakref import WeakSet

import msgspec

from hermetic.approvals.approvals import Approvals
from hermetic.approvals.gate import PolicyGate
from hermetic.config.settings import Settings
from hermetic.contract.approval import Approver, Mode, Policy, Reviewer
from hermetic.contract.errors import (
    ConfigError,
    EnvironmentUnavailable,
    ExecutionError,
    InvalidArgument,
    NotInstalled,
    NotPermitted,
    UnknownProcess,
    Unreachable,
)
from hermetic.contract.limits import RESULT, RESULT_PREVIEW
from hermetic.contract.notice import Notice, read_wishes
from hermetic.contract.tool import DEFAULT_TASK, Fields, Form, Tool
from hermetic.fleet.fleet import Borrow, Fleet, directory_elsewhere, is_lost, serve_tools
from hermetic.link.link import ResidentGone
from hermetic.redaction.known_secrets import KnownSecret
from hermetic.redaction.redactor import Redactor
from hermetic.session.environment import Environment
from hermetic.session.keeping import record_of
from hermetic.tools.approval import approval_tool
from hermetic.tools.base.history import AFTER_LOSS, Histories, History
from hermetic.tools.base.task import Gate, Interrupted, OpenGate, Task, ToolLimits, refusal
from hermetic.tools.code.arguments import CodeLimits, CodeOptions
from hermetic.tools.code.tool import CodeMode, Printed
from hermetic.tools.files.memory import FileMemory
from hermetic.tools.files.patch import patch_tool
from hermetic.tools.files.read import read_file_tool
from hermetic.tools.files.search import search_files_tool
from hermetic.tools.files.write import write_file_tool
from hermetic.tools.process.notices import Notices, Sink
from hermetic.tools.process.results import keep
from hermetic.tools.process.tool import process_tool
from hermetic.tools.process.webhook import Webhook
from hermetic.tools.terminal.format import Showing
from hermetic.tools.terminal.sudo import AskPassword, Passwords, SudoDesks
from hermetic.tools.terminal.tool import terminal_tool

_log = logging.getLogger("hermetic.toolbox")


class Tools:
    """A toolbox at work; see `hermetic.Toolbox`, which has the same methods."""

    def __init__(
        self, *, environment: str | None = None, options: Mapping[str, Any] | None = None,
        policy: Policy | None = None, approver: Approver | None = None, reviewer: Reviewer | None = None,
        limits: ToolLimits | None = None,
        sudo_password: str | None = None, ask_password: AskPassword | None = None, redact: bool | None = None,
        on_notice: Sink | None = None, webhook: str | None = None, on_activity: Callable[[str], object] | None = None,
        code: CodeOptions | None = None, on_progress: Callable[[str, str], object] | None = None,
        on_script_output: Printed | None = None, settings: Settings | None = None,
    ) -> None:  # fmt: skip
        said = settings or Settings()
        kind = environment or said.environment.kind
        own = said.options if kind == said.environment.kind else {}  # they are of that kind alone
        wanted = {**own, **(options or {})}
        mode: Mode = said.approvals.mode if policy is None or policy == "off" else policy
        self._around = Fleet(kind, **wanted) if mode == "sandbox-first" and kind == "local" else None
        self._fleet = Fleet(kind, **wanted) if self._around is None else Fleet("sandbox", **_sandboxed(wanted))
        self._apart = Fleet("sandbox")  # for scripts that run apart from what their tools act on
        owns_all = not said.environment.across_processes
        serve_tools(self._fleet, DEFAULT_TASK, owns_all=owns_all)
        serve_tools(self._apart, _scripts_of(DEFAULT_TASK))
        if self._around is not None:
            serve_tools(self._around, _outside_of(DEFAULT_TASK), owns_all=owns_all)
        self._limits = limits or _limits_of(said)
        self._secrets = said.known_secrets(os.environ)
        is_redacting = said.redaction.enabled if redact is None else redact
        self._show = Showing(Redactor(self._secrets) if is_redacting else None)
        self._known = Redactor(self._secrets, patterns=False)
        self._approvals = Approvals(
            msgspec.structs.replace(said.approvals, mode=mode),
            approver=approver,
            reviewer=reviewer,
            keeps=settings is not None,
            sources=said.sources,
            redact=lambda text: (self._show.redactor or self._known).redact(text),
            mask=lambda text: self._known.redact(text),
        )
        self._door: Gate = OpenGate() if policy == "off" else PolicyGate(self._approvals)
        password = said.sudo.password if sudo_password is None else sudo_password
        self._desks = SudoDesks(Passwords(password, ask_password), self._learn)
        self._activity = on_activity
        sinks = [on_notice] if on_notice is not None else []
        self._notices = Notices(self._show, [*sinks, *([Webhook(webhook)] if webhook is not None else [])])
        self._code = CodeMode(
            code or code_options(said), self._usable, self._call_from_script,
            tell=on_progress or (lambda task_id, text: None), printed=on_script_output,
            apart=lambda task_id: partial(Borrow, self._apart, _scripts_of(task_id)),
        )  # fmt: skip
        self._files = FileMemory()
        self._histories = Histories()
        tools: tuple[Tool[Any], ...] = (
            terminal_tool(self._desks), process_tool(), self._code.tool(), read_file_tool(self._files),
            write_file_tool(self._files, said.files.write_root), patch_tool(self._files, said.files.write_root),
            search_files_tool(self._files), approval_tool(self._approvals),
        )  # fmt: skip
        self._tools = {tool.name: tool for tool in tools}
        self._own = frozenset(self._tools)
        self._running: dict[str, set[Task]] = {}
        self._rearmed: WeakSet[Environment] = WeakSet()  # where processes of earlier callers are followed
        self._caller = secrets.token_hex(4)
        self._loop: asyncio.AbstractEventLoop | None = None

    def __repr__(self) -> str:
        return f"<Toolbox of {', '.join(self._tools)} in {self._fleet.kind}>"

    @property
    def fleet(self) -> Fleet:
        """Its environments, one per task."""
        return self._fleet

    @property
    def approvals(self) -> Approvals:
        """Pending approval requests, and granted approvals."""
        return self._approvals

    def register(self, tool: Tool[Any], *, replace: bool = False) -> None:
        """Adds a tool. Raises ConfigError when the name is taken, unless `replace=True`."""
        if tool.name in self._tools and not replace:
            raise ConfigError(f"there is a tool {tool.name!r}; pass replace=True to put this one in its place")
        self._tools[tool.name] = tool
        self._own -= {tool.name}

    def schemas(self, form: Form = "openai") -> list[Fields]:
        """Schemas of all tools for a model's API."""
        if form not in ("openai", "anthropic", "mcp"):
            raise InvalidArgument(f"no form is called {form!r}; there are openai, anthropic, mcp", argument="form")
        return [tool.schema(form) for tool in self._usable()]

    async def call(self, name: str, arguments: Mapping[str, Any], *, task_id: str = DEFAULT_TASK) -> str:
        """The answer as JSON text."""
        for _ in range(2):  # what was said just before, such as an answer to a question, is heard first
            await asyncio.sleep(0)
        task = self._task(task_id)
        text = _as_json(_with_notes(await self._run(name, arguments, task), task.history))
        if name in self._own or len(text) <= RESULT:  # our own answers have bounds of their own
            return text
        try:
            return _as_json(await keep(task, text))
        except (Interrupted, ExecutionError) as error:
            why = f"the answer has {len(text):,} characters, too many, and could not be kept: {error or 'interrupted'}"
            return _as_json({**_failed(why), "output": text[:RESULT_PREVIEW]})

    async def _call_from_script(self, task_id: str, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        return await self._run(name, arguments, self._task(task_id, is_scripted=True))

    async def _run(self, name: str, arguments: Mapping[str, Any], task: Task) -> Mapping[str, Any]:
        """The tool's answer; meanwhile the call can be interrupted."""
        self._loop = asyncio.get_running_loop()
        task_id = task.id
        running = self._running.setdefault(task_id, set())
        running.add(task)
        try:
            return await self._answer(name, arguments, task)
        finally:
            running.discard(task)
            if not running:
                self._running.pop(task_id, None)

    def _usable(self) -> list[Tool[Any]]:
        return [tool for tool in self._tools.values() if tool.missing() is None]

    def interrupt(self, task_id: str | None = None) -> None:
        """Interrupts the task's calls, or those of all tasks; from any thread."""
        for id in list(self._running) if task_id is None else [task_id]:
            for task in list(self._running.get(id, ())):
                if self._loop is not None:
                    self._loop.call_soon_threadsafe(task.interrupted.set)

    def forget_reads(self, task_id: str = DEFAULT_TASK) -> None:
        """Forgets what the task's model has read, after its context was cut."""
        self._files.forget_questions(task_id)

    def notices(self, task_id: str | None = None) -> AsyncIterator[Notice]:
        """Notices of background processes, as they come."""
        return self._notices.stream(task_id)

    async def running(self, task_id: str = DEFAULT_TASK, *, since: float = 0.0) -> list[str]:
        """Session ids of running processes that the task's tools started, `since` that time."""
        # A task without an environment gets none for this question.
        if is_lost(self._fleet, task_id) or await Borrow(self._fleet, task_id).unopened() is not None:
            return []
        async with self._place(task_id) as environment:
            known = [info for info in await environment.processes() if info.is_running and info.started >= since]
            return [info.id for info in known if read_wishes(info.tag) or info.left]

    async def kill_all(self, task_id: str | None = None, *, since: float = 0.0) -> int:
        """Kills the processes that the tools started, of one task or of all open ones; returns how many.

        With `since`, seconds as `time.time()` counts them, only what began then or later, by the clock of its place.
        """
        tasks = self._fleet.tasks if task_id is None else [task_id]
        counts = await asyncio.gather(*(self._kill_task(id, since) for id in tasks), return_exceptions=True)
        for count in counts:
            if isinstance(count, BaseException):
                raise count
        return sum(count for count in counts if isinstance(count, int))

    async def _kill_task(self, task_id: str, since: float) -> int:
        if not (running := await self.running(task_id, since=since)):
            return 0
        async with self._place(task_id) as environment:
            killed = await asyncio.gather(*(self._kill(environment, id) for id in running))
        for id in running:
            self._histories.of(task_id).ended(id)
        return sum(killed)

    async def _kill(self, environment: Environment, id: str) -> bool:
        """False when it ended by itself and is forgotten."""
        try:
            process = await environment.process(id)
            await process.kill(self._limits.kill_grace)
        except UnknownProcess:
            return False
        await self._notices.amend(process, ended_by="kill_all")
        return True

    async def recover(self, *task_ids: str) -> None:
        """Resumes notices for processes of an earlier caller."""
        for task_id in task_ids:
            async with self._place(task_id):
                pass

    async def close(self, *, remove: bool = False) -> None:
        """Closes everything. The task "default" ends, others live on by their lease, unless `remove=True`."""
        self._desks.close()
        await self._code.close()
        await self._apart.close(remove=True)
        await self._notices.close()
        await self._fleet.close(remove=remove)
        if self._around is not None:
            await self._around.close(remove=remove)

    async def _answer(self, name: str, arguments: Mapping[str, Any], task: Task) -> Mapping[str, Any]:
        tool = self._tools.get(name)
        if tool is None:
            return _failed(f"there is no tool {name!r}; there are {', '.join(self._tools)}")
        if missing := tool.missing():
            return _failed(f"the tool {name} cannot be used now: {missing}", status="disabled")
        try:
            return await tool.run(task, tool.read(arguments))
        except NotPermitted as error:
            return refusal(error)
        except EnvironmentUnavailable as error:
            return self._unavailable(task, error)
        except ConfigError as error:
            return _failed(str(error), status="disabled")
        except Interrupted:
            return _failed("interrupted by the user before anything was done", "interrupted") | {"exit_code": 130}
        except (ExecutionError, OSError) as error:
            return _failed(str(error))
        except Exception as error:  # of a tool that somebody registered, or a mistake of ours: no model can mend it
            _log.exception("the tool %s failed", name)
            return _failed(f"the tool {name} failed: {type(error).__name__}: {error}")

    def _unavailable(self, task: Task, error: EnvironmentUnavailable) -> Fields:
        if isinstance(error, NotInstalled):
            return _failed(f"the environment cannot be used on this machine: {error}", status="disabled")
        if isinstance(error, Unreachable) or not is_lost(self._fleet, task.id):
            return _failed(f"the environment is not available: {error}")
        why = error.reason if isinstance(error, ResidentGone) else error
        return _failed(f"the environment was lost during this call: {why}; {AFTER_LOSS}")

    def _task(self, task_id: str, *, is_scripted: bool = False) -> Task:
        return Task(
            task_id, place=partial(self._place, task_id),
            door=self._door, watcher=self._notices, show=self._show, limits=self._limits, activity=self._activity,
            caller=self._caller, is_scripted=is_scripted,
            outside=None if self._around is None else partial(Borrow, self._around, _outside_of(task_id)),
            history=self._histories.of(task_id),
        )  # fmt: skip

    def _place(self, task_id: str) -> Borrow:
        return Borrow(self._fleet, task_id, partial(self._meet, task_id))

    async def _meet(self, task_id: str, environment: Environment) -> None:
        """Tells the task of an environment that it did not know, and follows what earlier callers started there."""
        if environment in self._rearmed:
            return
        self._rearmed.add(environment)
        record, history = record_of(environment), self._histories.of(task_id)
        is_first, start = not history.resident, record.options.get("cwd") or record.options.get("workspace") or "?"
        if history.meet(record.resident, start, separate_files=environment.isolation.separate_files):
            self._files.forget_task(task_id)
        if is_first and (directories := directory_elsewhere(self._fleet, task_id, environment)):
            history.note(_ELSEWHERE.format(task_id, *directories))
        with contextlib.suppress(EnvironmentUnavailable):
            await self._notices.rearm(environment)

    def _learn(self, password: str) -> None:
        """A password is hidden from models before anybody gets it."""
        secret = KnownSecret("the password for sudo", password)
        if secret not in self._secrets:
            self._secrets.append(secret)
            self._known = Redactor(self._secrets, patterns=False)
            if self._show.redactor is not None:
                self._show.redactor = Redactor(self._secrets)


_ELSEWHERE = (
    "The task {0!r} was opened before by another program, and its shell started in {1}. That directory holds, not {2}: "
    "relative paths start where its shell is. Use another task id to work in {2}."
)


def _scripts_of(task_id: str) -> str:
    return f"scripts of {task_id}"


def _outside_of(task_id: str) -> str:
    return f"{task_id}, outside"


def _with_notes(answer: Mapping[str, Any], history: History) -> Mapping[str, Any]:
    """An answer with the notes that wait for one; they wait on where `notes` mean something else to a tool."""
    said = answer.get("notes", [])
    notes = history.take_notes() if isinstance(said, list | tuple) else []
    return {**answer, "notes": [*said, *notes]} if notes else answer


def _sandboxed(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a sandbox around the directory that a place on this machine itself would begin in."""
    kept = {name: value for name, value in options.items() if name in ("env", "lease", "unattended", "login")}
    return {**kept, **({"workspace": os.path.abspath(options["cwd"])} if options.get("cwd") else {})}


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
    said = settings.code_execution
    return CodeOptions(
        limits=CodeLimits(time=said.timeout, calls=said.max_tool_calls), timezone=said.timezone,
        passthrough=said.passthrough, isolated=said.isolated, warm=said.warm,
    )  # fmt: skip


def _as_json(answer: Mapping[str, Any]) -> str:
    try:
        return msgspec.json.encode(answer).decode()
    except UnicodeEncodeError:  # half a surrogate pair, which a caller gave and which no JSON can hold
        return json.dumps(answer)


def _failed(message: str, status: str = "error") -> Fields:
    return {"output": "", "exit_code": -1, "status": status, "error": message}
