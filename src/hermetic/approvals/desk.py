"""Where every decision is made: by the rules, the mode, what was allowed before, a second opinion, and a person."""

import asyncio
import logging
import os
import secrets
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from hermetic.approvals.case import Case, needs_of
from hermetic.approvals.grants import Budget, Denied, Grants
from hermetic.approvals.journal import Decision, Journal
from hermetic.approvals.masking import Mask, masked
from hermetic.approvals.queue import Queue
from hermetic.approvals.replies import Reply, reply_of
from hermetic.approvals.rules import Rules, breadth
from hermetic.approvals.settings import ApprovalSettings
from hermetic.approvals.store import Store
from hermetic.contract.approval import Approval, ApprovalRequest, Approver, Need, Reviewer
from hermetic.contract.errors import ApprovalRequired, ConfigError, InvalidArgument, NotPermitted
from hermetic.session.callbacks import answer_of

REVIEW_SECONDS = 5.0
DAY = 86_400.0
CARRIERS = frozenset(("sudo", "doas", "su", "pkexec", "ssh", "docker", "podman", "chroot", "nsenter", "env", "xargs"))

_log = logging.getLogger("hermetic.approvals")


class Allowed(NamedTuple):
    """By whom something was allowed, and what the answer was about."""

    by: str
    answer: str = ""
    request: str = ""  # the id of the question
    needs: tuple[Need, ...] = ()


class Desk:
    """Decides. What is not refused here may be done; an exception here means that it may not."""

    def __init__(
        self, settings: ApprovalSettings, *, approver: Approver | None = None, reviewer: Reviewer | None = None,
        store: Store | None = None, journal: Journal | None = None, now: Callable[[], float] = time.time,
        mask: Mask = str, ours: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self.settings = settings
        self.rules = Rules(settings.rules, settings.deny)
        self.grants = Grants(store, now)
        self.queue = Queue(now)
        self._denied = Denied(now)
        self._approver = approver
        self._reviewer = reviewer
        self._journal = journal or Journal()
        self.ours = frozenset(map(os.path.realpath, ours))  # files that say what is allowed, and what was
        self._mask = mask  # hides values that are known to be secrets from whoever looks
        self.now = now
        if settings.nobody == "allow":
            _log.warning("approvals.nobody is allow: what is dangerous runs unasked where nobody can be asked")

    def __repr__(self) -> str:
        return f"<Desk in mode {self.settings.mode}>"

    @property
    def can_ask(self) -> bool:
        """Whether there is somebody to ask."""
        return self._approver is not None or self.settings.answers == "queue" or self.queue.is_attended

    async def decide(self, case: Case) -> None:
        """Returns when it may be done. Raises NotPermitted, ApprovalRequired."""
        self.refuse_denied(case)
        needs = needs_of(case, self.rules, self.settings.mode)
        if self._reviewer is not None:
            needs += await self._review(self._reviewer, case, needs)
        if not needs:
            allowed = Allowed("policy")
        elif self.settings.mode == "allow" and not any(need.rule == SECOND_OPINION for need in needs):
            allowed = Allowed("mode")
        elif self.grants.take_once(case.task, case.place, _once_key(case)):
            allowed = Allowed("approval", "once")
        else:
            allowed = await self._get_word(case, [need for need in needs if not self._is_covered(need, case)])
        await self._confirm(case, allowed, waited=self._reviewer is not None or bool(allowed.request))

    def refuse_denied(self, case: Case) -> None:
        """Raises NotPermitted for what is never done, whoever asks."""
        if denied := self.rules.denied(case.text, case.examined.acts, case.ground):
            raise self._refused(case, "rule", f"{denied}; do it in another way")
        if case.verdict.hardline:
            raise self._refused(case, "policy", "it is never run, whoever asks")

    async def _confirm(self, case: Case, allowed: "Allowed", *, waited: bool) -> None:
        """What was allowed is what was shown: while somebody thought about it, it may have become another thing."""
        if waited and (why := await case.changed()):
            raise self._refused(
                case, "changed", f"{why}; look at what it would do now, and try again", request=allowed.request
            )
        self._keep(case, allowed)
        self._note(case, "allowed", allowed.by, answer=allowed.answer, request=allowed.request)

    def _is_covered(self, need: Need, case: Case) -> bool:
        return self.grants.covering(need, case.task, case.place, lambda: case.program(need.argv)) is not None

    async def _get_word(self, case: Case, needs: list[Need]) -> "Allowed":
        if not needs:
            return Allowed("approval")
        if not _is_carried(case) and self.grants.spend(needs, case.task, case.place, case.program):
            return Allowed("budget")
        if self.settings.mode == "deny":
            raise self._refused(case, "mode", f"{_why(needs)}; nobody is asked in this mode: do it in another way")
        return await self._ask(case, needs) if self.can_ask else self._nobody(case, needs)

    def _nobody(self, case: Case, needs: Sequence[Need]) -> "Allowed":
        if self.settings.nobody != "allow":
            why = "nobody can be asked; do it in another way, or tell the user what you need"
            raise self._refused(case, "nobody", f"{_why(needs)}; {why}")
        _log.warning("nobody can be asked, and approvals.nobody is allow: %s", self._mask(_why(needs)))
        return Allowed("nobody")

    # -- asking
    async def _ask(self, case: Case, needs: Sequence[Need]) -> "Allowed":
        request = self._request(case, needs)
        answer = await self._answered(case, request, needs)
        # An answer that was not offered grants no more than this time.
        return Allowed("user", answer if answer in request.scope else "once", request.id, tuple(needs))

    async def _answered(self, case: Case, request: ApprovalRequest, needs: Sequence[Need]) -> str:
        """The user's yes. Raises NotPermitted for any other reply, ApprovalRequired."""
        if self._approver is not None:
            reply = await self._reply_of(self._approver, request)
        else:
            reply = await self._reply_in_queue(case, request, needs)
        if reply.answer != "deny":
            return reply.answer
        why = f"{_why(needs)}; {reply.refusal(self.settings.timeout)}"
        raise self._refused(case, reply.by, why, request=request.id, comment=reply.reason)

    async def _reply_of(self, approver: Approver, request: ApprovalRequest) -> Reply:
        try:
            async with asyncio.timeout(self.settings.timeout):
                return reply_of(await answer_of(approver, request))
        except TimeoutError:
            _log.warning("no answer to %s within %g s: it is not allowed", request.id, self.settings.timeout)
            return Reply("deny", "timeout")
        except Exception:
            _log.exception("the approver failed: %s is not allowed", request.id)
            return Reply("deny", "approver failed")

    async def _reply_in_queue(self, case: Case, request: ApprovalRequest, needs: Sequence[Need]) -> Reply:
        if not self.settings.wait:
            if denied := self._denied.take(case.task, case.place, _once_key(case)):
                return denied
            if (asked := self.queue.find(case.task, _once_key(case))) is None:
                asked, future = request, self.queue.put(request, _once_key(case))
                if future.done():  # the queue is full
                    return future.result()
                self._leave(case, request, needs, future)
            raise self._required(case, asked)
        future = self.queue.put(request)
        try:
            async with asyncio.timeout(self.settings.timeout):
                return await future
        except TimeoutError:
            _log.warning("no answer to %s within %g s: it is not allowed", request.id, self.settings.timeout)
            return Reply("deny", "timeout")
        finally:
            self.queue.forget(request.id)

    def _leave(
        self, case: Case, request: ApprovalRequest, needs: Sequence[Need], future: "asyncio.Future[Reply]"
    ) -> None:
        """A question whose answer counts for the next time the same comes."""

        def answered(done: "asyncio.Future[Reply]") -> None:
            reply = Reply("deny", "withdrawn") if done.cancelled() else done.result()
            if reply.answer == "deny":
                self._note(case, "refused", reply.by, request=request.id, comment=reply.reason)
                if reply.by == "user":
                    self._denied.add(case.task, case.place, _once_key(case), reply, self.settings.timeout)
            elif reply.answer in ("session", "always") and reply.answer in request.scope:
                self._keep(case, Allowed("user", reply.answer, request.id, tuple(needs)))
            else:
                self.grants.allow_once(case.task, case.place, _once_key(case), self.settings.timeout)

        future.add_done_callback(answered)

    def _required(self, case: Case, request: ApprovalRequest) -> ApprovalRequired:
        self._note(case, "refused", "queue", request=request.id)
        return ApprovalRequired(
            f"not run: {_why(request.needs)}; it waits for the user's answer: try the very same again later",
            rule=request.needs[0].category, reason="it waits for the user's answer", request=request.id,
            command=request.command, description=_why(request.needs), pattern_key=request.needs[0].rule,
        )  # fmt: skip

    def _request(self, case: Case, needs: Sequence[Need]) -> ApprovalRequest:
        now = self.now()
        request = ApprovalRequest(
            id=f"ask_{secrets.token_hex(6)}", subject=case.subject, command=case.text, verdict=case.verdict,
            task=case.task, environment=case.environment, needs=tuple(needs), scope=self._scope(case, needs),
            reason=_why(needs), asked=now, expires=now + self.settings.timeout, circumstances=case.circumstances(),
        )  # fmt: skip
        return masked(request, self._mask)

    def _scope(self, case: Case, needs: Sequence[Need]) -> dict[str, str]:
        """What each answer would grant, in words. What cannot be told exactly can be allowed for one time alone."""
        scope = {"once": "this text, this time"}
        if all(need.exact for need in needs):
            parts = " and ".join(f"exactly `{need.decoded}`{_bound(case, need)}" for need in needs)
            where = f"in {case.place}, with the same directory, variables and input"
            until = _clock(self.now() + self.settings.session_seconds)
            scope["session"] = f"{parts} {where}, for the task {case.task!r}, until {until}"
            if self.grants.can_keep:
                until = _clock(self.now() + self.settings.always_days * DAY)
                scope["always"] = f"{parts} {where}, for every task, until {until}"
        return scope | {"deny": "nothing"}

    def _keep(self, case: Case, allowed: "Allowed") -> None:
        needs, answer = allowed.needs, allowed.answer
        if answer not in ("session", "always"):
            return
        now, always = self.now(), answer == "always"
        life = self.settings.always_days * DAY if always else self.settings.session_seconds
        kept = [
            Approval(
                command=self._mask(need.decoded), covers=self._mask(self._scope(case, [need])[answer]), key=need.exact,
                environment=case.place,
                program=case.program(need.argv), task=None if always else case.task, granted=now, expires=now + life,
            )
            for need in needs
        ]  # fmt: skip
        try:
            self.grants.add(kept, always=always)
        except ConfigError as error:
            _log.error("this time only: %s", error)

    async def allow_outside(self, case: Case) -> None:
        """Asks whether a text may leave its sandbox, whatever it does. Raises NotPermitted, ApprovalRequired."""
        self.refuse_denied(case)
        need = Need(
            decoded=case.text, reason="it wants to run outside of its sandbox", category="outside", rule="outside",
        )  # fmt: skip
        needs = [need, *needs_of(case, self.rules, "ask")]
        if self._reviewer is not None:
            needs += await self._review(self._reviewer, case, needs)
        if self.grants.take_once(case.task, case.place, _once_key(case)):
            allowed = Allowed("approval", "once")
        elif not self.can_ask:
            raise self._refused(case, "nobody", "nobody can be asked; do it inside, or tell the user what you need")
        else:
            allowed = await self._ask(case, needs)
        await self._confirm(case, allowed, waited=True)

    # -- many at once
    def check_batch(self, under: str, words: tuple[str, ...]) -> None:
        """Raises InvalidArgument for a batch of whatever somebody may think of."""
        if under and len(under.strip("/").split("/")) < 2:
            raise InvalidArgument(f"{under} is too much for a batch; name a directory below it", argument="under")
        problem = breadth(words) if words else ""
        if problem:
            raise InvalidArgument(problem, argument="words")

    async def allow_batch(self, case: Case, budget: Budget, covers: str) -> None:
        """Asks for a number of acts of one kind. Raises NotPermitted."""
        need = Need(decoded=covers, reason="it asks for many acts at once", category="batch", rule="batch")
        if self.settings.mode == "deny" or not self.can_ask:
            raise self._refused(case, "nobody", "nobody can be asked for a batch; do one thing after the other")
        if self.grants.take_once(case.task, case.place, _once_key(case)):  # it was answered meanwhile
            self.grants.add_budget(budget)
            self._note(case, "allowed", "approval", answer="once")
            return
        request = msgspec.structs.replace(
            self._request(case, [need]), scope={"once": self._mask(covers), "deny": "nothing"}
        )
        await self._answered(case, request, [need])
        self.grants.add_budget(budget)
        self._note(case, "allowed", "user", answer="once", request=request.id)

    # -- a second opinion
    async def _review(self, reviewer: Reviewer, case: Case, needs: Sequence[Need]) -> list[Need]:
        """What a model or a scanner wants to be asked about besides. One that fails or takes too long wants it too."""
        request, opinion, why = self._request(case, needs), "ask", "the second opinion was not given in time"
        try:
            async with asyncio.timeout(REVIEW_SECONDS):
                opinion = await answer_of(reviewer, request)
            why = "the second opinion wants to be sure"
        except TimeoutError:
            pass
        except Exception:
            _log.exception("the second opinion failed: it is asked instead")
            why = "the second opinion failed"
        if opinion == "deny":
            raise self._refused(case, "second opinion", "a second opinion says no; do it in another way")
        if opinion == "allow":
            return []
        return [Need(decoded=case.text, reason=why, category="second opinion", rule=SECOND_OPINION)]

    # -- telling
    def _refused(self, case: Case, by: str, why: str, *, request: str = "", comment: str = "") -> NotPermitted:
        verdict = case.verdict
        self._note(case, "refused", by, request=request, comment=comment)
        what = (
            "" if verdict.label != "dangerous" or verdict.reason in why else f"{verdict.reason} ({verdict.category}); "
        )
        return NotPermitted(self._mask(f"not run: {what}{why}"), rule=verdict.category, reason=self._mask(why), by=by)

    def _note(
        self, case: Case, decision: str, by: str, *, answer: str = "", request: str = "", comment: str = ""
    ) -> None:
        verdict = case.verdict
        self._journal.write(
            Decision(
                time=self.now(), decision=decision, by=by, subject=case.subject, task=case.task,
                environment=case.environment, label=verdict.label, category=verdict.category, reason=verdict.reason,
                command=case.text, answer=answer, request=request, comment=comment,
            )
        )  # fmt: skip


SECOND_OPINION = "second-opinion"


def _once_key(case: Case) -> str:
    return f"{case.subject}\0{case.text}\0{case.meaning()}"


def _is_carried(case: Case) -> bool:
    """Whether a program runs as somebody else, elsewhere, or from a file of its own: no budget was asked for that."""
    programs = [act.words[0] for act in case.examined.acts if act.deed == "run" and act.words]
    return any("/" in program or program in CARRIERS for program in programs)


def _why(needs: Sequence[Need]) -> str:
    return "; ".join(dict.fromkeys(f"{need.reason} ({need.category})" for need in needs))


def _bound(case: Case, need: Need) -> str:
    program = case.program(need.argv)
    return f" by {program}" if "/" in program else ""


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M")
