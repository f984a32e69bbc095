"""Controls that a program sends and no screen of ours knows: taken out, so that no part of one is shown as text."""

import re

LONGEST = 1 << 16  # bytes of a control that has not ended; a longer one is given up

# Strings for other programs than a screen (DCS, SOS, PM, APC), sequences with a private mark other than "?" or with
# intermediate bytes, and those that a byte ends which cannot belong to them.
_UNKNOWN = re.compile(
    rb"\x1b[PX^_](?:[^\x1b\x18\x1a]|\x1b(?!\\))*(?:\x1b\\|[\x18\x1a])"
    rb"|\x1b\[[<=>][0-?]*[ -/]*[@-~]"
    rb"|\x1b\[[0-?]*[ -/]+[@-~]"
    rb"|\x1b\[[ -?]*(?=[\x80-\xff])"
)
_UNFINISHED = re.compile(rb"\x1b(?:\[[ -?]*|[PX^_](?:[^\x1b\x18\x1a]|\x1b(?!\\))*)?\Z")


class Controls:
    """Lets a stream of bytes through, whatever its pieces, without what is unknown."""

    def __init__(self) -> None:
        self._held = b""  # the start of a control that has not ended

    def feed(self, data: bytes) -> bytes:
        """What is left of the bytes up to now."""
        left = _UNKNOWN.sub(b"", self._held + data)
        unfinished = _UNFINISHED.search(left)
        at = len(left) if unfinished is None else unfinished.start()
        self._held = left[at:] if len(left) - at <= LONGEST else b""
        return left[:at]
