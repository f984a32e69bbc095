"""The tools by name, for many tasks: JSON in, JSON text out, never an exception for what a model
can act on.

`parts` has what a toolbox works with. Its import and that of the policy take longer than an event
loop may be held: a running loop gets it from a thread.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from hermetic.contract import errors
from hermetic.contract.concurrency import in_thread
from hermetic.contract.notice import read_wishes
from hermetic.contract.printable import os_error_text
from hermetic.contract.tool import DEFAULT_TASK, Interrupted, Tool
from hermetic.environments import catalog
from hermetic.resident.lazy import Lazy, is_loaded, load
from hermetic.toolbox.spans import API, tool_span

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Mapping

    from hermetic.approvals.approvals import Approvals
    from hermetic.config.settings import Settings
    from hermetic.contract.approval import Approver, Policy, Reviewer
    from hermetic.contract.notice import Notice
    from hermetic.contract.tool import Fields, Form
    from hermetic.fleet.fleet import Fleet
    from hermetic.session.environment import Environment
    from hermetic.toolbox import parts
    from hermetic.toolbox.parts import Parts
    from hermetic.tools.base.notices import Sink
    from hermetic.tools.base.task import Task, ToolLimits
    from hermetic.tools.code.arguments import CodeOptions
    from hermetic.tools.code.tool import Printed
    from hermetic.tools.terminal.sudo import AskPassword
else:
    parts = Lazy("hermetic.toolbox.parts")

_log = logging.getLogger("hermetic.toolbox")


class Toolbox:
    """The tools that models call. Use it in `async with`, or close it; it belongs to one event
    loop.

    `policy`: "ask" asks the approver about dangerous acts, and refuses them where there is none;
    "deny" refuses them; "allow" refuses only hardline acts and what a rule denies; "sandbox-first"
    runs in a sandbox and asks for what is to leave it; "off" judges nothing. Arguments override
    `settings`.

    The task "default" belongs to this toolbox: no other program finds it, and it ends with `close`.
    A task with any other id is shared by all programs of the user that name it.

    Raises ConfigError for an unknown kind. One for a wrong option or setting is raised here too,
    or, in the first toolbox of a program that is made while its event loop runs, by `async with` or
    the first call.
    """

    def __init__(
        self,
        *,
        environment: str | None = None,
        options: Mapping[str, Any] | None = None,
        policy: Policy | None = None,
        approver: Approver | None = None,
        reviewer: Reviewer | None = None,
        limits: ToolLimits | None = None,
        sudo_password: str | None = None,
        ask_password: AskPassword | None = None,
        redact: bool | None = None,
        on_notice: Sink | None = None,
        webhook: str | None = None,
        on_activity: Callable[[str], object] | None = None,
        code: CodeOptions | None = None,
        on_progress: Callable[[str, str], object] | None = None,
        on_script_output: Printed | None = None,
        settings: Settings | None = None,
    ) -> None:
        self._arguments = {name: value for name, value in locals().items() if name != "self"}
        self._made: Parts | None = None  # with the first use
        self._running: dict[str, set[Task]] = {}  # calls by task id
        self._loop: asyncio.AbstractEventLoop | None = None
        self._kind = environment or (settings.environment.kind if settings else "local")
        if is_loaded(parts) or not _is_loop_running():
            self._make()
        elif self._kind not in catalog.KINDS:
            catalog.find(self._kind)

    def __repr__(self) -> str:
        return f"<Toolbox in {self._kind}{'' if self._made else ', not used yet'}>"

    @property
    def fleet(self) -> Fleet:
        """Its environments, one per task."""
        return self._make().fleet

    @property
    def approvals(self) -> Approvals:
        """Pending approval requests, and granted approvals."""
        return self._make().approvals

    def register(self, tool: Tool[Any], *, replace: bool = False) -> None:
        """Adds a tool. Raises ConfigError when the name is taken, unless `replace=True`."""
        made = self._make()
        if not isinstance(tool, Tool):
            raise errors.InvalidArgument(
                f"a tool is a hermetic.Tool, not {type(tool).__name__}", argument="tool"
            )
        if tool.name in made.tools and not replace:
            raise errors.ConfigError(
                f"there is a tool {tool.name!r}; pass replace=True to put this one in its place"
            )
        made.tools[tool.name] = tool
        made.own -= {tool.name}

    def schemas(self, form: Form = "openai") -> list[Fields]:
        """Schemas of all tools for a model's API."""
        if form not in ("openai", "anthropic", "mcp"):
            raise errors.InvalidArgument(
                f"no form is called {form!r}; there are openai, anthropic, mcp", argument="form"
            )
        return [tool.schema(form) for tool in self._make().usable()]

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        task_id: str = DEFAULT_TASK,
        script_tools: Collection[str] | None = None,
    ) -> str:
        """The answer as JSON text.

        `script_tools` are the only tools that a script of this call may use; None: all.
        """
        made = self._made or await self._loaded()
        # Callbacks that are due, such as an answer to an approval request, run first.
        for _ in range(2):
            await asyncio.sleep(0)
        task = made.task(task_id, script_tools=script_tools)
        answer = await self._run(made, name, arguments, task)
        if task.history.notes and isinstance(answer.get("notes", []), list | tuple):
            answer = {**answer, "notes": [*answer.get("notes", []), *task.history.notes]}
            task.history.notes.clear()
        text = _as_json(answer)
        if made.shows_known(text):
            text = _as_json(made.hide_known(answer))
        if name in made.own:  # their answers have bounds of their own
            return text
        try:
            return text if (kept := await parts.keep_long(task, text)) is None else _as_json(kept)
        except (Interrupted, errors.ExecutionError) as error:
            why = f"the answer has {len(text):,} characters, too many, and could not be kept: {error or 'interrupted'}"
            return _as_json({**_failed(why), "output": text[: parts.PREVIEW]})

    async def _call_from_script(
        self, task_id: str, name: str, arguments: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        made = self._make()
        return await self._run(made, name, arguments, made.task(task_id, is_scripted=True))

    async def _run(
        self, made: Parts, name: str, arguments: Mapping[str, Any], task: Task
    ) -> Mapping[str, Any]:
        """The tool's answer; meanwhile the call can be interrupted."""
        tool = made.tools.get(name)
        if tool is None:
            return _failed(f"there is no tool {name!r}; there are {', '.join(made.tools)}")
        if tool.missing is not None and (missing := tool.missing()):
            return _failed(f"the tool {name} cannot be used now: {missing}", "disabled")
        self._loop = asyncio.get_running_loop()
        running = self._running.setdefault(task.id, set())
        running.add(task)
        try:
            if API not in sys.modules:
                return await self._answer(made, tool, arguments, task)
            with tool_span(name, task.id, self._kind) as report:
                answer = await self._answer(made, tool, arguments, task)
                report(answer)
                return answer
        finally:
            running.discard(task)
            if not running:
                self._running.pop(task.id, None)

    async def _answer(
        self, made: Parts, tool: Tool[Any], arguments: Mapping[str, Any], task: Task
    ) -> Mapping[str, Any]:
        try:
            made.check_held(task.id)
            return await tool.run(task, tool.read(arguments))
        except Exception as error:  # also of registered tools: the model gets an answer in any case
            return self._error(tool, task, error)

    def _error(self, tool: Tool[Any], task: Task, error: Exception) -> Fields:
        """The answer of a call that failed."""
        if isinstance(error, errors.NotPermitted):
            return refusal(error)
        if isinstance(error, errors.NotInstalled):
            return _failed(f"the environment cannot be used on this machine: {error}", "disabled")
        if isinstance(error, errors.EnvironmentUnavailable):
            if isinstance(error, errors.Unreachable) or not self._make().is_lost(task.id):
                return _failed(f"the environment is not available: {error}")
            return _failed(f"the environment was lost during this call: {parts.after_loss(error)}")
        if isinstance(error, errors.ConfigError):
            return _failed(str(error), "disabled")
        if isinstance(error, Interrupted):
            return _failed("interrupted by the user before anything was done", "interrupted") | {
                "exit_code": 130
            }
        if isinstance(error, OSError):
            return _failed(os_error_text(error))
        if isinstance(error, errors.ExecutionError):
            return _failed(str(error))
        _log.error("the tool %s failed", tool.name, exc_info=error)
        return _failed(f"the tool {tool.name} failed: {type(error).__name__}: {error}")

    def interrupt(self, task_id: str | None = None) -> None:
        """Interrupts the task's calls, or those of all tasks; from any thread."""
        for id in list(self._running) if task_id is None else [task_id]:
            for task in list(self._running.get(id, ())):
                if self._loop is not None:
                    self._loop.call_soon_threadsafe(task.interrupted.set)

    def forget_reads(self, task_id: str = DEFAULT_TASK) -> None:
        """Forgets what the task's model has read, after its context was cut."""
        self._make().files.forget_calls(task_id)

    def notices(self, task_id: str | None = None) -> AsyncIterator[Notice]:
        """Notices of background processes, as they come."""
        return self._make().notices.stream(task_id)

    async def running(self, task_id: str = DEFAULT_TASK, *, since: float = 0.0) -> list[str]:
        """Session ids of running processes that the task's tools started, `since` that time."""
        made = await self._loaded()
        # No environment is opened for this.
        if made.is_lost(task_id) or await made.borrow(task_id).unopened() is not None:
            return []
        async with made.borrow(task_id) as environment:
            known = [
                info
                for info in await environment.processes()
                if info.is_running and info.started >= since
            ]
            return [info.id for info in known if read_wishes(info.tag) or info.left]

    async def kill_all(self, task_id: str | None = None, *, since: float = 0.0) -> int:
        """Kills the processes that the tools started, of one task or of all open ones; returns how
        many.

        With `since`, seconds as `time.time()` counts them, only those that began then or later, by
        the clock of their environment.
        """
        tasks = (await self._loaded()).fleet.tasks if task_id is None else [task_id]
        counts = await asyncio.gather(
            *(self._kill_task(id, since) for id in tasks), return_exceptions=True
        )
        for count in counts:
            if isinstance(count, BaseException):
                raise count
        return sum(count for count in counts if isinstance(count, int))

    async def _kill_task(self, task_id: str, since: float) -> int:
        if not (running := await self.running(task_id, since=since)):
            return 0
        made = self._make()
        async with made.borrow(task_id) as environment:
            killed = await asyncio.gather(*(self._kill(environment, id) for id in running))
        for id in running:
            made.histories.of(task_id).started.pop(id, None)
        return sum(killed)

    async def _kill(self, environment: Environment, id: str) -> bool:
        """False when it ended by itself and is forgotten."""
        made = self._make()
        try:
            process = await environment.process(id)
            await process.kill(made.limits.kill_grace)
        except errors.UnknownProcess:
            return False
        await made.notices.amend(process, ended_by="kill_all")
        return True

    async def recover(self, *task_ids: str) -> None:
        """Resumes notices for processes of an earlier caller."""
        made = await self._loaded()
        for task_id in task_ids:
            async with made.borrow(task_id):
                pass

    async def close(self, *, remove: bool = False) -> None:
        """Closes everything.

        The task "default" ends, others live on by their lease, unless `remove=True`.
        """
        if self._made is not None:
            await self._made.close(remove=remove)

    async def __aenter__(self) -> Toolbox:
        await self._loaded()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _loaded(self) -> Parts:
        if self._made is None and not is_loaded(parts):
            await in_thread(partial(_load, self._kind))
        return self._make()

    def _make(self) -> Parts:
        if self._made is None:
            self._made = parts.Parts(self._call_from_script, **self._arguments)
        return self._made


def _load(kind: str) -> None:
    """Imports what a toolbox of this kind begins with."""
    load(parts)
    catalog.find(kind)
    catalog.find("sandbox")


def _is_loop_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def refusal(error: errors.NotPermitted) -> Fields:
    """The answer of a tool that was not allowed to begin."""
    if isinstance(error, errors.ApprovalRequired):
        return _failed(str(error), "approval_required") | {
            "approval_id": error.request,
            "command": error.command,
            "description": error.description,
            "pattern_key": error.pattern_key,
        }
    return _failed(str(error), "blocked") | ({"refused_by": error.by} if error.by else {})


def _failed(message: str, status: str = "error") -> Fields:
    return {"output": "", "exit_code": -1, "status": status, "error": message}


def _as_json(answer: Mapping[str, Any]) -> str:
    try:
        return msgspec.json.encode(answer).decode()
    except UnicodeEncodeError:  # a lone surrogate of the caller's, which no JSON text can hold
        return json.dumps(answer)
