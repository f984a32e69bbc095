"""What was allowed and still holds: for a task, for always, for one time to come, or as a budget."""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath

import msgspec

from hermetic.approvals.replies import Reply
from hermetic.approvals.store import Store
from hermetic.contract.approval import Approval, Need
from hermetic.contract.errors import ConfigError

CLOCK_SLACK = 60.0  # seconds that clocks are set back by themselves


class Budget(msgspec.Struct, kw_only=True):
    """So many acts of one kind, for one task."""

    task: str
    environment: str
    under: str = ""  # files below this directory
    words: tuple[str, ...] = ()  # or a program with these first words,
    around: str = ""  # in one directory, with the same variables,
    program: str = ""  # and from the same file
    left: int
    expires: float

    def covers(self, need: Need, program: Callable[[tuple[str, ...]], str]) -> bool:
        """Whether this is an act of that kind; whatever else the text does is not."""
        if self.under:
            return bool(need.path) and _is_under(need.path, self.under) and need.category != "secret-exfil"
        is_named = need.source == "program" and bool(need.exact) and need.argv[: len(self.words)] == self.words
        return is_named and need.around == self.around and program(need.argv) == self.program


class Grants:
    """All of them. `now` gives seconds since 1970."""

    def __init__(self, store: Store | None, now: Callable[[], float]) -> None:
        self._store = store
        self._now = now
        self._session: list[Approval] = []
        self._once: dict[tuple[str, str, str], float] = {}  # task, place, digest of the text → when it expires
        self._budgets: list[Budget] = []

    def __repr__(self) -> str:
        return f"<Grants: {len(self._session)} for sessions, {len(self._budgets)} budgets>"

    @property
    def can_keep(self) -> bool:
        """Whether an answer "always" can be kept."""
        return self._store is not None

    def all(self) -> list[Approval]:
        """What holds now. Raises ConfigError when the file cannot be trusted."""
        kept = self._store.read() if self._store else ()
        return [one for one in (*self._session, *kept) if self._holds(one)]

    def covering(self, need: Need, task: str, place: str, program: Callable[[], str]) -> Approval | None:
        """The approval of this very act."""
        if not need.exact:
            return None
        for approval in (*self._session, *self._kept()):
            if approval.key != need.exact or approval.environment != place or not self._holds(approval):
                continue
            if approval.task in (None, task) and approval.program == program():
                return approval
        return None

    def _holds(self, approval: Approval) -> bool:
        """Whether now is within its time; a clock that was turned back makes nothing hold again."""
        return approval.granted - CLOCK_SLACK <= self._now() < approval.expires

    def add(self, approvals: Sequence[Approval], *, always: bool) -> None:
        """Keeps answers. Raises ConfigError when the file cannot be written."""
        if always and self._store is not None:
            self._store.add(*approvals)
        else:
            self._session = [one for one in self._session if one.expires > self._now()]
            self._session += approvals

    def revoke(self, key: str) -> bool:
        """Takes back what was allowed; False when nothing was."""
        before = len(self._session)
        self._session = [one for one in self._session if one.key != key]
        kept = self._store.remove(key) if self._store and any(one.key == key for one in self._kept()) else False
        return kept or len(self._session) < before

    def allow_once(self, task: str, place: str, text: str, seconds: float) -> None:
        """The next time this text comes from that task, it may run."""
        self._once[task, place, digest(text)] = self._now() + seconds

    def take_once(self, task: str, place: str, text: str) -> bool:
        """Uses up an answer for one time."""
        if not self._once:
            return False
        expires = self._once.pop((task, place, digest(text)), 0.0)
        return expires > self._now()

    def add_budget(self, budget: Budget) -> None:
        """Keeps a budget until it is used up or over."""
        self._budgets.append(budget)

    def spend(self, needs: Sequence[Need], task: str, place: str, program: Callable[[tuple[str, ...]], str]) -> bool:
        """Uses budgets for all of these acts, or for none of them."""
        self._budgets = [one for one in self._budgets if one.left > 0 and one.expires > self._now()]
        spent: list[Budget] = []
        for need in needs:
            ours = [one for one in self._budgets if one.task == task and one.environment == place]
            found = next((one for one in ours if one.covers(need, program) and _has_room(one, spent)), None)
            if found is None:
                return False
            spent.append(found)
        for budget in spent:
            budget.left -= 1
        return bool(spent)

    def _kept(self) -> tuple[Approval, ...]:
        """What the file says; nothing while it cannot be trusted."""
        try:
            return self._store.read() if self._store else ()
        except ConfigError:
            return ()


class Denied:
    """Denials of calls that did not wait: the same call again gets the reply, once."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._replies: dict[tuple[str, str, str], tuple[float, Reply]] = {}

    def add(self, task: str, place: str, text: str, reply: Reply, seconds: float) -> None:
        """Keeps a reply for so long."""
        now = self._now()
        self._replies = {key: kept for key, kept in self._replies.items() if kept[0] > now}
        self._replies[task, place, digest(text)] = now + seconds, reply

    def take(self, task: str, place: str, text: str) -> Reply | None:
        """The reply to this text, used up."""
        expires, reply = self._replies.pop((task, place, digest(text)), (0.0, None))
        return reply if expires > self._now() else None


def digest(text: str) -> str:
    """What tells a text from all others."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _has_room(budget: Budget, spent: list[Budget]) -> bool:
    return budget.left > sum(one is budget for one in spent)


def _is_under(path: str, directory: str) -> bool:
    parts, above = PurePosixPath(path).parts, PurePosixPath(directory).parts
    return ".." not in parts and parts[: len(above)] == above and len(parts) > len(above)
