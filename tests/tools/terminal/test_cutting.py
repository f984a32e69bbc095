"""Output for a model: within its budget, whole lines, exact counts, and a way to the rest."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermetic.contract.limits import MODEL_OUTPUT
from hermetic.tools.terminal.cutting import cut_output
from tests.sizes import scale

HOW = 'Read them with process(action="log").'


def numbered(count: int) -> bytes:
    return b"".join(b"line %d\n" % number for number in range(1, count + 1))


def test_what_fits_is_shown_as_it_is() -> None:
    cut = cut_output(b"  two\n\n", budget=100)
    assert cut.omitted is None
    assert cut.text(HOW) == "  two\n\n"


def test_the_start_gets_two_fifths_and_the_end_the_rest() -> None:
    data = numbered(100_000)
    cut = cut_output(data, budget=MODEL_OUTPUT)
    assert 0.99 * 20_000 < len(cut.head) <= 20_000
    assert 0.99 * 30_000 < len(cut.tail) <= 50_000 - len(cut.head)
    assert cut.head.startswith("line 1\n")
    assert cut.tail.endswith("line 100000\n")


def test_lines_stay_whole_and_the_counts_are_exact() -> None:
    data = numbered(1000)
    cut = cut_output(data, budget=200)
    assert cut.omitted is not None
    start, end = cut.omitted
    assert data[:start].decode() == cut.head
    assert data[end:].decode() == cut.tail
    assert cut.head.endswith("\n")
    assert cut.tail.startswith("line ")
    assert (cut.first_line, cut.last_line) == (
        cut.head.count("\n") + 1,
        1000 - cut.tail.count("\n"),
    )
    said = cut.text(HOW).splitlines()[cut.head.count("\n")]
    assert said == (
        f"[{end - start:,} of {len(data):,} bytes are left out here, from byte {start:,}, "
        f"lines {cut.first_line} to {cut.last_line}. {HOW}]"
    )


def test_a_line_longer_than_the_budget_is_cut_between_characters() -> None:
    data = ("é" * 5000).encode()
    cut = cut_output(data, budget=100)
    assert (cut.head, cut.tail) == ("é" * 40, "é" * 60)
    assert cut.omitted == (80, 10_000 - 120)
    assert (cut.first_line, cut.last_line) == (1, 1)


def test_a_long_line_does_not_leave_the_budget_unused() -> None:
    cut = cut_output(b"start\n" + b"x" * 10_000 + b"\nend\n", budget=1000)
    assert len(cut.head) + len(cut.tail) == 1000
    assert cut.head.startswith("start\nxxx")
    assert cut.tail.endswith("xxx\nend\n")
    assert cut.omitted == (400, 10_011 - 600)


def test_what_was_written_over_does_not_count_against_the_budget() -> None:
    bar = b"".join(b"\r%d%%" % percent for percent in range(10_000)) + b"\ndone\n"
    assert cut_output(bar, budget=100).text(HOW) == "9999%\ndone\n"


def test_what_cleaning_changed_is_counted_by_its_raw_bytes() -> None:
    data = b"".join(b"\x1b[32mline %d\x1b[0m\n" % number for number in range(1000))
    cut = cut_output(data, budget=100)
    assert cut.omitted is not None
    start, end = cut.omitted
    assert data[:start].count(b"\n") == cut.head.count("\n")
    assert data[end:].count(b"\n") == cut.tail.count("\n")
    assert data[end:].startswith(b"\x1b[32mline")
    assert "\x1b" not in cut.text(HOW)


def test_a_part_of_a_changed_line_is_offered_again_rather_than_lost() -> None:
    data = b"\x1b[31m" + b"x" * 1000
    cut = cut_output(data, budget=100)
    assert cut.head == "x" * 40
    assert cut.omitted == (0, len(data) - 60)


def test_a_gap_that_was_there_before_stays_in_the_count() -> None:
    whole = numbered(10_000)
    start, end = 4000, len(whole) - 6000
    cut = cut_output(
        whole[:start] + whole[end:], budget=1000, omitted=(start, end), total_bytes=len(whole)
    )
    assert cut.omitted is not None
    assert whole[: cut.omitted[0]].decode() == cut.head
    assert whole[cut.omitted[1] :].decode() == cut.tail
    assert (cut.total_bytes, cut.last_line) == (len(whole), None)
    assert f"line {cut.first_line} on." in cut.text(HOW)


def test_a_small_excerpt_with_a_gap_is_shown_whole_with_a_notice() -> None:
    cut = cut_output(b"startend", budget=1000, omitted=(5, 905), total_bytes=908)
    assert cut.omitted == (5, 905)
    assert re.fullmatch(r"start\n\[900 of 908 bytes .*\]\nend", cut.text(HOW))


@pytest.mark.parametrize("binary", [b"\xff" * 500, b"\x80\n" * 300, bytes(range(256)) * 4])
def test_bytes_that_are_no_text_are_counted_exactly(binary: bytes) -> None:
    cut = cut_output(binary, budget=100, clean=str)
    assert cut.omitted is not None
    start, end = cut.omitted
    assert (
        binary[:start].decode("utf-8", "surrogateescape").encode("utf-8", "surrogateescape")
        == binary[:start]
    )
    assert len(binary[:start].decode("latin-1")) >= 20
    assert not re.search("[\ud800-\udfff]", cut.text(HOW))
    assert end > start


LINES = st.lists(
    st.one_of(
        st.text("ab é日", max_size=12), st.sampled_from(["x" * 70, "\x1b[1mred\x1b[0m", "a\rb"])
    )
)


@settings(max_examples=scale(5000), deadline=None)
@given(LINES.map("\n".join), st.integers(10, 120))
def test_head_gap_and_tail_are_the_whole(text: str, budget: int) -> None:
    data = text.encode()
    cut = cut_output(data, budget=budget)
    assert len(cut.head) + len(cut.tail) <= budget
    if cut.omitted is None:
        return
    start, end = cut.omitted
    assert 0 <= start <= end <= len(data)
    # What the counts call shown is shown: by line, because cleaning changes what is in a line.
    assert data[:start].count(b"\n") <= cut.head.count("\n")
    assert data[end:].count(b"\n") <= cut.tail.count("\n")
    data[:start].decode()
    data[end:].decode()
    if "\x1b" not in text and "\r" not in text:
        assert cut.head == data[:start].decode()
        assert cut.tail == data[end:].decode()
        assert cut.first_line == data.count(b"\n", 0, start) + 1
        assert cut.last_line == data.count(b"\n", 0, end - 1) + 1
