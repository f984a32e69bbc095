"""Key names and their bytes."""

import pytest

from hermetic.contract.errors import InvalidArgument
from hermetic.session.keys import encode_keys

TABLE = {
    "ctrl-c": b"\x03",
    "Ctrl-D": b"\x04",
    "ctrl-z": b"\x1a",
    "ctrl-space": b"\0",
    "ctrl-[": b"\x1b",
    "ctrl-\\": b"\x1c",
    "enter": b"\r",
    "tab": b"\t",
    "esc": b"\x1b",
    "space": b" ",
    "backspace": b"\x7f",
    "shift-tab": b"\x1b[Z",
    "up": b"\x1b[A",
    "down": b"\x1b[B",
    "right": b"\x1b[C",
    "left": b"\x1b[D",
    "home": b"\x1b[H",
    "end": b"\x1b[F",
    "pageup": b"\x1b[5~",
    "pagedown": b"\x1b[6~",
    "delete": b"\x1b[3~",
    "insert": b"\x1b[2~",
    "f1": b"\x1bOP",
    "f4": b"\x1bOS",
    "f5": b"\x1b[15~",
    "f12": b"\x1b[24~",
    "ctrl-left": b"\x1b[1;5D",
    "shift-up": b"\x1b[1;2A",
    "alt-ctrl-right": b"\x1b[1;7C",
    "ctrl-f5": b"\x1b[15;5~",
    "alt-x": b"\x1bx",
    "meta-b": b"\x1bb",
    "alt-enter": b"\x1b\r",
    "ctrl-alt-a": b"\x1b\x01",
    "alt--": b"\x1b-",
    "q": b"q",
    ":": b":",
    "-": b"-",
    "ü": "ü".encode(),
    "ctrl-c up f1": b"\x03\x1b[A\x1bOP",
    ": w q enter": b":wq\r",
}


@pytest.mark.parametrize(("names", "sent"), TABLE.items(), ids=TABLE.keys())
def test_keys_send_what_a_terminal_would(names: str, sent: bytes) -> None:
    assert encode_keys(names) == sent


@pytest.mark.parametrize(
    "names", ["", "  ", "upp", "ctrl-", "ctrl-ü", "hyper-x", "ctrl-up-x", "f13"]
)
def test_an_unknown_key_names_the_known_ones(names: str) -> None:
    with pytest.raises(InvalidArgument, match="ctrl"):
        encode_keys(names)


def test_a_program_may_want_another_form_of_the_cursor_keys() -> None:
    assert (
        encode_keys("up x ctrl-up delete f1 End", application=True)
        == b"\x1bOAx\x1b[1;5A\x1b[3~\x1bOP\x1bOF"
    )
