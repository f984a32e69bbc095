"""A command's options and what came of it."""

from typing import Any

from hermetic.contract.brief import Brief
from hermetic.contract.endings import Ending


class Result(Brief, frozen=True, kw_only=True):
    """Result of a command."""

    data: bytes  # head and tail of the output, joined
    ending: Ending
    duration: float  # seconds
    cwd: str  # of the session, after the command
    total_bytes: int  # size of the whole output
    omitted: tuple[int, int] | None = None  # [start, end) of the output that is not in `data`
    stderr_data: bytes | None = None  # with separate=True
    stderr_bytes: int = 0
    stderr_omitted: tuple[int, int] | None = None
    log: str = ""  # id, for read_log; "ID/err" is that of a separate stderr
    # what happened besides: state restored, state not kept, cwd fell back …
    notes: tuple[str, ...] = ()
    waiting_for_input: bool | None = None  # after a yield; None: the kernel does not tell
    process: Any = None  # after a yield: the continuing Process

    @property
    def output(self) -> str:
        """`data` as text; bytes that are no UTF-8 become the replacement character."""
        return self.data.decode("utf-8", "replace")

    @property
    def stderr(self) -> str | None:
        """The separate stderr as text; None when it was merged into the output."""
        return None if self.stderr_data is None else self.stderr_data.decode("utf-8", "replace")

    @property
    def exit_code(self) -> int | None:
        """The code, 128+n for a signal, 124 timed out, 130 cancelled, 137 out of memory; None:
        yielded or lost.
        """
        return self.ending.exit_code

    @property
    def truncated(self) -> bool:
        """True when some of the output is not in `data` (or of stderr not in `stderr_data`)."""
        return self.omitted is not None or self.stderr_omitted is not None
