"""Directories that are kept the same on another machine: byte by byte, both ways, and nowhere else."""

import asyncio
import hashlib
import logging
import os
import tarfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

import hermetic
from hermetic import ConfigError, EnvironmentUnavailable
from hermetic.session.mirror import mirror
from hermetic.session.mirror.arrivals import Arrivals
from tests.environments.sshd import Sshd, running


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with running(tmp_path_factory.mktemp("sshd")) as one:
        yield one


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "here").mkdir()
    return tmp_path / "here"


@pytest.fixture
def there(sshd: Sshd, tmp_path: Path) -> Path:
    return sshd.home / tmp_path.name


@pytest.fixture
def options(sshd: Sshd, here: Path, there: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Those of an environment with the two directories mirrored, looked at before every command."""
    monkeypatch.setenv("HERMETIC_FORCE_SYNC", "1")
    return {**sshd.options, "sync": {str(here): f"~/{there.name}"}}


def contents(root: Path) -> dict[str, tuple[Any, ...]]:
    """Everything below a directory: bytes, rights, time and targets."""
    found: dict[str, tuple[Any, ...]] = {}
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(folder, name)
            key = str(path.relative_to(root))
            if path.is_symlink():
                found[key] = ("link", os.readlink(path))
            elif path.is_dir():
                found[key] = ("folder", path.stat().st_mode)
            else:
                digest = hashlib.sha256(path.read_bytes()).hexdigest()
                found[key] = (digest, path.stat().st_mode, path.stat().st_mtime_ns)
    return found


def plant(root: Path) -> None:
    """Files of every sort."""
    (root / "deep" / "er").mkdir(parents=True)
    (root / "empty folder").mkdir(mode=0o700)
    (root / "plain").write_text("ß\n")
    (root / "deep" / "er" / "bytes").write_bytes(bytes(range(256)) * 5000)
    (root / "empty").write_bytes(b"")
    (root / "new\nline 'quoted' $x").write_bytes(b"\0")
    (root / "run").write_text("#!/bin/sh\necho ran\n")
    (root / "run").chmod(0o755)
    (root / "secret").touch(mode=0o600)
    (root / "link").symlink_to("deep/er/bytes")
    (root / "dangling").symlink_to("/nowhere/at/all")
    os.utime(root / "plain", ns=(1_000_000_000_123_456_789, 1_000_000_000_123_456_789))


async def test_files_are_there_byte_by_byte_before_a_command(
    options: dict[str, Any], here: Path, there: Path
) -> None:
    plant(here)
    async with hermetic.open("ssh", **options) as env:
        assert (await env.run(f"cat {there}/plain; {there}/run")).output == "ß\nran\n"
        assert contents(there) == contents(here)


async def test_what_changes_or_goes_here_changes_and_goes_there(
    options: dict[str, Any], here: Path, there: Path
) -> None:
    plant(here)
    async with hermetic.open("ssh", **options) as env:
        await env.run("true")
        (here / "plain").write_text("changed")
        (here / "deep" / "er" / "bytes").unlink()
        (here / "deep" / "er").rmdir()
        (here / "deep" / "er").write_text("a file now")
        (here / "empty").unlink()
        (here / "link").unlink()
        (here / "link").mkdir()
        (here / "link" / "inner").write_text("x")
        process = await env.start("true")
        await process.wait(20)
        assert contents(there) == contents(here)


async def test_a_file_is_looked_for_again_only_after_a_while(
    options: dict[str, Any], here: Path, there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HERMETIC_FORCE_SYNC")
    (here / "f").write_text("one")
    async with hermetic.open("ssh", **options) as env:
        await env.run("true")
        (here / "f").write_text("other")
        assert (await env.run(f"cat {there}/f")).output == "one"
        monkeypatch.setenv("HERMETIC_FORCE_SYNC", "1")
        assert (await env.run(f"cat {there}/f")).output == "other"


async def test_only_what_has_changed_is_sent(
    options: dict[str, Any], here: Path, there: Path
) -> None:
    plant(here)
    async with hermetic.open("ssh", **options) as env:
        await env.run("true")
        before = inodes(there)
        (here / "plain").write_text("changed")
        await env.run("true")
        assert {name for name, number in inodes(there).items() if number != before[name]} == {
            "plain"
        }


def inodes(root: Path) -> dict[str, int]:
    return {path.name: path.lstat().st_ino for path in root.rglob("*")}


async def test_what_commands_changed_comes_back(
    options: dict[str, Any], here: Path, there: Path
) -> None:
    plant(here)
    text = f"""cd {there}; echo more >> plain; mkdir -p made/deep; head -c 3000000 /dev/urandom > made/deep/bytes
        ln -s deep/bytes made/inside; chmod 600 made/deep/bytes; : > made/empty"""
    async with hermetic.open("ssh", **options) as env:
        assert (await env.run(text)).exit_code == 0
        assert not (here / "made").exists()
    there_now = contents(there)
    here_now = contents(here)
    assert here_now["plain"][0] == there_now["plain"][0]
    assert [path for path in there_now if path.startswith("made/")] != []
    assert here_now == there_now


async def test_a_second_caller_of_a_task_goes_on_with_the_same_state(
    options: dict[str, Any], here: Path, there: Path
) -> None:
    (here / "f").write_text("1")
    async with hermetic.open("ssh", task="mirrored", **options) as env:
        await env.run(f"echo 2 > {there}/g")
    assert (here / "g").read_text() == "2\n"
    (here / "f").unlink()
    again = await hermetic.open("ssh", task="mirrored", **options)
    assert (await again.run(f"ls {there}")).output == "g\n"
    await again.close(remove=True)


async def test_both_changed_means_that_what_is_there_wins_with_a_warning(
    options: dict[str, Any], here: Path, there: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (here / "f").write_text("one")
    async with hermetic.open("ssh", **options) as env:
        await env.run(f"echo there > {there}/f")
        (here / "f").write_text("here, later")
    assert (here / "f").read_text() == "there\n"
    assert [record.message for record in caplog.records if "f has changed" in record.message]


async def test_credentials_go_and_never_come_back(
    options: dict[str, Any], here: Path, there: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (here / ".ssh").mkdir()
    for name in (".env", ".ssh/config", "server.pem"):
        (here / name).write_text("mine")
    async with hermetic.open("ssh", **options) as env:
        changed = " ".join(
            f"{there}/{name}" for name in (".env", ".ssh/config", "server.pem", "id_rsa", "kept")
        )
        assert (
            await env.run(f"cat {there}/.env; echo theirs | tee {changed}")
        ).output == "minetheirs\n"
    assert texts(here) == {
        ".env": "mine",
        "config": "mine",
        "server.pem": "mine",
        "kept": "theirs\n",
    }
    assert sum("credentials" in record.message for record in caplog.records) == 4


OBEYED = (
    ".git/hooks/pre-commit",
    ".git/config",
    ".git/commondir",
    ".git/worktrees/w/gitdir",
    ".git/modules/a/b/config",
    "sub/.git/config",
    "sub/mod/.git",
    "hermetic.toml",
    ".hermetic/x",
    ".husky/pre-commit",
)


HOOKS = "[core]\n\thooksPath = .husky\n"


async def test_what_programs_here_obey_does_not_come_back(
    options: dict[str, Any], here: Path, there: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (here / "hermetic.toml").write_text("mine")
    (here / ".git").mkdir()
    (here / ".git/config").write_text(HOOKS)
    async with hermetic.open("ssh", **options) as env:
        names = " ".join((*OBEYED, ".git/HEAD"))
        await env.run(f"cd {there}; for f in {names}; do mkdir -p $(dirname $f); echo x > $f; done")
    assert texts(here) == {"hermetic.toml": "mine", "HEAD": "x\n", "config": HOOKS}
    refused = [record.message for record in caplog.records if "would obey" in record.message]
    assert all(any(message.startswith(name) for message in refused) for name in OBEYED)


def texts(root: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in root.rglob("*") if path.is_file()}


async def test_links_that_lead_elsewhere_stay_there(
    options: dict[str, Any],
    here: Path,
    there: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (here / "sub").mkdir()
    (here / "sub" / "f").write_text("1")
    outside = tmp_path / "outside"
    outside.mkdir()
    async with hermetic.open("ssh", **options) as env:
        await env.run(
            f"cd {there}; ln -s {outside} absolute; ln -s ../../.. above; ln -s sub/f inside; echo x > sub/g"
        )
    assert sorted(os.listdir(here)) == ["inside", "sub"]
    assert sum("leads elsewhere" in record.message for record in caplog.records) == 2


async def test_a_folder_that_became_a_link_there_is_not_followed(
    options: dict[str, Any], here: Path, there: Path, tmp_path: Path
) -> None:
    (here / "sub").mkdir()
    (here / "sub" / "f").write_text("1")
    outside = tmp_path / "outside"
    outside.mkdir()
    async with hermetic.open("ssh", **options) as env:
        await env.run(f"rm -r {there}/sub; ln -s {outside} {there}/sub")
        (here / "sub" / "f").write_text("2, changed")
        assert (
            await env.run(f"cat {there}/sub/f; test -L {there}/sub || echo a folder")
        ).output == ("2, changeda folder\n")
        await env.run(f"rm -r {there}/sub; ln -s {outside} {there}/sub; touch {outside}/f")
        (here / "sub" / "f").unlink()
        await env.run("true")
    assert os.listdir(outside) == ["f"]


async def test_a_folder_that_became_a_link_here_is_not_followed(
    options: dict[str, Any],
    here: Path,
    there: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (here / "sub").mkdir()
    outside = tmp_path / "outside"
    outside.mkdir()
    async with hermetic.open("ssh", **options) as env:
        await env.run(f"echo x > {there}/sub/f")
        (here / "sub").rmdir()
        (here / "sub").symlink_to(outside)
    assert os.listdir(outside) == []
    assert any("here sub is no folder" in record.message for record in caplog.records)


def lie(archive: Path, *members: tarfile.TarInfo) -> None:
    with tarfile.open(archive, "w:") as tar:
        for member in members:
            tar.addfile(member, BytesIO(b"x" * member.size))


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.size, made.mode = (
        kind,
        target,
        int(kind == tarfile.REGTYPE),
        0o6777,
    )
    return made


@pytest.mark.parametrize(
    "lies",
    [
        [member("../out")],
        [member("/tmp/hermetic-test-out")],
        [member("a/../../out")],
        [member("a//b")],
        [member(".")],
        [member("l", tarfile.SYMTYPE, ".."), member("l/out")],
        [member("l", tarfile.LNKTYPE, "/etc/passwd")],
        [member("p", tarfile.FIFOTYPE)],
        [member("d", tarfile.CHRTYPE)],
    ],
    ids=lambda lies: "; ".join(f"{one.name} {one.linkname}".strip() for one in lies),
)
def test_an_archive_that_lies_changes_nothing_elsewhere(
    lies: list[tarfile.TarInfo], tmp_path: Path
) -> None:
    (tmp_path / "here").mkdir()
    lie(tmp_path / "tar", *lies, member("fine"))
    warned: list[str] = []
    came = Arrivals(str(tmp_path / "here"), {}, warned.append).unpack(str(tmp_path / "tar"))
    assert warned
    assert "fine" in came
    assert (tmp_path / "here" / "fine").stat().st_mode & 0o7777 == 0o777
    assert sorted(os.listdir(tmp_path)) == ["here", "tar"]
    assert not any(path.is_symlink() for path in (tmp_path / "here").rglob("*"))


def block(path: Path) -> None:
    """Something else is in the place of a directory."""
    path.rename(path.with_suffix(".away"))
    path.write_text("in the way")


def clear(path: Path) -> None:
    """The directory is back."""
    path.unlink()
    path.with_suffix(".away").rename(path)


async def test_a_failed_sending_is_told_changes_nothing_and_is_tried_again(
    options: dict[str, Any], here: Path, there: Path
) -> None:
    (here / "f").write_text("1")
    async with hermetic.open("ssh", **options) as env:
        await env.run("true")
        block(there)
        (here / "f").write_text("2, changed")
        with pytest.raises(EnvironmentUnavailable, match="could not be sent"):
            await env.run("touch /tmp/hermetic-must-not-run")
        assert not os.access("/tmp/hermetic-must-not-run", os.F_OK)
        clear(there)
        assert (await env.run(f"cat {there}/f")).output == "2, changed"


async def test_too_much_does_not_come_back(
    options: dict[str, Any], here: Path, there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror, "SYNC_BACK", 100_000)
    monkeypatch.setattr(mirror, "SYNC_TRIES", 1)
    env = await hermetic.open("ssh", **options)
    await env.run(f"echo small > {there}/small; head -c 200000 /dev/zero > {there}/big")
    with pytest.raises(EnvironmentUnavailable, match="more than 100000 bytes have changed"):
        await env.close()
    assert os.listdir(here) == []
    # nothing is lost, and nothing of ours is left
    assert sorted(os.listdir(there)) == ["big", "small"]


async def test_taking_back_is_tried_again(options: dict[str, Any], here: Path, there: Path) -> None:
    env = await hermetic.open("ssh", **options)
    await env.run(f"echo x > {there}/f")
    block(there)
    closing = asyncio.create_task(env.close())
    await asyncio.sleep(1)  # the first try fails at once, the second comes two seconds later
    clear(there)
    await closing
    assert (here / "f").read_text() == "x\n"


async def test_taking_back_is_finished_though_the_caller_is_cancelled(
    options: dict[str, Any], here: Path, there: Path
) -> None:
    env = await hermetic.open("ssh", **options)
    await env.run(f"head -c 5000000 /dev/urandom > {there}/big")
    closing = asyncio.create_task(env.close())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert (here / "big").stat().st_size == 5_000_000


@pytest.mark.parametrize(
    "pair", [{"/": "x"}, {"~": "x"}, {"/nowhere": "x"}, {"/usr": "-x"}, {"/usr": ""}], ids=str
)
async def test_directories_that_cannot_be_mirrored_are_refused(
    sshd: Sshd, pair: dict[str, str]
) -> None:
    with pytest.raises(ConfigError) as caught:
        await hermetic.open("ssh", **sshd.options, sync=pair)
    assert caught.value.setting == "sync"


@pytest.fixture(autouse=True)
def warnings_are_seen(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "hermetic.sync")


def test_a_name_that_a_command_chose_acts_on_no_terminal(here: Path, tmp_path: Path) -> None:
    said: list[str] = []
    name = "a\x1b]0;title\x07\n\u202eb"
    with tarfile.open(tmp_path / "tar", "w:", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(tarfile.TarInfo(f"{name}/.git"))
        link = tarfile.TarInfo(f"{name}/link")
        link.type, link.linkname = tarfile.SYMTYPE, f"/{name}"
        tar.addfile(link)
    Arrivals(str(here), {}, said.append).unpack(str(tmp_path / "tar"))
    assert len(said) == 2
    assert all(text.isprintable() for text in said), said
