"""Sandboxes of clouds, by the vendors' SDKs against stand-ins: what a command adds to its stream.

On loopback a round trip can be shorter than a command in a local shell. So the target is that of
streams with the delay of a network, which is less than any to a cloud.
"""

import asyncio
import importlib.util
import json
import os
import subprocess
import tempfile
from pathlib import Path

from benchmarks.figures import Row, Target, row
from benchmarks.measuring import Bench
from benchmarks.places import Missing
from tests.clouds.vendors import SDK, installed, standin

NETWORK = 0.005  # seconds each way


async def daytona(bench: Bench) -> list[Row]:
    """Over a terminal."""
    return await asyncio.to_thread(_measured, bench, "daytona")


async def modal(bench: Bench) -> list[Row]:
    """Over an exec."""
    return await asyncio.to_thread(_measured, bench, "modal")


def _measured(bench: Bench, kind: str) -> list[Row]:
    """In an environment of its own, which has the SDK."""
    if importlib.util.find_spec("uv") is None:
        raise Missing("the package uv is not installed; ./test installs it")
    rows = []
    for name, where, delay in (
        ("settled", "stand-in", 0.0),
        ("settled-far", "stand-in, 5 ms away", NETWORK),
    ):
        with (
            tempfile.TemporaryDirectory() as folder,
            standin(kind, Path(folder, "standin")) as variables,
        ):
            words = [
                installed(kind),
                str(SDK / "round_trips.py"),
                kind,
                str(bench.times(200, 20)),
                str(delay),
            ]
            done = subprocess.run(
                words, env={**os.environ, **variables}, capture_output=True, text=True, check=True
            )
        ours, limit = json.loads(done.stdout)
        rows.append(
            row(
                f"{kind}.{name}",
                f"`true`, settled session, {kind} ({where})",
                "ms",
                ours,
                limit=("one round trip of its stream", limit),
                target=Target(of="ratio", most=2.0) if delay else None,
            )
        )
    return rows
