"""Files of an environment, read and written whole."""

import os
from pathlib import Path
from typing import Literal

import pytest

import hermetic


@pytest.mark.parametrize("size", [0, 5, 1 << 20, (1 << 20) + 1, 3_500_000])
async def test_a_file_of_any_size_goes_there_and_back(tmp_path: Path, size: int) -> None:
    data = os.urandom(size)
    async with hermetic.open("local", cwd=tmp_path) as env:
        await env.write_file("a/b/file", data)
        assert (tmp_path / "a/b/file").read_bytes() == data
        assert await env.read_bytes("a/b/file") == data
        await env.download("a/b/file", str(tmp_path / "down"))
        assert (tmp_path / "down").read_bytes() == data
        await env.upload(str(tmp_path / "down"), "up")
        assert (tmp_path / "up").read_bytes() == data
        assert sorted(os.listdir(tmp_path)) == ["a", "down", "up"]


async def test_relative_paths_start_at_the_sessions_directory(tmp_path: Path) -> None:
    async with hermetic.open("local", cwd=tmp_path) as env:
        await env.run("mkdir sub; cd sub; echo grün > text")
        assert await env.read_file("text") == "grün\n"
        assert await env.read_file(str(tmp_path / "sub/text")) == "grün\n"
        await env.write_file("other", "ö")
        assert (tmp_path / "sub/other").read_bytes() == "ö".encode()


async def test_what_is_missing_or_no_file_is_pythons_own_error(tmp_path: Path) -> None:
    async with hermetic.open("local", cwd=tmp_path) as env:
        with pytest.raises(FileNotFoundError):
            await env.read_file("missing")
        with pytest.raises(IsADirectoryError):
            await env.read_file(".")
        with pytest.raises(FileNotFoundError):
            await env.download("missing", str(tmp_path / "x"))
        assert os.listdir(tmp_path) == []
        with pytest.raises(hermetic.InvalidArgument):
            await env.read_file("")


async def test_paths_that_are_no_text_go_as_they_are(tmp_path: Path) -> None:
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")
    os.mkdir(odd)
    async with hermetic.open("local", cwd=tmp_path) as env:
        await env.write_file(f"{odd}/file", "content")
        assert os.listdir(odd) == ["file"]
        assert await env.read_file(f"{odd}/file") == "content"
        assert (await env.run("cat file", cwd=odd)).output == "content"
        assert await (await env.start("cat file", cwd=odd)).wait(10) == hermetic.Exited(0)
        await env.download(f"{odd}/file", f"{odd}/copy")
        await env.upload(f"{odd}/copy", f"{odd}/again")
        assert sorted(os.listdir(odd)) == ["again", "copy", "file"]
    with pytest.raises(hermetic.ConfigError, match="UTF-8") as caught:
        await hermetic.open("local", cwd=odd)
    assert caught.value.setting == "cwd"


@pytest.mark.parametrize("policy", [None, "deny"])
async def test_paths_may_be_path_objects(policy: Literal["deny"] | None, tmp_path: Path) -> None:
    async with hermetic.open("local", policy=policy, cwd=tmp_path, login=False) as env:
        (own := tmp_path / "own").mkdir()
        assert (await env.run("pwd", cwd=own)).output == f"{own}\n"
        assert (await (await env.start("pwd", cwd=own)).wait(10)).exit_code == 0
        await env.write_file(own / "a", "one\n")
        await env.patch(own / "a", "one", "two")
        await env.move_file(own / "a", own / "b")
        assert await env.read_file(own / "b") == "two\n"
        await env.upload(own / "b", own / "c")
        await env.download(own / "c", own / "d")
        await env.delete_file(own / "b")
        assert await env.list_names(own) == ["c", "d"]
