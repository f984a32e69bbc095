"""What a request may leave out, or send as nil."""

import pytest

from hermetic.resident.wire import fields
from hermetic.resident.wire.fields import Refusal


@pytest.mark.parametrize("given", [{}, {"grace": None}])
def test_a_field_that_is_absent_or_nil_has_the_default(given: dict[str, object]) -> None:
    assert fields.parse(given, {"grace": fields.seconds}) == {}


@pytest.mark.parametrize("given", [{}, {"path": None}])
def test_a_path_that_has_to_be_given_is_refused_when_absent_or_nil(
    given: dict[str, object],
) -> None:
    with pytest.raises(Refusal, match="path"):
        fields.parse(given, {"path": fields.path}, "path")


def test_a_field_that_an_operation_does_not_know_is_ignored() -> None:
    assert fields.parse({"grace": 1, "other": object()}, {"grace": fields.seconds}) == {
        "grace": 1.0
    }
