"""What can be set about approvals, typed, with its defaults."""

from typing import Annotated, Any, Literal

import msgspec

from hermetic.contract.approval import Mode

Ruling = Literal["allow", "ask", "deny"]

Seconds = Annotated[float, msgspec.Meta(gt=0)]
Days = Annotated[float, msgspec.Meta(gt=0, le=366)]


class RuleSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One rule of the user's.

    It names a command, a path or a host, and examples by which it is checked.
    """

    decision: Ruling
    command: tuple[str, ...] = ()  # a program's first words; * and ? stand for parts of one word
    exact: bool = False  # those are all its words
    path: str = ""  # a glob; from the workspace where it is relative
    acts: tuple[Literal["write", "delete", "read"], ...] = ("write", "delete")  # done to that path
    network: str = ""  # a glob of hosts
    reason: str = ""
    matches: tuple[str, ...] = ()  # commands that it must apply to
    spares: tuple[str, ...] = ()  # commands that it must not apply to

    @property
    def named(self) -> str:
        """The command, path or host that it is about."""
        return " ".join(self.command) or self.path or self.network


class ApprovalSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Who is asked about what is dangerous, and what is remembered."""

    mode: Mode = "ask"
    answers: Literal["nobody", "terminal", "queue"] = "nobody"  # who can be asked
    # decision on a dangerous action without a user to ask
    nobody: Literal["deny", "allow"] = "deny"
    timeout: Seconds = 60.0  # for an answer; silence is no
    # a call waits for the answer; else its result says that an approval is required
    wait: bool = True
    deny: tuple[str, ...] = ()  # globs of commands that never run, in no mode
    rules: tuple[RuleSettings, ...] = ()
    # rows and rules for programs, each table by itself (docs/policy.md)
    programs: tuple[dict[str, Any], ...] = ()
    session_seconds: Seconds = 43_200.0  # life of an answer "session"
    always_days: Days = 90.0  # life of an answer "always"
    file: str | None = None  # where answers "always" are kept
    log: str | None = None  # where decisions are written down
