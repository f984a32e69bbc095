"""Why a request to a resident has no answer."""

from hermetic.contract.errors import EnvironmentUnavailable, State, Unreachable


class ResidentGone(EnvironmentUnavailable):
    """The resident ended while a request was open; `reason` names the evidence."""

    def __init__(self, reason: str, *, environment: str = "") -> None:
        super().__init__(
            f"environment {environment} is gone: {reason}; open a new one", environment=environment
        )
        self.reason = reason


class GivenUp(ResidentGone, Unreachable):
    """Reconnecting to the resident failed until the retries ended."""

    def __init__(self, reason: str, *, environment: str = "", state: State = "broken") -> None:
        Unreachable.__init__(
            self,
            f"environment {environment} cannot be reached: {reason}; attach to it again when the way is mended",
            environment=environment,
            state=state,
        )
        self.reason = reason


class Stalled(ResidentGone, Unreachable):
    """The resident does not answer and the request timed out here; it may still be executed."""

    def __init__(self, *, environment: str = "", was_sent: bool = True) -> None:
        self.reason = (
            "its resident does not answer: it is stopped or traced, or does not get to run"
        )
        done = "what was asked may still be done, or not" if was_sent else "nothing was sent"
        advice = f"wait and try again, or end it from outside: hermetic rm {environment}"
        message = f"environment {environment} is stalled: {self.reason}; {done}; {advice}"
        Unreachable.__init__(self, message, environment=environment, state="stalled")


class Abandoned(ResidentGone, Unreachable):
    """The resident answers other requests, but not this overdue one."""

    def __init__(self, op: object, *, environment: str = "") -> None:
        self.reason = f"its resident answers, but not {op!r}, whose time is long over"
        message = f"environment {environment}: {self.reason}; it may still be done, or not; reset the session, or end it"
        Unreachable.__init__(self, message, environment=environment, state="stalled")


class OtherLoop(EnvironmentUnavailable):
    """The caller runs in another event loop than the link. Nothing was sent."""

    def __init__(self, environment: str) -> None:
        advice = "use one asyncio.run() for all of it, attach to it again in this loop, or use hermetic.blocking"
        super().__init__(
            f"environment {environment} belongs to the event loop that opened it; {advice}",
            environment=environment,
        )


class BrokenOff(EnvironmentUnavailable):
    """The connection broke during a request that is not idempotent; it may have been executed."""
