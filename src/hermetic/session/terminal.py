"""A process's terminal as a person uses it: viewed within a window, and driven by one person at a
time.
"""

import asyncio
import secrets
from collections.abc import Callable
from typing import Any

from hermetic.contract.endings import Ending
from hermetic.contract.errors import Driven, ExecutionError
from hermetic.contract.process import ProcessInfo
from hermetic.link import answers
from hermetic.link.calls import Call, Driving, Viewing
from hermetic.link.link import Link
from hermetic.session.environment import Environment
from hermetic.session.process import Process

# Variables with which an interactive bash reports where a command begins and how it ended (OSC
# 133), unless its own startup files set them. They are for that bash alone: the first prompt stops
# their export.
BASH_MARKS = {
    "PS0": r"\e]133;C\a${BASH:0:$((__hermetic_runs=1, 0))}",
    "PROMPT_COMMAND": (
        "__hermetic_status=$?; export -n PS0 PROMPT_COMMAND; "
        r"""if [[ ${__hermetic_runs-} ]]; then printf '\e]133;D;%s\a' "$__hermetic_status"; unset __hermetic_runs; fi"""
    ),
}


class View:
    """Output of a process as one viewer takes it: no byte comes before it is allowed.

    `take(start, data)` gets the bytes in order. A `start` beyond the last end means that the bytes
    between fell out of the log. `take` must not raise.
    """

    def __init__(self, link: Link, call: Viewing) -> None:
        self._link, self._call = link, call
        self._answer = link.send(call)

    @property
    def position(self) -> int:
        """The offset behind the last byte that came."""
        return self._call.position

    def allow(self, until: int) -> None:
        """The viewer takes all bytes before this offset."""
        self._link.advance(self._call, until)

    async def ended(self) -> Ending | None:
        """How the process ended, once the viewer got all of its output. Raises ExecutionError."""
        said, _ = await asyncio.shield(self._answer)
        return said.ending

    def close(self) -> None:
        """Ends the view; the process goes on."""
        if self._answer.done():
            self._answer.cancelled() or self._answer.exception()
        else:
            self._answer.cancel()
            self._link.cancel(self._call)


class Terminal(Process):
    """A process that a person views and drives.

    While a person drives it, input of all others is refused.
    """

    _driving: Driving | None = None

    def view(
        self, take: Callable[[int, bytes], None], *, offset: int, until: int, pace: bool = False
    ) -> View:
        """Its output from `offset` on, at first up to `until`.

        `pace`: it prints no faster than its fastest viewer.
        """
        return View(self._link, Viewing(self.id, offset, take, until=until, pace=pace))

    async def runs_something(self) -> bool:
        """True while the shell on it runs anything, in the foreground or behind it."""
        said, _ = await self._link.ask("readers", answers.readers, process=self.id)
        return len(said.programs) > 1 or any(reader.pid != self.pid for reader in said.readers)

    def learn(self, info: ProcessInfo) -> None:
        """Takes a newer description, from an event."""
        self._info = info

    @property
    def is_driving(self) -> bool:
        """True while the person of this object drives it."""
        driving = self._driving
        return driving is not None and driving.began.done() and not driving.future.done()

    def type(
        self, data: bytes, *, secret: bool = False
    ) -> "asyncio.Future[tuple[answers.Done, bytes]]":
        """Sends input at once; the future is done when the environment has accepted it.

        Input is written in the order of these calls; where it is judged, one call has to be done
        before the next. Raises EnvironmentUnavailable.
        """
        if self._guard is not None:
            return asyncio.ensure_future(self._type_judged(data, secret))
        return self._type(data, secret)

    def type_directly(self, data: bytes, done: Callable[[Exception | None], None]) -> bool:
        """Types at once, as part of the control that is open; False where only `type` can.

        `done(error)` is called when the environment has accepted it, in the order of the calls.
        """
        driving = self._driving
        if (
            driving is None
            or not driving.types
            or self._guard is not None
            or not self._link.tell(driving, driving.input(data))
        ):
            return False
        driving.typing.append(done)
        return True

    @property
    def is_judged(self) -> bool:
        """True when rules of the user hold for what is typed."""
        return self._guard is not None

    async def _type_judged(self, data: bytes, secret: bool) -> tuple[answers.Done, bytes]:
        await self._may_type(data)
        return await self._type(data, secret)

    def _type(self, data: bytes, secret: bool) -> "asyncio.Future[tuple[answers.Done, bytes]]":
        fields = {"op": "write", "process": self.id, "secret": secret, "key": self._key}
        return self._link.send(Call(fields, answers.done, data, repeats=False))

    async def drive(self, name: str, ended: Callable[[str], None] = lambda reason: None) -> None:
        """Takes control for a person, also from another person. Raises ExecutionError.

        `ended(reason)` is called when the control ends: "given", "taken", "expired", "ended" with
        the process, or "lost" with the environment.
        """
        key = secrets.token_hex(16)
        driving = Driving(self.id, key, name)
        answer = self._link.send(driving)
        # input that is sent from now on reaches the resident after it
        self._driving, self._key = driving, key
        answer.add_done_callback(lambda _: self._drive_ended(driving, ended))
        began = driving.began
        either: list[asyncio.Future[Any]] = [began, answer]
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self.leave()
            raise
        if not began.done():
            began.cancel()
            answer.result()
            raise Driven(
                f"process {self.id} was taken over by another person at once", process_id=self.id
            )

    async def give(self, note: str = "") -> None:
        """Gives control back, with a note for the program that uses the process."""
        if self.is_driving:
            await self._link.ask("give", answers.done, process=self.id, note=note, key=self._key)

    def leave(self) -> None:
        """The person's connection is gone: the control ends after a while, unless the person takes
        it again.
        """
        driving, self._driving = self._driving, None
        self._key = ""
        if driving is not None and not driving.future.done():
            driving.future.cancel()
            self._link.cancel(driving)

    def _drive_ended(self, driving: Driving, ended: Callable[[str], None]) -> None:
        answer = driving.future
        if self._driving is driving:
            self._driving, self._key = None, ""
        if answer.cancelled():
            return
        reason: str = "lost"
        try:
            reason = answer.result()[0].reason
            driving.interrupt(
                Driven(f"process {self.id} is not driven by you any more", process_id=self.id)
            )
        except ExecutionError as error:
            driving.interrupt(error)
        if driving.began.done():
            ended(reason)


async def terminal(environment: Environment, id: str) -> Terminal:
    """The process with this id, for a person. Raises UnknownProcess."""
    process = await environment.process(id)
    return as_terminal(process)


def as_terminal(process: Process) -> Terminal:
    """The same process, for a person."""
    found = object.__new__(Terminal)
    found.__dict__ = {**process.__dict__, "_key": ""}
    return found
