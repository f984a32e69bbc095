"""The bash that stays in a place without Python: sees its processes, ends them, and all of ours when we are gone."""

from __future__ import annotations

import os
import time

from ..limits import BARE_FIRST_LOOK, BARE_LAST_LOOK
from ..wire.frames import FrameError
from .line import Complaints, Line
from .scripts import KEEP, order

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .resident import BareResident

NUMBERS = 28  # bits of a second mark that count commands; those above are this resident's


class NotThere(Exception):
    """The place cannot be used; the message says why."""


class Answers:
    """Takes the keeper's words in, each ended by NUL."""

    def __init__(self, told: Callable[[bytes], None]) -> None:
        self.told = told
        self.total = 0
        self.rest = b""
        self.when_released: list[Callable[[], None]] = []

    def append(self, data: bytes | memoryview) -> None:
        self.total += len(data)
        *words, self.rest = (self.rest + bytes(data)).split(b"\0")
        for word in words:
            self.told(word)

    def is_held(self) -> bool:
        return False


class Keeper:
    """Requests to the keeper of a place, and what it said when it came. `lost(reason)` when there is none any more."""

    def __init__(self, resident: BareResident, cwd: str, lost: Callable[[str], None]) -> None:
        self.resident, self.loop, self.cwd, self.lost = resident, resident.loop, cwd, lost
        self.high = int.from_bytes(os.urandom(4), "big") | 1
        self.greeting: list[str] = []
        self.number = 0
        self.asked: dict[int, tuple[bytes, Callable[[str | None], None]]] = {}  # id: request, callback
        self.closing = False
        self.when_greeted: Callable[[], None] = lambda: None
        self._start()

    def _start(self) -> None:
        self.greeting, self.complaints = [], Complaints()
        second = b"%d" % self.high
        text = order(KEEP, self.resident.id.encode(), second, os.fsencode(self.cwd))
        self.line = Line(
            self.resident,
            text,
            os.urandom(16).hex().encode(),
            Answers(self._said),
            self.complaints,
            lambda stream, record: None,
            self._ended,
            self.resident.keeper_program,
        )
        self.timer = self.loop.call_later(self.resident.keeper_seconds, self._too_late)

    def await_greeting(self) -> None:
        """Returns when the place has answered. Raises NotThere. Runs the loop: for the start alone."""
        found: list[str] = []

        def give_up(why: str) -> None:
            found.append(why)
            self.loop.stop()

        lost, self.lost, self.when_greeted = self.lost, give_up, self.loop.stop
        self.loop.run()
        self.lost, self.when_greeted = lost, lambda: None
        if found:
            raise NotThere(found[0])
        if self.greeting[0]:
            subject = "the place" if "/proc" in self.greeting[0] else "cwd %s" % self.cwd
            raise NotThere("%s %s there" % (subject, self.greeting[0]))

    def _why(self) -> str:
        said = str(self.complaints)
        tried = self.resident.keeper_program[0]
        if self.line.status is None:
            return "no bash answered through %s within %g s; %s" % (tried, self.resident.keeper_seconds, said)
        return "%s ended, and bash did not start there: %s" % (tried, said or "it said nothing")

    @property
    def bash(self) -> str:
        return self.greeting[1] if len(self.greeting) > 1 else "bash"

    @property
    def start(self) -> str:
        """The directory the way in leads to."""
        return self.greeting[3]

    @property
    def home(self) -> str:
        return self.greeting[4]

    def second_mark(self, number: int) -> bytes:
        """A limit that tells a command's processes from all others, or nothing where it cannot be set."""
        if self.greeting[5:] != ["unlimited"]:
            return b""
        return b"%d" % (self.high << NUMBERS | number % (1 << NUMBERS))

    # -- requests
    def ask(self, verb: str, argument: str, subject: str, answer: Callable[[str | None], None]) -> None:
        """`answer(text)`, or `answer(None)` when the place is gone."""
        if self.closing:
            answer(None)
            return
        self.number += 1
        request = os.fsencode("%d %s %s %s" % (self.number, verb, argument, subject)) + b"\0"
        self.asked[self.number] = request, answer
        if len(self.greeting) == 6 and self.line.feed.is_open:
            self.line.feed.write(request)

    def _said(self, word: bytes) -> None:
        if len(self.greeting) < 6:
            self.greeting.append(os.fsdecode(word))
            if len(self.greeting) == 6:
                self.timer.cancel()
                self.when_greeted()
                for request, _ in self.asked.values():
                    self.line.feed.write(request)
            return
        number, _, text = os.fsdecode(word).partition(" ")
        if not number.isdigit() or int(number) not in self.asked:
            raise FrameError("an answer that nobody asked for")
        _, answer = self.asked.pop(int(number))
        answer(text)

    # -- its end
    def _too_late(self) -> None:
        self._give_up(self._why())

    def _ended(self) -> None:
        self.timer.cancel()
        if self.closing:
            return
        if len(self.greeting) < 6:
            self._give_up(self._why())
        elif self.resident.makes_place:
            self._give_up("%s ended; %s" % (self.resident.keeper_program[0], self.complaints))
        else:
            # Cut off, or killed by a command: whether the place is still there, a new one shows.
            self._start()

    def _give_up(self, reason: str) -> None:
        if not self.closing:
            self.close()
            self.lost(reason)

    def close(self) -> None:
        """It ends by itself when its input does."""
        self.closing = True
        self.timer.cancel()
        self.line.feed.drop()
        asked, self.asked = self.asked, {}
        for _, answer in asked.values():
            answer(None)


class BareSweep:
    """Ends a command's processes in the place: TERM, looks until `grace` is over, then stops and kills what is left.

    The kernel tells nobody of the end of a process that is not his child; so while they are asked to end, they are
    looked at.
    """

    def __init__(self, keeper: Keeper, subject: str, grace: float, done: Callable[[list[int]], None]) -> None:
        self.keeper, self.subject, self.grace, self.done = keeper, subject, grace, done
        self.until: float | None = None  # known when they have been told: the first look may take long
        self.pause = BARE_FIRST_LOOK
        if grace > 0:
            self._ask()
        else:
            self._finish()

    def _ask(self) -> None:
        self.keeper.ask("ask", "-", self.subject, self._looked)

    def _looked(self, left: str | None) -> None:
        if not left:
            self.done([])
            return
        if self.until is None:
            self.until = time.monotonic() + self.grace
        wait = self.until - time.monotonic()
        if wait <= 0:
            self._finish()
            return
        self.keeper.loop.call_later(min(self.pause, wait), self._ask)
        self.pause = min(2 * self.pause, BARE_LAST_LOOK)

    def _finish(self) -> None:
        self.keeper.ask("end", "-", self.subject, lambda left: self.done([int(pid) for pid in (left or "").split()]))
