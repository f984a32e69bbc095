"""The search_files tool."""

import asyncio
import os
from pathlib import Path

import pytest

import hermetic
from tests.boxes import opened
from tests.tools.files.trees import plant


async def test_few_matches_are_listed_and_many_grouped(tmp_path: Path) -> None:
    plant(tmp_path)
    async with opened(tmp_path) as box:
        few = await box.call("search_files", pattern="foo", path="sub", context=1)
        assert few["total_count"] == 3
        assert few["matches"][0] == {"path": "sub/deep/c.py", "line": 1, "content": "def foo():"}
        many = await box.call("search_files", pattern="foo", limit=6)
        assert many["matches_text"].startswith("a.py\n2:foo = 1\n3:bar foo\n\nb.txt\n2:FOO foo\n")
        assert (many["truncated"], many["next_offset"]) == (True, 6)
        rest = await box.call("search_files", pattern="foo", limit=1000, offset=6)
        assert rest["total_count"] == many["total_count"] > 200
        assert "truncated" not in rest


async def test_other_modes_count_and_name_files(tmp_path: Path) -> None:
    plant(tmp_path)
    async with opened(tmp_path) as box:
        counted = await box.call(
            "search_files", pattern="foo", output_mode="count", file_glob="*.py"
        )
        assert counted["counts"]["a.py"] == 2
        assert "build/out.py" not in counted["counts"]
        named = await box.call(
            "search_files", pattern="foo", output_mode="files_only", path=str(tmp_path / "vendor")
        )
        assert named["files"] == [f"{tmp_path}/vendor/f"]
        found = await box.call("search_files", pattern="*.py", target="files")
        assert sorted(found["files"]) == ["a.py", "keep/build/in.py", "sub/deep/c.py"]
        one = await box.call("search_files", pattern="foo", path="build/out.py")
        assert one["matches"] == [{"path": "build/out.py", "line": 1, "content": "foo"}]


async def test_an_answer_has_a_budget_and_says_where_to_go_on(tmp_path: Path) -> None:
    (tmp_path / "f").write_text(("foo " + "x" * 400 + "\n") * 2000)
    async with opened(tmp_path) as box:
        first = await box.call("search_files", pattern="foo", limit=2000)
        assert len(first["matches_text"]) <= 100_000
        assert (first["total_count"], first["truncated"]) == (2000, True)
        second = await box.call(
            "search_files", pattern="foo", limit=2000, offset=first["next_offset"]
        )
        assert second["matches_text"].startswith(f"f\n{first['next_offset'] + 1}:foo")


async def test_mistakes_are_told(tmp_path: Path) -> None:
    async with opened(tmp_path) as box:
        assert "cannot be searched" in (await box.call("search_files", pattern="a("))["error"]
        assert "newline" in (await box.call("search_files", pattern="a\\nb"))["error"]
        assert (
            "does not exist"
            in (await box.call("search_files", pattern="a", path="nowhere"))["error"]
        )


async def test_what_is_protected_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh/key").write_text("needle\n")
    (tmp_path / ".env").write_text("needle\n")
    async with opened(tmp_path) as box:
        for path, glob in (
            (".ssh", None),
            (".ssh/key", None),
            (".env", None),
            (".", ".env"),
            (".", ".*"),
        ):
            answer = await box.call("search_files", pattern="needle", path=path, file_glob=glob)
            assert "protected" in answer.get("error", "") or answer["total_count"] == 0, path


async def test_the_same_search_again_is_warned_of_then_refused(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("foo\n")
    async with opened(tmp_path) as box:
        answers = [await box.call("search_files", pattern="foo") for _ in range(4)]
        assert ["_warning" in answer for answer in answers] == [False, False, True, False]
        assert answers[3]["status"] == "refused"
        (tmp_path / "f").write_text("foo\nfoo\n")
        assert (await box.call("search_files", pattern="foo"))["total_count"] == 2


@pytest.mark.parametrize("ripgrep", [True, False])
async def test_a_search_that_takes_too_long_ends_and_holds_nobody_up(
    tmp_path: Path, ripgrep: bool
) -> None:
    (tmp_path / "f").write_text("a" * 40 + "\n")
    async with hermetic.open("local", cwd=tmp_path, login=False) as env:
        pattern = r"(?=(a+)+b)(a+)+b"  # only Python understands it, and it takes for ever
        with pytest.raises(TimeoutError):
            await env.search_files(pattern, timeout=0.3, ripgrep=ripgrep)
        assert (await env.run("echo on")).output == "on\n"


@pytest.mark.parametrize("ripgrep", [True, False])
async def test_what_could_be_read_for_ever_is_not_searched(tmp_path: Path, ripgrep: bool) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "f").write_text("foo\n")
    async with hermetic.open("local", cwd=tmp_path, login=False) as env, asyncio.timeout(20):
        for path in ("pipe", "/dev/zero"):
            with pytest.raises(hermetic.InvalidArgument, match="a device, a socket or a pipe"):
                await env.search_files("foo", path, ripgrep=ripgrep)
        assert (await env.search_files("foo", ripgrep=ripgrep)).total == 1


@pytest.mark.parametrize("ripgrep", [True, False])
@pytest.mark.parametrize("glob", ["[z-a]", "{" * 3000])
async def test_a_glob_that_is_none_is_refused(tmp_path: Path, glob: str, ripgrep: bool) -> None:
    (tmp_path / "f").write_text("foo\n")
    async with hermetic.open("local", cwd=tmp_path, login=False) as env, asyncio.timeout(20):
        with pytest.raises(hermetic.InvalidArgument, match="is no glob"):
            await env.search_files("foo", glob=glob, ripgrep=ripgrep)
        with pytest.raises(hermetic.InvalidArgument, match="is no glob"):
            await env.search_files(glob, target="files", ripgrep=ripgrep)
        assert (await env.search_files("foo", glob="f", ripgrep=ripgrep)).total == 1


async def test_a_glob_of_many_stars_takes_no_longer_than_others(tmp_path: Path) -> None:
    (tmp_path / ("a" * 200)).write_text("foo\n")
    (tmp_path / ("a" * 200 + "b")).write_text("foo\n")
    (tmp_path / ".gitignore").write_text("*a" * 20 + "*c\n")
    async with hermetic.open("local", cwd=tmp_path, login=False) as env, asyncio.timeout(20):
        found = await env.search_files("*a" * 20 + "*b", target="files", ripgrep=False)
        assert [path for path, _ in found.counts] == ["a" * 200 + "b"]


@pytest.mark.parametrize("ripgrep", [True, False])
async def test_a_line_without_end_is_searched_and_cut(tmp_path: Path, ripgrep: bool) -> None:
    with (tmp_path / "f").open("wb") as file:
        for _ in range(32):
            file.write(b"x" * (1 << 20))
        file.write(b" foo\nfoo\n")
    async with hermetic.open("local", cwd=tmp_path, login=False) as env, asyncio.timeout(50):
        found = await env.search_files("x foo|^foo", ripgrep=ripgrep, timeout=40)
        assert [(line.line, len(line.text)) for line in found.matches] == [(1, 2000), (2, 3)]


def plant_deep(folder: Path, levels: int) -> None:
    """A file below so many directories."""
    fd = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=fd)
        above, fd = fd, os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(above)
    with open(os.open("f", os.O_WRONLY | os.O_CREAT, dir_fd=fd), "w") as file:
        file.write("foo\n")
    os.close(fd)


async def test_a_very_deep_tree_is_searched(tmp_path: Path) -> None:
    plant_deep(tmp_path, 1100)
    try:
        async with hermetic.open("local", cwd=tmp_path, login=False) as env:
            found = await env.search_files("foo", ripgrep=False)
            assert [line.path for line in found.matches] == ["d/" * 1100 + "f"]
    finally:
        # deeper than Python removes
        removing = await asyncio.create_subprocess_exec("rm", "-r", tmp_path / "d")
        assert await removing.wait() == 0


async def test_many_searches_at_once_all_get_their_answers(tmp_path: Path) -> None:
    plant(tmp_path)
    async with hermetic.open("local", cwd=tmp_path, login=False) as env:
        searches = [env.search_files(f"^{number} foo", limit=3) for number in range(40)]
        found = await asyncio.gather(*searches)
        assert [each.total for each in found] == [int(number % 3 != 0) for number in range(40)]
        waiting = [
            asyncio.ensure_future(env.search_files(r"(?=(x+)+y)(x+)+y", timeout=60))
            for _ in range(12)
        ]
        await asyncio.wait(waiting, timeout=0.2)
        for search in waiting:
            search.cancel()
        await asyncio.wait(waiting)
        assert (await env.search_files("^1 foo")).total == 1
