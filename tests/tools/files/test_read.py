"""The read_file tool."""

import asyncio
import io
import json
import os
import time
import zipfile
from pathlib import Path

import pytest

import hermetic
from tests.boxes import opened
from tests.sizes import scale


async def test_lines_come_with_numbers_and_exact_totals(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("one\ntwo\n\nfour")
    async with opened(tmp_path) as box:
        whole = await box.call("read_file", path="f")
        assert whole["content"] == "1|one\n2|two\n3|\n4|four"
        assert (whole["total_lines"], whole["file_size"], whole["truncated"]) == (4, 13, False)
        page = await box.call("read_file", path=str(tmp_path / "f"), offset=2, limit=2)
        assert page["content"] == "2|two\n3|"
        assert (page["truncated"], page["truncated_by"], page["next_offset"]) == (True, "lines", 4)
        assert "4 lines" in (await box.call("read_file", path="f", offset=9))["hint"]
        (tmp_path / "empty").touch()
        assert (await box.call("read_file", path="empty"))["total_lines"] == 0


async def test_long_lines_and_long_pages_are_cut_and_counted(tmp_path: Path) -> None:
    (tmp_path / "wide").write_text("x" * 5000 + "\nshort\n" + "ü" * 9000)
    (tmp_path / "long").write_text("a line of some length that comes again\n" * 9000)
    async with opened(tmp_path) as box:
        wide = (await box.call("read_file", path="wide"))["content"].split("\n")
        assert wide[0] == "1|" + "x" * 2000 + "… [cut: the line has 5000 characters]"
        assert wide[1] == "2|short"
        assert wide[2] == "3|" + "ü" * 2000 + "… [cut: the line has 18000 bytes]"
        await_long = await box.call("read_file", path="long", limit=99999)
        assert len(await_long["content"].split("\n")) == 2000
        (tmp_path / "broad").write_text(("y" * 500 + "\n") * 1000)
        broad = await box.call("read_file", path="broad", limit=1000)
        assert (broad["truncated_by"], len(broad["content"]) <= 100_000) == ("characters", True)
        following = await box.call("read_file", path="broad", offset=broad["next_offset"], limit=1)
        assert following["content"].startswith(f"{broad['next_offset']}|yyy")


async def test_pages_of_a_large_file_are_those_of_its_lines(tmp_path: Path) -> None:
    lines = scale(30_000_000)
    write_numbers(tmp_path / "large", lines)
    async with opened(tmp_path) as box:
        for offset in (lines // 2, 1, lines, lines // 3):
            page = await box.call("read_file", path="large", offset=offset, limit=2)
            assert page["total_lines"] == lines
            assert page["content"].split("\n")[0] == f"{offset}|{offset - 1}"
        info = await (await box.toolbox.fleet.get("t")).info()
        assert info.rss is not None
        assert info.rss < 40 << 20
        await box.terminal("printf end >>large")
        assert (await box.call("read_file", path="large", offset=lines + 1))[
            "content"
        ] == f"{lines + 1}|end"


def write_numbers(path: Path, lines: int) -> None:
    with path.open("wb") as file:
        for start in range(0, lines, 100_000):
            file.write(b"".join(b"%d\n" % number for number in range(start, start + 100_000)))


async def test_encodings_marks_and_line_endings_are_read(tmp_path: Path) -> None:
    (tmp_path / "mark").write_bytes(b"\xef\xbb\xbfgr\xc3\xbcn\r\nx\r\n")
    (tmp_path / "wide").write_bytes("grün\r\nü਀ਊ\n".encode("utf-16"))
    (tmp_path / "old").write_bytes("größer\nals\n".encode("latin-1"))
    async with opened(tmp_path) as box:
        assert (await box.call("read_file", path="mark"))["content"] == "1|grün\n2|x"
        wide = await box.call("read_file", path="wide")
        assert (wide["content"], wide["encoding"], wide["total_lines"]) == (
            "1|grün\n2|ü਀ਊ",
            "utf-16-le",
            2,
        )
        assert (await box.call("read_file", path="old"))["content"] == "1|größer\n2|als"


async def test_what_is_no_text_is_told_apart(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(os.urandom(100) + b"\0")
    (tmp_path / "picture").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    (tmp_path / "page.pdf").write_text("%PDF-1.4\n")
    os.mkfifo(tmp_path / "pipe")
    async with opened(tmp_path) as box:
        data = await box.call("read_file", path="data")
        assert (data["is_binary"], data["is_image"], data["content"]) == (True, False, "")
        picture = await box.call("read_file", path="picture")
        assert (picture["is_image"], picture["mime_type"]) == (True, "image/png")
        assert (await box.call("read_file", path="page.pdf"))["is_binary"]
        assert "directory" in (await box.call("read_file", path="."))["error"]
        for device in ("pipe", "/dev/zero"):
            assert "device" in (await box.call("read_file", path=device))["error"]


async def test_files_of_the_kernel_have_lines_though_they_say_they_are_empty(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as box:
        read = await box.call("read_file", path="/proc/meminfo", limit=2)
        assert read["content"].startswith("1|MemTotal:")
        assert (read["total_lines"] > 10, read["next_offset"]) == (True, 3)


async def test_what_fails_to_be_read_leaves_nothing_open(tmp_path: Path) -> None:
    async with hermetic.open("local", cwd=tmp_path, login=False) as env:
        resident = (await env.info()).pid
        before = len(os.listdir(f"/proc/{resident}/fd"))
        for _ in range(100):
            with pytest.raises(OSError, match="/mem"):
                await env.read_lines(f"/proc/{resident}/mem", 1, 10)
        # its shells come and go meanwhile
        assert len(os.listdir(f"/proc/{resident}/fd")) < before + 50


async def test_credentials_and_variables_are_not_read_by_any_way(tmp_path: Path) -> None:
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh/id").write_text("key")
    (tmp_path / ".env").write_text("A=1")
    (tmp_path / "innocent").symlink_to(".ssh/id")
    async with opened(tmp_path) as box:
        for path in (".ssh/id", "innocent", "./x/../.env", "/proc/self/environ", "/etc/shadow"):
            answer = await box.call("read_file", path=path)
            assert "protected" in answer["error"] or "does not exist" in answer["error"], path
            assert not answer.get("content")


async def test_a_missing_file_names_similar_ones(tmp_path: Path) -> None:
    (tmp_path / "settings.toml").touch()
    async with opened(tmp_path) as box:
        answer = await box.call("read_file", path="setings.toml")
        assert answer["similar_files"] == ["settings.toml"]
        assert "does not exist" in answer["error"]
        assert (
            "nor does its directory" in (await box.call("read_file", path="no/such/file"))["error"]
        )


async def test_the_same_lines_again_are_unchanged_then_warned_of_then_refused(
    tmp_path: Path,
) -> None:
    (tmp_path / "f").write_text("one\n")
    async with opened(tmp_path) as box:
        assert (await box.call("read_file", path="f"))["content"] == "1|one"
        second = await box.call("read_file", path="./f")
        assert (second["status"], second["content"], "_warning" in second) == (
            "unchanged",
            "",
            False,
        )
        assert "_warning" in await box.call("read_file", path="f")
        assert (await box.call("read_file", path="f"))["status"] == "refused"
        assert (await box.call("read_file", path="f", task="other"))["content"] == "1|one"
        box.toolbox.forget_reads("t")
        assert (await box.call("read_file", path="f"))["content"] == "1|one"
        (tmp_path / "f").write_text("two!\n")
        assert (await box.call("read_file", path="f"))["content"] == "1|two!"


async def test_documents_are_shown_as_text(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "code", "source": ["print(1)\n", "2"], "outputs": [{"text": ["1\n"]}]},
        {"cell_type": "markdown", "source": "# Title"},
    ]
    (tmp_path / "n.ipynb").write_text(json.dumps({"cells": cells}))
    word = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    sheet = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    (tmp_path / "d.docx").write_bytes(
        zipped(
            {
                "word/document.xml": f'<d xmlns:w="{word}"><w:p><w:t>Hello</w:t><w:tab/><w:t>you</w:t></w:p></d>'
            }
        )
    )
    rows = f'<w xmlns="{sheet}"><row><c t="s"><v>0</v></c><c><v>2.5</v></c></row></w>'
    strings = f'<s xmlns="{sheet}"><si><t>name</t></si></s>'
    (tmp_path / "s.xlsx").write_bytes(
        zipped({"xl/worksheets/sheet1.xml": rows, "xl/sharedStrings.xml": strings})
    )
    (tmp_path / "broken.docx").write_bytes(b"no zip")
    async with opened(tmp_path) as box:
        assert "print(1)" in (await box.call("read_file", path="n.ipynb"))["content"]
        assert (await box.call("read_file", path="d.docx"))["content"] == "1|Hello\tyou"
        assert (await box.call("read_file", path="s.xlsx"))["content"] == "1|# sheet 1\n2|name\t2.5"
        assert "cannot be read" in (await box.call("read_file", path="broken.docx"))["error"]


def zipped(parts: dict[str, str]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return data.getvalue()


async def test_secrets_in_a_file_are_hidden_and_its_escape_sequences_stay(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text(
        "token ghp_kX7wQ2mZ9rT4vB8nY1cL5sD3fG6hJ0pAqWeR" + "\n\x1b[31mred\x1b[0m\n"
    )
    async with opened(tmp_path) as box:
        content = (await box.call("read_file", path="notes"))["content"]
        assert "kX7wQ2mZ9rT4vB8n" not in content
        assert content.endswith("2|\x1b[31mred\x1b[0m")


async def test_others_are_served_while_a_large_file_is_counted(tmp_path: Path) -> None:
    lines = scale(500) << 20
    (tmp_path / "large").write_bytes(b"x\n" * lines)
    async with hermetic.open("local", cwd=tmp_path, login=False) as env:
        await env.list_names(".")
        counting = asyncio.ensure_future(env.read_lines("large", lines))
        worst, served = 0.0, 0
        async with asyncio.timeout(60):
            while not counting.done():
                began = time.perf_counter()
                await env.list_names(".")
                worst, served = max(worst, time.perf_counter() - began), served + 1
        assert ((await counting).total, (await counting).text) == (lines, "x")
        # over 100 where processors are idle; counting in the resident itself would give 1
        assert served > 3
        assert worst < 0.3


async def test_a_scripts_calls_are_not_held_to_what_a_model_repeats(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("one\n")
    script = (
        "from hermetic_tools import read_file, search_files\n"
        "print([read_file('f')['content'] for _ in range(5)] == ['1|one'] * 5,\n"
        "      [search_files('one')['total_count'] for _ in range(5)] == [1] * 5)"
    )
    async with opened(tmp_path) as box:
        answer = await box.call("execute_code", code=script)
        assert answer["output"] == "True True\n", answer
        assert (await box.call("read_file", path="f"))["content"] == "1|one"
