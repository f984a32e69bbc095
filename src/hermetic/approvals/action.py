"""One action that is about to be done, with all that a decision needs, and what in it needs an
approval.
"""

import hashlib
import os
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from hermetic.approvals.context import KnownSession, PolicyContext, whole
from hermetic.approvals.matching import Directories
from hermetic.approvals.rules import Rules
from hermetic.contract.approval import Mode, Need, Subject
from hermetic.contract.verdict import ShellState, Verdict
from hermetic.policy.assess import Examined, Surroundings, around_of_text
from hermetic.policy.shell import DEFAULT_HOME

# Code that is not known: a sandbox limits what it can do.
_SANDBOXED = frozenset({"opaque-code", "dynamic-code", "remote-code", "deceptive-text"})


HARMLESS = Examined(
    Verdict(label="safe", category="safe", severity=0, reason="", start=0, end=0, decoded="")
)


async def _unchanged() -> str:
    return ""


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done, for which task, and where."""

    subject: Subject
    task: str
    text: str
    around: Surroundings
    context: PolicyContext
    known: KnownSession
    examined: Examined = HARMLESS
    always_needs: tuple[Need, ...] = ()  # asked about in every mode
    # Why it is not what was shown any more; "": it still is.
    changed: Callable[[], Awaitable[str]] = _unchanged

    @property
    def verdict(self) -> Verdict:
        """Of the policy."""
        return self.examined.verdict

    @property
    def state(self) -> ShellState:
        """Of the session's shell."""
        return self.around.state or ShellState()

    def whole(self, path: str) -> str:
        """A path from the root, as the session takes it."""
        return whole(path, self.around.cwd, self.known.home(self.state))

    @property
    def directories(self) -> Directories:
        """The directories that paths of rules refer to."""
        return Directories(
            self.state.home or os.environ.get("HOME") or DEFAULT_HOME, self.context.workspace
        )

    @property
    def key(self) -> str:
        """A digest that is equal only for the same action: task, environment, text, and all that
        the shell knows.
        """
        where = self.task, self.context.key, repr(self.around.state)
        return _digest([*where, self.subject, self.text, *_given(self.around)])

    def circumstances(self) -> dict[str, str]:
        """Directory, variables and input, as a person sees them."""
        around = self.around
        variables = "\n".join(f"{name}={value}" for name, value in sorted(around.env.items()))
        shown = {"directory": around.cwd, "variables": variables, "input": around.stdin}
        return {name: value for name, value in shown.items() if value}

    def program(self, argv: tuple[str, ...]) -> str:
        """The file that a program's name means there."""
        return self.context.program(argv, self.around.state)

    def needs(self, rules: Rules, mode: Mode) -> list[Need]:
        """What has to be allowed before it is done, the worst first."""
        directories = self.directories
        dangerous = [part for part in self.verdict.parts if part.label == "dangerous"]
        if mode == "sandbox-first" and self.context.kind == "sandbox":
            dangerous = [part for part in dangerous if part.category not in _SANDBOXED]
        dangerous.sort(key=lambda part: part.severity, reverse=True)
        needs = [
            msgspec.convert(part, Need, from_attributes=True)
            for part in dangerous
            if not rules.allows(part, directories)
        ]
        asked = () if rules.is_empty else rules.asked(self.examined.acts, directories)
        for act, rule in asked:
            _, stdin, env = _given(self.around)
            key = (
                act.deed,
                *act.words,
                act.path,
                act.host,
                _digest([around_of_text(self.around), stdin, env]),
            )
            needs.append(
                Need(
                    decoded=act.shown(),
                    reason=rule.reason or f"your rule wants to be asked about {rule.named}",
                    category="your rule",
                    rule=f"{rule.decision} {rule.named}",
                    argv=act.words,
                    path=act.path,
                    exact=_digest(key)[:32] if act.is_known else "",
                )
            )
        return [*self.always_needs, *dict.fromkeys(needs)]


def _given(around: Surroundings) -> tuple[str, str, str]:
    return around.cwd or "", around.stdin or "", str(sorted(around.env.items()))


def _digest(texts: Sequence[str]) -> str:
    return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()
