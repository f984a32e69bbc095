"""Containers of docker and podman pass the behaviour suite."""

import pytest

from tests.conformance.suite import FILES, Case, assert_not_skipped, assert_passed, assert_whole, run_suite
from tests.environments.engines import need_engine
from tests.programs import need_variable

KINDS = ("docker", "podman")


@pytest.fixture(scope="module", params=KINDS)
def cases(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Case]:
    """The whole suite, run once with each engine."""
    need_engine(request.param)
    image = need_variable("IMAGE_TOOLS")
    return run_suite(request.param, tmp_path_factory.mktemp("suite"), [f"image={image}"])


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
