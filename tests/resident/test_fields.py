"""What a request may leave out, or send as nil."""

import pytest

from hermetic.resident.wire import fields
from hermetic.resident.wire.fields import Refusal


@pytest.mark.parametrize("given", [{}, {"grace": None}])
def test_a_duration_that_is_absent_or_nil_is_the_default(given: dict[str, object]) -> None:
    assert fields.seconds(given, "grace", 0.25) == 0.25
    assert fields.seconds(given, "grace") is None


@pytest.mark.parametrize("given", [{}, {"path": None}])
def test_a_path_that_has_to_be_given_is_refused_when_absent_or_nil(given: dict[str, object]) -> None:
    with pytest.raises(Refusal, match="path"):
        fields.path(given, "path", "")
    assert fields.path(given, "path") is None
