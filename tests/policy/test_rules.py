"""Every rule is raised by what it says it catches, and not by what it says it spares."""

from __future__ import annotations

import pytest

from hermetic.policy import assess
from hermetic.policy.assess import RULES as READING
from hermetic.policy.commands.catalog import all_rules
from hermetic.policy.deception import RULES as DECEPTION
from hermetic.policy.rules import Rule

EVERY = (*all_rules(), *READING, *DECEPTION)


def _examples(kind: str) -> list[tuple[Rule, str]]:
    return [(rule, command) for rule in EVERY for command in getattr(rule, kind)]


@pytest.mark.parametrize(("rule", "command"), _examples("catches"), ids=lambda one: getattr(one, "name", repr(one)))
def test_a_rule_catches_its_examples(rule: Rule, command: str) -> None:
    verdict = assess(command)
    assert rule.name in {part.rule for part in verdict.parts}
    assert verdict.label == "dangerous" or rule.label == "caution"


@pytest.mark.parametrize(("rule", "command"), _examples("spares"), ids=lambda one: getattr(one, "name", repr(one)))
def test_a_rule_spares_its_examples(rule: Rule, command: str) -> None:
    assert rule.name not in {part.rule for part in assess(command).parts}


def test_every_rule_has_a_name_of_its_own_and_examples() -> None:
    names = [rule.name for rule in EVERY]
    assert len(names) == len(set(names))
    assert all(rule.catches for rule in EVERY)


def test_hardline_rules_are_the_ones_nobody_may_ever_run() -> None:
    hardline = {rule.category for rule in EVERY if rule.hardline}
    assert hardline == {"recursive-delete", "disk-write", "fork-bomb", "process-mass-kill", "system-power"}
