"""The engines that scripts/engines/up has started, as tests look at them from outside."""

import asyncio
import contextlib
import json
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import hermetic
from hermetic.registry.records import runtime_root, tag_of
from tests.programs import need, need_variable

ENGINES = ("docker", "podman")
GONE_SECONDS = 60.0

# Where the engines themselves behave differently; the rest is our code alone, which podman repeats
# at full size.
PODMAN = pytest.param("podman", marks=pytest.mark.full)
both_engines = pytest.mark.parametrize("engine", ENGINES, indirect=True)


def need_engine(kind: str) -> str:
    """The client of an engine that works here; ends the calling test where there is none."""
    need_variable("DOCKER_HOST" if kind == "docker" else "PODMAN")
    return need(kind)


def ask(kind: str, words: Sequence[str]) -> str:
    """What the engine's client answers. Raises CalledProcessError."""
    done = subprocess.run([kind, *words], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.strip()


def ours(kind: str) -> list[str]:
    """Names of the containers that this run of the tests has made and not taken away."""
    return containers(kind, f"hermetic.runtime={tag_of(runtime_root())}")


def starting(kind: str) -> list[str]:
    """Command lines of the clients that are making containers for this run of the tests."""
    label, found = f"hermetic.runtime={tag_of(runtime_root())}", []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().decode(errors="replace").split("\0")
            found += (
                [" ".join(words)]
                if label in words and any(word.endswith(kind) for word in words)
                else []
            )
    return found


def containers(kind: str, label: str) -> list[str]:
    """Names of the containers with a label, in whatever state they are."""
    return ask(
        kind, ["ps", "--all", "--filter", f"label={label}", "--format", "{{.Names}}"]
    ).split()


def mine(engine: str, environment: hermetic.Environment) -> list[str]:
    """The containers of an environment, in whatever state."""
    return containers(engine, f"hermetic.id={environment.id}")


def inspect(engine: str, environment: hermetic.Environment) -> dict[str, Any]:
    """What the engine tells of its container."""
    (name,) = mine(engine, environment)
    (told,) = json.loads(ask(engine, ["inspect", name]))
    return dict(told)


async def eventually(check: Callable[[], bool]) -> None:
    """Returns once it is true; what an engine does by itself tells nobody."""
    async with asyncio.timeout(GONE_SECONDS):
        while not check():  # noqa: ASYNC110
            await asyncio.sleep(0.2)  # a look takes a client's start


def left_here(id: str) -> list[str]:
    """What this machine still has of an environment: its directory, its lock, its spool."""
    spools = Path("/var/tmp", f"hermetic-{os.geteuid()}")
    return [str(path) for place in (runtime_root(), spools) for path in place.glob(f"*{id}*")]
