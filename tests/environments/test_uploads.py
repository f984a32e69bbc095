"""The portable runtime where it has to be uploaded: once, whole, in a private directory, and
nothing of a failure.
"""

import asyncio
import importlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import hermetic
from hermetic import EnvironmentUnavailable, Unreachable
from hermetic.environments.runtime import store, upload
from tests.environments.plugins import install_jail
from tests.environments.sshd import with_programs
from tests.programs import need_root
from tests.sizes import at_full_size

SECONDS = 60.0
Words = list[str]


class Jail:
    """An environment with one busybox, and the calls by which it is reached."""

    def __init__(self, root: Path, module: Any) -> None:
        self.root, self._module = root, module
        self.appended = 0  # parts of an upload

    def __repr__(self) -> str:
        return f"<Jail {self.root}>"

    def open(self, **options: Any) -> Any:
        """An environment there."""
        return hermetic.open("jail", root=str(self.root), login=False, **options)

    @contextmanager
    def around(self, change: Callable[[Words], Words]) -> Iterator[None]:
        """Changes the programs that run there."""
        self._module.Jail.calls.append(change)
        try:
            yield
        finally:
            self._module.Jail.calls.remove(change)

    @property
    def runtimes(self) -> list[Path]:
        """The directories that hold a runtime, or a part of one."""
        bases = (self.root, self.root / "root", self.root / "tmp", self.root / "var/tmp")
        return [
            path
            for base in bases
            if base.is_dir()
            for path in base.iterdir()
            if path.name.startswith(".h")
        ]

    def replace(self, program: str, text: str) -> None:
        """Puts a script where a program was."""
        (self.root / "bin" / program).unlink()
        (self.root / "bin" / program).write_text(f"#!/bin/sh\n{text}\n")
        (self.root / "bin" / program).chmod(0o755)


@pytest.fixture
def jail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Jail:
    root = install_jail(tmp_path, monkeypatch)
    found = Jail(root, importlib.import_module("jail_kind"))
    append = upload.APPEND
    # An own name for each part that comes: what was not sent again can be seen.
    monkeypatch.setattr(upload, "APPEND", append + "echo part >>/parts\n")
    monkeypatch.setattr(upload, "LEVEL", 1)  # how small archives are is the matter of test_runtime
    return found


def parts(jail: Jail) -> int:
    """How many parts of an upload have come so far."""
    counted = jail.root / "parts"
    return len(counted.read_text().splitlines()) if counted.exists() else 0


async def works(jail: Jail, **options: Any) -> str:
    """The line that says which runtime is in use, once a command has run there."""
    async with jail.open(**options) as env:
        assert (await env.run("kept=1; echo $kept")).output == "1\n"
        return str((await env.info()).runtime)


async def test_it_is_uploaded_once_to_a_private_directory(jail: Jail) -> None:
    assert await works(jail) == "portable python and bash"
    (runtime,) = jail.runtimes
    assert runtime.stat().st_mode & 0o777 == 0o700
    assert len(f"/{runtime.relative_to(jail.root)}/ld.so") <= 27
    assert [path.name for path in runtime.iterdir() if path.name.startswith(".")] == [".runtime"]
    before = parts(jail)
    assert before > 1
    assert await works(jail) == "portable python and bash"
    assert parts(jail) == before


async def test_commands_have_bash_and_no_python_of_ours(jail: Jail) -> None:
    async with jail.open() as env:
        await env.write_file(
            "s",
            "echo in $BASH_VERSION | cut -c1-4; command -v python3; env | grep -e LD_ -e PYTHON",
        )
        assert (await env.run("bash s; x=äö; echo ${#x}")).output == "in 5\n2\n"
        process = await env.start("read -r line; echo got $line", pty=True)
        await process.submit("typed")
        await process.wait_for("got typed", timeout=SECONDS)
        await env.write_file("a", "one\ntwo\n")
        await env.patch("a", "two", "three")
        assert "three" in str(await env.search_files("thr"))


async def test_an_upload_that_breaks_off_is_continued(jail: Jail) -> None:
    def cut(words: Words) -> Words:
        return words if parts(jail) < 3 else ["sh", "-c", "echo the line is cut >&2; exit 1"]

    with jail.around(cut), pytest.raises(Unreachable, match="the line is cut"):
        await jail.open()
    assert parts(jail) == 3
    assert await works(jail) == "portable python and bash"
    whole = parts(jail)
    shutil.rmtree(jail.runtimes[0])
    await works(jail)
    assert parts(jail) == 2 * whole


@pytest.mark.parametrize("damage", ["changed", *at_full_size("missing", "shorter")])
async def test_a_runtime_that_was_damaged_there_is_sent_again(jail: Jail, damage: str) -> None:
    await works(jail)
    file = jail.runtimes[0] / "lib/libc.so.6"
    data = file.read_bytes()
    file.unlink()
    if damage != "missing":
        file.write_bytes(data[:1000] if damage == "shorter" else data[:50000] + b"x" + data[50001:])
    assert await works(jail) == "portable python and bash"


@pytest.mark.parametrize("times", [1, 100])
async def test_what_is_damaged_on_its_way_is_sent_once_more(jail: Jail, times: int) -> None:
    (jail.root / "left").write_text("x" * times)
    jail.replace(
        "cat",
        "if [ -s /left ]; then busybox tail -c +2 /left >/rest; busybox mv /rest /left; "
        'busybox tr A B; else exec busybox cat "$@"; fi',
    )
    if times == 1:
        assert await works(jail) == "portable python and bash"
        return
    with pytest.raises(EnvironmentUnavailable, match="damaged on its way there; try again"):
        await jail.open()
    assert jail.runtimes == []


@pytest.fixture
def small_disk(jail: Jail) -> Iterator[Path]:
    """A file system of three megabytes in the home there."""
    need_root("only root can change the machine's view")
    home = jail.root / "root"
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", home], check=True)
    yield home
    subprocess.run(["umount", home], check=True)


async def test_a_full_disk_there_is_told_and_left_as_it_was(jail: Jail, small_disk: Path) -> None:
    with pytest.raises(
        EnvironmentUnavailable, match="No space left on device; free 28 MB in /root there"
    ):
        await jail.open()
    assert jail.runtimes == []
    assert shutil.disk_usage(small_disk).used == 0


async def test_another_architecture_is_told(jail: Jail) -> None:
    jail.replace("uname", "echo riscv64")
    with pytest.raises(
        EnvironmentUnavailable, match=r"a riscv64 machine.*`hermetic runtime build` on a machine"
    ):
        await jail.open()
    assert jail.runtimes == []


async def test_a_runtime_of_another_architecture_can_be_given(jail: Jail, tmp_path: Path) -> None:
    """As one that was built on a machine like it."""
    jail.replace("uname", "echo riscv64")
    runtime = await store.portable(lean=True)
    given = tmp_path / "given"
    shutil.copytree(runtime.directory, given)
    with pytest.raises(EnvironmentUnavailable, match="is for x86_64, not riscv64"):
        await jail.open(runtime=str(given))
    manifest = given / store.MANIFEST
    manifest.write_text(manifest.read_text().replace('"machine":"x86_64"', '"machine":"riscv64"'))
    assert await works(jail, runtime=str(given)) == "portable python and bash"
    before = parts(jail)
    assert await works(jail, runtime=str(given)) == "portable python and bash"
    assert parts(jail) == before


async def test_directories_where_nothing_can_run_are_told(jail: Jail) -> None:
    with pytest.raises(
        EnvironmentUnavailable, match="may be written and run in the home, /var/tmp or /tmp there"
    ):
        await jail.open(read_only=True)


async def test_missing_programs_are_named(jail: Jail) -> None:
    (jail.root / "bin/tar").unlink()
    with pytest.raises(EnvironmentUnavailable, match="lacks tar: an upload needs sh"):
        await jail.open()


async def test_a_runtime_that_does_not_run_there_is_taken_away(
    jail: Jail, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails = "sh -c 'echo FATAL: kernel too old; exit 127'"
    monkeypatch.setattr(upload, "INSTALL", upload.INSTALL.replace("./python/bin/python3", fails))
    with pytest.raises(
        EnvironmentUnavailable, match="does not run there: FATAL: kernel too old; use an"
    ):
        await jail.open()
    assert jail.runtimes == []


async def test_a_directory_that_another_upload_has_just_made_is_shared(jail: Jail) -> None:
    await works(jail)
    (runtime,) = jail.runtimes
    shutil.rmtree(runtime)
    runtime.mkdir(mode=0o700)
    assert await works(jail) == "portable python and bash"
    assert jail.runtimes == [runtime]


async def test_two_first_opens_share_one_upload(jail: Jail) -> None:
    await asyncio.gather(works(jail), works(jail))
    together = parts(jail)
    shutil.rmtree(jail.runtimes[0])
    await works(jail)
    assert parts(jail) == 2 * together


async def test_two_openers_of_one_machine_may_name_a_directory_at_once(
    jail: Jail, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here both have written the name before either moves it."""
    meet = """
    mv() {
        echo >>"$HOME/met"
        while [ "$(wc -l <"$HOME/met")" -lt 2 ]; do sleep 0.01; done
        command mv "$@"
    }
    """
    monkeypatch.setattr(upload, "CHECK", meet + upload.CHECK)
    await asyncio.gather(works(jail), works(jail))
    assert len(jail.runtimes) == 1
    assert not list(jail.runtimes[0].glob(".name-*"))


async def test_a_failed_upload_leaves_what_others_made(
    jail: Jail, monkeypatch: pytest.MonkeyPatch
) -> None:
    await works(jail)
    (runtime,) = jail.runtimes
    (runtime / "lib/libc.so.6").unlink()
    fails = "sh -c 'exit 127'"
    monkeypatch.setattr(upload, "INSTALL", upload.INSTALL.replace("./python/bin/python3", fails))
    with pytest.raises(EnvironmentUnavailable, match="does not run there"):
        await jail.open()
    assert (runtime / "bin/bash").exists()
    assert not list(runtime.glob(".part-*"))


def test_a_planted_link_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("kept")
    plant = f'say() {{ echo "$@"; }}; token=known; ln -s {victim} "$HOME/.hermetic-probe-$token"'
    done = subprocess.run(
        ["sh", "-c", f"{plant}\n{upload.LOOK}"],
        env={"HOME": str(tmp_path), "PATH": os.defpath},
        capture_output=True,
        text=True,
        check=True,
    )
    assert victim.read_text() == "kept"
    assert f"base {tmp_path}/" not in done.stdout.splitlines()


async def test_a_home_outside_ascii_is_passed_over(jail: Jail) -> None:
    def elsewhere(words: Words) -> Words:
        return ["/röt" if word == "/root" else word for word in words]

    (jail.root / "röt").mkdir()
    (jail.root / "tmp").mkdir()
    with jail.around(elsewhere):
        assert await works(jail) == "portable python and bash"
    assert [path.parent for path in jail.runtimes] == [jail.root / "tmp"]


@pytest.mark.full
async def test_what_has_a_short_name_already_is_passed_over(jail: Jail) -> None:
    """Another runtime, and anything else in the home."""
    await works(jail)
    (first,) = jail.runtimes
    (first / ".runtime").write_text("another\n")
    before = (first / "lib/libc.so.6").stat().st_ino
    assert await works(jail) == "portable python and bash"
    assert (first / "lib/libc.so.6").stat().st_ino == before
    assert len(jail.runtimes) == 2
    (second,) = set(jail.runtimes) - {first}
    shutil.rmtree(second)
    second.mkdir(mode=0o755)
    (second / "notes").write_text("kept")
    assert await works(jail) == "portable python and bash"
    assert [path.name for path in second.iterdir()] == ["notes"]
    assert second.stat().st_mode & 0o777 == 0o755
    (third,) = set(jail.runtimes) - {first, second}
    assert third.parent == first.parent


def age(runtime: Path, days: int = upload.UNUSED_DAYS) -> None:
    """Makes an upload one that was not used for so many days."""
    then = time.time() - (days + 1) * 86400
    os.utime(runtime / ".runtime", (then, then))


async def test_an_upload_removes_the_one_that_it_supersedes(jail: Jail, tmp_path: Path) -> None:
    runtime = await store.portable(lean=True)
    own, apart = tmp_path / "own", tmp_path / "apart"
    for copy in (own, apart):
        shutil.copytree(runtime.directory, copy)
        await works(jail, runtime=str(copy))
    (first,) = jail.runtimes
    age(first, upload.SUPERSEDED_DAYS)
    (apart / store.MANIFEST).write_bytes((apart / store.MANIFEST).read_bytes() + b"\n")
    await works(jail, runtime=str(apart))
    assert first.exists()  # it has another origin
    (own / store.MANIFEST).write_bytes((own / store.MANIFEST).read_bytes() + b"\n\n")
    await works(jail, runtime=str(own))
    assert not first.exists()
    assert len(jail.runtimes) == 2


@pytest.mark.full
async def test_an_upload_removes_others_that_were_not_used_for_long(
    jail: Jail, tmp_path: Path
) -> None:
    runtime = await store.portable(lean=True)
    other = tmp_path / "other"  # another version
    shutil.copytree(runtime.directory, other)
    (other / store.MANIFEST).write_bytes((other / store.MANIFEST).read_bytes() + b"\n")
    (jail.root / "root/.hidden").mkdir()  # not ours
    async with jail.open() as env:
        (first,) = (path for path in jail.runtimes if path.name != ".hidden")
        age(first)
        await works(jail, runtime=str(other))
        assert (await env.run("echo runs on")).output == "runs on\n"
        assert first.exists()
        (second,) = (
            path for path in jail.runtimes if path not in (first, jail.root / "root/.hidden")
        )
    age(second)
    (second / "lib/libc.so.6").unlink()
    await works(jail, runtime=str(other))
    assert not first.exists()
    assert await works(jail) == "portable python and bash"
    assert second.exists()
    age(second)
    await works(jail, runtime=str(other))
    assert time.time() - (second / ".runtime").stat().st_mtime < 86400
    assert (jail.root / "root/.hidden").exists()


async def test_a_prefix_for_which_nothing_can_be_built_is_passed_over(
    jail: Jail, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The path of the loader is shorter on some machines."""
    home = "/home/longer"
    tried = []

    def elsewhere(words: Words) -> Words:
        return [home if word == "/root" else word for word in words]

    async def own(*, lean: bool, prefix: str) -> store.Runtime:
        tried.append(prefix)
        if len(prefix) > 19:
            raise store.CannotBuild(f"{prefix} is too long")
        return await store.portable(lean=lean, prefix=prefix)

    (jail.root / home[1:]).mkdir(parents=True)
    monkeypatch.setattr(upload, "portable", own)
    with jail.around(elsewhere):
        with pytest.raises(EnvironmentUnavailable, match="is too long"):
            await jail.open()
        (jail.root / "var/tmp").mkdir()
        assert await works(jail) == "portable python and bash"
    assert [os.path.dirname(prefix) for prefix in tried] == [home, home, "/var/tmp"]


async def test_a_path_of_another_user_is_passed_over(jail: Jail) -> None:
    need_root("only root can change the machine's view")
    await works(jail)
    (first,) = jail.runtimes
    shutil.rmtree(first)
    first.mkdir()
    os.chown(first, 1234, 1234)
    (jail.root / "tmp").mkdir(exist_ok=True)
    assert await works(jail) == "portable python and bash"
    assert list(first.iterdir()) == []
    assert len(jail.runtimes) == 2


async def test_the_environments_own_programs_can_be_demanded(jail: Jail) -> None:
    with pytest.raises(EnvironmentUnavailable, match=re.escape("no python3 >= 3.8 there")):
        await jail.open(runtime="image")
    assert jail.runtimes == []


LACKING = {"": "portable python and bash", "bash": "portable python", "python3": "portable bash"}


@pytest.mark.parametrize("has", LACKING)
async def test_a_host_that_lacks_them_is_opened_by_ssh(tmp_path: Path, has: str) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "file").write_text("sent")
    with with_programs(tmp_path, f"sleep {has}") as sshd:
        async with hermetic.open("ssh", **sshd.options, sync={str(shared): "there"}) as env:
            assert (await env.info()).runtime == LACKING[has]
            await env.run("kept=1; cd /")
            assert (
                await env.run("echo $kept $PWD; bash -c 'echo in'; command -v python3")
            ).output.startswith("1 /\nin\n")
            assert (await env.run("cat ~/there/file; echo new >~/there/file")).output == "sent"
            async with hermetic.attach(env.id) as again:
                assert (await again.run("echo $kept")).output == "1\n"
    assert (shared / "file").read_text() == "new\n"
