"""Durations and moments as a person writes them: `90s`, `30m`, `12h`, `7d`, `2026-11-16T19:30`."""

import datetime
import re
import time

from hermetic.contract.errors import InvalidArgument

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"(\d{1,9})([smhd])")


def read_duration(text: str, argument: str = "expires") -> float:
    """`30m` → 1800 seconds. Raises InvalidArgument."""
    found = _DURATION.fullmatch(text)
    if found is None or not int(found[1]):
        raise InvalidArgument(f"{text!r} is no duration; write 30m, 12h or 7d", argument=argument)
    return float(int(found[1]) * _UNITS[found[2]])


def seconds_since(text: str, argument: str = "since") -> float:
    """Seconds since a moment, which is a duration ago or an ISO time, of this time zone if it names
    none.

    Raises InvalidArgument, also for a moment to come.
    """
    if _DURATION.fullmatch(text):
        return read_duration(text, argument)
    try:
        moment = datetime.datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        raise InvalidArgument(
            f"{text!r} is no duration and no time; write 90s, 30m, 12h, 7d or 2026-11-16T19:30",
            argument=argument,
        ) from None
    if moment > time.time():
        raise InvalidArgument(
            f"{text} is yet to come; --since takes a time that is past", argument=argument
        )
    return time.time() - moment
