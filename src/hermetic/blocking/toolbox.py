"""The blocking toolbox: the tools by name, for callers without an event loop."""

from typing import Any

from hermetic import toolbox
from hermetic.approvals.approvals import Approvals
from hermetic.blocking.face import Closing, Face, Stream, close, does, made_like, waits
from hermetic.blocking.faces import Fleet, fleet_of
from hermetic.blocking.portal import in_portal
from hermetic.contract.notice import Notice


class Notices(Stream[Notice]):
    """Notices of background processes as they come; iterate over it, then `close` it, or use
    `with`.
    """


class Toolbox(Face[toolbox.Toolbox], Closing):
    """What models call. Threads may share it. See `hermetic.Toolbox`."""

    @made_like(toolbox.Toolbox)
    def __init__(self, **options: Any) -> None:
        async def made() -> toolbox.Toolbox:
            return await toolbox.Toolbox(**options).__aenter__()

        super().__init__(*in_portal(made))

    @property
    def fleet(self) -> Fleet:
        """Its environments, one per task."""
        return fleet_of(self._portal, self._held.fleet)

    @property
    def approvals(self) -> Approvals:
        """Pending requests, and what was allowed before; all but `attend` may be called from any
        thread.
        """
        return self._held.approvals

    register = does(toolbox.Toolbox.register)
    schemas = does(toolbox.Toolbox.schemas)
    forget_reads = does(toolbox.Toolbox.forget_reads)
    call = waits(toolbox.Toolbox.call)
    running = waits(toolbox.Toolbox.running)
    kill_all = waits(toolbox.Toolbox.kill_all)
    recover = waits(toolbox.Toolbox.recover)

    def interrupt(self, task_id: str | None = None) -> None:
        """Interrupts the task's waiting calls, or those of all tasks; from any thread."""
        return self._held.interrupt(task_id)

    def notices(self, task_id: str | None = None) -> Notices:
        """Notices of background processes as they come."""
        return Notices(self._portal, self._held.notices(task_id))

    def close(self, *, remove: bool = False) -> None:
        """Releases everything; environments live on by their lease, unless `remove=True`."""
        close(self, remove=remove)
