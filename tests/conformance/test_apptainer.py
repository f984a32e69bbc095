"""An apptainer container passes the behaviour suite."""

import pytest

from tests.conformance.suite import FILES, Case, assert_not_skipped, assert_passed, assert_whole, run_suite
from tests.programs import need_variable


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> list[Case]:
    """The whole suite, run once."""
    image, program = need_variable("IMAGE_TOOLS_SIF"), need_variable("APPTAINER")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HERMETIC_APPTAINER_BINARY", program)
        return run_suite("apptainer", tmp_path_factory.mktemp("suite"), [f"image={image}"])


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
