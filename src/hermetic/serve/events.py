"""Events for open consoles: published once, given to every subscriber at once."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from hermetic.contract.process import ProcessInfo

Event = Mapping[str, object]  # "event" names it, as the WebSocket does
Subscriber = Callable[[Event], object]


class Audience(NamedTuple):
    """Who gets the events of a subscriber."""

    answers: bool  # a person who answers approval requests
    watches: bool  # a person


class Hub:
    """Gives every event to every subscriber.

    A subscriber must not block and bounds its own queue.
    """

    def __init__(self) -> None:
        self._subscribers: dict[Subscriber, Audience] = {}
        # called when subscribers come or go
        self.audience_listeners: list[Callable[[], object]] = []

    def __repr__(self) -> str:
        return f"<Hub with {len(self._subscribers)} subscribers>"

    def __len__(self) -> int:
        return sum(each.watches for each in self._subscribers.values())

    @property
    def is_answering(self) -> bool:
        """Whether a subscriber's person can answer approval requests."""
        return any(each.answers for each in self._subscribers.values())

    def subscribe(
        self, subscriber: Subscriber, *, answers: bool = True, watches: bool = True
    ) -> Callable[[], None]:
        """From now on it gets every event; the returned function ends that.

        `answers`: its person has the scope to answer approval requests, and sees them. `watches`:
        it is a person's, and counts.
        """
        self._subscribers[subscriber] = Audience(answers, watches)
        self._audience_changed()

        def leave() -> None:
            self._subscribers.pop(subscriber, None)
            self._audience_changed()

        return leave

    def _audience_changed(self) -> None:
        for listener in self.audience_listeners:
            listener()

    def publish(self, event: Event) -> None:
        """Gives an event to all subscribers."""
        for subscriber in tuple(self._subscribers):
            subscriber(event)


def control_event(environment: str, info: ProcessInfo) -> Event:
    """The event that another person drives a process, or none, or that its terminal has another
    size.
    """
    note = info.handed.note if info.handed is not None and info.driver is None else ""
    return {
        "event": "control",
        "environment": environment,
        "process": info.id,
        "driver": info.driver,
        "note": note,
        "rows": info.rows,
        "cols": info.cols,
    }
