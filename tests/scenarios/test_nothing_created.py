"""What is refused leaves no trace: no environment, no resident, no file, whichever tool was asked."""

import asyncio
import json
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hermetic.approvals.settings import ApprovalSettings
from hermetic.config.settings import FilesSettings, Settings
from hermetic.contract.approval import ApprovalRequest
from hermetic.session.keeping import record_of
from hermetic.toolbox import Toolbox
from hermetic.tools.code.arguments import CodeOptions
from tests.programs import need

BAD = "rm -rf /srv/app"
CODE = "import shutil\nshutil.rmtree('/srv/app')"
ADD = "*** Begin Patch\n*** Add File: {}\n+x\n*** End Patch"

# Tool, what it is given, and how its toolbox is made.
REFUSED: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("terminal", {"command": BAD}, {}),
    ("terminal", {"command": BAD, "background": True}, {}),
    ("terminal", {"command": BAD, "pty": True}, {}),
    ("terminal", {"command": "rm -rf photos", "workdir": "~"}, {}),
    ("terminal", {"command": "ls", "outside": True}, {"policy": "sandbox-first"}),
    ("execute_code", {"code": CODE}, {}),
    ("execute_code", {"code": CODE}, {"code": CodeOptions(isolated=True), "settings": "deny"}),
    ("write_file", {"path": "/etc/hermetic-test", "content": "x"}, {}),
    ("write_file", {"path": "~/.bashrc", "content": "x"}, {}),
    ("write_file", {"path": "~/.ssh/authorized_keys", "content": "x"}, {"policy": "allow"}),
    ("write_file", {"path": "innocent", "content": "x"}, {}),
    ("write_file", {"path": "../beside", "content": "x"}, {"policy": "allow", "settings": "root"}),
    ("patch", {"path": "/etc/hostname", "old_string": "a", "new_string": "b"}, {}),
    ("patch", {"mode": "patch", "patch": ADD.format("~/.profile")}, {}),
    ("patch", {"mode": "patch", "patch": ADD.format(".git/hooks/pre-commit")}, {}),
    ("read_file", {"path": "~/.ssh/id_rsa"}, {}),
    ("request_approval", {"count": 2, "under": "/srv/app"}, {"approver": lambda request: "deny"}),
]


def settings(name: str, directory: Path) -> Settings:
    approvals = ApprovalSettings(
        file=str(directory / "approvals.toml"),
        log=str(directory / "decisions.jsonl"),
        deny=("*rmtree*",),
    )
    root = str(directory / "work") if name == "root" else None
    return Settings(approvals=approvals, files=FilesSettings(write_root=root))


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where residents of this test alone would be."""
    with tempfile.TemporaryDirectory(prefix="h-") as directory:  # a short path: sockets lie in it
        monkeypatch.setenv("HERMETIC_RUNTIME_DIR", directory)
        yield Path(directory)


@pytest.mark.parametrize(
    ("tool", "given", "made"),
    REFUSED,
    ids=[f"{tool} {list(given.values())}"[:60] for tool, given, _ in REFUSED],
)
async def test_a_refused_call_creates_nothing(
    tmp_path: Path, runtime: Path, tool: str, given: dict[str, Any], made: dict[str, Any]
) -> None:
    if made.get("policy") == "sandbox-first" or "code" in made:
        need("bwrap")
    work = tmp_path / "work"
    work.mkdir()
    (work / "innocent").symlink_to("/etc/hermetic-test")
    before = sorted(work.iterdir())
    chosen = settings(made["settings"], tmp_path) if "settings" in made else None
    toolbox = Toolbox(options={"cwd": str(work), "login": False}, **{**made, "settings": chosen})
    try:
        async with asyncio.timeout(20):
            answer = json.loads(await toolbox.call(tool, given, task_id="t"))
        assert answer["status"] == "blocked", answer
        assert os.listdir(runtime) == []
        assert toolbox.fleet.tasks == []
        assert sorted(work.iterdir()) == before
    finally:
        await toolbox.close(remove=True)


@asynccontextmanager
async def toolbox_in(directory: Path, **more: Any) -> AsyncIterator[Toolbox]:
    toolbox = Toolbox(options={"cwd": str(directory), "login": False}, **more)
    try:
        async with asyncio.timeout(30):
            yield toolbox
    finally:
        await toolbox.close(remove=True)


async def call(toolbox: Toolbox, tool: str = "terminal", **given: Any) -> Any:
    return json.loads(await toolbox.call(tool, given, task_id="t"))


async def test_a_place_that_is_only_remembered_is_not_begun_again_for_what_is_refused(
    tmp_path: Path, runtime: Path
) -> None:
    async with toolbox_in(tmp_path) as first:
        await call(first, command="true")
        async with first.fleet.use("t") as environment:
            record = record_of(environment)
        for pid in (record.guardian, record.pid):
            if pid:
                os.kill(pid, signal.SIGKILL)
        async with toolbox_in(tmp_path) as second:
            assert (await call(second, command=BAD))["status"] == "blocked"
            assert second.fleet.tasks == []


async def test_what_began_while_somebody_was_asked_is_part_of_the_judgement(
    tmp_path: Path, runtime: Path
) -> None:
    asked: list[ApprovalRequest] = []
    toolbox: Toolbox

    async def person(request: ApprovalRequest) -> Any:
        asked.append(request)
        if len(asked) > 1:
            return "deny"
        await call(toolbox, command="ls() { touch marker; rm -rf /srv/other; }")
        return "once"

    async with toolbox_in(tmp_path, approver=person) as toolbox:
        answer = await call(toolbox, command=f"{BAD}; ls")
        assert answer["status"] == "blocked"
        assert [need.decoded for need in asked[1].needs] == [BAD, "rm -rf /srv/other"]
        assert not (tmp_path / "marker").exists()


async def test_a_file_that_was_allowed_by_its_name_is_asked_about_once(
    tmp_path: Path, runtime: Path
) -> None:
    asked: list[ApprovalRequest] = []

    def person(request: ApprovalRequest) -> Any:
        asked.append(request)
        return "once"

    (tmp_path / "hooks").mkdir()
    async with toolbox_in(tmp_path, approver=person) as toolbox:
        for path in (
            ".git/hooks/pre-commit",
            str(tmp_path / "hooks" / ".." / ".git" / "hooks" / "post-commit"),
        ):
            asked.clear()
            answer = await call(toolbox, "write_file", path=path, content="#!/bin/sh\n")
            assert "error" not in answer, answer
            assert len(asked) == 1
