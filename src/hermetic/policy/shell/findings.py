"""What an evaluation has found: findings, acts, and the programs that were judged."""

from __future__ import annotations

import msgspec

from hermetic.policy.acts import Act, Deed, Scope
from hermetic.policy.budget import MAX_STEPS, Budget, Overflow
from hermetic.policy.call import Call
from hermetic.policy.circumstances import of_call
from hermetic.policy.extension import Extension
from hermetic.policy.programs.catalog import FALLBACK, find_judge
from hermetic.policy.programs.table import rule as rule_named
from hermetic.policy.rehearsal import is_rehearsal
from hermetic.policy.rules import Finding, Rule

from .state import Shell

MAX_ACTS = 10_000
FOR_TESTS = rule_named("for-tests")


class Step(msgspec.Struct):
    """A program that was judged, with all that was found from its beginning to its end."""

    call: Call
    span: tuple[int, int]
    depth: int  # how many programs run it, itself included
    is_unknown: bool  # no row and no code describes it: the generic rule judged it
    findings: tuple[Finding, ...] = ()
    acts: tuple[Act, ...] = ()


def is_certain_harm(finding: Finding) -> bool:
    """Whether it is dangerous whatever is unknown."""
    shows_unknown = "‹" in finding.decoded or "‹" in finding.reason
    return finding.rule.label == "dangerous" and not shows_unknown


class Findings(Budget):
    """Collects what is found during one evaluation."""

    def __init__(self, most_steps: int = MAX_STEPS) -> None:
        super().__init__(most_steps)
        self.extension: Extension | None = None  # rows of the user's
        self.judged: list[Step] | None = None  # the programs that were judged, for an explanation
        self.findings: list[Finding] = []
        self.acts: list[Act] = []
        self.span = (0, 0)  # the place in the text of the command being evaluated
        # the programs that are being run, each by the one before
        self.carriers: list[list[str]] = []
        self.redirecting = 0  # the streams of a command are being opened, not the command itself
        self.probing = 0  # what is found is only tried out

    def report(
        self,
        rule: Rule,
        reason: str,
        shell: Shell,
        decoded: str = "",
        path: str | None = None,
        call: Call | None = None,
    ) -> None:
        """Record a finding at the command being evaluated."""
        if call is not None and is_rehearsal(call, rule.name):
            rule = FOR_TESTS
        finding = Finding(rule, reason, *self.span, decoded, path, shell.remote)
        self.findings.append(
            finding if call is None else of_call(finding, call, redirecting=self.redirecting > 0)
        )

    def note(self, deed: Deed, value: str, *, scope: Scope = "") -> None:
        """Record that something is written, deleted, read or reached, or that a program will run."""
        if deed == "run":
            self.act(Act(deed, words=tuple(value.split())))
        elif deed == "reach":
            self.act(Act(deed, host=value))
        else:
            self.act(Act(deed, path=value, scope=scope))

    def act(self, act: Act) -> None:
        """Record an act, unless it is only tried out.

        Raises Overflow for more acts than are kept: rules that name programs, paths and hosts would not
        see the rest.
        """
        if self.probing:
            return
        if len(self.acts) >= MAX_ACTS:
            raise Overflow
        self.acts.append(act)

    def judge(self, call: Call) -> str | None:
        """By what is known of a program, and by what the user's rows add."""
        judge = find_judge(call)
        found, acted, step = len(self.findings), len(self.acts), None
        if self.judged is not None and not self.probing:
            step = Step(call, self.span, len(self.carriers), judge is FALLBACK)
            self.judged.append(step)
        output = judge(call)
        if self.extension is not None:
            if judge is FALLBACK and self.extension.spares(call):
                kept = [one for one in self.findings[found:] if not _may_be_spared(call, one)]
                self.findings[found:] = kept
            self.extension.judge(call)
        if step is not None:
            step.findings, step.acts = tuple(self.findings[found:]), tuple(self.acts[acted:])
        return output


def _may_be_spared(call: Call, finding: Finding) -> bool:
    """True for what a user's row may take back: a finding about the program itself that is not
    hardline.
    """
    is_own = finding.argv[:1] == tuple(call.argv[:1]) and finding.source == "program"
    return is_own and not finding.rule.hardline
