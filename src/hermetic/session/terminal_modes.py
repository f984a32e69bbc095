"""Tracks the terminal modes that a program's output sets, and undoes them, or sets them in another
terminal.

Only modes that were set are undone: leaving an alternate screen that was never entered would move
the cursor.
"""

import re

MOST_PENDING = 256  # bytes of a sequence that is cut by the end of a piece

# Control sequences (ESC [ … final), single escapes, character sets (ESC ( x), shift out and in.
_SEQUENCE = re.compile(
    rb"\x1b(?:\[([?><=]?)([0-9;:]*)([ !\"$']?)([@-~])|([=>78c])|([()*+])(.))|(\x0e)|(\x0f)",
    re.DOTALL,
)
_CUT = re.compile(rb"\x1b(?:\[[?><=]?[0-9;:]*[ !\"$']?|[()*+])?\Z")

_ALTERNATE = frozenset({47, 1047, 1049})
# Private modes that are on in a fresh terminal: the cursor is seen, lines wrap.
_ON_AT_FIRST = frozenset({7, 25})
# What a program sets for its own screen: cursor keys, origin, wrapping, blinking, the cursor,
# mouse, focus, paste.
_UNDONE = frozenset(
    (
        *(1, 3, 5, 6, 7, 9, 12, 25, 45, 66, 69),
        *range(1000, 1008),
        *(1015, 1016),
        *(2004, 2026, 2031, 2048),
    )
)


class TerminalModes:
    """Follows the output of a program, piece by piece."""

    def __init__(self) -> None:
        self._pending = b""
        self._there = b""  # the sequence that is being taken
        self._changed: set[int] = set()  # private modes that are not as in a fresh terminal
        # other state → the sequences that reset and set it
        self._others: dict[str, tuple[bytes, bytes]] = {}

    def __repr__(self) -> str:
        return f"<TerminalModes {sorted(self._changed)} {sorted(self._others)}>"

    def feed(self, data: bytes) -> None:
        """Scans the next piece of output."""
        data = self._pending + data
        cut = _CUT.search(data, max(0, len(data) - MOST_PENDING))
        self._pending = data[cut.start() :] if cut else b""
        for match in _SEQUENCE.finditer(data, 0, cut.start() if cut else len(data)):
            self._take(match)

    def undo(self) -> bytes:
        """The sequences that reset the terminal; empty where nothing is set."""
        modes = sorted(self._changed - _ALTERNATE)
        private = b"".join(
            b"\x1b[?%d%s" % (mode, b"h" if mode in _ON_AT_FIRST else b"l") for mode in modes
        )
        screen = b"".join(b"\x1b[?%dl" % mode for mode in sorted(self._changed & _ALTERNATE))
        return private + b"".join(back for back, _ in self._others.values()) + screen

    def redo(self) -> bytes:
        """The sequences that set a fresh terminal likewise; empty where nothing is set."""
        screen = b"".join(b"\x1b[?%dh" % mode for mode in sorted(self._changed & _ALTERNATE))
        modes = sorted(self._changed - _ALTERNATE)
        private = b"".join(
            b"\x1b[?%d%s" % (mode, b"l" if mode in _ON_AT_FIRST else b"h") for mode in modes
        )
        return screen + b"".join(there for _, there in self._others.values()) + private

    def _take(self, match: "re.Match[bytes]") -> None:
        mark, numbers, between, final, single, _, charset, shift_out, shift_in = match.groups()
        self._there = match.group()
        if final is not None:
            self._control(mark + between + final, numbers)
        elif single is not None:
            self._single(single)
        elif shift_out or shift_in:
            self._set("shift", b"\x0f", bool(shift_out))
        elif charset is not None:
            self._set("charset", b"\x1b(B", charset != b"B")

    def _control(self, name: bytes, numbers: bytes) -> None:
        values = [int(one) for one in re.findall(rb"\d+", numbers)[:32] if len(one) < 6]
        if name in (b"?h", b"?l"):
            for mode in values:
                self._mode(mode, is_on=name == b"?h")
        elif name == b"m":
            self._set("colours", b"\x1b[m", values not in ([], [0]))
        elif name == b"r":  # setting the region moves the cursor home
            self._set("region", b"\x1b7\x1b[r\x1b8", bool(values))
        elif name == b" q":
            self._set("cursor", b"\x1b[0 q", values not in ([], [0]))
        elif name in (b"h", b"l") and 4 in values:
            self._set("insert", b"\x1b[4l", name == b"h")
        elif name == b">m":
            self._set("keys", b"\x1b[>4m", len(values) > 1)
        elif name in (b">u", b"=u", b"<u"):
            self._set("keyboard", b"\x1b[<u", name != b"<u")
        elif name == b"!p":
            self._reset()

    def _single(self, final: bytes) -> None:
        if final in (b"=", b">"):
            self._set("keypad", b"\x1b>", final == b"=")
        elif final == b"c":
            self._reset()
            self._changed.clear()

    def _mode(self, mode: int, *, is_on: bool) -> None:
        if mode not in _ALTERNATE | _UNDONE:
            return
        if is_on == (mode in _ON_AT_FIRST):
            self._changed -= _ALTERNATE if mode in _ALTERNATE else {mode}
        else:
            self._changed.add(mode)

    def _set(self, name: str, back: bytes, is_set: bool) -> None:
        if is_set:
            self._others[name] = back, self._there
        else:
            self._others.pop(name, None)

    def _reset(self) -> None:
        """A program has reset the terminal itself; the screen it is on stays."""
        self._others.clear()
        self._changed &= _ALTERNATE
