"""Files of the env, read and written as a session sees them."""

import os
from pathlib import Path

import pytest

from hermetic import Bounds, FileChanged, InvalidArgument, NotPermitted, Session


@pytest.mark.parametrize("text", ["", "ß\nno newline"])
async def test_what_is_written_is_read_back(shell: Session, directory: str, text: str) -> None:
    await shell.write_file(f"{directory}/f", text)
    assert await shell.read_file(f"{directory}/f") == text
    assert (await shell.run(["cat", f"{directory}/f"])).output == text


@pytest.mark.parametrize(
    "data", [bytes(range(256)) + b"\0" * 10, b"large" * (1 << 20)], ids=["all bytes", "5 MiB"]
)
async def test_bytes_pass_unchanged(shell: Session, directory: str, data: bytes) -> None:
    await shell.write_file(f"{directory}/f", data)
    assert await shell.read_bytes(f"{directory}/f") == data


async def test_relative_paths_start_at_the_sessions_cwd(shell: Session, directory: str) -> None:
    await shell.run(f"cd '{directory}'")
    await shell.write_file("sub/deep/f", "x")
    assert await shell.read_file("sub/deep/f") == "x"
    assert (await shell.run(["cat", f"{directory}/sub/deep/f"])).output == "x"


async def test_a_missing_file_and_a_directory_are_errors_of_python(
    shell: Session, directory: str
) -> None:
    with pytest.raises(FileNotFoundError, match="nothing-here"):
        await shell.read_file(f"{directory}/nothing-here")
    with pytest.raises(IsADirectoryError):
        await shell.read_file(directory)


async def test_a_file_that_cannot_be_written_is_told(shell: Session, directory: str) -> None:
    await shell.run(f"touch '{directory}/f'")
    with pytest.raises(OSError, match="f"):
        await shell.write_file(f"{directory}/f/below-a-file", "x")


@pytest.mark.parametrize("path", ["", "a\0b"])
async def test_a_path_that_cannot_be_is_refused(shell: Session, path: str) -> None:
    with pytest.raises(InvalidArgument):
        await shell.read_file(path)


async def test_files_are_copied_both_ways(shell: Session, directory: str, tmp_path: Path) -> None:
    data = os.urandom(3_000_000)
    (tmp_path / "here").write_bytes(data)
    await shell.upload(str(tmp_path / "here"), f"{directory}/there")
    await shell.download(f"{directory}/there", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == data


async def test_writing_replaces_as_a_whole(shell: Session, directory: str) -> None:
    await shell.write_file(f"{directory}/f", "a long first content")
    await shell.write_file(f"{directory}/f", "short")
    assert await shell.read_file(f"{directory}/f") == "short"


async def test_a_page_has_its_lines_and_exact_totals(shell: Session, directory: str) -> None:
    await shell.run(f"seq 1 250000 >'{directory}/f'; printf end >>'{directory}/f'")
    page = await shell.read_lines(f"{directory}/f", 249_999, 5)
    assert (page.text, page.lines, page.total) == ("249999\n250000\nend", 3, 250_001)
    await shell.write_file(f"{directory}/data", b"a\0b")
    assert (await shell.read_lines(f"{directory}/data")).is_binary


async def test_a_file_is_changed_only_while_it_is_as_it_was_seen(
    shell: Session, directory: str
) -> None:
    seen = await shell.write_file(f"{directory}/f", "one", expect="")
    assert (await shell.file_status(f"{directory}/f")).signature == seen.signature
    await shell.run(f"echo another >'{directory}/f'")
    with pytest.raises(FileChanged):
        await shell.write_file(f"{directory}/f", "two", expect=seen.signature)
    with pytest.raises(FileChanged):
        await shell.delete_file(f"{directory}/f", expect=seen.signature)
    moved = await shell.move_file(f"{directory}/f", f"{directory}/deep/g")
    assert await shell.read_file(moved.path) == "another\n"


async def test_bounds_hold_for_the_true_path(shell: Session, directory: str) -> None:
    await shell.run(f"cd '{directory}'; mkdir in out in/.keep; ln -s ../out in/way")
    bounds = Bounds(root=f"{directory}/in", deny=["*/.keep/*"])
    for path in ("in/way/f", "in/way/new/f", "out/f", "in/.keep/f"):
        with pytest.raises(NotPermitted):
            await shell.write_file(f"{directory}/{path}", "x", bounds=bounds)
    await shell.write_file(f"{directory}/in/f", "x", bounds=bounds)
    assert (await shell.run(f"cd '{directory}'; ls -A out in/.keep")).output.split() == [
        "in/.keep:",
        "out:",
    ]


async def test_searches_find_lines_and_names(shell: Session, directory: str) -> None:
    await shell.run(f"cd '{directory}'; mkdir sub no; echo no/ >.gitignore")
    await shell.run(f"cd '{directory}'; printf 'a\\nneedle\\n' | tee sub/x.py no/y.py >z")
    found = await shell.search_files("^need", directory, context=1)
    lines = [(path, number, number == 2) for path in ("sub/x.py", "z") for number in (1, 2)]
    assert [(line.path, line.line, line.is_match) for line in found.matches] == lines
    named = await shell.search_files("*.py", directory, target="files")
    assert (named.total, named.counts) == (1, (("sub/x.py", 1),))
