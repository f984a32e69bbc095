"""One thing that somebody wants to do, with all that a decision needs; and what in it has to be allowed."""

import hashlib
from collections.abc import Awaitable, Callable

import msgspec

from hermetic.approvals.matching import Directories
from hermetic.approvals.rules import Asked, Rules
from hermetic.contract.approval import Mode, Need, Subject
from hermetic.contract.verdict import Part, Verdict
from hermetic.policy.assess import Examined


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """What is wanted, by whom, and where."""

    subject: Subject
    task: str
    text: str
    examined: Examined
    environment: str  # its kind
    place: str  # where an approval of it holds: the kind, and the machine where there are several
    ground: Directories
    contained: bool = False  # it runs in a sandbox on this machine
    around: Callable[
        [], str
    ]  # a digest of directory, variables and input: what makes the same words mean another thing
    meaning: Callable[[], str]  # the same of all that its shell knows: what makes the same text mean another thing
    circumstances: Callable[[], dict[str, str]]  # directory, variables and input, in words
    program: Callable[[tuple[str, ...]], str]  # which file a program's name means there
    changed: Callable[[], Awaitable[str]]  # why it is not what was shown any more; empty when it still is

    @property
    def verdict(self) -> Verdict:
        """Of the policy."""
        return self.examined.verdict


# Code that nobody has seen: what it can do, a sandbox says.
_SANDBOXED = frozenset({"opaque-code", "dynamic-code", "remote-code", "deceptive-text"})


def needs_of(case: Case, rules: Rules, mode: Mode) -> list[Need]:
    """What has to be allowed before it is done, the worst first."""
    dangerous = [
        part for part in case.verdict.parts if part.label == "dangerous" and not rules.allows(part, case.ground)
    ]
    if mode == "sandbox-first" and case.contained:
        dangerous = [part for part in dangerous if part.category not in _SANDBOXED]
    dangerous.sort(key=lambda part: part.severity, reverse=True)
    needs = [_of_part(part, case) for part in dangerous]
    needs += [_of_rule(asked, case) for asked in rules.asked(case.examined.acts, case.ground)]
    return list(dict.fromkeys(needs))


def _of_part(part: Part, case: Case) -> Need:
    return Need(
        decoded=part.decoded, reason=part.reason, category=part.category, rule=part.rule, argv=part.argv,
        path=part.path, exact=part.exact, around=part.around, source=part.source,
    )  # fmt: skip


def _of_rule(asked: Asked, case: Case) -> Need:
    act, rule = asked.act, asked.rule
    named = " ".join(rule.command) or rule.path or rule.network
    key = "\0".join((act.deed, *act.words, act.path, act.host, case.around()))
    return Need(
        decoded=act.shown(), reason=rule.reason or f"your rule wants to be asked about {named}", category="your rule",
        rule=f"{rule.decision} {named}", argv=act.words, path=act.path,
        exact=hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:32] if act.is_known else "",
    )  # fmt: skip
