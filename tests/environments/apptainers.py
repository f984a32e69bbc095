"""Apptainer containers for tests: which program and image, and what is left of them on this
machine.
"""

import asyncio
import hashlib
import json
import os
import tarfile
from pathlib import Path

import pytest

import hermetic
from hermetic.environments.runtime.choice import MEMORY
from hermetic.environments.watchdog import Watchdog
from hermetic.registry.host_process import ended
from hermetic.registry.records import Records, runtime_root
from tests.programs import need_variable


class Apptainers:
    """The program, an image with python3, and a scratch directory of the test's own."""

    def __init__(self, scratch: Path, patch: pytest.MonkeyPatch) -> None:
        self.program = need_variable("APPTAINER")
        self.image = need_variable("IMAGE_BASE_SIF")
        self.scratch = scratch / f"hermetic-{os.geteuid()}"
        patch.setenv("HERMETIC_APPTAINER_BINARY", self.program)
        patch.setenv("HERMETIC_SCRATCH_DIR", str(scratch))

    def left(self) -> list[str]:
        """What lies in the scratch and runtime directories that belongs to an environment."""
        found = [path for path in (self.scratch, runtime_root()) if path.exists()]
        return [
            str(entry)
            for path in found
            for entry in path.iterdir()
            if entry.name not in (".apptainer", MEMORY)
        ]


def watchdog_of(environment: hermetic.Environment) -> Watchdog:
    """The process on this machine that waits for the container's end."""
    record = Records(runtime_root()).read(environment.id)
    assert record is not None
    return Watchdog.parse(record.place["watchdog"])


def container_of(watchdog: Watchdog) -> int:
    """The process that apptainer has on this machine for the container."""
    [pid] = Path(f"/proc/{watchdog.pid}/task/{watchdog.pid}/children").read_text().split()
    return int(pid)


async def see_ended(pid: int) -> None:
    """Returns when a process has ended."""
    async with asyncio.timeout(30):
        await ended(pid)


def write_docker_archive(
    at: Path,
    layer: Path,
    variables: list[str],
    *,
    architecture: str = "amd64",
    name: str = "made:here",
) -> None:
    """An archive as `docker save` writes it, with one layer."""
    digest = hashlib.sha256(layer.read_bytes()).hexdigest()
    config = {
        "architecture": architecture,
        "os": "linux",
        "config": {"Env": variables},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        "history": [{}],
    }
    folder = at.parent / f"{at.name}.d"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with tarfile.open(at, "w") as archive:
        archive.add(folder / "manifest.json", "manifest.json")
        archive.add(folder / "config.json", "config.json")
        archive.add(layer, "layer.tar")
