"""The write_file tool."""

import asyncio
import os
from pathlib import Path

import pytest

from hermetic.config.settings import FilesSettings, Settings
from tests.boxes import opened


async def test_a_file_is_written_and_told_of(tmp_path: Path) -> None:
    async with opened(tmp_path) as box:
        answer = await box.call("write_file", path="a/b", content="grün\n")
        assert answer == {
            "bytes_written": 6,
            "dirs_created": True,
            "resolved_path": f"{tmp_path}/a/b",
            "files_modified": [f"{tmp_path}/a/b"],
        }
        assert (tmp_path / "a/b").read_bytes() == "grün\n".encode()


async def test_an_error_of_the_system_names_the_file_and_no_number(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x\n")
    async with opened(tmp_path) as box:
        for call in (
            box.call("write_file", path="f/x", content="1"),
            box.call("read_file", path="f/x"),
            box.call("patch", path="f/x", old_string="a", new_string="b"),
        ):
            assert (await call)["error"] == f"{tmp_path}/f/x: Not a directory"
        answer = await box.call("patch", path="nope", old_string="a", new_string="b")
        assert answer["error"].startswith("nope: there is no such file; look for")


@pytest.mark.parametrize(
    ("old", "given", "new"),
    [
        (b"a\r\nb\r\n", "x\ny\n", b"x\r\ny\r\n"),
        (b"a\r\nb\r\n", "x\r\ny\n", b"x\r\ny\n"),
        (b"a\nb\n", "x\n", b"x\n"),
        (b"\xef\xbb\xbfa\r\n", "\ufeffx\n", b"\xef\xbb\xbfx\r\n"),
        ("a\n".encode("utf-16"), "ü\n", "ü\n".encode("utf-16")),
        (b"\0binary", "x\n", b"x\n"),
    ],
)
async def test_line_endings_mark_and_encoding_of_the_old_file_are_kept(
    tmp_path: Path, old: bytes, given: str, new: bytes
) -> None:
    (tmp_path / "f").write_bytes(old)
    async with opened(tmp_path) as box:
        await box.call("write_file", path="f", content=given)
    assert (tmp_path / "f").read_bytes() == new


async def test_halves_of_characters_are_refused(tmp_path: Path) -> None:
    (tmp_path / "wide").write_bytes("a\n".encode("utf-16"))
    async with opened(tmp_path) as box:
        for name in ("new", "wide"):
            answer = await box.call("write_file", path=name, content="x \ud83d y")
            assert "'\\ud83d' cannot be written in utf-" in answer["error"]
    assert os.listdir(tmp_path) == ["wide"]
    assert (tmp_path / "wide").read_bytes() == "a\n".encode("utf-16")


async def test_broken_texts_are_refused_unless_they_were_broken_before(tmp_path: Path) -> None:
    async with opened(tmp_path) as box:
        for name, text in (("a.json", "{"), ("a.toml", "x ="), ("a.yaml", "a:\n\tb: 1\n")):
            assert "broken" in (await box.call("write_file", path=name, content=text))["error"]
        assert os.listdir(tmp_path) == []
        (tmp_path / "b.json").write_text("{")
        assert "lint" in await box.call("write_file", path="b.json", content="[")
        assert "error" not in await box.call(
            "write_file", path="tsconfig.json", content="{} // fine"
        )
        new = await box.call("write_file", path="a.py", content="def f(:\n")
        assert new["lint"]["output"].startswith("line 1")
        assert "lint" not in await box.call("write_file", path="a.py", content="def f(:\n")


async def test_what_read_file_shows_is_not_written_back(tmp_path: Path) -> None:
    async with opened(tmp_path) as box:
        assert (
            "line numbers"
            in (await box.call("write_file", path="f", content="1|a\n2|b\n3|\n"))["error"]
        )
        assert "error" not in await box.call(
            "write_file", path="f", content="1|a table\nwith|bars\n"
        )


async def test_the_mark_of_a_hidden_secret_is_not_written_over_the_secret(tmp_path: Path) -> None:
    secret = "token ghp_kX7wQ2mZ9rT4vB8nY1cL5sD3fG6hJ0pAqWeR\n"
    (tmp_path / "f").write_text(secret)
    async with opened(tmp_path) as box:
        shown = (await box.call("read_file", path="f"))["content"].removeprefix("1|")
        assert "would be lost" in (await box.call("write_file", path="f", content=shown))["error"]
    assert (tmp_path / "f").read_text() == secret


async def test_a_file_that_changed_since_it_was_read_or_was_written_by_another_task_is_warned_of(
    tmp_path: Path,
) -> None:
    (tmp_path / "f").write_text("one")
    async with opened(tmp_path) as box:
        await box.call("read_file", path="f")
        assert "_warning" not in await box.call("write_file", path="f", content="two")
        (tmp_path / "f").write_text("another's")
        assert (
            "changed since" in (await box.call("write_file", path="f", content="three"))["_warning"]
        )
        assert (
            "another task"
            in (await box.call("write_file", path="f", content="four", task="u"))["_warning"]
        )


async def test_protected_paths_are_not_written_by_any_way(tmp_path: Path) -> None:
    (tmp_path / ".ssh").mkdir()
    (tmp_path / "way").symlink_to(".ssh")
    async with opened(tmp_path, policy="off") as box:
        for path in (
            ".ssh/config",
            "way/new/x",
            "/etc/sudoers.d/x",
            "/proc/sys/kernel/core_pattern",
            "~/.netrc",
        ):
            answer = await box.call("write_file", path=path, content="x")
            assert (answer["status"], "protected" in answer["error"]) == ("blocked", True), path
    assert os.listdir(tmp_path / ".ssh") == []


async def test_a_write_root_is_not_left(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/way").symlink_to("..")
    settings = Settings(files=FilesSettings(write_root=str(tmp_path / "in")))
    async with opened(tmp_path, settings=settings) as box:
        assert "outside" in (await box.call("write_file", path="f", content="x"))["error"]
        assert "outside" in (await box.call("write_file", path="in/way/f", content="x"))["error"]
        assert "error" not in await box.call("write_file", path="in/f", content="x")
    assert sorted(os.listdir(tmp_path)) == ["in"]


async def test_the_policy_judges_what_is_written(tmp_path: Path) -> None:
    async with opened(tmp_path) as box:
        answer = await box.call("write_file", path="/usr/bin/hermetic-no-such-program", content="x")
        assert answer["status"] == "blocked"
        assert (await box.call("read_file", path="/usr/bin/hermetic-no-such-program"))[
            "content"
        ] == ""


async def test_many_writers_at_once_never_mix(tmp_path: Path) -> None:
    async with opened(tmp_path) as box:
        contents = [f"{number}\n" * 3000 for number in range(20)]
        tries = [
            box.call("write_file", path="f", content=text, task=f"t{at % 2}")
            for at, text in enumerate(contents)
        ]
        answers = await asyncio.gather(*tries)
        assert all("error" not in answer for answer in answers)
        assert (tmp_path / "f").read_text() in contents
