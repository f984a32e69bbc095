"""Files as a call names them: what can be said of them before their place is opened, and who was asked already."""

from collections.abc import Sequence

from hermetic.approvals.context import PolicyContext
from hermetic.contract.files import Bounds
from hermetic.session.arguments import encode_path
from hermetic.session.environment import Environment
from hermetic.tools.base.task import Task


class NamedFiles:
    """A judge for `Task.place`. What is out of bounds or not allowed is refused while nothing is opened."""

    def __init__(self, task: Task, paths: Sequence[str], bounds: Bounds, *, writes: bool = True) -> None:
        self._task = task
        self._paths = paths
        self._bounds = bounds
        self._writes = writes
        self._allowed: set[str] = set()  # whole paths

    async def __call__(self, place: Environment | PolicyContext) -> None:
        """Judges them where no place is opened yet; where one lives, `allow` does. Raises NotPermitted."""
        if not isinstance(place, PolicyContext):
            return
        for path in self._paths:
            encode_path(path, "path")
            place.check(path, self._bounds)
        if self._writes:
            true = [place.real(place.whole(path)) for path in self._paths]
            await self._task.door.write(self._task.id, true, place)
            self._allowed = set(true)

    async def allow(self, true: Sequence[str], environment: Environment) -> None:
        """Asks about the true paths that nobody was asked about by their names. Raises NotPermitted."""
        if new := [path for path in true if path not in self._allowed]:
            await self._task.interruptible(self._task.door.write(self._task.id, new, environment))
