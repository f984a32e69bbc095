"""Control sequences are removed from text for models, and nothing else is."""

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermetic.tools.base.show import strip
from tests.sizes import scale

FORMS = {
    "colour": "\x1b[1;31m",
    "CSI with intermediates": "\x1b[0 q",
    "private CSI": "\x1b[?2004h",
    "CSI with sub-parameters": "\x1b[38:2::255:0:0m",
    "OSC ended by BEL": "\x1b]0;a title\x07",
    "OSC ended by ST": "\x1b]8;;https://example.com\x1b\\",
    "OSC ended by 8-bit ST": "\x1b]2;t\x9c",
    "palette of the Linux console": "\x1b]P0112233",
    "DCS": "\x1bP1$r0m\x1b\\",
    "SOS": "\x1bXany text\x1b\\",
    "PM": "\x1b^private\x1b\\",
    "APC": "\x1b_Gf=24;AAAA\x1b\\",
    "title of screen": "\x1bkname\x1b\\",
    "tmux passthrough": "\x1bPtmux;\x1b\x1b]0;t\x07\x1b\\",
    "nF: charset": "\x1b(B",
    "nF: two intermediates": "\x1b$(C",
    "Fp": "\x1b7",
    "Fe": "\x1bM",
    "Fs": "\x1bc",
    "8-bit CSI": "\x9b31m",
    "8-bit OSC": "\x9d0;t\x9c",
    "8-bit DCS": "\x90q#0\x9c",
    "8-bit SOS": "\x98s\x9c",
    "8-bit PM": "\x9ep\x9c",
    "8-bit APC": "\x9fa\x1b\\",
    "8-bit alone": "\x84",
}


@pytest.mark.parametrize("sequence", FORMS.values(), ids=FORMS)
def test_every_form_is_taken_out_and_its_neighbours_stay(sequence: str) -> None:
    assert strip(f"α{sequence}[0;1m β") == "α[0;1m β"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("\x1b]0;title\nnext line", "0;title\nnext line"),
        ("\x1bPdata and no end", "data and no end"),
        ("â\x80\x98quoted twiceâ\x80\x99", "âquoted twiceâ"),
        ("\x1b]0;one\x1b[31mred", "0;onered"),
        ("\x1b[31", ""),
        ("\x1b[31é", "é"),
        ("end\x1b", "end"),
        ("\x1b\x1b[1mx", "x"),
        ("\x1b\nx", "\nx"),
    ],
)
def test_what_does_not_end_costs_no_text(text: str, left: str) -> None:
    assert strip(text) == left


@pytest.mark.parametrize(
    "text", ["", "plain\ttext\r\n", "naïve ☃ 日本語", "a\x07b\x00c\x7f", "]0;x [31m"]
)
def test_text_without_sequences_is_the_same_object(text: str) -> None:
    assert strip(text) is text


PIECES = st.one_of(
    st.sampled_from([*FORMS.values(), "\x1b", "\x1b]", "\x9d", "\x07", "\n", "a"]),
    st.text(max_size=5),
)


@settings(max_examples=scale(5000), deadline=None)
@given(st.lists(PIECES, max_size=12).map("".join))
def test_nothing_that_steers_a_terminal_is_left_and_lines_stay_countable(text: str) -> None:
    left = strip(text)
    assert not re.search(r"[\x1b\x80-\x9f]", left)
    assert left.count("\n") == text.count("\n")
    assert [char for char in left if char not in text] == []


@pytest.mark.parametrize(
    "text",
    [
        "\x1b]" * 500_000,
        "\x9d" * 1_000_000,
        "\x1b[" + "1;" * 500_000,
        "\x1b[1" * 300_000,
        "\x1bP" + "x" * 1_000_000,
        "\x1b " * 500_000,
        "\x1b]P12345" * 100_000,
    ],
    ids=lambda text: repr(text[:6]),
)
def test_no_text_takes_more_than_linear_time(text: str) -> None:
    begun = time.process_time()
    strip(text)
    assert time.process_time() - begun < 5  # about 0.2 s on an idle core
