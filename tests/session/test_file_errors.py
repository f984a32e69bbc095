"""Errors of files: the kernel's own number and the file's name, also of what is full or may not be
written.
"""

import contextlib
import errno
import itertools
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

import hermetic
from hermetic.session.keeping import record_of
from tests.environments.engines import need_engine
from tests.environments.sandboxes import sandbox
from tests.programs import need_variable

SMALL = ("--tmpfs", "/small:size=1m,mode=1777", "--tmpfs", "/var/tmp:size=1m,mode=1777")
PATCH = "*** Begin Patch\n*** Update File: f\n@@\n-one\n+two\n*** End Patch\n"


async def test_an_error_has_the_number_and_the_name(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("")
    async with hermetic.open("local", cwd=str(tmp_path), login=False) as env:
        for path, number in {
            "missing": errno.ENOENT,
            "f/x": errno.ENOTDIR,
            ".": errno.EISDIR,
        }.items():
            with pytest.raises(OSError, match=os.strerror(number)) as caught:
                await env.read_file(path)
            assert caught.value.errno == number
            assert Path(caught.value.filename) == tmp_path / path
        with pytest.raises(FileNotFoundError) as missing:
            await env.patch("gone", "one", "two")
        assert missing.value.errno == errno.ENOENT


async def test_what_is_no_file_is_refused_with_the_number_and_the_name(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    async with hermetic.open("local", cwd=str(tmp_path), login=False) as env:
        for path in ("/dev/full", str(tmp_path / "pipe")):
            for content in ("x", b"x" * (2 << 20)):
                with pytest.raises(
                    PermissionError, match="a device, a socket or a pipe, not a file"
                ) as caught:
                    await env.write_file(path, content)
                assert (caught.value.errno, caught.value.filename) == (errno.EPERM, path)


async def test_what_may_not_be_written_is_not_replaced(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text("one\n")
    file.chmod(0o444)
    # Without capabilities root is bound by modes as everybody is.
    async with sandbox(tmp_path) as env:
        assert (await env.run("echo two > f")).exit_code == 1
        for change in (
            env.write_file("f", "two"),
            env.write_file("f", b"x" * (2 << 20)),
            env.patch(patch=PATCH),
        ):
            with pytest.raises(PermissionError) as caught:
                await change
            assert (caught.value.errno, caught.value.filename) == (errno.EACCES, str(file))
        assert file.read_text() == "one\n"
        assert not [name for name in os.listdir(tmp_path) if name.startswith(".hermetic-")]
        await env.run("chmod 644 f")
        await env.write_file("f", "two")
        assert file.read_text() == "two"


async def test_a_full_disk_is_told_by_its_number_and_a_full_spool_by_its_directory() -> None:
    need_engine("docker")
    async with hermetic.open(
        "docker", image=need_variable("IMAGE_BASE"), extra_args=SMALL, login=False
    ) as env:
        for size in (1_500_000, 900_000):  # by way of a child that writes it, and at once
            await env.run("rm -f /small/*; head -c 500000 /dev/zero > /small/fill")
            with pytest.raises(OSError, match="No space left") as full:
                await env.write_file("/small/f", b"x" * size)
            assert full.value.errno == errno.ENOSPC
        assert full.value.filename == "/small/f"
        with pytest.raises(OSError, match="free space there") as spool:
            await env.write_file("/root/f", b"x" * 5_000_000)
        assert (spool.value.errno, spool.value.filename) == (
            errno.ENOSPC,
            "/var/tmp of the container",
        )
        result = await env.run("head -c 9000000 /dev/zero")
        assert (result.exit_code, result.total_bytes) == (0, 9_000_000)
        assert any("/var/tmp of the container: No space left" in note for note in result.notes)
        assert (await env.run("head -c 100000 /dev/zero")).notes == ()


async def test_a_command_that_finds_no_free_descriptor_says_what_to_do(tmp_path: Path) -> None:
    """Whichever step of its start finds none: the turns leave the resident more and more of them."""
    async with hermetic.open("local", cwd=str(tmp_path), login=False) as env:
        assert (await env.run("true")).exit_code == 0
        pid = record_of(env).pid
        assert pid is not None
        refused = 0
        for free in (0, 0, 0, *range(1, 12)):  # a command that has just ended still gives some back
            with descriptors_left(pid, free):
                result = await env.run("cat", stdin="x", separate=True)
            if isinstance(result.ending, hermetic.Lost):
                assert "Too many open files; end background processes" in result.ending.reason, (
                    result
                )
                refused += 1
            else:
                assert result.output == "x", result
        assert refused, result
        assert result.exit_code == 0, result
        assert (await env.run("echo on")).output == "on\n"


async def test_a_process_that_finds_no_free_descriptor_says_what_to_do(tmp_path: Path) -> None:
    async with hermetic.open("local", cwd=str(tmp_path), login=False) as env:
        # from now on the variables are known, and are not asked for again
        process = await env.start(["true"])
        assert await process.wait(60) == hermetic.Exited(0)
        pid = record_of(env).pid
        assert pid is not None
        for call in (env.start(["cat"]), env.run(["cat"], stdin="x", separate=True)):
            with (
                descriptors_left(pid, 0),
                pytest.raises(hermetic.EnvironmentUnavailable, match="Too many open files; end"),
            ):
                await call
        assert (await env.run(["echo", "on"])).output == "on\n"


@contextlib.contextmanager
def descriptors_left(pid: int, free: int) -> Iterator[None]:
    """Leaves a process this many descriptors to open."""
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    taken = {int(name) for name in os.listdir(f"/proc/{pid}/fd")}
    limit = next(
        itertools.islice(
            (number for number in itertools.count() if number not in taken), free, None
        )
    )
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
