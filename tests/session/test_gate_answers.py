"""What an answer at the gate covers, and what it never covers: another variable, directory, meaning
or secret.
"""

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

import hermetic
from hermetic.approvals.approvals import Approvals
from hermetic.approvals.context import PolicyContext
from hermetic.approvals.gate import PolicyGate
from hermetic.approvals.settings import ApprovalSettings
from hermetic.contract.approval import ApprovalRequest
from hermetic.contract.errors import ApprovalRequired, NotPermitted
from hermetic.session.environment import Environment
from hermetic.session.keeping import record_of
from tests.session.gates import is_refused, opened

BEYOND = [
    "git push -f origin main > /etc/passwd",
    "sudo git push -f origin main",
    "ssh prod git push -f origin main",
    "PATH=/tmp/x git push -f origin main",
    "/tmp/evil/git push -f origin main",
    "git push -f other main",
]


async def test_a_budget_for_a_program_covers_nothing_beside_or_around_it(tmp_path: Path) -> None:
    answers = ["once"] + ["deny"] * len(BEYOND)
    guard = PolicyGate(
        Approvals(ApprovalSettings(), approver=lambda request: cast(Any, answers.pop(0)))
    )
    place = PolicyContext(
        "local", hermetic.Isolation(kind="local", shared_paths=("/",)), {"cwd": str(tmp_path)}
    )
    await guard.batch("t", place, count=20, words=("git", "push", "-f", "origin"))
    await guard.command("t", "git push -f origin main", place)
    for command in BEYOND:
        with pytest.raises(NotPermitted):
            await guard.command("t", command, place)
    assert not answers


# Variables by which a program does something else, of which no list could name all.
TELLING = [
    "KUBECONFIG",
    "AWS_PROFILE",
    "DOCKER_HOST",
    "GIT_DIR",
    "PYTHONPATH",
    "NODE_OPTIONS",
    "FLUX_NS",
    "X",
    "PATH",
]
ACT = "kubectl delete ns x"


class Asking:
    """A gate whose person says one answer, and counts the questions."""

    def __init__(self, answer: str) -> None:
        self.answer = answer
        self.asked: list[ApprovalRequest] = []
        self.gate = PolicyGate(Approvals(ApprovalSettings(), approver=self._say))

    def _say(self, request: ApprovalRequest) -> Any:
        self.asked.append(request)
        return self.answer

    async def questions(self, command: str, place: Environment | PolicyContext, **more: Any) -> int:
        before = len(self.asked)
        await self.gate.command("t", command, place, **more)
        return len(self.asked) - before


async def test_an_answer_covers_no_variable_that_it_was_given_without(tmp_path: Path) -> None:
    asking = Asking("session")
    async with opened(tmp_path) as env:
        assert [await asking.questions(ACT, env) for _ in range(3)] == [1, 0, 0]
        asking.answer = "once"
        for name in TELLING:
            value = "/opt/x" if name != "PATH" else f"{tmp_path}:/usr/bin:/bin"
            assert await asking.questions(f"{name}={value} {ACT}", env) == 1, name
            assert await asking.questions(f"export {name}={value}; {ACT}", env) == 1, name
            assert await asking.questions(f"true && declare -x {name}={value}; {ACT}", env) == 1, (
                name
            )
            assert await asking.questions(ACT, env, env={name: value}) == 1, name
            await env.run(f"old=${{{name}-}}; export {name}={value}")
            assert await asking.questions(ACT, env) == 1, name
            await env.run(f'export {name}=$old; [ -n "$old" ] || unset {name}; unset old')
            assert await asking.questions(ACT, env) == 0, name


EVERYDAY = [
    "cd src && cd ..",
    "count=3",
    "for f in a b; do g=$f; done",
    "export LANG=C.UTF-8 LC_ALL=C TERM=dumb COLUMNS=200",
    "ls > /dev/null",
    "echo hi | cat",
    "f() { true; }",
    "alias ll='ls -l'",
    "cd /tmp; cd - > /dev/null",
    "set -u",
    "x=$(date)",
    "read -r y <<< hello",
    "a=(1 2 3)",
    "unset count",
    "export PS1='> ' HISTSIZE=10",
]


async def test_everyday_work_between_makes_nobody_asked_again(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    asking = Asking("session")
    async with opened(tmp_path) as env:
        assert await asking.questions(ACT, env) == 1
        for command in EVERYDAY:
            await asking.gate.command("t", command, env)
            await env.run(command)
            assert await asking.questions(ACT, env) == 0, command
        # another directory is another act
        assert await asking.questions(f"cd src && {ACT}", env) == 1


async def test_an_answer_before_the_place_was_opened_holds_in_it(tmp_path: Path) -> None:
    asking = Asking("session")
    async with opened(tmp_path) as env:
        unopened = PolicyContext("local", env.isolation, record_of(env).options)
        assert await asking.questions(ACT, unopened) == 1
        assert await asking.questions(ACT, env) == 0


@pytest.mark.parametrize("name", ["KUBECONFIG", "FLUX_NS"])
async def test_what_a_session_was_given_before_anybody_looked_is_not_its_beginning(
    tmp_path: Path, name: str
) -> None:
    first, later = Asking("session"), Asking("deny")
    async with opened(tmp_path) as env:
        assert await first.questions(ACT, env) == 1
        await env.run(f"export {name}=/prod")
        # as after a restart
        later.gate.approvals.grants.add(first.gate.approvals.grants.all(), always=False)
        assert await is_refused(later.gate, env, ACT)


VARIED = [
    "KUBECONFIG=/prod {}",
    "export KUBECONFIG=/prod; {}",
    "X=1 {}",
    "cd sub && {}",
    "[ -e x ] && export X=1; {}",
]


async def test_a_budget_for_a_program_holds_for_one_directory_and_the_same_variables(
    tmp_path: Path,
) -> None:
    asking = Asking("once")
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "kubectl"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    variables = {"PATH": f"{program.parent}:/usr/bin:/bin"}
    async with hermetic.open("local", cwd=str(tmp_path), login=False, env=variables) as env:
        await asking.gate.batch("t", env, count=50, words=("kubectl", "delete", "ns"))
        assert f"in {tmp_path}, with the same variables" in asking.asked[0].scope["once"]
        assert await asking.questions(ACT, env) == 0
        for varied in VARIED:
            assert await asking.questions(varied.format(ACT), env) == 1, varied
        assert await asking.questions(ACT, env) == 0
        await env.run("export FLUX_NS=prod")
        assert await asking.questions(ACT, env) == 1
        await env.run("unset FLUX_NS")
        program.write_text("#!/bin/ls\n")
        assert await asking.questions(ACT, env) == 1  # another program


@pytest.mark.parametrize(
    "change", ["f() { rm -rf /srv/b; }", "alias g='rm -rf /srv/b'", "D=/srv/b", "cd /"]
)
async def test_an_answer_that_came_later_is_for_what_the_text_meant_then(
    tmp_path: Path, change: str
) -> None:
    settings = ApprovalSettings(answers="queue", wait=False)
    async with opened(tmp_path) as env:
        guard = PolicyGate(Approvals(settings))
        await guard.command("t", "true", env)
        await env.run("f() { rm -rf /srv/a; }; alias g='rm -rf /srv/a'; D=/srv/a")
        text = "f; g; rm -rf $D"
        for answered in (False, True):
            with pytest.raises(ApprovalRequired) as required:
                await guard.command("t", text, env)
            guard.approvals.queue.answer(required.value.request, "once")
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            if answered:
                await guard.command("t", text, env)
            else:
                await env.run(change)


async def test_another_secret_is_another_act(tmp_path: Path) -> None:
    answers = ["session", "deny"]
    async with opened(tmp_path) as env:
        guard = PolicyGate(
            Approvals(ApprovalSettings(), approver=lambda request: cast(Any, answers.pop(0)))
        )
        await env.run("export KUBE_TOKEN=hunter2")
        for _ in range(2):
            await guard.command("t", "kubectl delete ns x", env)
        await env.run("export KUBE_TOKEN=hunter3")
        assert await is_refused(guard, env, "kubectl delete ns x")


async def test_a_variable_that_is_no_utf_8_does_not_stand_in_the_way_of_a_question(
    tmp_path: Path,
) -> None:
    asking = Asking("once")
    async with opened(tmp_path) as env:
        await env.run(r"export ODD=$'caf\xe9'")
        assert await asking.questions(ACT, env) == 1


@pytest.mark.parametrize("settings", [{"nobody": "allow"}, {"mode": "deny"}, {}], ids=str)
async def test_leaving_the_sandbox_and_a_batch_need_a_person_in_every_mode(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    place = PolicyContext(
        "local", hermetic.Isolation(kind="local", shared_paths=("/",)), {"cwd": str(tmp_path)}
    )
    gate = PolicyGate(Approvals(ApprovalSettings(**settings)))
    with pytest.raises(NotPermitted, match="no user"):
        await gate.command("t", "true", place, outside=True)
    with pytest.raises(NotPermitted, match="no user"):
        await gate.batch("t", place, count=2, under=str(tmp_path / "a"))


async def test_leaving_the_sandbox_and_a_batch_are_asked_about_where_all_else_is_allowed(
    tmp_path: Path,
) -> None:
    asked: list[str] = []

    def person(request: ApprovalRequest) -> Any:
        asked.append(request.subject)
        return "once"

    place = PolicyContext(
        "local", hermetic.Isolation(kind="local", shared_paths=("/",)), {"cwd": str(tmp_path)}
    )
    gate = PolicyGate(Approvals(ApprovalSettings(mode="allow"), approver=person))
    await gate.command("t", "rm -rf /srv/x", place)
    await gate.command("t", "true", place, outside=True)
    await gate.batch("t", place, count=2, under=str(tmp_path / "a"))
    assert asked == ["outside", "batch"]
