"""Input to real programs that can run a shell's commands passes the gate."""

import asyncio
from pathlib import Path

import pytest

from hermetic.approvals.settings import ApprovalSettings
from hermetic.config.settings import Settings
from tests.boxes import opened
from tests.programs import need

BAD = "rm -rf /srv/hermetic-test-none"
# Program, its command, what it shows when it reads, what is refused, what passes, and what is shown
# then.
PROGRAMS = [
    ("node", "exec node -i", "> ", f"require('child_process').execSync('{BAD}')", "40 + 2", "42"),
    ("sqlite3", "exec sqlite3 x.db", "sqlite> ", f".shell {BAD}", "select 40 + 2;", "42"),
    ("vim", "exec vim -u NONE -N x.txt", "x.txt", f":!{BAD}", ":!echo $((40 + 2))", "42"),
    ("gdb", "exec gdb -q -nx", "(gdb) ", f"shell {BAD}", "print 40 + 2", "42"),
    ("less", "exec less page.txt", "page.txt", f"!{BAD}", "!echo $((40 + 2))", "42"),
]


@pytest.mark.parametrize(
    ("program", "command", "prompt", "bad", "good", "shown"),
    PROGRAMS,
    ids=[row[0] for row in PROGRAMS],
)
async def test_an_escape_to_a_shell_is_refused_and_the_program_goes_on(
    tmp_path: Path, program: str, command: str, prompt: str, bad: str, good: str, shown: str
) -> None:
    need(program)
    (tmp_path / "page.txt").write_text("a line\n" * 200)
    settings = Settings(approvals=ApprovalSettings(mode="deny"))
    async with opened(tmp_path, settings=settings) as box, asyncio.timeout(60):
        id = (await box.terminal(command, background=True, pty=True))["session_id"]
        assert (await box.process("wait_for", id, data=prompt, timeout=30))["status"] == "matched"
        refused = await box.process("submit", id, data=bad)
        assert refused["status"] == "blocked", refused
        assert (await box.process("submit", id, data=good)).get("status") != "blocked"
        assert (await box.process("wait_for", id, data=shown, timeout=30))["status"] == "matched"
        await box.process("kill", id)
