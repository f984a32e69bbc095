"""`hermetic cp`: files and directories, both ways."""

import io
import os
import secrets
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryFile

import pytest

from hermetic.contract.errors import ExecutionError
from hermetic.session import trees
from tests.cli.program import COMMAND, hermetic


@pytest.fixture
def task() -> Iterator[str]:
    """A task that lives."""
    name = f"task-{secrets.token_hex(4)}"
    assert hermetic("run", "--task", name, "--", "true").returncode == 0
    yield name
    hermetic("rm", name)


def copied(*words: str) -> None:
    done = hermetic("cp", *words)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_file_there_and_back(task: str, tmp_path: Path) -> None:
    data = os.urandom(3_000_000)
    (tmp_path / "here").write_bytes(data)
    copied(str(tmp_path / "here"), f"{task}:{tmp_path}/there")
    assert (tmp_path / "there").read_bytes() == data
    (tmp_path / "folder").mkdir()
    copied(f"{task}:{tmp_path}/there", str(tmp_path / "folder"))
    assert (tmp_path / "folder" / "there").read_bytes() == data


def test_a_file_from_standard_input_and_to_standard_output(task: str, tmp_path: Path) -> None:
    data = os.urandom(300_000)
    sent = hermetic("cp", "-", f"{task}:{tmp_path}/there", stdin=data)
    assert (sent.returncode, sent.stderr, (tmp_path / "there").read_bytes()) == (0, b"", data)
    shown = hermetic("cp", f"{task}:{tmp_path}/there", "-")
    assert (shown.returncode, shown.stderr, shown.stdout) == (0, b"", data)
    (tmp_path / "-").write_bytes(b"a name")
    copied(str(tmp_path / "-"), f"{task}:{tmp_path}/named")
    assert (tmp_path / "named").read_bytes() == b"a name"
    for words in (("-", f"{task}:{tmp_path}"), (f"{task}:{tmp_path}", "-")):
        refused = hermetic("cp", *words, stdin=b"x")
        assert (refused.returncode, refused.stdout) == (2, b"")
        assert b"is a directory; standard input and output take one file" in refused.stderr
    assert hermetic("cp", f"{task}:{tmp_path}/missing", "-").returncode == 1


def test_a_copy_without_room_names_its_target(task: str, tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(bytes(100_000))
    source, target = f"{task}:{tmp_path}/there", tmp_path / "here"
    limited = ["bash", "-c", 'ulimit -f 8; exec "$@"', "bash", *COMMAND, "cp", source, str(target)]
    done = subprocess.run(limited, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, f"hermetic: {target}: File too large\n")
    assert not target.exists()


def test_a_directory_there_and_back(task: str, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "a" / "b c").mkdir(parents=True)
    (tree / "a" / "b c" / "-rf").write_text("one\n")
    (tree / "script").write_text("#!/bin/sh\n")
    (tree / "script").chmod(0o755)
    (tree / "link").symlink_to("script")
    copied(str(tree), f"{task}:{tmp_path}/new one")
    copied(f"{task}:{tmp_path}/new one", str(tmp_path / "back"))
    back = tmp_path / "back"
    assert (back / "a" / "b c" / "-rf").read_text() == "one\n"
    assert (back / "script").stat().st_mode & 0o777 == 0o755
    assert (back / "link").readlink() == Path("script")
    copied(str(tree), f"{task}:{tmp_path}/back")  # a directory takes it by its name
    assert (back / "tree" / "script").exists()


def test_a_directory_does_not_take_the_place_of_a_file(task: str, tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "file").write_text("kept")
    for words in (
        ("cp", f"{tmp_path}/tree", f"{task}:{tmp_path}/file"),
        ("cp", f"{task}:{tmp_path}/tree", f"{tmp_path}/file"),
    ):
        done = hermetic(*words)
        assert done.returncode == 2
        assert b"/file is no directory, and SOURCE is one; name" in done.stderr
    assert (tmp_path / "file").read_text() == "kept"


def test_what_leads_outside_is_refused(task: str, tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    bad.mkdir()
    (bad / "link").symlink_to("/etc")
    done = hermetic("cp", f"{task}:{bad}", str(tmp_path / "got"))
    assert done.returncode == 1
    assert b"link" in done.stderr
    assert not (tmp_path / "got" / "link").exists()


def test_a_long_chain_of_links_does_not_lead_outside(tmp_path: Path) -> None:
    """The longest path that the kernel resolves is passed on the way, where older Pythons stop to
    look.
    """
    out, victim = tmp_path / "out", tmp_path / "victim"
    victim.mkdir()
    (victim / "flag").write_text("kept")
    with TemporaryFile() as packed:
        with tarfile.open(fileobj=packed, mode="w") as archive:

            def add(name: str, kind: bytes, target: str = "") -> None:
                member = tarfile.TarInfo(name)
                member.type, member.linkname, member.mode = kind, target, 0o755
                archive.addfile(member, io.BytesIO())

            path, steps = "", "abcdefghijklmnop"
            for step in steps:
                add(os.path.join(path, "d" * 247), tarfile.DIRTYPE)
                add(os.path.join(path, step), tarfile.SYMTYPE, "d" * 247)
                path = os.path.join(path, "d" * 247)
            long = os.path.join(*steps, "l" * 254)
            add(long, tarfile.SYMTYPE, "../" * len(steps))
            add("escape", tarfile.SYMTYPE, f"{long}/../victim")
            add("flag", tarfile.LNKTYPE, "escape/flag")
            add("flag", tarfile.REGTYPE)
            add("escape/flag", tarfile.REGTYPE)
        with pytest.raises(ExecutionError):
            trees._unpack(packed, str(out))
    assert (victim / "flag").read_text() == "kept"


def test_a_link_there_does_not_choose_a_name_here(task: str, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / ".bashrc").write_text("echo yes\n")
    (tmp_path / "report").symlink_to(".bashrc")
    copied(f"{task}:{tmp_path}/report", str(tmp_path / "home"))
    assert os.listdir(tmp_path / "home") == ["report"]


def test_the_directory_of_a_session_does_not_choose_a_name_here(task: str, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    begun = f"mkdir {tmp_path}/.ssh && cd {tmp_path}/.ssh && touch authorized_keys"
    assert hermetic("run", "--task", task, "--", begun).returncode == 0
    for source in (f"{task}:", f"{task}:.", f"{task}:x/.././.."):
        done = hermetic("cp", source, str(tmp_path / "home"))
        assert (done.returncode, os.listdir(tmp_path / "home")) == (2, [])
        assert b"give the target one" in done.stderr
    copied(f"{task}:", str(tmp_path / "home" / "copy"))
    assert os.listdir(tmp_path / "home" / "copy") == ["authorized_keys"]


def test_a_program_stays_one(task: str, tmp_path: Path) -> None:
    (tmp_path / "script").write_text("#!/bin/sh\n")
    (tmp_path / "script").chmod(0o755)
    copied(str(tmp_path / "script"), f"{task}:{tmp_path}/there")
    copied(f"{task}:{tmp_path}/there", str(tmp_path / "back"))
    assert (os.access(tmp_path / "there", os.X_OK), os.access(tmp_path / "back", os.X_OK)) == (
        True,
        True,
    )


def test_a_target_here_that_is_a_link_is_followed_and_a_pipe_is_refused(
    task: str, tmp_path: Path
) -> None:
    (tmp_path / "source").write_text("new")
    (tmp_path / "file").write_text("old")
    (tmp_path / "link").symlink_to("file")
    copied(f"{task}:{tmp_path}/source", str(tmp_path / "link"))
    assert ((tmp_path / "link").is_symlink(), (tmp_path / "file").read_text()) == (True, "new")
    os.mkfifo(tmp_path / "pipe")
    refused = hermetic("cp", f"{task}:{tmp_path}/source", str(tmp_path / "pipe"))
    assert (refused.returncode, (tmp_path / "pipe").is_fifo()) == (2, True)
    assert b"/pipe is no file: nothing was changed" in refused.stderr
    missing = hermetic("cp", f"{task}:{tmp_path}/source", str(tmp_path / "no" / "file"))
    assert missing.returncode == 2
    assert f"there is no directory {tmp_path}/no; make it first" in missing.stderr.decode()


def test_rubbish_instead_of_an_archive_is_said(task: str, tmp_path: Path) -> None:
    (tmp_path / "tar").write_text("#!/bin/sh\necho rubbish\n")
    (tmp_path / "tar").chmod(0o755)
    hermetic("run", "--task", task, "--", f"PATH={tmp_path}:$PATH")
    done = hermetic("cp", f"{task}:{tmp_path}", str(tmp_path / "got"))
    assert done.returncode == 1
    assert b"the archive from the environment is damaged" in done.stderr


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("a", "b"), 2, "one of SOURCE and TARGET is in an environment"),
        (("x:a", "y:b"), 2, "one of SOURCE and TARGET is in an environment"),
        (("/nothing/here", "TASK:/tmp"), 2, "there is no /nothing/here here"),
        (("TASK:/nothing/here", "."), 1, "/nothing/here"),
        (("no-such-task:/a", "."), 1, "`hermetic envs` lists them"),
    ],
)
def test_bad_usage_is_said(task: str, words: tuple[str, ...], code: int, says: str) -> None:
    done = hermetic("cp", *(word.replace("TASK", task) for word in words))
    assert done.returncode == code
    assert says in done.stderr.decode()
