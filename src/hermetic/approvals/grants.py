"""Granted approvals that still hold: for a task, for always, for the next time, or as a budget."""

from collections.abc import Callable, Sequence
from pathlib import PurePosixPath

import msgspec

from hermetic.approvals.queue import Reply
from hermetic.approvals.store import Store
from hermetic.contract.approval import Approval, Need
from hermetic.contract.errors import ConfigError

CLOCK_SLACK = 60.0  # seconds that clocks are set back by themselves

Program = Callable[[tuple[str, ...]], str]  # the file that the first word of an argv means


class Budget(msgspec.Struct, kw_only=True):
    """A number of acts of one kind, for one task."""

    task: str
    environment: str
    under: str = ""  # files below this directory
    words: tuple[str, ...] = ()  # or a program with these first words,
    around: str = ""  # in one directory, with the same variables,
    program: str = ""  # and from the same file
    left: int
    expires: float

    def covers(self, need: Need, program: Program) -> bool:
        """Whether this is an act of that kind. Other acts of the same text are not covered."""
        if self.under:
            is_below = PurePosixPath(self.under) in PurePosixPath(need.path).parents
            return is_below and ".." not in need.path.split("/") and need.category != "secret-exfil"
        is_named = (
            need.source == "program"
            and bool(need.exact)
            and need.argv[: len(self.words)] == self.words
        )
        return is_named and need.around == self.around and program(need.argv) == self.program


class Grants:
    """All of them. `now` gives seconds since 1970."""

    def __init__(self, store: Store | None, now: Callable[[], float]) -> None:
        self._store = store
        self._now = now
        self._session: list[Approval] = []
        # key of an action → expiry, reply to its next try
        self._replies: dict[str, tuple[float, Reply]] = {}
        self._budgets: list[Budget] = []

    def __repr__(self) -> str:
        return f"<Grants: {len(self._session)} for sessions, {len(self._budgets)} budgets>"

    @property
    def can_keep(self) -> bool:
        """Whether an answer "always" can be stored."""
        return self._store is not None

    def all(self) -> list[Approval]:
        """What holds now. Raises ConfigError when the file cannot be trusted."""
        kept = self._store.read() if self._store else ()
        return [one for one in (*self._session, *kept) if self._holds(one)]

    def covers(self, need: Need, task: str, environment: str, program: Program) -> bool:
        """Whether an approval holds of this very act."""
        wanted = need.exact, environment
        return bool(need.exact) and any(
            (one.key, one.environment) == wanted
            and one.task in (None, task)
            and self._holds(one)
            and one.program == program(need.argv)
            for one in (*self._session, *self._kept())
        )

    def _holds(self, approval: Approval) -> bool:
        """Whether now is within its time; a clock that was turned back makes nothing hold again."""
        return approval.granted - CLOCK_SLACK <= self._now() < approval.expires

    def add(self, approvals: Sequence[Approval], *, always: bool) -> None:
        """Adds approvals. Raises ConfigError when the file cannot be written."""
        if always and self._store is not None:
            self._store.add(*approvals)
        else:
            self._session = [one for one in self._session if one.expires > self._now()]
            self._session += approvals

    def revoke(self, key: str) -> bool:
        """Revokes what was allowed; False when there is nothing with this key."""
        before = len(self._session)
        self._session = [one for one in self._session if one.key != key]
        is_kept = any(one.key == key for one in self._kept())
        is_removed = self._store is not None and is_kept and self._store.remove(key)
        return is_removed or len(self._session) < before

    def remember(self, key: str, reply: Reply, seconds: float) -> None:
        """Keeps the reply to a call that did not wait: the same call gets it, once."""
        now = self._now()
        self._replies = {known: kept for known, kept in self._replies.items() if kept[0] > now}
        self._replies[key] = now + seconds, reply

    def take_reply(self, key: str) -> Reply | None:
        """The reply to this action, used up."""
        expires, reply = self._replies.pop(key, (0.0, None))
        return reply if expires > self._now() else None

    def add_budget(self, budget: Budget) -> None:
        """Adds a budget, until it is used up or over."""
        self._budgets.append(budget)

    def spend(self, needs: Sequence[Need], task: str, environment: str, program: Program) -> bool:
        """Uses budgets for all of these acts, or for none of them."""
        now = self._now()
        self._budgets = [one for one in self._budgets if one.left > 0 and one.expires > now]
        ours = [one for one in self._budgets if (one.task, one.environment) == (task, environment)]
        spent: list[Budget] = []
        for need in needs:
            found = next((one for one in ours if one.left > 0 and one.covers(need, program)), None)
            if found is None:
                for budget in spent:
                    budget.left += 1
                return False
            found.left -= 1
            spent.append(found)
        return True

    def _kept(self) -> tuple[Approval, ...]:
        """What the file holds; nothing while it cannot be trusted."""
        try:
            return self._store.read() if self._store else ()
        except ConfigError:
            return ()
