"""Edits that miss a little have the right outcome: the exact text, or a refusal for the right
reason.
"""

from collections import Counter

import pytest

from hermetic.contract.errors import EditRefused
from hermetic.tools.edits.encoding import decode
from hermetic.tools.edits.matching import STRATEGIES
from hermetic.tools.edits.planning import plan
from hermetic.tools.edits.replacing import replace
from hermetic.tools.edits.v4a import parse
from tests.tools.edits.cases import Case, read_cases

CASES = read_cases()


def edited(case: Case) -> tuple[str, str]:
    """The text after the edit, and how its place was found."""
    if case.hunks:
        patch = f"*** Begin Patch\n*** Update File: f\n{case.hunks}\n*** End Patch"
        [change] = plan(parse(patch), {"f": case.file.encode()})
        assert change.after is not None
        return decode(change.after)[0], ""
    done = replace(case.file, case.old, case.new, replace_all=case.all)
    return done.text, done.strategy


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_outcome_is_right(case: Case) -> None:
    if case.gives is None:
        with pytest.raises(EditRefused) as caught:
            edited(case)
        assert caught.value.reason == case.refused
        assert case.says in str(caught.value)
        return
    text, strategy = edited(case)
    assert text == case.gives
    assert case.by in ("", strategy)


def test_there_are_enough_cases_and_each_has_its_name() -> None:
    assert len(CASES) >= 300
    assert [name for name, count in Counter(case.name for case in CASES).items() if count > 1] == []
    assert sum(bool(case.refused) for case in CASES) >= 80


def test_every_way_to_find_a_place_has_cases() -> None:
    assert {case.by for case in CASES} >= {*STRATEGIES}
