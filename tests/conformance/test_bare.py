"""Places without Python pass the behaviour suite: what they cannot do they refuse, and nothing is skipped."""

from collections.abc import Iterator

import pytest

from tests.conformance.suite import FILES, Case, assert_not_skipped, assert_passed, assert_whole, run_suite
from tests.environments.engines import need_engine
from tests.environments.plugins import PLAIN, install
from tests.programs import need_variable
from tests.sizes import is_full

PLACES = ("bash", "docker", *(["apptainer"] if is_full() else []))  # the last one takes minutes


@pytest.fixture(scope="module", params=PLACES)
def cases(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Case]]:
    """The whole suite: with nothing but bash between us, and in a container that has bash and busybox alone."""
    at = tmp_path_factory.mktemp("suite")
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "bash":
            install(tmp_path_factory.mktemp("plugin"), "plain_kind", PLAIN, {"plain": "Plain"}, patch)
            yield run_suite("plain", at)
        elif request.param == "apptainer":
            patch.setenv("HERMETIC_APPTAINER_BINARY", need_variable("APPTAINER"))
            yield run_suite("apptainer", at, [f"image={need_variable('IMAGE_BARE_SIF')}"])
        else:
            need_engine("docker")
            yield run_suite("docker", at, [f"image={need_variable('IMAGE_BARE')}"])


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
