"""Processes that a toolbox has looked at: their searches and screens go on where the last call left them."""

from collections import OrderedDict
from weakref import WeakKeyDictionary

from hermetic.contract.errors import UnknownProcess
from hermetic.contract.limits import HANDLES
from hermetic.session.environment import Environment
from hermetic.session.process import Process


class Handles:
    """The last ones used, in each environment."""

    def __init__(self) -> None:
        self._kept: WeakKeyDictionary[Environment, OrderedDict[str, Process]] = WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"<Handles of {sum(map(len, self._kept.values()))} processes>"

    async def get(self, environment: Environment, id: str) -> Process:
        """The process with this id, as it is now. Raises UnknownProcess, InvalidArgument."""
        kept = self._kept.setdefault(environment, OrderedDict())
        known = kept.get(id)
        try:
            if known is None:
                found = await environment.process(id)
            else:
                await known.status()
        except UnknownProcess:
            kept.pop(id, None)
            raise
        # Others may have come and gone meanwhile: the first one that was kept is the one that all use.
        known = kept.setdefault(id, known or found)
        kept.move_to_end(id)
        while len(kept) > HANDLES:
            kept.popitem(last=False)
        return known
