"""Approval requests and granted approvals."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol

import msgspec

from hermetic.contract.process import ProcessInfo
from hermetic.contract.verdict import Source, Verdict

Answer = Literal["once", "session", "always", "deny"]
Mode = Literal["ask", "deny", "allow", "sandbox-first"]
Policy = Literal["ask", "deny", "allow", "sandbox-first", "off"]
Opinion = Literal["allow", "ask", "deny"]
Subject = Literal["command", "code", "input", "write", "batch", "outside"]

ANSWERS: tuple[Answer, ...] = ("once", "session", "always", "deny")


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a request that needs an approval."""

    decoded: str  # what it does, after quotes, variables and decoders are resolved
    reason: str
    category: str
    rule: str  # of the policy, or the user's own
    argv: tuple[str, ...] = ()  # the program that does it
    path: str = ""  # that it changes
    # what tells it from all other acts; empty: it can be allowed for one time alone
    exact: str = ""
    around: str = ""  # what tells its directory and variables from all others
    source: Source = "program"  # what does it: the program itself, or a redirection beside it


class ApprovalRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request for an approval."""

    id: str
    subject: Subject
    command: str  # the text as given
    verdict: Verdict
    task: str
    environment: str  # its kind
    environment_id: str = ""  # of the open environment; empty while it is not open
    needs: tuple[Need, ...] = ()  # what the answer is about, the worst first
    scope: dict[str, str] = {}  # answer → what exactly it would grant
    reason: str = ""  # why it is asked
    asked: float = 0.0  # seconds since 1970
    expires: float = 0.0  # a later answer has no effect
    circumstances: dict[str, str] = {}  # directory, variables and input of the command, if any


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """An approval for more than one time, and its expiry."""

    command: str  # as the person saw it
    covers: str  # in words, as the person saw it
    key: str  # identifies the one act that it covers
    environment: str  # where it is valid
    program: str = ""  # file of the command; the approval covers no other file
    task: str | None = None  # None: for every task
    granted: float
    expires: float


class Denial(msgspec.Struct, frozen=True):
    """The answer "deny" with a reason for the model."""

    reason: str
    by: Literal["user", "nobody"] = "user"  # nobody: there is no user to ask


# Raises TimeoutError when no answer came in time; any other exception means that the approver
# failed.
Approver = Callable[[ApprovalRequest], Answer | Denial | Awaitable[Answer | Denial]]
# a second opinion; it can only tighten
Reviewer = Callable[[ApprovalRequest], Opinion | Awaitable[Opinion]]


class Judged(NamedTuple):
    """The state of a session by which a command was judged. The command begins in no other one."""

    changes: int  # of the session until then
    cwd: str | None  # None: whatever it is
    # takes the changes until the command's end; None: it had changed before
    report: Callable[[int | None], object]


class Guard(Protocol):
    """Decides on commands, input and writes of an environment's caller before they happen.

    Raises NotPermitted.
    """

    async def command(
        self,
        command: str | Sequence[str],
        *,
        session: str,
        stdin: str | bytes | None,
        env: Mapping[str, str] | None,
        cwd: str | None,
    ) -> Judged | None:
        """The state of the session by which the command was judged; None: it may begin in any."""

    async def input(self, data: bytes, process: ProcessInfo) -> None:
        """Bytes for a process that runs."""

    async def write(self, paths: Sequence[str]) -> None:
        """Files that are about to be written."""
