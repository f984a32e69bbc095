"""A missing program skips a test at home and fails it in CI; sizes follow HERMETIC_FULL."""

import pytest

from tests.programs import need, need_variable
from tests.sizes import scale


def test_a_program_that_is_there_is_given_by_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert need("bash") in ("/usr/bin/bash", "/bin/bash")


@pytest.mark.parametrize("value", ["", "false"])
def test_a_missing_program_skips_at_home(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("CI", value)
    with pytest.raises(pytest.skip.Exception, match="no no-such-program on PATH"):
        need("no-such-program")


def test_a_missing_program_or_variable_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    monkeypatch.delenv("NO_SUCH_ENGINE", raising=False)
    with pytest.raises(pytest.fail.Exception, match="no no-such-program on PATH"):
        need("no-such-program")
    with pytest.raises(pytest.fail.Exception, match="NO_SUCH_ENGINE is not set"):
        need_variable("NO_SUCH_ENGINE")


def test_sizes_are_a_tenth_unless_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HERMETIC_FULL", raising=False)
    assert (scale(200), scale(5)) == (10, 1)
    monkeypatch.setenv("HERMETIC_FULL", "1")
    assert (scale(200), scale(5)) == (200, 5)
