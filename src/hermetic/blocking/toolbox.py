"""The blocking toolbox: the tools by name, for callers without an event loop."""

from typing import Any

from hermetic.approvals.approvals import Approvals
from hermetic.blocking.face import Closing, Face, Stream, close, does, made_like, waits
from hermetic.blocking.faces import Fleet, fleet_of
from hermetic.blocking.portal import Portal
from hermetic.contract.notice import Notice
from hermetic.toolbox.tools import Tools


class Notices(Stream[Notice]):
    """Notices of background processes as they come; iterate over it, then `close` it, or use `with`."""


class Toolbox(Face[Tools], Closing):
    """What models call. Threads may share it. See `hermetic.Toolbox`."""

    @made_like(Tools)
    def __init__(self, **options: Any) -> None:
        portal = Portal()
        try:
            super().__init__(portal, portal.do(Tools, **options))
        except BaseException:
            portal.close()
            raise
        portal.guard(self._held)

    @property
    def fleet(self) -> Fleet:
        """Its environments, one per task."""
        return fleet_of(self._portal, self._held.fleet)

    @property
    def approvals(self) -> Approvals:
        """Pending requests, and what was allowed before; all but `attend` may be called from any thread."""
        return self._held.approvals

    register = does(Tools.register)
    schemas = does(Tools.schemas)
    forget_reads = does(Tools.forget_reads)
    call = waits(Tools.call)
    running = waits(Tools.running)
    kill_all = waits(Tools.kill_all)
    recover = waits(Tools.recover)

    def interrupt(self, task_id: str | None = None) -> None:
        """Interrupts the task's waiting calls, or those of all tasks; from any thread."""
        return self._held.interrupt(task_id)

    def notices(self, task_id: str | None = None) -> Notices:
        """Notices of background processes as they come."""
        return Notices(self._portal, self._held.notices(task_id))

    def close(self, *, remove: bool = False) -> None:
        """Releases everything; environments live on by their lease, unless `remove=True`."""
        close(self, remove=remove, owns_portal=True)
