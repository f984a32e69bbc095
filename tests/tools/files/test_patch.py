"""The patch tool: what a model gets for an edit, here and in a container."""

import asyncio
import os
from pathlib import Path

import pytest

from hermetic.config.settings import FilesSettings, Settings
from hermetic.contract.approval import ApprovalRequest
from tests.boxes import on_this_side, opened

PATCH = """\
*** Begin Patch
*** Update File: a.py
@@ def f():
-    return 1
+    return 2
*** Add File: new/b.txt
+text
*** Delete File: c.txt
*** Move File: d.txt -> e.txt
*** End Patch"""


@on_this_side
async def test_a_text_becomes_another_and_a_diff_says_so(tmp_path: Path, kind: str) -> None:
    (tmp_path / "a.py").write_bytes(b"def f():\r\n    return 1\r\n")
    async with opened(tmp_path, kind) as box:
        answer = await box.call(
            "patch",
            path="a.py",
            old_string="def f():\n  return 1",
            new_string="def f():\n  return 2",
        )
        assert answer == {
            "success": True,
            "files_modified": ["a.py"],
            "strategy": "trimmed_lines",
            "lines": [1],
            "diff": "--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n def f():\n-    return 1\n+    return 2\n",
        }
        assert (tmp_path / "a.py").read_bytes() == b"def f():\r\n    return 2\r\n"


@on_this_side
async def test_a_patch_changes_many_files_or_none(tmp_path: Path, kind: str) -> None:
    (tmp_path / "a.py").write_text("def f():\n    return 1\n")
    (tmp_path / "c.txt").write_text("c\n")
    (tmp_path / "d.txt").write_text("d\n")
    async with opened(tmp_path, kind) as box:
        missed = await box.call("patch", mode="patch", patch=PATCH.replace("return 1", "return 7"))
        assert (missed["success"], missed["reason"]) == (False, "missing")
        assert sorted(os.listdir(tmp_path)) == ["a.py", "c.txt", "d.txt"]
        answer = await box.call("patch", mode="patch", patch=PATCH)
        assert answer["success"]
        assert answer["files_modified"] == ["a.py"]
        assert answer["files_created"] == ["new/b.txt", "e.txt"]
        assert answer["files_deleted"] == ["c.txt", "d.txt"]
        assert "+    return 2" in answer["diff"]
        assert (await box.terminal("cat a.py new/b.txt e.txt; ls"))["output"] == (
            "def f():\n    return 2\ntext\nd\na.py\ne.txt\nnew\n"
        )


async def test_a_miss_is_explained_and_the_third_advises_to_read(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("alpha beta\ngamma\n")
    async with opened(tmp_path) as box:
        for count in (1, 2, 3):
            answer = await box.call("patch", path="f", old_string="alpha better", new_string="x")
            assert (answer["success"], answer["reason"]) == (False, "missing")
            assert "1|alpha beta" in answer["error"]
            assert ("hint" in answer) == (count == 3)
        assert "read_file" in answer["hint"]
        assert (await box.call("patch", path="f", old_string="gamma", new_string="delta"))[
            "success"
        ]
        assert "hint" not in await box.call("patch", path="f", old_string="nothing", new_string="x")
        twice = await box.call("patch", path="f", old_string="a", new_string="x")
        assert (twice["reason"], (tmp_path / "f").read_text()) == (
            "ambiguous",
            "alpha beta\ndelta\n",
        )


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "needs path"),
        ({"path": "f"}, "needs old_string"),
        ({"path": "f", "old_string": "x"}, "needs new_string"),
        ({"mode": "patch"}, "needs patch"),
        ({"mode": "patch", "patch": "hello"}, "line 1 of the patch"),
        ({"mode": "patch", "patch": "*** Begin Patch\n*** End Patch"}, "asks for nothing"),
        ({"mode": "patch", "patch": "*** Add File: ../x\n+x"}, "holds no .."),
        ({"mode": "patch", "patch": "*** Add File: a/../../x\n+x"}, "holds no .."),
        ({"path": "f", "old_string": "x", "new_string": "1|a\n2|b\n3|c"}, "line numbers"),
        ({"path": "missing", "old_string": "x", "new_string": "y"}, "no such file"),
        ({"path": ".", "old_string": "x", "new_string": "y"}, "directory"),
        ({"mode": "patch", "patch": "*** Add File: f/below\n+x"}, "Not a directory"),
        ({"path": "f\0", "old_string": "x", "new_string": "y"}, "NUL"),
        ({"path": "f", "old_string": "", "new_string": "y"}, "empty"),
        ({"path": "a.json", "old_string": "1", "new_string": ""}, "broken"),
    ],
)
async def test_what_cannot_be_done_says_what_would_be_right(
    tmp_path: Path, given: dict[str, str], says: str
) -> None:
    (tmp_path / "f").write_text("x\n")
    (tmp_path / "a.json").write_text('{"a": 1}\n')
    async with opened(tmp_path) as box:
        answer = await box.call("patch", **given)
        assert says in answer["error"]
        assert not answer.get("success")
        assert (tmp_path / "f").read_text() == "x\n"
        assert (tmp_path / "a.json").read_text() == '{"a": 1}\n'


async def test_only_new_mistakes_are_told(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\ny = 2\n")
    async with opened(tmp_path) as box:
        first = await box.call("patch", path="a.py", old_string="x = 1", new_string="x = (1")
        assert "never closed" in first["lint"]["a.py"]["output"]
        assert "lint" not in await box.call(
            "patch", path="a.py", old_string="y = 2", new_string="y = 3"
        )


async def test_protected_files_and_those_outside_of_the_root_are_not_touched(
    tmp_path: Path,
) -> None:
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh/config").write_text("Host secret\n")
    (tmp_path / "innocent").symlink_to(".ssh/config")
    async with opened(tmp_path) as box:
        for path in (".ssh/config", "innocent", "/etc/passwd"):
            answer = await box.call(
                "patch", path=path, old_string="nothing like it", new_string="y"
            )
            assert answer["status"] == "blocked"
            assert "secret" not in answer["error"]
        mixed = "*** Add File: fine\n+x\n*** Add File: .ssh/new\n+x"
        assert (await box.call("patch", mode="patch", patch=mixed))["status"] == "blocked"
        assert not (tmp_path / "fine").exists()
    (tmp_path / "in").mkdir()
    rooted = Settings(files=FilesSettings(write_root=str(tmp_path / "in")))
    async with opened(tmp_path, settings=rooted) as box:
        answer = await box.call(
            "patch", mode="patch", patch="*** Add File: in/x\n+x\n*** Add File: y\n+y"
        )
        assert answer["status"] == "blocked"
        assert sorted(os.listdir(tmp_path)) == [".ssh", "in", "innocent"]
        assert (await box.call("patch", mode="patch", patch="*** Add File: in/x\n+x"))["success"]


async def test_the_door_is_asked_once_with_all_true_paths(tmp_path: Path) -> None:
    asked: list[ApprovalRequest] = []

    def deny(request: ApprovalRequest) -> str:
        asked.append(request)
        return "deny"

    (tmp_path / "startup").symlink_to("/etc/profile.d")
    (tmp_path / "f").write_text("x\n")
    text = "*** Update File: f\n-x\n+y\n*** Add File: startup/hermetic-test.sh\n+x"
    async with opened(tmp_path, approver=deny) as box:
        answer = await box.call("patch", mode="patch", patch=text)
        assert answer["status"] == "blocked"
        assert len(asked) == 1
        assert f"{tmp_path}/f" in asked[0].command
        assert "/etc/profile.d/hermetic-test.sh" in asked[0].command
    assert (tmp_path / "f").read_text() == "x\n"


@on_this_side
async def test_calls_at_once_lose_no_edit(tmp_path: Path, kind: str) -> None:
    (tmp_path / "f").write_text("".join(f"[{number}] 0\n" for number in range(20)))
    async with opened(tmp_path, kind) as box:
        answers = await asyncio.gather(
            *(
                box.call("patch", path="f", old_string=f"[{n}] 0", new_string=f"[{n}] 1")
                for n in range(20)
            )
        )
        assert all(answer["success"] for answer in answers)
        assert (await box.terminal("cat f"))["output"] == "".join(
            f"[{number}] 1\n" for number in range(20)
        )


async def test_secrets_near_a_miss_are_hidden(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("DATABASE_PASSWORD=hunter2-and-more\nDEBUG=1\n")
    async with opened(tmp_path) as box:
        for old in ("DATABASE_PASSWORD=x\nDEBUG=1", "DATABASE_PASSWORT=", "DEBUG"):
            answer = await box.call("patch", path=".env", old_string=old, new_string=old)
            assert "hunter2" not in str(answer)
            answer = await box.call(
                "patch", path=".env", old_string=old, new_string="y", replace_all=True
            )
            assert "hunter2" not in str(answer)
        assert (tmp_path / ".env").read_text() == "DATABASE_PASSWORD=hunter2-and-more\ny=1\n"


async def test_secrets_in_a_diff_are_hidden(tmp_path: Path) -> None:
    token = "ghp_" + "a1B2" * 9
    (tmp_path / "settings.ini").write_text(f"token = {token}\nx = 1\n")
    async with opened(tmp_path) as box:
        answer = await box.call(
            "patch", path="settings.ini", old_string="x = 1", new_string="x = 2"
        )
        assert "+x = 2" in answer["diff"]
        assert token not in answer["diff"]
        assert token in (tmp_path / "settings.ini").read_text()
