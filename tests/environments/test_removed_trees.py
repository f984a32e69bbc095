"""Directories that commands could write to are removed and searched, whatever they have made there."""

import os
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermetic.environments.unix_socket import is_listened_in, listeners
from hermetic.fleet.garbage import collect
from hermetic.registry.janitor_process import remove_tree, sockets_in
from hermetic.registry.records import Records
from tests.environments.ordinary_user import OrdinaryUser
from tests.programs import need_root, need_variable

DEEP = 3000  # directories: more than Python's stack, a process's descriptors and a path hold

MAKE = """
import os, sys
def make(depth):
    os.mkdir("d")
    os.chdir("d")
    open("file", "w").close()
    if depth:
        make(depth - 1)
sys.setrecursionlimit(10**6)
here = os.open(".", os.O_RDONLY)
os.mkdir("closed")
make(50)
os.fchdir(here)
os.makedirs("closed/a/b")
open("closed/a/b/file", "w").close()
os.chmod("closed/a/b", 0)
os.chmod("closed/a", 0o500)
os.chmod("closed", 0o400)
os.symlink("/etc", "link")
"""
REMOVE = """
import os, sys
from hermetic.registry.janitor_process import remove_tree
os.mkdir("tree")
os.chdir("tree")
exec(sys.argv[1])
os.chdir(os.environ["HOME"])
remove_tree("tree")
print(os.path.exists("tree"), os.path.isdir("/etc"))
"""


@pytest.fixture(autouse=True)
def swept(tmp_path: Path) -> Iterator[None]:
    """Removes what pytest itself cannot."""
    yield
    subprocess.run(["rm", "-rf", tmp_path], check=True)


def deep(path: Path, depth: int = DEEP) -> None:
    """Makes directories in directories, with a file in the last."""
    path.mkdir(parents=True, exist_ok=True)
    at = os.open(path, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=at)
        inner = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = inner
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=at))
    os.close(at)


def test_a_tree_is_removed_however_deep_it_is(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o700)
    (outside / "file").touch()
    tree = tmp_path / "tree"
    deep(tree / "a")
    deep(tree / "b" / "d", 30)
    (tree / "link").symlink_to(outside)
    (tree / "a" / "d" / "link").symlink_to(outside)
    remove_tree(tree)
    assert not tree.exists()
    assert (outside / "file").exists()
    assert outside.stat().st_mode & 0o777 == 0o700


def test_a_link_is_not_followed_and_a_missing_tree_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there")
    remove_tree(tmp_path / "link")
    remove_tree(tmp_path / "missing")
    assert (tmp_path / "there").exists()


def test_a_tree_is_removed_though_its_owner_may_not_enter_it() -> None:
    need_root("only root can run something as another user")
    with tempfile.TemporaryDirectory(prefix="hm-", dir="/tmp") as home:
        user = OrdinaryUser(need_variable("APPTAINER_USER"), Path(home))
        assert user.run(f"import os; os.chdir({home!r})\n" + REMOVE, MAKE).split() == [
            "False",
            "True",
        ]


async def test_gc_removes_what_a_command_has_made_very_deep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMETIC_SPOOL_DIR", str(tmp_path / "spools"))
    (tmp_path / "run").mkdir(mode=0o700)
    records = Records(tmp_path / "run")
    left = records.root / "t-0123456789abcdef" / "place"
    deep(left)
    spool = tmp_path / "spools" / f"t-0123456789abcdef.{records.tag}.ab"
    (tmp_path / "spools").mkdir(mode=0o700)
    deep(spool)
    assert not await is_listened_in(left.parent)
    problems: list[str] = []
    removed = await collect(records, (), problems)
    assert {"directory", "spool"} <= {one.what for one in removed}
    assert not left.parent.exists()
    assert not spool.exists()


async def test_sockets_are_found_where_residents_have_them_and_no_link_is_followed(
    tmp_path: Path,
) -> None:
    place = tmp_path / "place"
    deep(place)
    with socket.socket(socket.AF_UNIX) as ours, socket.socket(socket.AF_UNIX) as other:
        (tmp_path / "elsewhere").mkdir()
        other.bind(str(tmp_path / "elsewhere" / "s"))
        other.listen()
        (place / "link").symlink_to(tmp_path / "elsewhere" / "s")
        assert list(sockets_in(place)) == []
        assert await listeners(place) == []
        ours.bind(str(place / "s"))
        ours.listen()
        assert list(sockets_in(place)) == [str(place / "s")]
        assert await listeners(place) == [os.getpid()]
