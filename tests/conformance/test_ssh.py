"""A machine behind ssh passes the behaviour suite."""

import json

import pytest

from tests.conformance.suite import FILES, Case, assert_not_skipped, assert_passed, assert_whole, run_suite
from tests.environments.sshd import shared_options


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> list[Case]:
    """The whole suite, run once, with a home that has no profile."""
    at = tmp_path_factory.mktemp("suite")
    options = {**shared_options(), "env": {"HOME": str(at)}}
    return run_suite("ssh", at, [f"{name}={json.dumps(value)}" for name, value in options.items()])


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES)
def test_the_suite_passes(cases: list[Case], file: str) -> None:
    assert_passed(cases, file)


@pytest.mark.slow
def test_nothing_of_the_suite_is_skipped(cases: list[Case]) -> None:
    assert_not_skipped(cases)


@pytest.mark.slow
def test_the_suite_is_all_there(cases: list[Case]) -> None:
    assert_whole(cases)
