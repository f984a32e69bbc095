"""Every decision: by the rules, the mode, granted approvals, a second opinion, and the user."""

import asyncio
import contextlib
import logging
import os
import secrets
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import msgspec

from hermetic.approvals import exchange
from hermetic.approvals.action import Action
from hermetic.approvals.grants import Grants
from hermetic.approvals.journal import DECISIONS, Decision, Journal
from hermetic.approvals.prompt import TerminalPrompt
from hermetic.approvals.publisher import Publisher
from hermetic.approvals.queue import Queue, Reply, reply_of
from hermetic.approvals.rules import Rules, extension_of
from hermetic.approvals.settings import ApprovalSettings
from hermetic.approvals.store import Store, state_directory
from hermetic.contract.approval import (
    ANSWERS,
    Answer,
    Approval,
    ApprovalRequest,
    Approver,
    Need,
    Reviewer,
)
from hermetic.contract.errors import ApprovalRequired, ConfigError, NotPermitted, UnknownApproval
from hermetic.policy.tables import names
from hermetic.session.callbacks import answer_of

REVIEW_SECONDS = 5.0
DAY = 86_400.0
CARRIERS = frozenset(names("sudo doas su pkexec ssh docker podman chroot nsenter env xargs"))
SECOND_OPINION = "second-opinion"
# Fields of a request, of its verdict and of its needs that hold text of the agent.
_MASKED = frozenset(
    names("command reason decoded argv path scope circumstances verdict parts needs")
)

_log = logging.getLogger("hermetic.approvals")


class _Allowed(NamedTuple):
    """By whom or what an action was allowed, and the needs that the user's answer was about."""

    by: str
    answer: str = ""
    request: str = ""  # id
    needs: Sequence[Need] = ()


class Approvals:
    """Pending approval requests and their answers, granted approvals, and the decisions on actions.

    An exception of `decide` means that the action may not be done.
    """

    def __init__(
        self,
        settings: ApprovalSettings,
        *,
        approver: Approver | None = None,
        reviewer: Reviewer | None = None,
        keeps: bool = False,
        redact: Callable[[str], str] = str,
        mask: Callable[[str], str] = str,
        sources: Sequence[str] = (),
    ) -> None:
        """`keeps`: approvals and decisions are stored in the user's own directory unless the
        settings name another.

        `sources` are settings files, which say what is allowed. `mask` hides known secrets from the
        user who is asked, `redact` also what looks like a secret, from the journal. Raises
        ConfigError for rules that allow too much, and for files that cannot be trusted.
        """
        own = state_directory(os.environ) if keeps else None
        approvals = _path(settings.file, own, "approvals.toml")
        decisions = _path(settings.log, own, DECISIONS)
        if approver is None and settings.answers == "terminal":
            prompt = TerminalPrompt(settings.timeout)
            approver = prompt if prompt.is_there else None
        self.settings = settings
        self.rules = Rules(settings.rules, settings.deny)
        self.extension = extension_of(settings.programs)
        self.now: Callable[[], float] = time.time
        self.grants = Grants(Store(approvals) if approvals else None, lambda: self.now())
        self.queue = Queue(lambda: self.now())
        self._publishers: WeakKeyDictionary[asyncio.AbstractEventLoop, Publisher] = (
            WeakKeyDictionary()
        )
        own_files = (*sources, *(str(path) for path in (approvals, decisions) if path is not None))
        self.own_files = frozenset(map(os.path.realpath, own_files))  # they say what is allowed
        self._approver = approver
        self._reviewer = reviewer
        self._journal = Journal(decisions, redact)
        self._mask = mask
        if settings.nobody == "allow":
            _log.warning(
                "approvals.nobody is allow: what is dangerous runs without a question where there is no user"
            )

    def __repr__(self) -> str:
        return f"<Approvals in mode {self.settings.mode}: {len(self.pending())} pending>"

    # -- for front doors
    def pending(self, task_id: str | None = None) -> list[ApprovalRequest]:
        """The requests that wait for an answer, the oldest first."""
        return self.queue.pending(task_id)

    def answer(self, id: str, answer: Answer, reason: str = "") -> None:
        """Answers a request, from any thread; the model gets the `reason` of a "deny".

        Raises UnknownApproval when it does not wait any more, InvalidArgument.
        """
        self.queue.answer(id, answer, reason)

    def withdraw(self, id: str) -> None:
        """Withdraws a request; what it asked for is not allowed. Raises UnknownApproval."""
        self.queue.withdraw(id)

    async def close(self) -> None:
        """Withdraws all that is pending; returns when every console knows."""
        for request in self.pending():
            with contextlib.suppress(UnknownApproval):  # another thread was first
                self.withdraw(request.id)
        if publisher := self._publishers.get(asyncio.get_running_loop()):
            await asyncio.sleep(0)  # until the reply is set
            await publisher.close()

    def attend(self) -> AbstractAsyncContextManager[AsyncIterator[ApprovalRequest]]:
        """Requests as they come; while the block lasts, there is a user to ask."""
        return self.queue.attend()

    def granted(self) -> list[Approval]:
        """What was allowed for longer than once and still holds. Raises ConfigError."""
        return self.grants.all()

    def revoke(self, key: str) -> bool:
        """Revokes an approval by its key; False when there is none. Raises ConfigError."""
        return self.grants.revoke(key)

    @property
    def can_ask(self) -> bool:
        """Whether there is a user to ask: by this program, or at a console of another process."""
        is_own = (
            self._approver is not None or self.settings.answers == "queue" or self.queue.is_attended
        )
        return is_own or exchange.is_attended()

    # -- for the gate
    async def decide(self, action: Action) -> None:
        """Returns when it may be done. Raises NotPermitted, ApprovalRequired."""
        self.refuse_denied(action)
        needs = action.needs(self.rules, self.settings.mode)
        if self._reviewer is not None:
            needs += await self._review(self._reviewer, action, needs)
        allowed = await self._allowed(action, needs)
        if (self._reviewer is not None or allowed.request) and (why := await action.changed()):
            why = f"{why}; look at what it would do now, and try again"
            raise self._refused(action, "changed", why, request=allowed.request)
        self._keep(action, allowed.answer, allowed.needs)
        self._note(action, "allowed", allowed.by, answer=allowed.answer, request=allowed.request)

    def refuse_denied(self, action: Action) -> None:
        """Raises NotPermitted for what is never done."""
        if not self.rules.is_empty:
            acts, directories = action.examined.acts, action.directories
            if denied := self.rules.denied(action.text, acts, directories):
                raise self._refused(action, "rule", f"{denied}; do it in another way")
        if action.verdict.hardline:
            raise self._refused(action, "policy", "it is never run, for any caller")

    async def _allowed(self, action: Action, needs: list[Need]) -> _Allowed:
        mode, task, environment = self.settings.mode, action.task, action.context.key
        if not needs:
            return _Allowed("policy")
        if mode == "allow" and not action.always_needs and needs[-1].rule != SECOND_OPINION:
            return _Allowed("mode")
        if reply := self.grants.take_reply(action.key):
            self._check(action, needs, reply)
            return _Allowed("approval", "once")
        grants, program = self.grants, action.program
        needs = [need for need in needs if not grants.covers(need, task, environment, program)]
        if not needs:
            return _Allowed("approval")
        if not _is_carried(action) and grants.spend(needs, task, environment, program):
            return _Allowed("budget")
        if mode == "deny":
            raise self._refused(
                action, "mode", f"{_why(needs)}; this mode asks no user: do it in another way"
            )
        if self.can_ask:
            return await self._ask(action, needs)
        if self.settings.nobody != "allow" or action.always_needs:
            why = "there is no user to ask; do it in another way, or tell the user what you need"
            raise self._refused(action, "nobody", f"{_why(needs)}; {why}")
        _log.warning(
            "there is no user to ask, and approvals.nobody is allow: %s", self._mask(_why(needs))
        )
        return _Allowed("nobody")

    # -- asking
    async def _ask(self, action: Action, needs: Sequence[Need]) -> _Allowed:
        request = self._request(action, needs)
        if self._approver is None and not self.settings.wait:
            reply = self._enqueue(action, needs, request)
        else:
            reply = await self._reply(request)
        self._check(action, needs, reply, request.id)
        # An answer that was not offered grants no more than this time.
        return _Allowed(
            "user", reply.answer if reply.answer in request.scope else "once", request.id, needs
        )

    def _check(
        self, action: Action, needs: Sequence[Need], reply: Reply, request: str = ""
    ) -> None:
        if reply.answer == "deny":
            why = f"{_why(needs)}; {reply.refusal(self.settings.timeout)}"
            raise self._refused(action, reply.by, why, request=request, comment=reply.reason)

    async def _reply(self, request: ApprovalRequest) -> Reply:
        """The first reply: of the program's own approver, of the queue, or of a console of another
        process.
        """
        reply, asking = self._put(request), None
        try:
            async with asyncio.timeout(self.settings.timeout):
                if self._approver is not None and not reply.done():
                    asking = asyncio.create_task(self._asked(self._approver, request))
                return await asyncio.shield(reply)
        except TimeoutError:
            with contextlib.suppress(UnknownApproval):  # the answer came in this very moment
                self.queue.settle(request.id, self._late(request))
            return await asyncio.shield(reply)
        finally:
            if asking is not None:
                asking.cancel()
            self.queue.forget(request.id)

    async def _asked(self, approver: Approver, request: ApprovalRequest) -> None:
        """Settles a request by the approver's answer, unless another one was first."""
        try:
            said = await answer_of(approver, request)
            if (reply := reply_of(said)).by == "approver failed":
                known = f"{', '.join(map(repr, ANSWERS))}, or a hermetic.Denial"
                problem = f"it returned {repr(said)[:80]}, and the answers are {known}"
                _log.error("the approver failed: %s is not allowed: %s", request.id, problem)
        except TimeoutError:
            reply = self._late(request)
        except Exception:  # it is the caller's own
            _log.exception("the approver failed: %s is not allowed", request.id)
            reply = Reply("deny", "approver failed")
        with contextlib.suppress(UnknownApproval):
            self.queue.settle(request.id, reply)

    def _late(self, request: ApprovalRequest) -> Reply:
        _log.warning(
            "no answer to %s within %g s: it is not allowed", request.id, self.settings.timeout
        )
        return Reply("deny", "timeout")

    def _put(self, request: ApprovalRequest, key: str = "") -> "asyncio.Future[Reply]":
        """The future reply to a request that waits, here and at every console of this user."""
        reply = self.queue.put(request, key)
        loop = reply.get_loop()
        if loop not in self._publishers:
            self._publishers[loop] = Publisher(self.queue, lambda: self.now())
        self._publishers[loop].publish(request, reply)
        return reply

    def _enqueue(self, action: Action, needs: Sequence[Need], request: ApprovalRequest) -> Reply:
        """The reply of a full queue.

        Raises ApprovalRequired: the answer counts for the next try of the same.
        """
        key = action.key
        if pending := self.queue.find(key):
            request = pending
        else:
            future = self._put(request, key)
            if future.done():
                return future.result()
            future.add_done_callback(lambda done: self._answered(action, needs, request, key, done))
        self._note(action, "refused", "queue", request=request.id)
        why, first = _why(request.needs), request.needs[0]
        raise ApprovalRequired(
            f"not run: {why}; it waits for the user's answer: try the very same again later",
            rule=first.category,
            reason="it waits for the user's answer",
            request=request.id,
            command=request.command,
            description=why,
            pattern_key=first.rule,
        )

    def _answered(
        self,
        action: Action,
        needs: Sequence[Need],
        request: ApprovalRequest,
        key: str,
        done: "asyncio.Future[Reply]",
    ) -> None:
        reply = Reply("deny", "withdrawn") if done.cancelled() else done.result()
        if reply.answer == "deny":
            self._note(action, "refused", reply.by, request=request.id, comment=reply.reason)
        elif reply.answer in ("session", "always") and reply.answer in request.scope:
            self._keep(action, reply.answer, needs)
            return
        if reply.by == "user":
            self.grants.remember(key, reply, self.settings.timeout)

    def _request(self, action: Action, needs: Sequence[Need]) -> ApprovalRequest:
        now = self.now()
        request = ApprovalRequest(
            id=f"ask_{secrets.token_hex(6)}",
            subject=action.subject,
            command=action.text,
            verdict=action.verdict,
            task=action.task,
            environment=action.context.kind,
            environment_id=action.context.id,
            needs=tuple(needs),
            scope=self._scope(action, needs),
            reason=_why(needs),
            asked=now,
            expires=now + self.settings.timeout,
            circumstances=action.circumstances(),
        )
        # what an answer is bound to is in `needs`
        masked: ApprovalRequest = _masked(request, self._mask)
        return masked

    def _scope(self, action: Action, needs: Sequence[Need]) -> dict[str, str]:
        """What each answer would grant.

        An act that is not known exactly can be allowed for one time alone.
        """
        scope = {"once": needs[0].decoded if action.subject == "batch" else "this text, this time"}
        if all(need.exact for need in needs):
            parts = " and ".join(
                f"exactly `{need.decoded}`{_by_program(action, need)}" for need in needs
            )
            where = f"in {action.context.key}, with the same directory, variables and input"
            until = _clock(self.now() + self.settings.session_seconds)
            scope["session"] = f"{parts} {where}, for the task {action.task!r}, until {until}"
            if self.grants.can_keep:
                until = _clock(self.now() + self.settings.always_days * DAY)
                scope["always"] = f"{parts} {where}, for every task, until {until}"
        return scope | {"deny": "nothing"}

    def _keep(self, action: Action, answer: str, needs: Sequence[Need]) -> None:
        if answer not in ("session", "always"):
            return
        now, always = self.now(), answer == "always"
        life = self.settings.always_days * DAY if always else self.settings.session_seconds
        kept = [
            Approval(
                command=self._mask(need.decoded),
                covers=self._mask(self._scope(action, [need])[answer]),
                key=need.exact,
                environment=action.context.key,
                program=action.program(need.argv),
                task=None if always else action.task,
                granted=now,
                expires=now + life,
            )
            for need in needs
        ]
        try:
            self.grants.add(kept, always=always)
        except ConfigError as error:
            _log.error("this time only: %s", error)

    async def _review(
        self, reviewer: Reviewer, action: Action, needs: Sequence[Need]
    ) -> list[Need]:
        """The need that a second opinion adds. One that fails or takes too long adds it too."""
        request = self._request(action, needs)
        opinion = "ask"
        why = "the second opinion was not given in time"
        try:
            async with asyncio.timeout(REVIEW_SECONDS):
                opinion = await answer_of(reviewer, request)
            why = "the second opinion wants to be sure"
        except TimeoutError:
            pass
        except Exception:  # of the reviewer, which is the caller's own
            _log.exception("the second opinion failed: it is asked instead")
            why = "the second opinion failed"
        if opinion == "deny":
            raise self._refused(
                action, "second opinion", "a second opinion says no; do it in another way"
            )
        if opinion == "allow":
            return []
        return [
            Need(decoded=action.text, reason=why, category="second opinion", rule=SECOND_OPINION)
        ]

    # -- reporting
    def _refused(
        self, action: Action, by: str, why: str, *, request: str = "", comment: str = ""
    ) -> NotPermitted:
        verdict = action.verdict
        self._note(action, "refused", by, request=request, comment=comment)
        is_new = verdict.label == "dangerous" and verdict.reason not in why
        what = f"{verdict.reason} ({verdict.category}); " if is_new else ""
        return NotPermitted(
            self._mask(f"not run: {what}{why}"),
            rule=verdict.category,
            reason=self._mask(why),
            by=by,
        )

    def _note(self, action: Action, decision: str, by: str, **more: str) -> None:
        if self._journal.path is None:
            return
        verdict = action.verdict
        self._journal.write(
            Decision(
                time=self.now(),
                decision=decision,
                by=by,
                subject=action.subject,
                task=action.task,
                environment=action.context.kind,
                label=verdict.label,
                category=verdict.category,
                reason=verdict.reason,
                command=action.text,
                **more,
            )
        )


def _masked(value: Any, mask: Callable[[str], str]) -> Any:
    """The same with a placeholder for every known secret in its texts."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, tuple):
        return tuple(_masked(one, mask) for one in value)
    if isinstance(value, dict):
        return {name: mask(text) for name, text in value.items()}
    names = _MASKED.intersection(value.__struct_fields__)
    return msgspec.structs.replace(
        value, **{name: _masked(getattr(value, name), mask) for name in names}
    )


def _is_carried(action: Action) -> bool:
    """Whether a program runs as another user, elsewhere, or from a file of its own: no budget
    covers that.
    """
    programs = [act.words[0] for act in action.examined.acts if act.deed == "run" and act.words]
    return any("/" in program or program in CARRIERS for program in programs)


def _why(needs: Sequence[Need]) -> str:
    return "; ".join(dict.fromkeys(f"{need.reason} ({need.category})" for need in needs))


def _by_program(action: Action, need: Need) -> str:
    program = action.program(need.argv)
    return f" by {program}" if "/" in program else ""


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M")


def _path(named: str | None, own: Path | None, name: str) -> Path | None:
    if named is not None:
        return Path(named).expanduser().absolute()
    return None if own is None else own / name
