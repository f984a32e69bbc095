"""Which lines are told, whatever the pieces they come in, and how often."""

from hermetic.contract.limits import (
    NOTICE_BREAKER,
    NOTICE_BREAKER_WINDOW,
    NOTICE_GAP,
    NOTICE_LINES,
    NOTICE_MATCHES,
    NOTICE_SILENCE,
    NOTICE_STRIKES,
    NOTICE_TEXT,
)
from hermetic.tools.base.watching import Breaker, LineMatch, Watch

GAP = NOTICE_GAP


def test_a_line_is_found_though_it_comes_byte_by_byte() -> None:
    watch = Watch(("grün",))
    found = [watch.feed(bytes([byte]), 0.0) for byte in "es ist grün\nund rot\n".encode()]
    assert [match for match in found if match] == [LineMatch("es ist grün", "grün", 0)]
    assert watch.searched == len("es ist grün\nund rot\n".encode())


def test_an_unfinished_line_counts_as_one_at_the_end_only() -> None:
    watch = Watch(("ready",))
    assert watch.feed(b"x\nready", 0.0) is None
    assert watch.searched == 2
    assert watch.feed(b"", 0.0, last=True) == LineMatch("ready", "ready", 0)
    assert watch.searched == 7


def test_searching_goes_on_where_the_last_caller_stopped() -> None:
    first = Watch(("a",))
    first.feed(b"a\nb\na", 0.0)
    second = Watch(("a",), first.searched)
    assert second.feed(b"a\nc\n", 0.0) == LineMatch("a", "a", 0)
    assert second.searched == 4 + 4


def test_one_notice_in_a_gap_and_what_went_untold_is_counted() -> None:
    watch = Watch(("x",))
    assert watch.feed(b"x1\n", 0.0) == LineMatch("x1", "x", 0)
    assert watch.feed(b"x2\nx3\n", GAP / 2) is None
    assert watch.feed(b"x4\n", GAP) == LineMatch("x4", "x", 2)


def test_a_notice_is_bounded() -> None:
    watch = Watch(("x",))
    match = watch.feed(b"x\n" * 100, 0.0)
    assert match is not None
    assert match.lines.count("x") == NOTICE_LINES
    assert match.suppressed == 100 - NOTICE_LINES
    match = watch.feed(b"x" * 10_000 + b"\n", GAP * 2)
    assert match is not None
    assert len(match.lines) == NOTICE_TEXT


def test_too_much_in_several_gaps_in_a_row_ends_it() -> None:
    watch, now, told = Watch(("x",)), 0.0, 0
    while not watch.is_over:
        told += watch.feed(b"x\n", now) is not None
        watch.feed(b"x\n", now + 1)
        now += GAP
    assert told == NOTICE_STRIKES
    assert watch.feed(b"x\n", now + 10 * GAP) is None


def test_one_process_is_told_of_so_often_and_no_more_also_by_the_next_caller() -> None:
    watch, turn = Watch(("x",), matches=NOTICE_MATCHES - 3), 0
    while not watch.is_over:
        assert watch.feed(b"x\n", 2 * GAP * turn) is not None
        turn += 1
    assert (turn, watch.matches) == (3, NOTICE_MATCHES)
    assert watch.feed(b"x\n", 2 * GAP * turn) is None
    assert Watch(("x",), matches=watch.matches).is_over


def test_a_quiet_gap_forgives() -> None:
    watch = Watch(("x",))
    for turn in range(10):
        now = turn * 3 * GAP
        assert watch.feed(b"x\n", now) is not None
        assert watch.feed(b"x\n", now + 1) is None
        assert watch.feed(b"x\n", now + GAP) is not None
        watch.feed(b"x\n", now + 2 * GAP)
    assert not watch.is_over


def test_many_notices_of_all_processes_make_a_silence_that_is_told_twice() -> None:
    breaker = Breaker()
    told = [breaker.pass_on(0.1 * turn) for turn in range(NOTICE_BREAKER + 5)]
    assert told == ["tell"] * NOTICE_BREAKER + ["silence"] + ["drop"] * 4
    began = 0.1 * NOTICE_BREAKER
    assert breaker.pass_on(began + NOTICE_SILENCE - 1) == "drop"
    assert breaker.pass_on(began + NOTICE_SILENCE + 1) == "resume"
    assert breaker.pass_on(began + NOTICE_SILENCE + 2) == "tell"


def test_notices_that_are_spread_out_are_all_told() -> None:
    breaker = Breaker()
    step = NOTICE_BREAKER_WINDOW / (NOTICE_BREAKER - 1)
    assert {breaker.pass_on(turn * step) for turn in range(1000)} == {"tell"}
