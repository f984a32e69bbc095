"""Writing, deleting and moving files: whole or not at all, by signature, and inside bounds."""

import asyncio
import os
import stat
from pathlib import Path

import pytest

import hermetic
from hermetic.contract.files import Bounds


async def test_a_write_tells_what_it_wrote_and_by_which_signature(tmp_path: Path) -> None:
    async with hermetic.open("local", cwd=str(tmp_path), login=False) as env:
        first = await env.write_file("a/b/f", "one\n")
        assert (first.path, first.size, first.created) == (f"{tmp_path}/a/b/f", 4, True)
        assert first.made == (f"{tmp_path}/a", f"{tmp_path}/a/b")
        assert (await env.file_status("a/b/f")).signature == first.signature
        content = await env.read_content("a/b/f")
        assert (content.data, content.status.signature) == (b"one\n", first.signature)
        second = await env.write_file("a/b/f", "two\n", expect=first.signature)
        assert not second.created
        assert second.signature != first.signature


async def test_a_file_that_changed_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    async with hermetic.open("local", cwd=str(tmp_path), login=False) as env:
        seen = (await env.write_file("f", "one")).signature
        (tmp_path / "f").write_text("another's")
        with pytest.raises(hermetic.InvalidArgument, match="read it again") as caught:
            await env.write_file("f", "two", expect=seen)
        assert (type(caught.value).__name__, caught.value.argument) == ("FileChanged", "expect")
        with pytest.raises(hermetic.InvalidArgument):
            await env.write_file("f", b"x" * (3 << 20), expect=seen)
        with pytest.raises(hermetic.InvalidArgument):
            await env.write_file("f", "two", expect="")
        assert (tmp_path / "f").read_text() == "another's"
        assert os.listdir(tmp_path) == ["f"]


async def test_of_many_who_expect_the_same_one_writes(tmp_path: Path) -> None:
    async with hermetic.open("local", cwd=str(tmp_path), login=False) as env:
        seen = (await env.write_file("f", "start")).signature
        contents = [bytes([65 + number]) * (2 << 20) for number in range(6)]
        tries = [env.write_file("f", content, expect=seen) for content in contents]
        ended = await asyncio.gather(*tries, return_exceptions=True)
        won = [number for number, end in enumerate(ended) if not isinstance(end, Exception)]
        assert len(won) == 1
        assert (tmp_path / "f").read_bytes() == contents[won[0]]


async def test_mode_and_owner_are_kept_and_a_link_is_followed(tmp_path: Path) -> None:
    target = tmp_path / "real" / "f"
    target.parent.mkdir()
    target.write_text("#!/bin/sh\n")
    target.chmod(0o751)
    if os.getuid() == 0:
        os.chown(target, 1234, 4321)
    (tmp_path / "link").symlink_to("real/f")
    async with hermetic.open("local", cwd=str(tmp_path), login=False) as env:
        written = await env.write_file("link", "new")
    assert written.path == str(target)
    assert (tmp_path / "link").is_symlink()
    status = target.stat()
    assert (target.read_text(), stat.S_IMODE(status.st_mode)) == ("new", 0o751)
    if os.getuid() == 0:
        assert (status.st_uid, status.st_gid) == (1234, 4321)


async def test_a_fresh_file_has_the_usual_mode_and_a_given_one_goes_before(tmp_path: Path) -> None:
    async with hermetic.open("local", cwd=str(tmp_path), login=False) as env:
        await env.write_file("plain", "x")
        await env.write_file("secret", "x", mode=0o600)
    assert stat.S_IMODE((tmp_path / "plain").stat().st_mode) == 0o644
    assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600


async def test_what_is_no_file_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    async with hermetic.open("local", cwd=str(tmp_path), login=False) as env:
        with pytest.raises(PermissionError, match="pipe"):
            await env.write_file("pipe", "x")
        with pytest.raises(IsADirectoryError):
            await env.write_file(".", "x")
        with pytest.raises(NotADirectoryError):
            await env.write_file("pipe/below", "x")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


async def test_files_are_deleted_and_moved_and_links_go_themselves(tmp_path: Path) -> None:
    async with hermetic.open("local", cwd=str(tmp_path), login=False) as env:
        seen = (await env.write_file("f", "one")).signature
        (tmp_path / "link").symlink_to("f")
        await env.delete_file("link")
        moved = await env.move_file("f", "deep/er/g", expect=seen)
        assert (moved.path, moved.made) == (
            f"{tmp_path}/deep/er/g",
            (f"{tmp_path}/deep", f"{tmp_path}/deep/er"),
        )
        await env.write_file("h", "other")
        with pytest.raises(hermetic.InvalidArgument):
            await env.move_file("deep/er/g", "h")
        with pytest.raises(hermetic.InvalidArgument):
            await env.delete_file("h", expect="something else")
        assert (tmp_path / "h").read_text() == "other"
        await env.move_file("deep/er/g", "h", replace=True)
        assert (tmp_path / "h").read_text() == "one"
        await env.delete_file("h")
        for missing in (env.delete_file("h"), env.move_file("h", "i"), env.file_status("h")):
            with pytest.raises(FileNotFoundError):
                await missing
        with pytest.raises(IsADirectoryError):
            await env.delete_file("deep")


async def test_nothing_is_written_outside_of_the_root_or_where_it_is_denied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "in"))
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    (inside / "way").symlink_to(outside)
    (inside / "file").symlink_to(outside / "new")
    bounds = Bounds(root=str(inside), deny=["*/.ssh/*", "~/.netrc"])
    async with hermetic.open("local", cwd=str(inside), login=False) as env:
        for path in (
            "../out/x",
            "way/x",
            "way/deep/x",
            "file",
            "/elsewhere/x",
            "a/.ssh/config",
            ".ssh/x",
            ".netrc",
        ):
            with pytest.raises(hermetic.NotPermitted):
                await env.write_file(path, "x", bounds=bounds)
        await env.write_file("f", "x", bounds=bounds)
        with pytest.raises(hermetic.NotPermitted):
            await env.move_file("f", "way/f", bounds=bounds)
        with pytest.raises(hermetic.NotPermitted):
            await env.delete_file("../out/x", bounds=bounds)
        with pytest.raises(hermetic.NotPermitted):
            await env.read_content(".netrc", bounds=bounds)
    assert os.listdir(outside) == []
    assert sorted(os.listdir(inside)) == ["f", "file", "way"]
