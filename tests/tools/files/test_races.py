"""A directory that somebody keeps exchanging for a link: nothing is ever written, made or deleted
behind that link.
"""

import asyncio
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import hermetic
from hermetic.contract.files import Bounds
from tests.sizes import scale

SWAPS = scale(100_000)
SWAP = """
import ctypes, os, sys
inside, outside, times = sys.argv[1:]
os.chdir(inside)
os.symlink(outside, "way")
renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
print("ready", flush=True)
for turn in range(int(times)):
    if renameat2(-100, b"d", -100, b"way", 2):  # exchanges the two names in one step
        sys.exit(os.strerror(ctypes.get_errno()))
    if turn % 6 == 1:  # the last name is a link, too
        os.symlink(outside + "/new", "d/f-")
        os.rename("d/f-", "d/f")
"""


@contextmanager
def swapping(inside: Path, outside: Path, times: int) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that exchanges `d` for a link to the outside and back, again and again."""
    argv = [sys.executable, "-c", SWAP, str(inside), str(outside), str(times)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield process
        finally:
            process.kill()


async def work(env: hermetic.Environment, bounds: Bounds, turn: int) -> str:
    """One change below `d`; says how it ended."""
    try:
        match turn % 4:
            case 0:
                await env.write_file("d/f", "x" * 100, bounds=bounds)
            case 1:
                await env.write_file(f"d/made{turn}/deep/f", "x", bounds=bounds)
            case 2:
                await env.move_file("source", "d/moved", replace=True, bounds=bounds)
                await env.write_file("source", "x", bounds=bounds)
            case _:
                await env.delete_file("d/victim", bounds=bounds)
    except (OSError, hermetic.ExecutionError) as error:
        return type(error).__name__
    return "done"


def planted(at: Path) -> tuple[Path, Path]:
    inside, outside = at / "in", at / "out"
    (inside / "d").mkdir(parents=True)
    outside.mkdir()
    (outside / "victim").write_text("stays")
    (inside / "source").write_text("x")
    return inside, outside


def left(outside: Path) -> dict[str, str]:
    return {str(path.relative_to(outside)): path.read_text() for path in outside.rglob("*")}


async def test_writes_never_leave_the_root(tmp_path: Path) -> None:
    inside, outside = planted(tmp_path)
    bounds = Bounds(root=str(inside))
    ends: Counter[str] = Counter()
    async with asyncio.timeout(120), hermetic.open("local", cwd=inside, login=False) as env:
        with swapping(inside, outside, SWAPS) as process:
            turn = 0
            while process.poll() is None:
                ends.update(
                    await asyncio.gather(*(work(env, bounds, turn + more) for more in range(8)))
                )
                turn += 8
            assert process.returncode == 0
    assert left(outside) == {"victim": "stays"}
    assert ends["done"] > 10
    assert ends["NotPermitted"] > 0, "the link was never met"
    assert not [name for name in os.listdir(inside) if name.startswith(".hermetic-")]


async def test_a_root_that_is_exchanged_itself_is_not_followed(tmp_path: Path) -> None:
    inside, outside = planted(tmp_path)
    bounds = Bounds(root=str(inside))
    async with hermetic.open("local", cwd=tmp_path, login=False) as env:
        await env.write_file(f"{inside}/f", "x", bounds=bounds)
        inside.rename(tmp_path / "moved")
        inside.symlink_to(outside)
        with pytest.raises(hermetic.NotPermitted):
            await env.write_file(f"{inside}/g", "x", bounds=bounds)
    assert left(outside) == {"victim": "stays"}


async def test_a_path_that_was_judged_is_not_left(tmp_path: Path) -> None:
    """Without a root: what was looked at before is what is written, or nothing is."""
    inside, outside = planted(tmp_path)
    bounds = Bounds(exact=True)
    ends: Counter[str] = Counter()
    async with asyncio.timeout(120), hermetic.open("local", cwd=inside, login=False) as env:
        with swapping(inside, outside, SWAPS // 10) as process:
            while process.poll() is None:
                for name in ("f", "new/g"):
                    try:
                        await env.write_file(f"{inside}/d/{name}", "x", bounds=bounds)
                        ends["done"] += 1
                    except (OSError, hermetic.ExecutionError) as error:
                        ends[type(error).__name__] += 1
    assert left(outside) == {"victim": "stays"}
    assert ends["done"] > 0
