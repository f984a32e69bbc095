"""Before the first command: opening an environment, the import, the command line."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import hermetic
from benchmarks.figures import Row, Target, row
from benchmarks.limits import BASH, run_program
from benchmarks.measuring import MILLI, Bench, Place, Take, in_turns, plainly
from benchmarks.raw import Raw

PROFILE = "sleep 0.1\n"
BARE = (sys.executable, "-I", "-S", "-c", "pass")


async def opening(bench: Bench, place: Place) -> list[Row]:
    """An empty HOME, so that no profile takes part."""
    first: list[float] = []

    async def ours() -> list[float]:
        opened, ran = await _open(place)
        first.append(ran)
        return [opened]

    what, beside = "python -I -S -c pass", plainly(lambda: run_program(BARE))
    if place.raw is not None:
        what, beside = place.raw.opening, _raw(place.raw)
    ours_taken, limit = await in_turns(bench.times(20, 3), ours, beside, warm=1)
    bare = (what, limit)
    return [
        row(
            f"{place.kind}.open",
            f"opening an environment, {place.kind}",
            "ms",
            ours_taken,
            limit=bare,
            target=place.target("open"),
        ),
        row(
            f"{place.kind}.open-first",
            f"opening and the first `true`, {place.kind}",
            "ms",
            first[1:],
            limit=bare,
        ),
    ]


def _raw(raw: Raw) -> Take:
    async def take() -> list[float]:
        return raw.open()

    return take


async def profile(bench: Bench, place: Place) -> list[Row]:
    """The same with a login profile that takes 100 ms, against a login shell that reads it."""
    with home_with_profile() as home:

        async def ours() -> list[float]:
            return [(await _open(place, env={"HOME": home}))[1]]

        def limit() -> None:
            run_program([BASH, "-lc", "true"], env={"HOME": home, "PATH": "/usr/bin:/bin"})

        taken, limits = await in_turns(bench.times(10, 3), ours, plainly(limit))
    return [
        row(
            f"{place.kind}.open-profile",
            f"the same with a profile of 100 ms, {place.kind}",
            "ms",
            taken,
            limit=("bash -lc true with it", limits),
        )
    ]


@contextmanager
def home_with_profile() -> Iterator[str]:
    """A home whose profile takes its time."""
    with TemporaryDirectory() as home:
        Path(home, ".bash_profile").write_text(PROFILE)
        yield home


async def _open(place: Place, **options: Any) -> tuple[float, float]:
    """Milliseconds until the environment was there, and until its first command had ended."""
    started = time.perf_counter()
    async with place.open(**options) as env:
        opened = time.perf_counter()
        await env.run("true")
        ran = time.perf_counter()
    return (opened - started) * MILLI, (ran - started) * MILLI


async def imports(bench: Bench) -> list[Row]:
    """Fresh interpreters, each with one import."""
    ours, first_use, limit = await in_turns(
        bench.times(25, 7),
        _interpreter("import hermetic"),
        _interpreter("import hermetic; hermetic.open"),
        _interpreter("pass"),
        warm=2,
    )
    bare = ("bare python -c pass", limit)
    target = Target(of="difference", most=60.0)
    return [
        row("import", "`import hermetic`", "ms", ours, limit=bare, target=target),
        row("import-open", "`import hermetic; hermetic.open`", "ms", first_use, limit=bare),
    ]


def _interpreter(text: str) -> Take:
    return plainly(lambda: run_program([sys.executable, "-c", text]))


async def command_line(bench: Bench) -> list[Row]:
    """`hermetic run -- true`, which opens and ends an environment, and `hermetic --help`, with an
    empty HOME.
    """
    program = Path(sys.executable).with_name("hermetic")
    argv = [str(program)] if program.exists() else [sys.executable, "-m", hermetic.__name__]
    ours, helped, limit = await in_turns(
        bench.times(20, 6),
        plainly(lambda: run_program([*argv, "run", "--", "true"])),
        plainly(lambda: run_program([*argv, "--help"], quiet=True)),
        plainly(lambda: run_program([sys.executable, "-c", "pass"])),
    )
    bare = ("bare python -c pass", limit)
    target, of_help = Target(of="median", most=250.0), Target(of="difference", most=120.0)
    return [
        row("cli", "`hermetic run -- true`, cold", "ms", ours, limit=bare, target=target),
        row("cli-help", "`hermetic --help`, cold", "ms", helped, limit=bare, target=of_help),
    ]
