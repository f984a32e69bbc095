"""The local environment passes the behaviour suite."""

import pytest

from tests.conformance.suite import FILES, MAY_LACK, Case, assert_not_skipped, assert_passed, assert_whole, run_suite
from tests.programs import in_ci


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> list[Case]:
    """The whole suite, run once."""
    return run_suite("local", tmp_path_factory.mktemp("suite"))


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES)
def test_the_suite_passes(cases: list[Case], file: str) -> None:
    assert_passed(cases, file)


@pytest.mark.slow
def test_nothing_of_the_suite_is_skipped_but_for_a_missing_program(cases: list[Case]) -> None:
    assert_not_skipped(cases, but_for=() if in_ci() else MAY_LACK)


@pytest.mark.slow
def test_the_suite_is_all_there(cases: list[Case]) -> None:
    assert_whole(cases)
