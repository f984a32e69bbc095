"""Files: a page of a large one, a small one by the tool, and a search among many."""

import json
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import hermetic
from benchmarks.figures import Row, row
from benchmarks.limits import run_program
from benchmarks.measuring import Bench, Place, WrongResult, in_turns, once, plainly
from benchmarks.memory import MIB, Peak
from benchmarks.places import Missing

LINE = b"%08d a line of a log as long as lines of logs usually are, or nearly so\n"
CHUNK_LINES = 100_000
PAGE = 500  # lines
FOLDER = 100  # files in a directory


async def files(bench: Bench, place: Place) -> list[Row]:
    """All of them, in a directory that is taken away afterwards."""
    with TemporaryDirectory(dir="/var/tmp") as at:
        return [
            *await _page(bench, place, Path(at)),
            *await _call(bench, place, Path(at)),
            *await _search(bench, place, at),
        ]


async def _page(bench: Bench, place: Place, at: Path) -> list[Row]:
    """A page in the middle of a file of 2 GB: the first, which counts its lines, then others."""
    path, lines = at / "large.log", CHUNK_LINES * bench.times(285, 14)
    _write_log(path, lines)
    size = path.stat().st_size / 1e9
    async with place.open(cwd=str(at)) as env:
        await env.list_names(".")
        peak = Peak((await env.info()).pid)

        async def read() -> None:
            page = await env.read_lines("large.log", lines // 2, PAGE)
            if (page.total, page.lines) != (lines, PAGE):
                raise WrongResult(f"{page.total} lines where there are {lines}")

        [first], [counted] = await in_turns(
            1, once(read), plainly(lambda: run_program(["wc", "-l", str(path)], quiet=True)), warm=0
        )
        [later] = await in_turns(bench.times(50, 10), once(read))
        growth = peak.growth_bytes() / MIB
    path.unlink()
    what = f"of a file of {size:.1f} GB, {place.kind}"
    return [
        row(
            f"{place.kind}.file-first",
            f"the first page {what}",
            "ms",
            [first],
            limit=("wc -l of it", [counted]),
        ),
        row(
            f"{place.kind}.file-page",
            f"another page {what}",
            "ms",
            later,
            target=place.target("file-page"),
        ),
        row(
            f"{place.kind}.file-memory",
            f"growth of the resident by pages {what}",
            "MiB",
            [growth],
            target=place.target("file-memory"),
        ),
    ]


def _write_log(path: Path, lines: int) -> None:
    with path.open("wb") as file:
        chunk = b"".join(LINE % number for number in range(CHUNK_LINES))
        for _ in range(lines // CHUNK_LINES):
            file.write(chunk)


async def _call(bench: Bench, place: Place, at: Path) -> list[Row]:
    """The read_file tool on a small file, against a program that prints it."""
    path = at / "small.txt"
    path.write_text("a line of text\n" * 100)
    async with place.toolbox() as toolbox:
        turn = 0

        async def read() -> None:
            nonlocal turn
            turn += 1
            toolbox.forget_reads()
            answer = json.loads(await toolbox.call("read_file", {"path": str(path)}))
            if answer.get("total_lines") != 100:
                raise WrongResult(str(answer))

        try:
            taken, limit = await in_turns(
                bench.times(200, 20),
                once(read),
                plainly(lambda: run_program(["cat", str(path)], quiet=True)),
                warm=5,
            )
        finally:
            await toolbox.close(remove=True)
    return [
        row(
            f"{place.kind}.read-file",
            f"the tool read_file on a small file, {place.kind}",
            "ms",
            taken,
            limit=("cat", limit),
            target=place.target("read-file"),
        )
    ]


async def _search(bench: Bench, place: Place, at: str) -> list[Row]:
    """A word among 100,000 files, by ripgrep and by the resident, against plain ripgrep."""
    program = shutil.which("rg")
    if program is None:
        raise Missing("no rg on PATH; install ripgrep, or run scripts/engines/up as root on Debian")
    count = bench.times(100_000, 5_000)
    _plant(Path(at), count)
    async with place.open(cwd=at) as env:

        async def search(ripgrep: bool) -> None:
            found: hermetic.Findings = await env.search_files("needle", ripgrep=ripgrep)
            if found.total != count // 1000:
                raise WrongResult(f"{found.total} found")

        def plain() -> None:
            subprocess.run([program, "needle", at], check=True, stdout=subprocess.DEVNULL)

        times = bench.times(10, 3)
        ours, limit = await in_turns(times, once(lambda: search(True)), plainly(plain))
        own, other = await in_turns(
            min(times, 3), once(lambda: search(False)), plainly(plain), warm=0
        )
    what = f"a word in {count:,} files"
    return [
        row(
            f"{place.kind}.search",
            f"{what} by search_files, {place.kind}",
            "ms",
            ours,
            limit=("plain rg", limit),
            target=place.target("search"),
        ),
        row(
            f"{place.kind}.search-own",
            f"{what} without ripgrep, {place.kind}",
            "ms",
            own,
            limit=("plain rg", other),
        ),
    ]


def _plant(at: Path, count: int) -> None:
    text = "some words of a text that is searched\n" * 10
    for number in range(count):
        folder = at / f"d{number // FOLDER // 100}" / f"e{number // FOLDER % 100}"
        if number % FOLDER == 0:
            folder.mkdir(parents=True, exist_ok=True)
        (folder / f"f{number}.txt").write_text(f"{text}needle\n" if number % 1000 == 0 else text)
