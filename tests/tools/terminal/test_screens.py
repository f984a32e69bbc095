"""Secrets on a terminal's screen: hidden whole, over rows, in windows, cut off, and while they are
being drawn.
"""

import asyncio
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermetic.contract.process import Shown
from hermetic.redaction.known_secrets import KnownSecret
from hermetic.redaction.redactor import MARK, Redactor
from hermetic.redaction.screens import hide
from tests.boxes import appears, on_this_side, opened

SECRET = "q7Zr-Wsd8Ygk1/Xw4+Lk29vTbM"
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
REDACTOR = Redactor([KnownSecret("API_KEY", SECRET)])


def screen(*lines: str, cols: int = 20, cursor: tuple[int, int] = (0, 0)) -> str:
    """What is left of a screen with these rows."""
    shown = Shown(lines=lines, rows=len(lines), cols=cols, cursor=cursor, alternate=False)
    return "\n".join(hide(shown, REDACTOR, "output"))


def longest_part(text: str, secret: str = SECRET) -> int:
    """How many characters of the secret stand together in a text."""
    return max(
        size
        for size in range(len(secret) + 1)
        if any(secret[at : at + size] in text for at in range(len(secret) - size + 1))
    )


@pytest.mark.parametrize(
    "lines",
    [
        [f"key={SECRET[:16]}", f"{SECRET[16:]} and so on"],
        ["x" * 14 + SECRET[:6], SECRET[6:], ""],
        [SECRET[:20], SECRET[20:]],
        [
            "┌──────────────────┐",
            f"│ {SECRET[:16]} │",
            f"│ {SECRET[16:]}       │",
            "└──────────────────┘",
        ],
        [f"|{SECRET[:9]}|", f"|{SECRET[9:18]}|", f"|{SECRET[18:]}|"],
        [f"  1 {SECRET[:16]}", f"    {SECRET[16:]}"],
        [f"{'日' * 5}{SECRET[:10]}", SECRET[10:]],
    ],
)
def test_a_secret_over_several_rows_is_hidden_in_all_of_them(lines: list[str]) -> None:
    left = screen(*lines)
    assert longest_part(left) < 4, left
    assert left.count("\n") == len(lines) - 1
    assert "value of API_KEY" in left


def test_a_token_of_no_known_value_is_hidden_over_two_rows() -> None:
    left = screen("token " + TOKEN[:14], TOKEN[14:34], TOKEN[34:] + " ok")
    assert longest_part(left, TOKEN) < 8
    assert left.endswith(" ok")


def test_what_is_just_being_drawn_is_hidden() -> None:
    assert longest_part(screen(f"key: {SECRET[:6]}", "below", cursor=(0, 11))) < 4
    # no more than such a text is anywhere else
    assert screen("key: done", "q7Zr", cursor=(0, 9)) == "key: done\nq7Zr"


def test_what_is_cut_off_at_the_edge_is_hidden() -> None:
    assert longest_part(screen("a" * 14 + SECRET[:6], "other")) < 4
    assert longest_part(screen(f"日本語 {SECRET[:13]}", "other")) < 4


def test_half_of_a_secret_behind_a_window_is_hidden() -> None:
    assert longest_part(screen(f"+--+ {SECRET[9:]}", "+--+ other", cols=40)) < 4


def test_a_row_without_a_secret_stays_as_it_is() -> None:
    rows = ["$ ls -la /usr/lib", "x" * 20, "│ a │ b │", "", "日本語 | 12"]
    assert screen(*rows, cursor=(1, 3)) == "\n".join(rows)


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 30), st.integers(4, 40), st.text("│ |", max_size=5))
def test_whatever_the_width_no_half_is_shown(before: int, cols: int, frame: str) -> None:
    text = "." * before + SECRET + "." * 7
    pieces = [text[at : at + cols] for at in range(0, len(text), cols)]
    assert longest_part(screen(*pieces, cols=cols)) < 4
    framed = [f"{frame} {piece} |" for piece in pieces]
    assert longest_part(screen(*framed, cols=cols + 20)) < 4


@on_this_side
async def test_a_program_that_draws_a_secret_in_pieces_shows_none_of_them(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", SECRET)
    head, middle, rest = SECRET[:5], SECRET[5:15], SECRET[15:]
    drawn = [
        f"\\033[3;116H{head}",
        middle,
        rest,
        f"\\033[7;1Hat: {head}",
        f"\\033[0;31m{middle}",
        f"{rest} done",
    ]
    steps = "; ".join(
        f"printf '{piece}'; touch {tmp_path}/{step}; read -r x" for step, piece in enumerate(drawn)
    )
    async with asyncio.timeout(60), opened(tmp_path, kind) as box:
        id = (await box.terminal(f"stty -echo; {steps}", background=True, pty=True))["session_id"]
        for step in range(len(drawn)):
            await appears(tmp_path / str(step))
            shown = (await box.process("screen", id))["screen"]
            shown.append((await box.process("poll", id))["output_preview"])
            assert all(longest_part(line) < 4 for line in shown), (step, shown)
            await box.process("submit", id, data="")
        assert (await box.process("wait", id, timeout=20))["status"] == "exited"
        shown = (await box.process("screen", id))["screen"]
        # the first one fills the end of a row and goes on in the next
        assert sum(MARK in line for line in shown) >= 3
        assert all(longest_part(line) < 4 for line in shown)
