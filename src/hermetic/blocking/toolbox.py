"""The tools by name, for callers without an event loop."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any

from hermetic.approvals.api import Approvals
from hermetic.blocking.faces import Fleet, fleet_of
from hermetic.blocking.portal import Portal
from hermetic.config.settings import Settings
from hermetic.contract.approval import Approver, Reviewer
from hermetic.contract.notice import Notice
from hermetic.contract.tool import Fields, Form, Tool
from hermetic.toolbox import Policy
from hermetic.toolbox.tools import Tools
from hermetic.tools.base.task import ToolLimits
from hermetic.tools.code.arguments import CodeOptions
from hermetic.tools.code.tool import Printed
from hermetic.tools.process.notices import Sink
from hermetic.tools.terminal.sudo import AskPassword


class Notices:
    """What there is to tell of background processes, as it comes; iterate over it, then `close` it, or use `with`."""

    def __init__(self, portal: Portal, stream: AsyncIterator[Notice]) -> None:
        self._portal = portal
        self._stream = stream

    def __iter__(self) -> Iterator[Notice]:
        return self

    def __next__(self) -> Notice:
        try:
            return self._portal.call(self._next)
        except StopAsyncIteration:
            raise StopIteration from None

    def close(self) -> None:
        """Ends the stream; what it gave last counts as taken."""
        if self._portal.is_open:
            self._portal.call(self._end)

    def __enter__(self) -> "Notices":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def _next(self) -> Notice:
        return await anext(self._stream)

    async def _end(self) -> None:
        await self._stream.aclose()  # type: ignore[attr-defined]


class Toolbox:
    """What models call. Threads may share it. See `hermetic.Toolbox`."""

    def __init__(
        self, *, environment: str | None = None, options: Mapping[str, Any] | None = None,
        policy: Policy | None = None, approver: Approver | None = None, reviewer: Reviewer | None = None,
        limits: ToolLimits | None = None,
        sudo_password: str | None = None, ask_password: AskPassword | None = None, redact: bool | None = None,
        on_notice: Sink | None = None, webhook: str | None = None, on_activity: Callable[[str], object] | None = None,
        code: CodeOptions | None = None, on_progress: Callable[[str, str], object] | None = None,
        on_script_output: Printed | None = None, settings: Settings | None = None,
    ) -> None:  # fmt: skip
        self._portal = Portal()
        try:
            self._toolbox = self._portal.do(
                Tools, environment=environment, options=options, policy=policy, approver=approver,
                reviewer=reviewer, limits=limits, sudo_password=sudo_password, ask_password=ask_password, redact=redact,
                on_notice=on_notice, webhook=webhook, on_activity=on_activity, code=code,
                on_progress=on_progress, on_script_output=on_script_output, settings=settings,
            )  # fmt: skip
        except BaseException:
            self._portal.close()
            raise
        self._portal.guard(self._toolbox)

    def __repr__(self) -> str:
        return repr(self._toolbox)

    @property
    def fleet(self) -> Fleet:
        """The environments, one for each task."""
        return fleet_of(self._portal, self._toolbox.fleet)

    @property
    def approvals(self) -> Approvals:
        """Questions that wait for an answer, and what was allowed before; all but `attend` may be called from here."""
        return self._toolbox.approvals

    def register(self, tool: Tool[Any], *, replace: bool = False) -> None:
        """Adds a tool; its function is called on the event loop."""
        return self._portal.do(self._toolbox.register, tool, replace=replace)

    def schemas(self, form: Form = "openai") -> list[Fields]:
        """Every tool as a model's interface wants it."""
        return self._portal.do(self._toolbox.schemas, form)

    def call(self, name: str, arguments: Mapping[str, Any], *, task_id: str = "default") -> str:
        """The answer as JSON text."""
        return self._portal.call(self._toolbox.call, name, arguments, task_id=task_id)

    def interrupt(self, task_id: str | None = None) -> None:
        """Ends what the task's calls wait for, of all tasks without one; from any thread."""
        return self._toolbox.interrupt(task_id)

    def forget_reads(self, task_id: str = "default") -> None:
        """The task's model has lost what it was told: reading the same again is no repetition."""
        return self._portal.do(self._toolbox.forget_reads, task_id)

    def notices(self, task_id: str | None = None) -> Notices:
        """What there is to tell of background processes, as it comes."""
        return Notices(self._portal, self._toolbox.notices(task_id))

    def running(self, task_id: str = "default", *, since: float = 0.0) -> list[str]:
        """The session ids of what the task's tools started and what still runs."""
        return self._portal.call(self._toolbox.running, task_id, since=since)

    def kill_all(self, task_id: str | None = None, *, since: float = 0.0) -> int:
        """Ends all that the tools started; returns how many."""
        return self._portal.call(self._toolbox.kill_all, task_id, since=since)

    def recover(self, *task_ids: str) -> None:
        """Takes up again what an earlier caller's processes are to be told of."""
        return self._portal.call(self._toolbox.recover, *task_ids)

    def close(self, *, remove: bool = False) -> None:
        """Lets go of everything; environments live on by their lease, unless `remove=True`."""
        if not self._portal.is_open:
            return
        try:
            self._portal.call(self._toolbox.close, remove=remove)
        finally:
            self._portal.close()

    def __enter__(self) -> "Toolbox":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
