"""Something a process did that its starter asked to be told of."""

from typing import Literal

import msgspec

Kind = Literal[
    "completed", "matched", "progress", "watch_disabled", "silenced", "resumed", "missed"
]


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """A message on a background process."""

    kind: Kind
    task_id: str
    id: str = ""  # the same for a repeated notice
    repeated: bool = False  # possible duplicate: an earlier caller died while handling it
    session_id: str = ""  # of the process; "" if it concerns all
    command: str = ""
    exit_code: int | None = None
    ending: str = ""
    output: str = ""  # the lines that matched, or the end of the output
    pattern: str = ""
    suppressed: int = 0  # matches not reported since the last notice; for "missed", dropped notices
    text: str = ""  # the same, as a message for a model


class NotifyOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is to be told of a process, and what has been: kept in its tag, so that it outlives the
    caller.
    """

    task: str = ""
    caller: str = ""  # which toolbox started it
    notify: bool = False  # when it ends
    watch: tuple[str, ...] = ()  # substrings of a line
    every: float = 0.0  # seconds between progress notices; 0: none
    told: bool = False  # its end: nothing is left to be told
    searched: int = 0  # bytes of its output that were searched
    strikes: int = 0
    matches: int = 0  # that were told
    # the id of the notice that was handed out last, perhaps to a caller that has ended since
    given: str = ""
    origin: Literal["background", "yielded", "foreground"] = "background"
    ended_by: str = ""  # who ended it, when that was one of the tools

    @property
    def is_open(self) -> bool:
        """Something is still to be told."""
        return not self.told and bool(self.notify or self.watch or self.every)


def read_wishes(tag: str) -> NotifyOptions | None:
    """What a tag says; None when it is not one of these."""
    try:
        return msgspec.json.decode(tag, type=NotifyOptions) if tag.startswith("{") else None
    except msgspec.DecodeError:
        return None


def write_wishes(wishes: NotifyOptions) -> str:
    """A tag that says it."""
    return msgspec.json.encode(wishes).decode()
