"""The table of limits: complete, and the same as what the resident keeps to."""

from hermetic.contract import limits
from hermetic.resident import frames, requests


def test_every_limit_is_in_the_table_once() -> None:
    defined = {name: value for name, value in vars(limits).items() if isinstance(value, limits.Limit)}
    assert sorted(defined) == sorted(limit.name.upper() for limit in limits.LIMITS)
    assert all(defined[limit.name.upper()] is limit for limit in limits.LIMITS)


def test_every_limit_has_a_value_a_unit_and_a_meaning() -> None:
    assert [limit.name for limit in limits.LIMITS if limit.value <= 0 or not limit.unit or not limit.meaning] == []


def test_both_ends_keep_to_the_same_limits() -> None:
    assert limits.FRAME_BODY.value == frames.MAX_BODY
    assert limits.FRAME_BODY.value + limits.FRAME_HEADER.value == frames.MAX_FRAME
    assert limits.FIRST_FRAME.value == frames.MAX_FIRST_FRAME
    assert limits.FRAME_DEPTH.value == frames.MAX_DEPTH
    assert limits.INLINE_OUTPUT.value == requests.EXCERPT_BYTES
