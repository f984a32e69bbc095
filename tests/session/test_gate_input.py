"""What is typed into a process is judged by who reads it."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

import hermetic
from hermetic.approvals.approvals import Approvals
from hermetic.approvals.gate import PolicyGate
from hermetic.approvals.settings import ApprovalSettings
from hermetic.contract.approval import ApprovalRequest
from hermetic.contract.errors import NotPermitted
from hermetic.session.environment import Environment
from tests.session.gates import gate, opened


async def typed(
    env: Environment, guard: PolicyGate, command: str, ready: str, *lines: str
) -> list[bool]:
    """Whether each line was refused by the gate."""
    process = await env.start(command, pty=True)
    await process.wait_for(ready, timeout=20)
    outcomes = []
    for line in lines:
        await process.status()
        try:
            await guard.input("t", f"{line}\r", process.info, env)
        except NotPermitted:
            outcomes.append(True)
        else:
            outcomes.append(False)
            await process.submit(line)
            if line.startswith("exec "):
                await process.wait_for(">>> ", timeout=20)
    await process.kill()
    return outcomes


READY_THEN_READS = """exec awk 'BEGIN { print "ready"; fflush() } { print }'"""


async def test_what_is_typed_is_judged_by_who_reads_it(tmp_path: Path) -> None:
    python = f"{sys.executable} -q"
    async with opened(tmp_path) as env:
        guard = gate()
        shell = await typed(
            env,
            guard,
            "exec bash --norc",
            "bash-",
            "ls",
            "rm -rf ~/photos",
            "x=rm",
            "$x -rf ~/photos",
        )
        assert shell == [False, True, False, True]
        code = await typed(
            env,
            guard,
            f"exec {python}",
            ">>> ",
            "import os",
            "os.system('rm -rf ~/photos')",
            "rm -rf ~/photos",
        )
        assert code == [False, True, False]
        other = await typed(
            env, guard, READY_THEN_READS, "ready", "rm -rf ~/photos", "anything's fine {"
        )
        assert other == [False, False]
        changing = await typed(
            env, guard, "exec bash --norc", "bash-", f"exec {python}", "print('rm -rf ~')"
        )
        assert changing == [False, False]


# What is typed into a shell, piece by piece, that would end in running BAD if one of the pieces
# were not seen through.
BAD = "rm -rf ~/victim"
TRICKS: list[tuple[str, tuple[str, ...]]] = [
    ("bash", (BAD, "\r", "\r")),  # the half line still stands there after a refusal
    ("bash", (BAD, "\x01\x15\r")),
    ("bash", (f"{BAD} #", "\x16\x03\r")),
    ("bash", ("trap '' INT\r", BAD, "\x03", "\r")),
    ("bash", (f"rm a\x17{BAD.removeprefix('rm ')}\r",)),
    ("bash", (f"{BAD} # \\\r",)),
    ("bash", (f"echo {BAD}\r", "^echo ^\r", "!!:s/echo//\r", "fc -s echo=\r")),
    ("bash", (f'bind \'"z": "{BAD}\\n"\'\r', "z")),
    ("bash", ("bash <<X\r", f"{BAD}\r", "X\r")),
    ("bash", ("if true; then\r", f"{BAD}\r", "fi\r", "fi\r")),
    ("bash", (f"D=build\r{BAD}\r", "rm -rf ~/$D/../victim\r")),
    ("dash", (f"{BAD};" + "\b" * 40, "\r")),
]


@pytest.mark.parametrize(
    ("shell", "pieces"), TRICKS, ids=[repr(pieces)[:50] for _, pieces in TRICKS]
)
async def test_nothing_dangerous_is_typed_past_the_gate(
    tmp_path: Path, shell: str, pieces: tuple[str, ...]
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "victim").mkdir()
    options: dict[str, Any] = {
        "cwd": str(tmp_path / "work"),
        "login": False,
        "env": {"HOME": str(tmp_path)},
    }
    async with asyncio.timeout(60), hermetic.open("local", **options) as env:
        guard, refused = gate(), 0
        process = await env.start(
            f"PS1='> ' exec {shell}{' --norc' if shell == 'bash' else ''}", pty=True
        )
        await process.wait_for("> ", timeout=20)
        for piece in (*pieces, "\r", "echo do''ne\r"):
            await process.status()
            try:
                await guard.input("t", piece, process.info, env)
            except NotPermitted:
                refused += 1
            else:
                await process.write(piece)
                if piece.startswith("echo do"):
                    await process.wait_for("done", timeout=20)
        await process.kill()
        assert (tmp_path / "victim").exists()
        assert refused


async def test_input_waits_for_the_decision_about_what_was_typed_before(tmp_path: Path) -> None:
    questions: list[ApprovalRequest] = []
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    async def person(request: ApprovalRequest) -> Any:
        questions.append(request)
        return await answer if len(questions) == 1 else "deny"

    async with opened(tmp_path) as env:
        guard = PolicyGate(Approvals(ApprovalSettings(), approver=person))
        process = await env.start("PS1='> ' exec bash --norc", pty=True)
        await process.wait_for("> ", timeout=20)
        await guard.input("t", "rm -rf /srv/x", process.info, env)
        both = [asyncio.create_task(guard.input("t", "\r", process.info, env)) for _ in range(2)]
        answer.set_result("deny")
        outcomes = await asyncio.gather(*both, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [NotPermitted, NotPermitted]
        await process.kill()
