"""The tools by name, for many tasks. `tools` does the work; it is imported when a toolbox is first used.

Its import and that of the policy take longer than an event loop may be held: a running loop gets it from a thread.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from hermetic.contract.tool import DEFAULT_TASK
from hermetic.environments import catalog
from hermetic.resident.lazy import Lazy, is_loaded, load
from hermetic.session.callbacks import in_thread

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from hermetic.approvals.approvals import Approvals
    from hermetic.config.settings import Settings
    from hermetic.contract.approval import Approver, Policy, Reviewer
    from hermetic.contract.notice import Notice
    from hermetic.contract.tool import Fields, Form, Tool
    from hermetic.fleet.fleet import Fleet
    from hermetic.toolbox import tools
    from hermetic.toolbox.tools import Tools
    from hermetic.tools.base.task import ToolLimits
    from hermetic.tools.code.arguments import CodeOptions
    from hermetic.tools.code.tool import Printed
    from hermetic.tools.process.notices import Sink
    from hermetic.tools.terminal.sudo import AskPassword
else:
    tools = Lazy("hermetic.toolbox.tools")


class Toolbox:
    """The tools that models call. Use it in `async with`, or close it; it belongs to one event loop.

    `policy`: "ask" asks the approver about dangerous acts, and refuses them where there is none; "deny" refuses them;
    "allow" refuses only hardline acts and what a rule denies; "sandbox-first" runs in a sandbox and asks for what is
    to leave it; "off" judges nothing. Arguments override `settings`.

    The task "default" belongs to this toolbox: no other program finds it, and it ends with `close`. A task with any
    other id is shared by all programs of the user that name it.

    Raises ConfigError for an unknown kind. One for a wrong option or setting is raised here too, or, in the first
    toolbox of a program that is made while its event loop runs, by `async with` or the first call.
    """

    def __init__(
        self, *, environment: str | None = None, options: Mapping[str, Any] | None = None,
        policy: Policy | None = None, approver: Approver | None = None, reviewer: Reviewer | None = None,
        limits: ToolLimits | None = None,
        sudo_password: str | None = None, ask_password: AskPassword | None = None, redact: bool | None = None,
        on_notice: Sink | None = None, webhook: str | None = None, on_activity: Callable[[str], object] | None = None,
        code: CodeOptions | None = None, on_progress: Callable[[str, str], object] | None = None,
        on_script_output: Printed | None = None, settings: Settings | None = None,
    ) -> None:  # fmt: skip
        self._arguments: dict[str, Any] = {
            "environment": environment, "options": options, "policy": policy, "approver": approver,
            "reviewer": reviewer, "limits": limits, "sudo_password": sudo_password, "ask_password": ask_password,
            "redact": redact, "on_notice": on_notice, "webhook": webhook, "on_activity": on_activity, "code": code,
            "on_progress": on_progress, "on_script_output": on_script_output, "settings": settings,
        }  # fmt: skip
        self._made: Tools | None = None
        self._kind = environment or (settings.environment.kind if settings else "local")
        if is_loaded(tools) or not _is_loop_running():
            self._tools()
        elif self._kind not in catalog.KINDS:
            catalog.find(self._kind)

    def __repr__(self) -> str:
        return repr(self._made) if self._made is not None else "<Toolbox that was not used yet>"

    @property
    def fleet(self) -> Fleet:
        """Its environments, one per task."""
        return self._tools().fleet

    @property
    def approvals(self) -> Approvals:
        """Pending approval requests, and granted approvals."""
        return self._tools().approvals

    def register(self, tool: Tool[Any], *, replace: bool = False) -> None:
        """Adds a tool. Raises ConfigError when the name is taken, unless `replace=True`."""
        self._tools().register(tool, replace=replace)

    def schemas(self, form: Form = "openai") -> list[Fields]:
        """Schemas of all tools for a model's API."""
        return self._tools().schemas(form)

    async def call(self, name: str, arguments: Mapping[str, Any], *, task_id: str = DEFAULT_TASK) -> str:
        """The answer as JSON text."""
        return await (self._made or await self._loaded()).call(name, arguments, task_id=task_id)

    def interrupt(self, task_id: str | None = None) -> None:
        """Interrupts the task's calls, or those of all tasks; from any thread."""
        if self._made is not None:
            self._made.interrupt(task_id)

    def forget_reads(self, task_id: str = DEFAULT_TASK) -> None:
        """Forgets what the task's model has read, after its context was cut."""
        self._tools().forget_reads(task_id)

    def notices(self, task_id: str | None = None) -> AsyncIterator[Notice]:
        """Notices of background processes, as they come."""
        return self._tools().notices(task_id)

    async def running(self, task_id: str = DEFAULT_TASK, *, since: float = 0.0) -> list[str]:
        """Session ids of running processes that the task's tools started, `since` that time."""
        return await (await self._loaded()).running(task_id, since=since)

    async def kill_all(self, task_id: str | None = None, *, since: float = 0.0) -> int:
        """Kills the processes that the tools started, of one task or of all open ones; returns how many.

        With `since`, seconds as `time.time()` counts them, only what began then or later, by the clock of its place.
        """
        return await (await self._loaded()).kill_all(task_id, since=since)

    async def recover(self, *task_ids: str) -> None:
        """Resumes notices for processes of an earlier caller."""
        await (await self._loaded()).recover(*task_ids)

    async def close(self, *, remove: bool = False) -> None:
        """Closes everything. The task "default" ends, others live on by their lease, unless `remove=True`."""
        if self._made is not None:
            await self._made.close(remove=remove)

    async def __aenter__(self) -> Toolbox:
        await self._loaded()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _loaded(self) -> Tools:
        if self._made is None and not is_loaded(tools):
            await in_thread(partial(_load, self._kind))
        return self._tools()

    def _tools(self) -> Tools:
        if self._made is None:
            self._made = tools.Tools(**self._arguments)
        return self._made


def _load(kind: str) -> None:
    """Imports what a toolbox of this kind begins with."""
    load(tools)
    catalog.find(kind)
    catalog.find("sandbox")


def _is_loop_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
