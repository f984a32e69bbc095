"""Whole conversations about approvals, with the exact outcome of every step."""

import asyncio
import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermetic.approvals.approvals import Approvals
from hermetic.approvals.gate import PolicyGate
from hermetic.approvals.settings import ApprovalSettings, RuleSettings
from hermetic.config.settings import Settings
from hermetic.contract.approval import ApprovalRequest, Denial
from hermetic.contract.errors import ExecutionError, InvalidArgument, NotPermitted, UnknownApproval
from hermetic.fleet.opening import open as open_environment
from hermetic.session.environment import Environment
from hermetic.toolbox import Toolbox, refusal
from tests.scenarios.approval_talks import BAD, DEMANDED, TALKS, Say, Talk


class Person:
    """Answers what the next step says, and remembers what was asked."""

    def __init__(self) -> None:
        self.answer: str | None = "deny"
        self.asked: list[ApprovalRequest] = []

    async def __call__(self, request: ApprovalRequest) -> Any:
        self.asked.append(request)
        if self.answer is None:
            await asyncio.Event().wait()
        return self.answer


class Stage:
    """A gate on a real environment per task, with a clock that can be put forward."""

    def __init__(self, directory: Path, settings: dict[str, Any]) -> None:
        self.directory = directory
        self.person = Person()
        told = {name: value for name, value in settings.items() if name != "nobody_there"}
        self._settings = msgspec.convert(
            {**told, "file": str(directory / "approvals.toml")}, ApprovalSettings
        )
        self._is_alone = bool(settings.get("nobody_there"))
        self._environments: dict[str, Environment] = {}
        self._approvals: list[Approvals] = []
        self.ahead = 0.0
        self.restart()

    def restart(self) -> None:
        """Another process, with the same files."""
        approvals = Approvals(self._settings, approver=None if self._is_alone else self.person)
        approvals.now = lambda: time.time() + self.ahead
        self._approvals.append(approvals)
        self.gate = PolicyGate(approvals)

    async def say(self, step: Say) -> None:
        self.person.answer, before = step.answer, len(self.person.asked)
        try:
            await self._do(step)
            outcome = "ran"
        except NotPermitted as error:
            outcome = str(refusal(error)["status"])
        assert outcome == step.outcome, step
        assert len(self.person.asked) - before == step.asks, step

    async def answer(self, answer: Any, *, too_late: bool) -> None:
        """Answers the question that was asked last, which nobody waits for any more when it is too
        late.
        """
        queue = self.gate.approvals.queue
        id = next(reversed(queue._open))
        if too_late:
            with pytest.raises(UnknownApproval):
                queue.answer(id, answer)
        else:
            queue.answer(id, answer)
        for _ in range(2):  # until it was heard
            await asyncio.sleep(0)

    async def _do(self, step: Say) -> None:
        environment = await self._environment(step.task)
        if step.tool == "write":
            path = step.text.replace("~", str(Path.home()))
            await self.gate.write(step.task, [str(self.directory / path)], environment)
        elif step.tool == "code":
            await self.gate.code(step.task, step.text, environment)
        elif step.tool == "batch":
            await self.gate.batch(step.task, environment, **step.more)
        else:
            await self.gate.command(step.task, step.text, environment)
            if step.text.startswith(("export ", "cd ")):
                await environment.run(step.text)

    async def _environment(self, task: str) -> Environment:
        if task not in self._environments:
            self._environments[task] = await open_environment(
                "local", cwd=str(self.directory), login=False
            )
        return self._environments[task]

    async def close(self) -> None:
        for approvals in self._approvals:
            await approvals.close()
        for environment in self._environments.values():
            await environment.close()


@pytest.mark.parametrize("talk", TALKS, ids=lambda talk: talk.name)
async def test_a_conversation_has_the_exact_outcome(talk: Talk, tmp_path: Path) -> None:
    stage = Stage(tmp_path, talk.settings)
    try:
        for step in talk.steps:
            if isinstance(step, Say):
                await stage.say(step)
            elif step.what == "restart":
                stage.restart()
            elif step.what == "later":
                stage.ahead += step.value
            elif step.what.startswith("answer"):
                await stage.answer(step.value, too_late=step.what == "answer too late")
            else:
                [granted] = stage.gate.approvals.grants.all()
                assert stage.gate.approvals.grants.revoke(granted.key)
    finally:
        await stage.close()


def test_there_are_thirty_of_them_and_ten_ways_to_stretch_an_approval() -> None:
    by_name = {talk.name: talk for talk in TALKS}
    assert len(by_name) == len(TALKS) >= 30
    assert set(DEMANDED.values()) <= by_name.keys()
    assert sum(isinstance(step, Say) for talk in TALKS for step in talk.steps) >= 90
    stretched = by_name[DEMANDED["always, and try to stretch it in ten ways"]].steps
    assert (
        len(
            {step.text for step in stretched if isinstance(step, Say) and step.outcome == "blocked"}
        )
        >= 10
    )
    loop = by_name[DEMANDED["a loop of 50 writes under a budget of 20"]].steps
    assert [step.outcome for step in loop if isinstance(step, Say)][1:] == ["ran"] * 20 + [
        "blocked"
    ] * 30


def settings(**more: Any) -> Settings:
    return Settings(approvals=ApprovalSettings(**more))


async def call(toolbox: Toolbox, command: str, **more: Any) -> Any:
    return json.loads(await toolbox.call("terminal", {"command": command, **more}, task_id="t"))


ASK_ECHO = RuleSettings(decision="ask", command=("echo", "*"), matches=("echo hi",))


async def test_a_question_in_the_queue_is_answered_while_the_call_waits(tmp_path: Path) -> None:
    toolbox = Toolbox(
        options={"login": False, "cwd": str(tmp_path)}, settings=settings(rules=(ASK_ECHO,))
    )
    try:
        async with asyncio.timeout(20), toolbox.approvals.attend() as questions:
            calling = asyncio.create_task(call(toolbox, "echo hi"))
            request = await anext(questions)
            assert [one.id for one in toolbox.approvals.pending("t")] == [request.id]
            assert toolbox.approvals.pending("other") == []
            assert request.needs[0].decoded == "echo hi"
            with pytest.raises(InvalidArgument):
                toolbox.approvals.answer(request.id, "maybe")  # type: ignore[arg-type]
            toolbox.approvals.answer(request.id, "once")
            assert (await calling)["output"] == "hi\n"
            with pytest.raises(UnknownApproval, match="answered, withdrawn, or is too old"):
                toolbox.approvals.answer(request.id, "once")
            calling = asyncio.create_task(call(toolbox, "echo hi"))
            toolbox.approvals.withdraw((await anext(questions)).id)
            assert (await calling)["status"] == "blocked"
        assert (await call(toolbox, "echo hi"))["status"] == "blocked"  # nobody attends any more
    finally:
        await toolbox.close(remove=True)


async def test_a_call_that_does_not_wait_is_told_to_come_again(tmp_path: Path) -> None:
    chosen = settings(rules=(ASK_ECHO,), answers="queue", wait=False)
    toolbox = Toolbox(options={"login": False, "cwd": str(tmp_path)}, settings=chosen)
    try:
        async with asyncio.timeout(20):
            first = await call(toolbox, "echo hi")
            assert (first["status"], first["exit_code"]) == ("approval_required", -1)
            assert (first["command"], first["pattern_key"]) == ("echo hi", "ask echo *")
            assert first["error"]
            assert "your rule wants to be asked about echo *" in first["description"]
            # asked once
            assert (await call(toolbox, "echo hi"))["approval_id"] == first["approval_id"]
            toolbox.approvals.answer(first["approval_id"], "once")
            # bound to the command
            assert (await call(toolbox, "echo ho"))["status"] == "approval_required"
            assert (await call(toolbox, "echo hi"))["output"] == "hi\n"
            assert (await call(toolbox, "echo hi"))["status"] == "approval_required"  # and used up
    finally:
        await toolbox.close(remove=True)


async def test_a_denial_reaches_the_next_try_of_a_call_that_does_not_wait(tmp_path: Path) -> None:
    chosen = settings(rules=(ASK_ECHO,), answers="queue", wait=False)
    toolbox = Toolbox(options={"login": False, "cwd": str(tmp_path)}, settings=chosen)
    try:
        async with asyncio.timeout(20):
            first = await call(toolbox, "echo hi")
            toolbox.approvals.answer(first["approval_id"], "deny", "print nothing")
            second = await call(toolbox, "echo hi")
            assert (second["status"], second["refused_by"]) == ("blocked", "user")
            assert "print nothing" in second["error"]
            assert (await call(toolbox, "echo hi"))["status"] == "approval_required"  # asked anew
    finally:
        await toolbox.close(remove=True)


async def silent(request: ApprovalRequest) -> Any:
    await asyncio.Event().wait()


async def broken_approver(request: ApprovalRequest) -> Any:
    raise RuntimeError("the phone is off")


async def impatient(request: ApprovalRequest) -> Any:
    raise TimeoutError


@pytest.mark.parametrize(
    ("approver", "by", "words"),
    [
        (lambda request: "deny", "user", "the user said no: do not try it again"),
        (lambda request: Denial("use the trash"), "user", "the user said no: use the trash;"),
        (silent, "timeout", "the user did not answer within 0.2 s"),
        (impatient, "timeout", "the user did not answer"),
        (broken_approver, "approver failed", "the user could not be asked"),
        (lambda request: "yes", "approver failed", "the user could not be asked"),
    ],
    ids=["deny", "reason", "silence", "approver's own timeout", "exception", "no answer"],
)
async def test_a_refusal_says_who_refused(
    tmp_path: Path, approver: Any, by: str, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    log = tmp_path / "decisions.jsonl"
    timeout = 0.2 if approver is silent else 60
    toolbox = Toolbox(
        options={"login": False, "cwd": str(tmp_path)},
        settings=settings(timeout=timeout, log=str(log)),
        approver=approver,
    )
    try:
        async with asyncio.timeout(50):
            answer = await call(toolbox, BAD)
        assert (answer["status"], answer["refused_by"]) == ("blocked", by)
        assert words in answer["error"]
        assert ("the user said no" in answer["error"]) == (by == "user")
        line = json.loads(log.read_text().splitlines()[-1])
        assert (line["decision"], line["by"]) == ("refused", by)
        assert line.get("comment", "") == ("use the trash" if "trash" in words else "")
        assert ("the approver failed" in caplog.text) == (by == "approver failed")
    finally:
        await toolbox.close(remove=True)


async def test_a_withdrawn_question_is_no_refusal_by_the_user(tmp_path: Path) -> None:
    log = tmp_path / "decisions.jsonl"
    toolbox = Toolbox(
        options={"login": False, "cwd": str(tmp_path)}, settings=settings(log=str(log))
    )
    try:
        async with asyncio.timeout(20), toolbox.approvals.attend() as questions:
            calling = asyncio.create_task(call(toolbox, BAD))
            toolbox.approvals.withdraw((await anext(questions)).id)
            answer = await calling
            assert (answer["status"], answer["refused_by"]) == ("blocked", "withdrawn")
            assert "the user said no" not in answer["error"]
            calling = asyncio.create_task(call(toolbox, BAD))
            toolbox.approvals.answer((await anext(questions)).id, "deny", "use the trash")
            assert "use the trash" in (await calling)["error"]
        by = [json.loads(line)["by"] for line in log.read_text().splitlines()]
        assert by == ["withdrawn", "user"]
    finally:
        await toolbox.close(remove=True)


async def test_a_batch_that_was_answered_meanwhile_is_granted_the_next_time(tmp_path: Path) -> None:
    chosen = settings(answers="queue", wait=False)
    toolbox = Toolbox(options={"login": False, "cwd": str(tmp_path)}, settings=chosen)
    given = {"count": 2, "under": "/srv/app"}
    try:
        async with asyncio.timeout(20):
            first = json.loads(await toolbox.call("request_approval", given, task_id="t"))
            assert first["status"] == "approval_required"
            toolbox.approvals.answer(first["approval_id"], "once")
            wider = json.loads(
                await toolbox.call("request_approval", {**given, "count": 3}, task_id="t")
            )
            assert wider["status"] == "approval_required"  # that is another question
            assert (
                json.loads(await toolbox.call("request_approval", given, task_id="t"))["status"]
                == "approved"
            )
            again = json.loads(await toolbox.call("request_approval", given, task_id="t"))
            assert again["status"] == "approval_required"
    finally:
        await toolbox.close(remove=True)


async def test_an_answer_after_its_time_counts_for_nothing(tmp_path: Path) -> None:
    chosen = settings(rules=(ASK_ECHO,), answers="queue", wait=False, timeout=0.05)
    toolbox = Toolbox(options={"login": False, "cwd": str(tmp_path)}, settings=chosen)
    try:
        async with asyncio.timeout(20):
            first = await call(toolbox, "echo hi")
            await asyncio.sleep(0.1)  # twice the time there is for an answer
            with pytest.raises(UnknownApproval):
                toolbox.approvals.answer(first["approval_id"], "once")
            assert (await call(toolbox, "echo hi"))["status"] == "approval_required"
    finally:
        await toolbox.close(remove=True)


async def test_a_loop_of_fifty_writes_stops_at_a_budget_of_twenty(tmp_path: Path) -> None:
    rule = RuleSettings(decision="ask", path="src/**", matches=("touch src/a",))
    asked: list[ApprovalRequest] = []

    def person(request: ApprovalRequest) -> Any:
        asked.append(request)
        return "once" if request.subject == "batch" else "deny"

    toolbox = Toolbox(
        options={"login": False, "cwd": str(tmp_path)},
        settings=settings(rules=(rule,)),
        approver=person,
    )
    (tmp_path / "src").mkdir()
    try:
        given = {"count": 20, "under": "src", "reason": "one file for each letter"}
        answer = json.loads(await toolbox.call("request_approval", given, task_id="t"))
        assert answer["status"] == "approved"
        assert f"up to 20 changes of files below {tmp_path}/src" in asked[0].scope["once"]
        outcomes = [
            (await call(toolbox, f"touch src/f{number}"))["exit_code"] for number in range(50)
        ]
        assert outcomes == [0] * 20 + [-1] * 30
        assert len(list((tmp_path / "src").iterdir())) == 20
        assert len(asked) == 31
        too_much = json.loads(
            await toolbox.call("request_approval", {"count": 5, "under": "/"}, task_id="t")
        )
        assert "too much for a batch" in too_much["error"]
        shells = json.loads(
            await toolbox.call("request_approval", {"count": 5, "command": ["bash"]}, task_id="t")
        )
        assert "not bash as a whole" in shells["error"]
    finally:
        await toolbox.close(remove=True)


async def test_a_refused_command_opens_nothing(tmp_path: Path) -> None:
    toolbox = Toolbox(options={"login": False, "cwd": str(tmp_path)})
    try:
        answer = await call(toolbox, BAD)
        assert (answer["status"], answer["exit_code"]) == ("blocked", -1)
        assert toolbox.fleet.tasks == []
    finally:
        await toolbox.close(remove=True)


@pytest.mark.parametrize(
    "said", [ExecutionError("gone"), [], {}, None, True, "yes", b"once"], ids=repr
)
async def test_an_error_or_rubbish_of_the_approver_is_no(tmp_path: Path, said: Any) -> None:
    def broken(request: ApprovalRequest) -> Any:
        if isinstance(said, Exception):
            raise said
        return said

    toolbox = Toolbox(options={"login": False, "cwd": str(tmp_path)}, approver=broken)
    try:
        assert (await call(toolbox, BAD))["status"] == "blocked"
    finally:
        await toolbox.close(remove=True)


async def test_a_plain_function_that_hangs_stops_nothing_else_and_answers_too_late(
    tmp_path: Path,
) -> None:
    goes_on, asked = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def hangs(request: ApprovalRequest) -> Any:
        loop.call_soon_threadsafe(asked.set)
        goes_on.wait(60)
        return "once"

    chosen = settings(timeout=2)
    toolbox = Toolbox(
        options={"login": False, "cwd": str(tmp_path)}, approver=hangs, settings=chosen
    )
    try:
        async with asyncio.timeout(20):
            first = asyncio.create_task(call(toolbox, BAD))
            await asked.wait()
            assert not first.done()
            assert (await call(toolbox, "echo hi"))["output"] == "hi\n"
            assert (await first)["status"] == "blocked"
    finally:
        goes_on.set()
        await toolbox.close(remove=True)


SCRIPT = """\
from hermetic_tools import request_approval, write_file
request_approval(20, under="src", reason="one file for each number")
done = 0
for number in range(45):
    answer = write_file(f"src/f{number}.txt", "x")
    done += not answer.get("error")
print("written:", done)
"""


async def test_a_script_asks_once_for_its_loop_and_gets_what_was_shown(tmp_path: Path) -> None:
    rule = RuleSettings(decision="ask", path="src/**", matches=("touch src/a",))
    asked: list[str] = []

    def person(request: ApprovalRequest) -> Any:
        asked.append(request.subject)
        return "once" if request.subject == "batch" else "deny"

    toolbox = Toolbox(
        options={"login": False, "cwd": str(tmp_path)},
        settings=settings(rules=(rule,)),
        approver=person,
    )
    (tmp_path / "src").mkdir()
    try:
        async with asyncio.timeout(60):
            answer = json.loads(await toolbox.call("execute_code", {"code": SCRIPT}, task_id="t"))
        assert "written: 20" in answer["output"], answer
        assert len(list((tmp_path / "src").iterdir())) == 20
        assert asked == ["batch", *["write"] * 25]
    finally:
        await toolbox.close(remove=True)


async def test_an_answer_is_bound_to_the_file_that_the_name_means(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "kubectl"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    person = Person()
    gate = PolicyGate(Approvals(ApprovalSettings(), approver=person))
    async with open_environment(
        "local", cwd=str(tmp_path), login=False, env={"PATH": f"{program.parent}:/usr/bin:/bin"}
    ) as env:
        person.answer = "session"
        await gate.command("t", "kubectl delete ns x", env)
        assert str(program) in person.asked[0].scope["session"]
        await gate.command("t", "kubectl delete ns x", env)
        assert len(person.asked) == 1
        before = program.stat()
        program.write_text("#!/bin/ls\n")  # as many bytes, and as old as it was
        os.utime(program, ns=(before.st_atime_ns, before.st_mtime_ns))
        person.answer = "deny"
        with pytest.raises(NotPermitted):
            await gate.command("t", "kubectl delete ns x", env)
