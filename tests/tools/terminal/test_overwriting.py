"""A line that was written over is shown as it stands at the end."""

import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermetic.tools.base.show import settle, strip
from tests.sizes import scale


@pytest.mark.parametrize(
    ("text", "settled"),
    [
        ("10%\r50%\r100%\ndone\n", "100%\ndone\n"),
        ("downloading 9\rdone", "doneloading 9"),
        ("downloading 9\r\x1b[Kdone", "done"),
        ("downloading 9\x1b[2K\rdone", "done"),
        ("downloading 9\r\x9b0Kdone", "done"),
        ("|\b/\b-\b\\\bok\n", "ok\n"),
        ("N\bNA\bAM\bME\bE", "NAME"),
        ("_\bu_\bn", "un"),
        ("\b\bx", "x"),
        ("a\r\nb\r\n", "a\nb\n"),
        ("last\r", "last"),
        ("\x1b[32m10%\x1b[0m\r\x1b[32m100%\x1b[0m\n", "100%\n"),
        ("kept\x1b[K\n", "kept\n"),
        ("plain\n", "plain\n"),
    ],
)
def test_the_line_is_what_a_terminal_shows(text: str, settled: str) -> None:
    assert settle(text) == settled


def test_a_real_progress_bar_becomes_its_last_state() -> None:
    code = "import sys\nfor n in range(101): sys.stdout.write(f'\\r{n:3}% ' + '#' * (n // 10))\nprint()"
    raw = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=False, check=True
    ).stdout.decode()
    assert settle(raw) == "100% ##########\n"


MOVES = st.sampled_from(["\r", "\b", "\x1b[K", "\x1b[2K", "\n", "\x1b[1m", "\r\n"])
STEPS = st.lists(st.one_of(MOVES, st.text("abc日", max_size=4)), max_size=30)


@settings(max_examples=scale(3000), deadline=None)
@given(STEPS.map("".join))
def test_lines_stay_countable_and_nothing_returns_any_more(text: str) -> None:
    settled = settle(text)
    assert settled.count("\n") == text.count("\n")
    assert not set(settled) & {"\r", "\b", "\x1b"}
    assert settle(settled) == settled


@settings(max_examples=scale(1000), deadline=None)
@given(st.text().filter(lambda text: "\r" not in text and "\b" not in text))
def test_text_that_returns_nowhere_is_only_stripped(text: str) -> None:
    assert settle(text) == strip(text)


@pytest.mark.parametrize(
    "text",
    [
        "x" * 500_000 + "\ry" * 500_000,
        "\x1b[2K\r" * 200_000,
        "a\b" * 500_000,
        "x" * 500_000 + "\b\x1b[Ky" * 100_000,
    ],
    ids=lambda text: repr(text[-4:]),
)
def test_no_text_takes_more_than_linear_time(text: str) -> None:
    begun = time.thread_time()
    settle(text)
    assert time.thread_time() - begun < 10  # below 1 s on an idle core
