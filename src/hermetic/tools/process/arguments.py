"""What a model may ask of the process tool, and what it is told about it."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Action = Literal[
    "list", "poll", "log", "wait", "wait_for", "kill", "write", "submit", "keys", "close", "screen", "resize"
]

Size = Annotated[int, Meta(ge=1, le=1000)]

DESCRIPTION = """\
Sees and steers what runs in the background: processes started with terminal(background=true), and commands that \
outlived their timeout.

list: all of them · poll: how one is doing, and its new output (pass the cursor of the last answer to get each byte \
once) · log: its output by lines · wait: until it ends · wait_for: until a text or pattern appears · kill: end it and \
everything it started · write: raw input · submit: a line of input · keys: keys such as "ctrl-c up f1 enter" · close: \
end of input · screen: what its terminal shows · resize: another size for its terminal."""


class ProcessArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of `process`."""

    action: Annotated[Action, Meta(description="What to do.")]
    session_id: Annotated[str | None, Meta(description="Which process; all actions but list need it.")] = None
    data: Annotated[
        str | list[str] | None,
        Meta(description="Input for write and submit, key names for keys, the text or pattern for wait_for."),
    ] = None
    pattern: Annotated[bool, Meta(description="wait_for: data is a regular expression.")] = False
    on: Annotated[Literal["output", "screen"], Meta(description="wait_for: where to look.")] = "output"
    timeout: Annotated[float | None, Meta(description="Seconds for wait and wait_for; default 180.")] = None
    grace: Annotated[float | None, Meta(description="kill: seconds between TERM and KILL; default 2.")] = None
    cursor: Annotated[Annotated[int, Meta(ge=0)] | None, Meta(description="poll: where the last answer ended.")] = None
    offset: Annotated[int, Meta(description="log: first line to show; 0 shows the last ones.", ge=0)] = 0
    limit: Annotated[Annotated[int, Meta(ge=1)] | None, Meta(description="log: most lines, default 200.")] = None
    rows: Annotated[Size | None, Meta(description="resize: rows.")] = None
    cols: Annotated[Size | None, Meta(description="resize: columns.")] = None


ANSWERS = (
    "{session_id?: str, status?: str, output?: str, exit_code?: int, processes?: list[dict], count?: int, error?: str}"
)
