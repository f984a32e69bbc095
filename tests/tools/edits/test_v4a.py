"""Patches are read as they are meant, and what cannot be read is named by its line."""

import pytest

from hermetic.contract.errors import EditRefused
from hermetic.tools.edits.planning import diff_of, paths_of, plan
from hermetic.tools.edits.v4a import Add, Delete, Hunk, Update, parse


def test_every_operation_is_read_in_its_order() -> None:
    patch = """\
*** Begin Patch
*** Update File: a.py
*** Move to: b.py
@@ class A:
@@ def f(self):
 stays
-goes
+comes

 after a blank line
@@
+last
*** End of File
*** Add File: dir/new.txt
+one
+
+three
*** Delete File: old.txt
*** Move File: c d.txt -> e f.txt
*** End Patch
what follows is not read"""
    hunks = (
        Hunk(
            number=4,
            hints=("class A:", "def f(self):"),
            lines=(
                (" ", "stays"),
                ("-", "goes"),
                ("+", "comes"),
                (" ", ""),
                (" ", "after a blank line"),
            ),
        ),
        Hunk(number=11, lines=(("+", "last"),), at_end=True),
    )
    operations = parse(patch)
    assert operations == [
        Update(path="a.py", number=2, hunks=hunks, to="b.py"),
        Add(path="dir/new.txt", number=14, text="one\n\nthree\n"),
        Delete(path="old.txt", number=18),
        Update(path="c d.txt", number=19, to="e f.txt"),
    ]
    assert paths_of(operations) == ["a.py", "b.py", "dir/new.txt", "old.txt", "c d.txt", "e f.txt"]


@pytest.mark.parametrize(
    "patch",
    [
        "*** Update File: f\n-a\n+b",
        "*** Begin Patch\r\n*** Update File: f\r\n-a\r\n+b\r\n*** End Patch\r\n",
        "```\n*** Begin Patch\n*** Update File: f\n-a\n+b\n*** End Patch\n```",
        "```diff\n*** Update File: f\n-a\n+b\n```",
        "apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: f\n-a\n+b\n*** End Patch\nEOF",
        "*** Begin Patch\n\n*** Update File: `f`\n@@\n-a\n+b\n\n*** End Patch",
        "*** Begin Patch\n*** Update File: f\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n*** End Patch",
        "*** Begin Patch\\n*** Update File: f\\n-a\\n+b\\n*** End Patch",
        "*** Begin Patch\n*** Update File: f\n-a\n+b\n\\ No newline at end of file\n*** End Patch",
    ],
)
def test_what_wraps_a_patch_does_no_harm(patch: str) -> None:
    [change] = plan(parse(patch), {"f": b"a\n"})
    assert change.after == b"b\n"


@pytest.mark.parametrize(
    ("patch", "line", "says"),
    [
        ("", 0, "asks for nothing"),
        ("*** Begin Patch\n*** End Patch", 0, "asks for nothing"),
        ("hello", 1, "is no operation"),
        ("*** Begin Patch\n*** Rename File: a", 2, "is no operation"),
        ("*** Begin Patch\n*** Add File:\n+x", 2, "path is missing"),
        ("*** Begin Patch\n*** Add File: a\nx", 3, "begins with +"),
        ("*** Begin Patch\n*** Update File: a\n*** End Patch", 2, "has no lines"),
        ("*** Begin Patch\n*** Update File: a\n@@ f\n*** End Patch", 3, "no lines follow"),
        ("*** Begin Patch\n*** Update File: a\n stays\n*** End Patch", 3, "nothing would change"),
        ("*** Begin Patch\n*** Update File: a\n-x\ny", 4, "begins with neither"),
        ("*** Begin Patch\n*** Delete File: a\n-x", 3, "no lines of its own"),
        ("*** Begin Patch\n*** Move File: a", 2, "OLD -> NEW"),
        ("*** Begin Patch\n*** Move File: a ->", 2, "OLD -> NEW"),
        ("*** Begin Patch\n*** Move File: a -> ../b", 2, "holds no .."),
        ("*** Begin Patch\n*** Update File: a\n*** Move to: x/../../b\n-x", 3, "holds no .."),
        ("*** Begin Patch\n*** Add File: /a/../etc/x\n+x", 2, "holds no .."),
    ],
)
def test_what_cannot_be_read_is_named_by_its_line(patch: str, line: int, says: str) -> None:
    with pytest.raises(
        EditRefused, match=f"^line {line} of the patch" if line else "^the patch"
    ) as caught:
        parse(patch)
    assert caught.value.reason == "malformed"
    assert says in str(caught.value)


def test_operations_hold_one_after_the_other() -> None:
    patch = """\
*** Add File: new
+one
*** Update File: new
-one
+two
*** Update File: a
-x
+y
*** Update File: a
 y
+z
*** Move File: a -> b
*** Move File: b -> c
*** Delete File: old
*** Add File: old
+again"""
    changes = plan(parse(patch), {"new": None, "a": b"x\n", "b": None, "c": None, "old": b"gone\n"})
    assert {change.path: change.after for change in changes} == {
        "new": b"two\n",
        "a": None,
        "c": b"y\nz\n",
        "old": b"again\n",
    }
    assert [change.source for change in changes if change.path == "c"] == ["a"]
    assert "rename from a\nrename to c\n--- a/a\n+++ b/c\n" in diff_of(changes)
