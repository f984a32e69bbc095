"""Results: text, codes, and what was left out."""

import pickle

from hermetic.contract.command import Result
from hermetic.contract.endings import Exited, Lost
from hermetic.contract.environment import SessionState
from hermetic.contract.fleet import ItemResult, Mapped, MapSummary


def result(data: bytes, omitted: tuple[int, int] | None = None) -> Result:
    return Result(
        data=data, ending=Exited(0), duration=0.1, cwd="/", total_bytes=len(data), omitted=omitted
    )


def test_output_is_text_with_broken_bytes_replaced() -> None:
    assert result(b"gr\xc3\xbcn \xff\n").output == "grün �\n"


def test_stderr_is_none_unless_it_was_kept_apart() -> None:
    assert result(b"").stderr is None


def test_a_result_that_leaves_something_out_is_truncated() -> None:
    assert not result(b"abc").truncated
    assert result(b"abc", (1, 5)).truncated


def test_a_lost_command_has_no_exit_code() -> None:
    assert Result(data=b"", ending=Lost("x"), duration=0, cwd="", total_bytes=0).exit_code is None


def test_a_repr_is_short_and_leaves_out_what_is_not_there() -> None:
    assert repr(result(b"one\n")) == (
        "Result(data=b'one\\n', ending=Exited(code=0), duration=0.1, cwd='/', total_bytes=4)"
    )
    assert len(repr(result(b"x" * 1_000_000))) < 250
    assert "data=<1000000 bytes: b'xxx" in repr(result(b"x" * 1_000_000))
    items = tuple(ItemResult(index=index, item=index) for index in range(1000))
    summary = MapSummary(
        total=0,
        done=0,
        failed=0,
        retried=0,
        seconds=0,
        per_second=0,
        opening_seconds=0,
        item_seconds=0,
    )
    assert "results=<1000 of ItemResult(index=0" in (
        shown := repr(Mapped(results=items, summary=summary))
    )
    assert len(shown) < 500
    state = SessionState(cwd="/", env={"TOKEN": "secret"})
    assert repr(state) == "SessionState(cwd='/', env=<1 variables>)"
    assert result(b"a") == result(b"a")
    assert pickle.loads(pickle.dumps(result(b"a"))) == result(b"a")
