"""Every rule is raised by what it says it catches, and not by what it says it spares."""

from __future__ import annotations

import pytest

from hermetic.policy import assess
from hermetic.policy.programs.catalog import all_rules
from hermetic.policy.rules import Rule

EVERY = all_rules()
# Raised where a text cannot be judged at all; tests/policy/test_robustness.py has their texts.
WITHOUT_EXAMPLES = {"too-large", "not-judged"}


def _examples(kind: str) -> list[tuple[Rule, str]]:
    return [(rule, command) for rule in EVERY for command in getattr(rule, kind)]


@pytest.mark.parametrize(
    ("rule", "command"), _examples("catches"), ids=lambda one: getattr(one, "name", repr(one))
)
def test_a_rule_catches_its_examples(rule: Rule, command: str) -> None:
    verdict = assess(command)
    assert rule.name in {part.rule for part in verdict.parts}
    assert verdict.label == "dangerous" or rule.label == "caution"


@pytest.mark.parametrize(
    ("rule", "command"), _examples("spares"), ids=lambda one: getattr(one, "name", repr(one))
)
def test_a_rule_spares_its_examples(rule: Rule, command: str) -> None:
    assert rule.name not in {part.rule for part in assess(command).parts}


def test_every_rule_has_examples() -> None:
    assert {rule.name for rule in EVERY if not rule.catches} == WITHOUT_EXAMPLES


def test_hardline_rules_are_the_ones_nobody_may_ever_run() -> None:
    hardline = {rule.category for rule in EVERY if rule.hardline}
    assert hardline == {
        "recursive-delete",
        "disk-write",
        "fork-bomb",
        "process-mass-kill",
        "system-power",
    }
