"""Sandboxes for tests: opened on a fresh workspace, and what is left of them on this machine."""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

import hermetic
from hermetic.environments.sandbox import SandboxFiles
from hermetic.registry.host_process import ended
from hermetic.registry.records import Records, runtime_root
from tests.programs import need


@asynccontextmanager
async def sandbox(workspace: Path, **options: Any) -> AsyncIterator[hermetic.Environment]:
    """A sandbox on this workspace; its commands' memory is a quarter of a gibibyte unless options
    say otherwise.
    """
    need("bwrap")
    options = {"memory_bytes": 256 << 20, "login": False, **options}
    async with hermetic.open("sandbox", workspace=workspace, **options) as environment:
        yield environment


def kept_of(environment: hermetic.Environment) -> SandboxFiles:
    """What the host keeps of a sandbox: processes, cgroups, files."""
    record = Records(runtime_root()).read(environment.id)
    assert record is not None
    return msgspec.json.decode(record.place["kept"], type=SandboxFiles)


def left_of(kept: SandboxFiles) -> list[str]:
    """What of a sandbox is still there."""
    processes = [f"process {process.pid}" for process in kept.processes if process.is_alive]
    paths = [kept.directory, kept.lock, *kept.cgroups, *([kept.spool] if kept.spool else [])]
    return [*processes, *filter(os.path.lexists, paths)]


async def nothing_left(kept: SandboxFiles) -> None:
    """Returns when a sandbox has ended without anybody's help; what is left then fails the test."""
    async with asyncio.timeout(30):
        for process in kept.processes:
            await ended(process.pid)
    assert left_of(kept) == []


async def run_program(
    *argv: object, environ: Mapping[str, str] | None = None
) -> tuple[int | None, str]:
    """Exit code and output, both streams together."""
    process = await asyncio.create_subprocess_exec(
        *map(str, argv),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, **(environ or {})},
    )
    async with asyncio.timeout(60):
        said, _ = await process.communicate()
    return process.returncode, said.decode()


def parent_of(pid: int) -> int:
    """The process that started this one."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def first_child_of(pid: int) -> int:
    """One process that this one started."""
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
