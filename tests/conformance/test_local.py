"""The local environment passes the behaviour suite."""

from pathlib import Path

import pytest

import hermetic.conformance
from tests.conformance.suite import Case, run_suite, summarize
from tests.programs import in_ci

SUITE = Path(hermetic.conformance.__file__).parent
FILES = sorted(path.stem for path in SUITE.glob("test_*.py"))

# Programs that a machine may lack; in CI they are there.
MAY_LACK = ("has no vim", "has no less", "has no top", "has no python3")


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> list[Case]:
    """The whole suite, run once."""
    return run_suite("local", tmp_path_factory.mktemp("suite"))


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES)
def test_the_suite_passes(cases: list[Case], file: str) -> None:
    own = [case for case in cases if case.file == file]
    assert own, f"{file} has no tests"
    failed = [case for case in own if case.outcome == "failed"]
    if failed:
        pytest.fail(f"{len(failed)} of {len(own)} failed\n\n{summarize(failed)}", pytrace=False)


@pytest.mark.slow
def test_nothing_of_the_suite_is_skipped_but_for_a_missing_program(cases: list[Case]) -> None:
    skipped = [case for case in cases if case.outcome == "skipped"]
    unexpected = [case for case in skipped if in_ci() or not any(reason in case.detail for reason in MAY_LACK)]
    assert not unexpected, summarize(unexpected)


@pytest.mark.slow
def test_the_suite_is_all_there(cases: list[Case]) -> None:
    assert {case.file for case in cases} == set(FILES)
    assert len(cases) > 400
