"""Files of the environment, read and written as a session sees them."""

import os
from pathlib import Path

import pytest

import hermetic


async def test_what_is_written_is_read_back(shell: hermetic.Session, directory: str) -> None:
    await shell.write_file(f"{directory}/f", "ß\nno newline")
    assert await shell.read_file(f"{directory}/f") == "ß\nno newline"
    assert (await shell.run(["cat", f"{directory}/f"])).output == "ß\nno newline"


async def test_bytes_pass_unchanged(shell: hermetic.Session, directory: str) -> None:
    data = bytes(range(256)) + b"\0" * 10
    await shell.write_file(f"{directory}/f", data)
    assert await shell.read_bytes(f"{directory}/f") == data


async def test_a_large_file_is_written_and_read_whole(shell: hermetic.Session, directory: str) -> None:
    data = os.urandom(1 << 20) * 5 + b"x"
    await shell.write_file(f"{directory}/f", data)
    assert await shell.read_bytes(f"{directory}/f") == data


async def test_an_empty_file_is_empty(shell: hermetic.Session, directory: str) -> None:
    await shell.write_file(f"{directory}/f", "")
    assert await shell.read_file(f"{directory}/f") == ""


async def test_relative_paths_start_at_the_sessions_cwd(shell: hermetic.Session, directory: str) -> None:
    await shell.run(f"cd '{directory}'")
    await shell.write_file("sub/deep/f", "x")
    assert await shell.read_file("sub/deep/f") == "x"
    assert (await shell.run(["cat", f"{directory}/sub/deep/f"])).output == "x"


async def test_a_missing_file_is_a_file_not_found_error(shell: hermetic.Session, directory: str) -> None:
    with pytest.raises(FileNotFoundError, match="nothing-here"):
        await shell.read_file(f"{directory}/nothing-here")


async def test_a_directory_is_no_file(shell: hermetic.Session, directory: str) -> None:
    with pytest.raises(IsADirectoryError):
        await shell.read_file(directory)


async def test_a_file_that_cannot_be_written_is_told(shell: hermetic.Session, directory: str) -> None:
    await shell.run(f"touch '{directory}/f'")
    with pytest.raises(OSError, match="f"):
        await shell.write_file(f"{directory}/f/below-a-file", "x")


@pytest.mark.parametrize("path", ["", "a\0b"])
async def test_a_path_that_cannot_be_is_refused(shell: hermetic.Session, path: str) -> None:
    with pytest.raises(hermetic.InvalidArgument):
        await shell.read_file(path)


async def test_files_are_copied_both_ways(shell: hermetic.Session, directory: str, tmp_path: Path) -> None:
    data = os.urandom(3_000_000)
    (tmp_path / "here").write_bytes(data)
    await shell.upload(str(tmp_path / "here"), f"{directory}/there")
    await shell.download(f"{directory}/there", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == data


async def test_writing_replaces_as_a_whole(shell: hermetic.Session, directory: str) -> None:
    await shell.write_file(f"{directory}/f", "a long first content")
    await shell.write_file(f"{directory}/f", "short")
    assert await shell.read_file(f"{directory}/f") == "short"
