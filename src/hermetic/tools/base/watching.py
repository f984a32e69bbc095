"""Rate limits of notices on matching lines, for one process and for all.

Pure: the caller passes the time.
"""

import re
from collections import deque
from typing import Literal, NamedTuple

from hermetic.contract import limits

LONGEST_LINE = 1 << 16  # bytes; a longer line is looked at in pieces


class LineMatch(NamedTuple):
    """Lines to report, the first pattern among them, and how many matches before were not reported."""

    lines: str
    pattern: str
    suppressed: int


class Watch:
    """Searches output line by line for substrings; at most one match is reported per gap."""

    def __init__(
        self, patterns: tuple[str, ...], searched: int = 0, strikes: int = 0, matches: int = 0
    ) -> None:
        self.searched = searched  # bytes of output: whole lines, the last one perhaps unfinished
        self.strikes = strikes  # consecutive gaps with suppressed matches
        self.matches = matches  # reported
        self.is_over = (
            matches >= limits.NOTICE_MATCHES
        )  # too many of either: nothing is reported any more
        self._patterns = [
            (pattern, pattern.encode("utf-8", "surrogateescape")) for pattern in patterns
        ]
        in_a_line = [re.escape(wanted) for _, wanted in self._patterns if b"\n" not in wanted]
        self._any = re.compile(b"|".join(in_a_line) or rb"(?!)")
        self._line = b""
        self._reported: float | None = None
        self._suppressed = 0

    def feed(self, data: bytes, now: float, *, last: bool = False) -> LineMatch | None:
        """The match to report of these bytes, if any; `last` takes an unfinished line as one."""
        text = self._line + data
        end = text.rfind(b"\n") + 1
        if last or len(text) - end > LONGEST_LINE:
            end = len(text)
        self.searched += end
        self._line = text[end:]
        lines, count = self._find(text[:end])
        return self._tell(lines, count, now) if count and not self.is_over else None

    def jump(self, offset: int) -> None:
        """Continues at this offset: the bytes before it fell out of the log."""
        self._line, self.searched = b"", offset

    def _find(self, text: bytes) -> tuple[list[bytes], int]:
        """The first lines with a pattern in them, as many as are reported, and how many there are
        in all.
        """
        lines, count, at = [], 0, 0
        while match := self._any.search(text, at):
            at = text.find(b"\n", match.end())
            at = len(text) if at < 0 else at
            if count < limits.NOTICE_LINES:
                lines.append(text[text.rfind(b"\n", 0, match.start()) + 1 : at])
            count += 1
        return lines, count

    def _pattern_in(self, line: bytes) -> str:
        return next(pattern for pattern, wanted in self._patterns if wanted in line)

    def _tell(self, found: list[bytes], count: int, now: float) -> LineMatch | None:
        if self._reported is not None and now - self._reported < limits.NOTICE_GAP:
            self._suppressed += count
            return None
        self.strikes = self.strikes + 1 if self._suppressed else 0
        if self.strikes >= limits.NOTICE_STRIKES:
            self.is_over = True
            return None
        lines = b"\n".join(found).decode("utf-8", "replace")
        suppressed, self._suppressed = self._suppressed + count - len(found), 0
        self._reported = now
        self.matches += 1
        self.is_over = self.matches >= limits.NOTICE_MATCHES
        return LineMatch(lines[: limits.NOTICE_TEXT], self._pattern_in(found[0]), suppressed)


class Breaker:
    """Circuit breaker for the matches of all processes: after too many there is silence for a
    while.
    """

    def __init__(self) -> None:
        self._times: deque[float] = deque()
        self._silent_until: float | None = None

    def pass_on(self, now: float) -> Literal["tell", "silence", "drop", "resume"]:
        """What to do with a match: report it; begin a silence; drop it; report it and the end of
        the silence.
        """
        if self._silent_until is not None and now < self._silent_until:
            return "drop"
        resumes, self._silent_until = self._silent_until is not None, None
        while self._times and now - self._times[0] >= limits.NOTICE_BREAKER_WINDOW:
            self._times.popleft()
        if len(self._times) >= limits.NOTICE_BREAKER:
            self._silent_until = now + limits.NOTICE_SILENCE
            self._times.clear()
            return "silence"
        self._times.append(now)
        return "resume" if resumes else "tell"
