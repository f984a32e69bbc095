"""Controls that a program sends and no screen of ours knows: taken out, so that no part of one is shown as text."""

import re

LONGEST = 1 << 16  # bytes of a control that has not ended; a longer one is given up

# Strings for other programs than a screen (DCS, SOS, PM, APC), sequences with a private mark other than "?" or with
# intermediate bytes, and those that a byte ends which cannot belong to them. What has not ended has a name.
# Every alternative takes the whole of what it has begun with, so that a text is gone through once.
_UNKNOWN = re.compile(
    rb"\x1b[PX^_](?:[^\x1b\x18\x1a]|\x1b(?!\\|\Z))*+(?:\x1b\\|[\x18\x1a]|(?P<string>\x1b?\Z))"
    rb"|\x1b\[[<=>][0-?]*+[ -/]*+[@-~]"
    rb"|\x1b\[[0-?]*+[ -/]++[@-~]"
    rb"|\x1b\[[ -?]*+(?=[\x80-\xff])"
    rb"|(?P<start>\x1b(?:\[[ -?]*+)?\Z)"
)


class Controls:
    """Lets a stream of bytes through, whatever its pieces, without what is unknown."""

    def __init__(self) -> None:
        self._held = b""  # the start of a control that has not ended

    def feed(self, data: bytes) -> bytes:
        """What is left of the bytes up to now."""
        unfinished = b""

        def known(match: "re.Match[bytes]") -> bytes:
            nonlocal unfinished
            unfinished = match[0] if match.lastgroup else b""
            return b""

        left = _UNKNOWN.sub(known, self._held + data)
        self._held = unfinished if len(unfinished) <= LONGEST else b""
        return left
