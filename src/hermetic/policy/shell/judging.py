"""Judges one program: by what is known of it, and by what the user's rows add."""

from __future__ import annotations

from typing import Protocol

import msgspec

from hermetic.policy.acts import Act
from hermetic.policy.call import Call
from hermetic.policy.extension import Extension
from hermetic.policy.programs.catalog import FALLBACK, find_judge
from hermetic.policy.rules import Finding


class Step(msgspec.Struct):
    """A program that was judged, with all that was found from its beginning to its end."""

    call: Call
    span: tuple[int, int]
    depth: int  # how many programs run it, itself included
    is_unknown: bool  # no row and no code describes it: the generic rule judged it
    findings: tuple[Finding, ...] = ()
    acts: tuple[Act, ...] = ()


class Findings(Protocol):
    """What collects findings during an evaluation."""

    extension: Extension | None
    judged: list[Step] | None
    findings: list[Finding]
    acts: list[Act]
    carriers: list[list[str]]
    probing: int
    span: tuple[int, int]


def is_unknown(call: Call) -> bool:
    """True when only the generic rule can judge the program."""
    return find_judge(call) is FALLBACK


def judge(evaluator: Findings, call: Call) -> str | None:
    """What the program prints, None when that is not known. Findings are reported."""
    judged_by = find_judge(call)
    found, acted, step = len(evaluator.findings), len(evaluator.acts), None
    if evaluator.judged is not None and not evaluator.probing:
        step = Step(call, evaluator.span, len(evaluator.carriers), judged_by is FALLBACK)
        evaluator.judged.append(step)
    output = judged_by(call)
    if evaluator.extension is not None:
        if judged_by is FALLBACK and evaluator.extension.spares(call):
            evaluator.findings[found:] = [
                one for one in evaluator.findings[found:] if not _is_of(call, one)
            ]
        evaluator.extension.judge(call)
    if step is not None:
        step.findings, step.acts = tuple(evaluator.findings[found:]), tuple(evaluator.acts[acted:])
    return output


def _is_of(call: Call, finding: Finding) -> bool:
    """True for what a user's row may take back: a finding about the program itself that is not
    hardline.
    """
    return (
        finding.argv[:1] == tuple(call.argv[:1])
        and finding.source == "program"
        and not finding.rule.hardline
    )
