"""A screen takes whatever a program sends, shows no control as text, and renders wide characters by
halves.
"""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermetic.contract.process import Chunk, Shown
from hermetic.session.screen import LONGEST, Controls, Screen


async def look(*pieces: bytes, rows: int = 4, cols: int = 20) -> Shown:
    """What a screen shows after these pieces, looked at after each."""
    so_far = b""

    async def read(offset: int, *, wait: float | None = None) -> Chunk:
        return Chunk(data=so_far[offset:], start=offset, end=len(so_far), ended=False)

    screen = Screen(read, rows, cols)
    shown = await screen.look(0)
    for piece in pieces:
        so_far += piece
        shown = await screen.look(len(so_far))
    return shown


@pytest.mark.parametrize(
    "control",
    [
        b"\x1b[!p",
        b"\x1b[<u",
        b"\x1b[=0;1u",
        b"\x1b[>1u",
        b"\x1b[>4;2m",
        b"\x1b[2 q",
        b"\x1b[?2026$p",
        b"\x1b[?1;2r",
        b"\x1bP+q544e\x1b\\",
        b"\x1bP$qm\x1b\\",
        b"\x1b_Gi=1,a=q;AAAA\x1b\\",
        b"\x1b^private\x1b\\",
        b"\x1bXstring\x1b\\",
        b"\x1b[1;2;3A",
        b"\x1b[9K",
        b"\x1b[7J",
        b"\x1b[?9;9H",
        b"\x1b[9999999999999S",
        b"\x1b[?5c",
        b"\x1b[;n",
        b"\xc2\x9b;n",
        b"\x1b[1\x1b[2K",
        b"\x1b]0;title\x07",
        b"\x1b[",
        b"\x1b[12",
        b"\x1bP1;2;data",
    ],
)
async def test_a_control_that_it_does_not_know_shows_nothing(control: bytes) -> None:
    shown = await look(b"\x1b[H", *(control[at : at + 1] for at in range(len(control))))
    assert shown.lines == ("", "", "", "")
    if control[-1:] not in b"[2a":  # it has ended: what follows is text
        assert (await look(b"\x1b[H" + control + b"text")).lines[0] == "text"


async def test_a_control_without_an_end_holds_so_much_and_no_more() -> None:
    controls = Controls()
    assert controls.feed(b"a\x1bP") == b"a"
    assert controls.feed(b"x" * (LONGEST + 1)) == b""
    assert controls.feed(b"text") == b"text"


@pytest.mark.parametrize(
    ("data", "row"),
    [
        ("日本", "日本"),
        ("日本\x1b[1;2Hx", " x本"),
        ("日本\x1b[1;1Hx", "x 本"),
        ("日本\x1b[1;1H\x1b[1P", " 本"),
        ("a日\x1b[1;3H\x1b[K", "a"),
        ("e\u0301x", "e\u0301x"),
    ],
)
async def test_half_of_a_wide_character_is_a_space(data: str, row: str) -> None:
    shown = (await look(data.encode())).lines[0]
    assert shown in (row, row.replace("e\u0301", "é")), ascii(shown)


STARTS = (
    "\x1b[",
    "\x1b",
    "\x1b]",
    "\x1b\\",
    "\x1b#8",
    "\x1bP",
    "\x1b7",
    "\x1b8",
    "\x1bc",
    "\x9b",
    "\x90",
    "\x18",
)
TEXTS = (
    *"hlmJK@PLMrHSTXABCDEFGdfgnc'?1;a日é²",
    "99999999999",
    "\x07",
    "\r",
    "\n",
    "\t",
    "\b",
    "\x0e",
    "\x0f",
)
PARTS = st.sampled_from([*STARTS, *TEXTS])


@given(
    st.lists(st.lists(PARTS, max_size=30).map("".join), max_size=4),
    st.integers(1, 5),
    st.integers(1, 9),
)
def test_whatever_is_sent_there_is_a_screen(pieces: list[str], rows: int, cols: int) -> None:
    shown = asyncio.run(look(*(piece.encode() for piece in pieces), rows=rows, cols=cols))
    assert len(shown.lines) == rows
    assert 0 <= shown.cursor[0] < rows
    assert 0 <= shown.cursor[1] < cols
