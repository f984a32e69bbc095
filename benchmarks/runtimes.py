"""The portable runtime: its build and size, and a scratch image beside a Debian image, which has
its own programs.
"""

import os
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.figures import Row, Target, row
from benchmarks.latency import running
from benchmarks.measuring import MILLI, Bench, Place, Take, apart, in_turns, once
from benchmarks.places import Missing
from hermetic.environments.runtime import build, store, upload

MEGABYTE = 1e6


async def anywhere(bench: Bench, place: Place) -> list[Row]:
    """A settled command and opening, in an image of one static busybox."""
    image = os.environ.get("IMAGE_SCRATCH")
    if not image:
        raise Missing("IMAGE_SCRATCH is not set; scripts/engines/up prints it")
    async with place.open() as own, place.open(image=image) as portable:
        settled, limit = await in_turns(
            bench.times(20, 5),
            apart(once(running(portable, "true"))),
            apart(once(running(own, "true"))),
        )
    opened, own_opened = await in_turns(
        bench.times(20, 3), _opening(place, image=image), _opening(place), warm=1
    )
    beside, of = "the same, Debian image", f"scratch image, {place.kind}"
    return [
        row(
            f"{place.kind}.runtime-settled",
            f"`true`, settled session, {of}",
            "ms",
            settled,
            limit=(beside, limit),
            target=Target(of="ratio", most=1.2),
        ),
        row(
            f"{place.kind}.runtime-open",
            f"opening an environment, {of}",
            "ms",
            opened,
            limit=(beside, own_opened),
            target=Target(of="ratio", most=1.3),
        ),
    ]


def _opening(place: Place, **options: str) -> Take:
    async def take() -> list[float]:
        started = time.perf_counter()
        async with place.open(**options):
            return [(time.perf_counter() - started) * MILLI]

    return take


async def making(bench: Bench) -> list[Row]:
    """Builds of the whole runtime, and the archives."""
    builds = []
    for _ in range(bench.times(3, 1)):
        with TemporaryDirectory() as directory:
            started = time.perf_counter()
            build.build(Path(directory, "root"), prefix=store.PREFIX, lean=False)
            builds.append(time.perf_counter() - started)
    rows = [
        row(
            "runtime.build",
            "building the portable runtime",
            "s",
            builds,
            target=Target(of="median", most=10.0),
        )
    ]
    for name, lean, most in (("whole", False, 14.0), ("lean", True, 6.0)):
        runtime = await store.portable(lean=lean)
        archive = upload.cargo_for(runtime, runtime.prefix).archive()
        rows.append(
            row(
                f"runtime.{name}",
                f"the portable runtime, compressed, {name}",
                "MB",
                [len(archive) / MEGABYTE],
                target=Target(of="median", most=most),
            )
        )
    return rows
