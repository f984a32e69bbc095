"""Results: text, codes, and what was left out."""

from hermetic.contract.command import Result
from hermetic.contract.endings import Exited, Lost


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
