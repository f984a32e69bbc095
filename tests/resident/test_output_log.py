"""The output log: every byte by its offset, bounded, and exact about what fell out."""

import os
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hermetic.resident.limits import LOG_HEAD, LOG_MARK_SECONDS, LOG_MARKS, SPOOL_FALLBACK
from hermetic.resident.processes import output_log
from hermetic.resident.processes.output_log import OutputLog, Ring

CAP = 1000


def fill(log: OutputLog, sizes: list[int]) -> bytes:
    """Appends pieces of these sizes; returns all that was ever written."""
    written = b""
    for size in sizes:
        piece = bytes((len(written) + i) % 251 for i in range(size))
        log.append(piece)
        written += piece
    return written


@given(
    sizes=st.lists(st.integers(0, 1500), max_size=12),
    offset=st.integers(0, 80_000),
    limit=st.integers(1, 5000),
)
def test_any_range_that_was_kept_reads_back_exactly(
    sizes: list[int], offset: int, limit: int
) -> None:
    log = OutputLog("/tmp", spool_bytes=CAP)
    try:
        written = fill(log, [LOG_HEAD - 300, *sizes])
        assert log.total == len(written)
        hole_start, hole_end = log.hole
        start, data = log.read(offset, limit)
        assert written[start : start + len(data)] == data
        assert (
            start == offset
            or (hole_start <= offset < hole_end and start == hole_end)
            or offset >= log.total
        )
        assert hole_end - hole_start == max(0, len(written) - LOG_HEAD - CAP)
        if start < log.total:
            assert data
    finally:
        log.close()


@example(sizes=[45537, 70000], limit=83336)  # the tail would begin just before a hole of one byte
@given(sizes=st.lists(st.integers(0, 70_000), max_size=6), limit=st.integers(1, 200_000))
def test_an_excerpt_is_whole_or_head_and_tail_within_the_limit(
    sizes: list[int], limit: int
) -> None:
    log = OutputLog("/tmp", spool_bytes=CAP * 50)
    try:
        written = fill(log, sizes)
        head, tail = log.excerpt(limit)
        assert len(head) + len(tail) <= limit
        assert written.startswith(head)
        assert written.endswith(tail)
        if len(written) <= limit and log.hole[0] == log.hole[1]:
            assert head + tail == written
    finally:
        log.close()


@example(pauses=[0.5] * 900, age=300.0)
@example(pauses=[10.0] * 700 + [0.01] * 50, age=5000.0)
@given(pauses=st.lists(st.floats(0.001, 20), min_size=1, max_size=60), age=st.floats(0, 1000))
def test_output_is_found_by_its_age(pauses: list[float], age: float) -> None:
    log, clock, came = OutputLog("/tmp"), 1000.0, []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(output_log, "now", lambda: clock)
        for pause in pauses:
            clock += pause
            came.append(clock)
            log.append(b"x")
        found = log.offset_since(age)
    exact = sum(moment < clock - age for moment in came)
    assert found <= exact
    slack = LOG_MARK_SECONDS + 2 * (clock - 1000) / (LOG_MARKS - 1) * (len(pauses) > LOG_MARKS)
    assert found == exact or came[found] >= clock - age - slack
    assert len(log.marks.times if log.marks else ()) <= LOG_MARKS


def test_a_small_log_never_touches_the_disk(tmp_path: Path) -> None:
    log = OutputLog(str(tmp_path / "does-not-exist"))
    log.append(b"x" * LOG_HEAD)
    assert log.read(0, 10 * LOG_HEAD) == (0, b"x" * LOG_HEAD)
    assert log.spooled_bytes == 0


def test_without_a_disk_a_short_tail_stays_in_memory_and_the_hole_is_counted(
    tmp_path: Path,
) -> None:
    log = OutputLog(str(tmp_path / "does-not-exist"))
    written = fill(log, [LOG_HEAD, 600_000])
    start, end = log.hole
    assert (start, end) == (LOG_HEAD, len(written) - SPOOL_FALLBACK)
    assert log.read(end, 10_000_000) == (end, written[end:])


def test_a_disk_that_fills_up_makes_the_tail_shorter_and_costs_nothing_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    room = 300_000
    real_pwrite = os.pwrite

    def pwrite_on_a_small_disk(fd: int, data: bytes, offset: int) -> int:
        if offset >= room:
            raise OSError(28, "No space left on device")
        return real_pwrite(fd, data[: room - offset], offset)

    monkeypatch.setattr(os, "pwrite", pwrite_on_a_small_disk)
    log = OutputLog(str(tmp_path))
    try:
        written = fill(log, [LOG_HEAD] + [50_000] * 20)
        start, end = log.hole
        assert (start, end) == (LOG_HEAD, len(written) - room)
        assert log.read(end, len(written)) == (end, written[end:])
    finally:
        log.close()


def test_the_spool_has_no_name_so_that_nothing_can_be_left_behind(tmp_path: Path) -> None:
    ring = Ring(str(tmp_path), CAP)
    ring.write(b"y" * 100)
    assert list(tmp_path.iterdir()) == []
    ring.close()


def test_listeners_hear_of_every_append() -> None:
    log = OutputLog("/tmp")
    heard: list[int] = []
    log.listeners = (lambda: heard.append(log.total),)
    fill(log, [3, 4])
    assert heard == [3, 7]


@given(cuts=st.lists(st.integers(1, 12), min_size=1, max_size=20), before=st.integers(0, 40))
def test_a_secret_is_masked_however_it_is_cut_and_wherever_it_is_stored(
    cuts: list[int], before: int
) -> None:
    secret = b"open sesame"
    log = OutputLog("/tmp", spool_bytes=CAP)
    try:
        log.append(b"x" * (LOG_HEAD - before))
        log.mask(secret)
        text = b"say " + secret + b", twice: " + secret * 2 + b"."
        at, turn = 0, 0
        while at < len(text):
            size = cuts[turn % len(cuts)]
            log.append(text[at : at + size])
            at, turn = at + size, turn + 1
        expected = text.replace(secret, b"*" * len(secret))
        assert log.total == LOG_HEAD - before + len(text)
        assert log.read(LOG_HEAD - before, 1000)[1] == expected
    finally:
        log.close()


def test_a_secret_too_short_to_tell_apart_is_not_masked() -> None:
    log = OutputLog("/tmp")
    log.mask(b"abc")
    log.append(b"abcabc")
    assert log.read(0, 10) == (0, b"abcabc")


def test_a_listener_that_fails_leaves_no_view_of_a_buffer_that_is_used_again() -> None:
    log, buffer = OutputLog(None), bytearray(b"first")

    def fail() -> None:
        raise ZeroDivisionError

    log.listeners = (fail,)
    with pytest.raises(ZeroDivisionError):
        log.append(memoryview(buffer))
    buffer[:] = b"other"
    assert log.read(0, 5) == (0, b"first")
