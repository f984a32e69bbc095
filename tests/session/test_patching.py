"""Edits of files in an environment: all or nothing, whatever fails, and no edit lost."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import hermetic
from hermetic.contract.files import FileChange
from hermetic.contract.limits import PATCHED_FILE, PATCHED_FILES
from tests.programs import need_variable
from tests.sizes import scale


@asynccontextmanager
async def opened(directory: Path) -> AsyncIterator[hermetic.Environment]:
    async with asyncio.timeout(60), hermetic.open("local", cwd=directory, login=False) as env:
        yield env


@asynccontextmanager
async def contained() -> AsyncIterator[hermetic.Environment]:
    """A container with a directory that nobody can write to, and one that is soon full."""
    need_variable("DOCKER_HOST")
    mounts = ["--tmpfs", "/fixed:ro", "--tmpfs", "/small:size=64k"]
    async with (
        asyncio.timeout(120),
        hermetic.open(
            "docker", image=need_variable("IMAGE_BASE"), login=False, extra_args=mounts
        ) as env,
    ):
        yield env


def snapshot(directory: Path) -> dict[str, tuple[int, bytes]]:
    """Every path below a directory with its mode and content."""
    return {
        str(path.relative_to(directory)): (
            path.lstat().st_mode,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in sorted(directory.rglob("*"))
    }


def patch_of(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


async def test_a_text_becomes_another_and_the_rest_stays(tmp_path: Path) -> None:
    content = b"\xef\xbb\xbfone\r\ntwo  \r\nthree"
    (tmp_path / "f").write_bytes(content)
    (tmp_path / "f").chmod(0o751)
    async with opened(tmp_path) as env:
        done = await env.patch("f", "two\nthree", "two\n3")
        assert (tmp_path / "f").read_bytes() == content.replace(b"three", b"3")
        assert (tmp_path / "f").stat().st_mode & 0o777 == 0o751
        assert (done.modified, done.strategy, done.lines) == (("f",), "line_ends", (2,))
        assert "-three" in done.diff
        assert os.listdir(tmp_path) == ["f"]


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "latin-1", "cp1252"]
)
async def test_the_encoding_stays(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "f").write_bytes("grün = 1\nx = 2\n".encode(encoding))
    async with opened(tmp_path) as env:
        await env.patch("f", "x = 2", "größe = 2")
        assert (tmp_path / "f").read_bytes() == "grün = 1\ngröße = 2\n".encode(encoding)


async def test_a_stray_byte_stays(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes("grün\nx = 2\n".encode() + b"\xff\n")
    async with opened(tmp_path) as env:
        await env.patch("f", "x = 2", "y = ü")
        assert (tmp_path / "f").read_bytes() == "grün\ny = ü\n".encode() + b"\xff\n"


@pytest.mark.parametrize(
    ("content", "new", "reason"),
    [
        (b"a\0b", "c", "binary"),
        (b"\xe9t\xe9 a", "日", "encoding"),
        (b"x", "c", "missing"),
        (b"a a", "c", "ambiguous"),
        (b"a" * (PATCHED_FILE + 1), "c", "too_large"),
    ],
)
async def test_what_cannot_be_edited_is_refused_and_stays(
    tmp_path: Path, content: bytes, new: str, reason: str
) -> None:
    (tmp_path / "f").write_bytes(content)
    async with opened(tmp_path) as env:
        with pytest.raises(hermetic.EditRefused, match=r"^f: |^f has") as caught:
            await env.patch("f", "a", new)
        assert caught.value.reason == reason
        assert (tmp_path / "f").read_bytes() == content
        with pytest.raises(FileNotFoundError):
            await env.patch("missing", "a", "b")
        with pytest.raises(IsADirectoryError):
            await env.patch(".", "a", "b")
        for arguments in (
            {},
            {"path": "f"},
            {"path": "f", "old_string": "x", "new_string": "y", "patch": "z"},
        ):
            with pytest.raises(hermetic.InvalidArgument):
                await env.patch(**arguments)  # type: ignore[arg-type]


async def test_a_patch_adds_updates_deletes_and_moves(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1\n2\n3\n")
    (tmp_path / "b").write_text("go\n")
    (tmp_path / "c").write_text("x\ny\n")
    (tmp_path / "c").chmod(0o755)
    (tmp_path / "d").write_bytes(b"\0binary")
    async with opened(tmp_path) as env:
        done = await env.patch(
            patch=patch_of(
                "*** Update File: a",
                "@@",
                "-2",
                "+zwei",
                "*** Delete File: b",
                "*** Update File: c",
                "*** Move to: deep/down/e",
                " x",
                "-y",
                "+z",
                "*** Add File: new/n",
                "+text",
                "*** Move File: d -> deep/d",
            )
        )
    assert {name: content for name, (_, content) in snapshot(tmp_path).items()} == {
        "a": b"1\nzwei\n3\n",
        "deep": b"",
        "deep/down": b"",
        "deep/down/e": b"x\nz\n",
        "deep/d": b"\0binary",
        "new": b"",
        "new/n": b"text\n",
    }
    assert (tmp_path / "deep/down/e").stat().st_mode & 0o777 == 0o755
    assert (done.modified, done.created, done.deleted) == (
        ("a",),
        ("deep/down/e", "new/n", "deep/d"),
        ("b", "c", "d"),
    )
    assert "rename from c\nrename to deep/down/e\n" in done.diff


@pytest.mark.parametrize(
    "lines",
    [
        ["*** Update File: c", "-nothing", "+x"],
        ["*** Add File: a", "+x"],
        ["*** Delete File: missing"],
        ["*** Move File: missing -> x"],
        ["*** Move File: c -> a"],
        ["*** Add File: c/below", "+x"],
        ["*** Add File: ./c", "+x"],
        ["*** Add File: link", "+x"],
        ["*** Delete File: directory"],
        ["*** Delete File: link"],
        ["*** Add File: pipe", "+x"],
    ],
    ids=" ".join,
)
async def test_one_that_fails_leaves_everything_as_it_was(tmp_path: Path, lines: list[str]) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).write_text(f"{name}\n")
    (tmp_path / "directory").mkdir()
    (tmp_path / "link").symlink_to("c")
    os.mkfifo(tmp_path / "pipe")
    before = snapshot(tmp_path)
    async with opened(tmp_path) as env:
        with pytest.raises((hermetic.InvalidArgument, OSError)):
            await env.patch(
                patch=patch_of(
                    "*** Update File: a",
                    "-a",
                    "+A",
                    "*** Delete File: b",
                    "*** Add File: x/y",
                    "+y",
                    *lines,
                )
            )
        assert snapshot(tmp_path) == before


async def test_a_stale_file_among_several_leaves_all_as_they_were(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).write_text(f"{name}\n")
    async with opened(tmp_path) as env:
        signature = {name: (await env.file_status(name)).signature for name in ("a", "b", "c")}
        (tmp_path / "b").write_text("somebody else's\n")
        before = snapshot(tmp_path)
        changes = [
            FileChange(path="a", content=b"A\n", expect=signature["a"]),
            FileChange(path="deep/new", content=b"n\n", expect=""),
            FileChange(path="c", content=None, expect=signature["c"]),
            FileChange(path="b", content=b"B\n", expect=signature["b"]),
        ]
        with pytest.raises(hermetic.FileChanged, match="b has changed"):
            await env._files.change(changes, None)
        assert snapshot(tmp_path) == before


async def test_an_edit_follows_a_link_and_stays_within_bounds(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "out").write_text("text\n")
    (tmp_path / "in/link").symlink_to("../out")
    async with opened(tmp_path) as env:
        bounds = hermetic.Bounds(root=str(tmp_path / "in"))
        with pytest.raises(hermetic.NotPermitted):
            await env.patch("in/link", "text", "words", bounds=bounds)
        with pytest.raises(hermetic.NotPermitted):
            await env.patch(
                patch=patch_of("*** Add File: in/x", "+x", "*** Add File: y", "+y"), bounds=bounds
            )
        assert sorted(os.listdir(tmp_path / "in")) == ["link"]
        await env.patch("in/link", "text", "words")
    assert (tmp_path / "out").read_text() == "words\n"
    assert (tmp_path / "in/link").is_symlink()


async def test_edits_at_once_lose_none(tmp_path: Path) -> None:
    count = scale(200)
    (tmp_path / "f").write_text("".join(f"[{number}] 0\n" for number in range(count)))
    async with opened(tmp_path) as env, await hermetic.attach(env.id) as other:
        await asyncio.gather(
            *(
                (env, other)[number % 2].patch("f", f"[{number}] 0", f"[{number}] 1")
                for number in range(count)
            )
        )
    assert (tmp_path / "f").read_text() == "".join(f"[{number}] 1\n" for number in range(count))


async def test_patches_of_several_files_at_once_lose_none(tmp_path: Path) -> None:
    count = scale(100)
    for name in ("a", "b"):
        (tmp_path / name).write_text("".join(f"[{number}] 0\n" for number in range(count)))
    async with opened(tmp_path) as env:

        async def both(number: int) -> None:
            hunk = [f"-[{number}] 0", f"+[{number}] 1"]
            order = [["*** Update File: a", *hunk], ["*** Update File: b", *hunk]]
            await env.patch(
                patch=patch_of(*(line for part in order[:: (-1) ** number] for line in part))
            )

        await asyncio.gather(*map(both, range(count)))
    expected = "".join(f"[{number}] 1\n" for number in range(count))
    assert [(tmp_path / name).read_text() for name in ("a", "b")] == [expected, expected]


async def test_large_files_are_changed_together_too(tmp_path: Path) -> None:
    text = "".join(f"line {number}\n" for number in range(150_000))
    for name in ("a", "b"):
        (tmp_path / name).write_text(text)
    async with opened(tmp_path) as env:
        hunk = ["-line 77777", "+LINE"]
        await env.patch(patch=patch_of("*** Update File: a", *hunk, "*** Update File: b", *hunk))
        for name in ("a", "b"):
            assert (tmp_path / name).read_text() == text.replace("line 77777\n", "LINE\n")
        before = snapshot(tmp_path)
        with pytest.raises(OSError, match="a/x"):
            await env._files.change(
                [
                    FileChange(path="b", content=b"x" * 3_000_000),
                    FileChange(path="new/n", content=b"n"),
                    FileChange(path="a/x", content=b"y"),
                ],
                None,
            )
        assert snapshot(tmp_path) == before


async def test_too_many_files_are_refused(tmp_path: Path) -> None:
    async with opened(tmp_path) as env:
        lines = [
            line
            for number in range(PATCHED_FILES + 1)
            for line in (f"*** Add File: {number}", "+x")
        ]
        with pytest.raises(hermetic.EditRefused) as caught:
            await env.patch(patch=patch_of(*lines))
        assert caught.value.reason == "too_large"
        await env.patch(patch=patch_of(*lines[:-2]))
    assert len(os.listdir(tmp_path)) == PATCHED_FILES


async def test_in_a_container_whatever_fails_leaves_every_byte() -> None:
    """A directory that is read-only, a disk that is full, and a file that cannot be replaced."""
    async with contained() as env:
        await env.run(
            "mkdir /t; cd /t; seq 5 >a; seq 6 >b; chmod 640 b; seq 100 >/small/s; yes >/small/fill 2>&1; true"
        )
        state = (
            "cd /t; ls -lAR --time-style=+ /t /small /etc/hosts; sha256sum a b /small/* /etc/hosts"
        )
        before = (await env.run(state)).output
        begin = [
            "*** Update File: a",
            "-1",
            "+one",
            "*** Delete File: b",
            "*** Add File: n/m",
            "+n",
        ]
        for end in (
            ["*** Add File: /fixed/x", "+x"],
            ["*** Update File: /small/s", " 1", *(f"+{'more ' * 200}" for _ in range(50))],
            ["*** Add File: /small/new", *(f"+{'more ' * 200}" for _ in range(50))],
            ["*** Update File: /etc/hosts", "+127.0.0.1 somewhere"],
        ):
            with pytest.raises(OSError, match=end[0].split()[-1]):
                await env.patch(patch=patch_of(*begin, *end))
            assert (await env.run(state)).output == before
        await env.patch(patch=patch_of(*begin))
        assert (await env.run("cat a n/m; ls")).output == "one\n2\n3\n4\n5\nn\na\nn\n"
        await env.patch("/etc/hosts", "localhost", "localhost here", replace_all=True)
        assert "localhost here" in await env.read_file("/etc/hosts")


CALLER = """
import sys, hermetic
env = hermetic.blocking.attach(sys.argv[1])
for number in range(1_000_000):
    hunk = f"-{number}\\n+{number + 1}"
    env.patch(patch=f"*** Update File: a\\n{hunk}\\n*** Update File: b\\n{hunk}")
    print(number, flush=True)
"""


async def test_a_caller_that_is_killed_leaves_no_half_of_a_patch(tmp_path: Path) -> None:
    async with opened(tmp_path) as env:
        for lines in range(1, 1 + scale(50)):
            for name in ("a", "b"):
                (tmp_path / name).write_text("0\n")
            caller = await asyncio.create_subprocess_exec(
                sys.executable, "-c", CALLER, env.id, stdout=asyncio.subprocess.PIPE
            )
            assert caller.stdout is not None
            for _ in range(lines):
                assert await caller.stdout.readline()
            caller.kill()
            await caller.communicate()
            # what it had sent is done when it is gone from there too
            while (await env.info()).clients > 1:
                pass
            assert (tmp_path / "a").read_text() == (tmp_path / "b").read_text() != "0\n"
            assert sorted(os.listdir(tmp_path)) == ["a", "b"]
