"""Images are built once, by one, into a cache; a build that fails or is cut off leaves nothing."""

import asyncio
import logging
import os
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

import hermetic
from hermetic.environments.containers.sif import find_sif, whole_name
from hermetic.registry.host_process import ended
from tests.environments.apptainers import write_docker_archive
from tests.programs import need_variable

# Stands for apptainer where only its time and its ending matter: `build --force PART ADDRESS`.
SLOW = """#!/bin/sh
[ "$1" = build ] || exit 9
echo $$ >> "$COUNT"
echo "INFO:    Creating SIF file..." >&2
echo part > "$3"
mkdir -p "$APPTAINER_TMPDIR/rootfs" && chmod 0 "$APPTAINER_TMPDIR/rootfs"
while [ -p "$GATE" ]; do read -r go < "$GATE"; [ "$go" != fail ] || exit 7; break; done
"""

BUILDER = """
import asyncio, sys
from hermetic.environments.containers.sif import find_sif
print(asyncio.run(find_sif(sys.argv[1], sys.argv[2])), flush=True)
"""


class Workshop:
    """A program that builds as slowly as a test wants, and a cache of its own."""

    def __init__(self, at: Path, patch: pytest.MonkeyPatch) -> None:
        self.cache, self.count, self.gate = at / "cache", at / "count", at / "gate"
        self.program = str(at / "apptainer")
        (at / "apptainer").write_text(SLOW)
        os.chmod(self.program, 0o755)
        for name, path in (
            ("APPTAINER_CACHEDIR", self.cache),
            ("COUNT", self.count),
            ("GATE", self.gate),
        ):
            patch.setenv(name, str(path))

    def hold(self) -> None:
        """Builds wait from now on."""
        os.mkfifo(self.gate)

    def release(self, word: str = "go") -> None:
        """The build that waits goes on, or fails."""
        with open(self.gate, "w") as gate:
            gate.write(f"{word}\n")

    @property
    def builds(self) -> int:
        return len(self.count.read_text().split()) if self.count.exists() else 0

    async def begun(self) -> None:
        """Returns when a build runs."""
        async with asyncio.timeout(20):
            while not self.builds:  # noqa: ASYNC110 - the program has no other way to say so
                await asyncio.sleep(0.01)

    def left(self) -> list[str]:
        """What lies in the cache."""
        folder = self.cache / "hermetic"
        return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    return Workshop(tmp_path, monkeypatch)


async def test_an_image_is_built_once_however_many_want_it(workshop: Workshop) -> None:
    workshop.hold()
    opening = [
        asyncio.create_task(find_sif(workshop.program, "docker://debian:12")) for _ in range(5)
    ]
    other = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        BUILDER,
        workshop.program,
        "docker://debian:12",
        stdout=asyncio.subprocess.PIPE,
    )
    await workshop.begun()
    await asyncio.to_thread(workshop.release)
    async with asyncio.timeout(30):
        paths = {await task for task in opening}
        said, _ = await other.communicate()
    assert paths == {said.decode().strip()}
    assert workshop.builds == 1
    assert workshop.left() == [os.path.basename(paths.pop())]
    await find_sif(workshop.program, "docker://debian:12")
    assert workshop.builds == 1


async def test_different_images_have_different_files(workshop: Workshop) -> None:
    images = ("docker://a/b:1", "docker://a-b:1", "docker://a/b-1", "docker://" + "x" * 300)
    paths = [await find_sif(workshop.program, image) for image in images]
    assert len(set(paths)) == len(images)
    assert all(len(os.path.basename(path)) < 100 for path in paths)


async def test_a_failed_build_says_why_leaves_nothing_and_is_tried_anew(workshop: Workshop) -> None:
    workshop.hold()
    building = asyncio.create_task(find_sif(workshop.program, "docker://debian:12"))
    await workshop.begun()
    await asyncio.to_thread(workshop.release, "fail")
    with pytest.raises(hermetic.EnvironmentUnavailable, match="Creating SIF file"):
        await building
    assert workshop.left() == []
    workshop.gate.unlink()
    await find_sif(workshop.program, "docker://debian:12")
    assert len(workshop.left()) == 1


async def test_a_cancelled_build_leaves_nothing_and_lets_the_next_one_build(
    workshop: Workshop,
) -> None:
    workshop.hold()
    building = asyncio.create_task(find_sif(workshop.program, "docker://debian:12"))
    await workshop.begun()
    waiting = asyncio.create_task(find_sif(workshop.program, "docker://debian:12"))
    building.cancel()
    with pytest.raises(asyncio.CancelledError):
        await building
    workshop.gate.unlink()
    async with asyncio.timeout(30):
        await waiting
    assert (workshop.builds, len(workshop.left())) == (2, 1)


@pytest.mark.parametrize("turns", range(6))
async def test_a_build_cancelled_while_it_starts_leaves_nothing(
    workshop: Workshop, turns: int
) -> None:
    """The event loop turns a few times, then falls behind the builder, as on a busy machine."""
    workshop.hold()
    building = asyncio.create_task(find_sif(workshop.program, "docker://debian:12"))
    while not (workshop.cache / "hermetic").exists():  # noqa: ASYNC110
        await asyncio.sleep(0)
    for _ in range(turns):
        await asyncio.sleep(0)
    deadline = time.monotonic() + 0.2
    # it may not have come to the start of a builder
    while not workshop.builds and time.monotonic() < deadline:
        time.sleep(0.005)  # noqa: ASYNC251
    building.cancel()
    with pytest.raises(asyncio.CancelledError):
        await building
    assert workshop.left() == []


async def test_a_builder_killed_by_sigkill_leaves_a_build_that_the_next_one_waits_for(
    workshop: Workshop,
) -> None:
    workshop.hold()
    other = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        BUILDER,
        workshop.program,
        "docker://debian:12",
        stdout=asyncio.subprocess.PIPE,
    )
    await workshop.begun()
    other.kill()
    await other.wait()
    waiting = asyncio.create_task(find_sif(workshop.program, "docker://debian:12"))
    done, _ = await asyncio.wait([waiting], timeout=0.3)
    assert not done, "it did not wait"
    await asyncio.to_thread(workshop.release)
    async with asyncio.timeout(30):
        path = await waiting
        await ended(int(workshop.count.read_text()))
    assert workshop.builds == 1
    assert workshop.left() == [os.path.basename(path)]


async def test_progress_is_told(workshop: Workshop, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="hermetic"):
        await find_sif(workshop.program, "docker://debian:12")
    assert [record.getMessage() for record in caplog.records][
        -1
    ] == "apptainer: INFO:    Creating SIF file..."


def test_progress_is_shown_by_the_command_line(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMETIC_APPTAINER_BINARY", workshop.program)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "hermetic",
            "run",
            "--env",
            "apptainer",
            "--image",
            "docker://debian:12",
            "--",
            "true",
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "hermetic: apptainer: INFO:    Creating SIF file..." in done.stderr.splitlines()
    assert done.returncode == 125, "the program only builds"


def test_a_path_is_made_whole_and_an_address_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert whole_name("x.sif") == f"{tmp_path}/x.sif"
    assert whole_name("docker-archive:x.tar") == f"docker-archive:{tmp_path}/x.tar"
    assert whole_name("docker://debian:12") == "docker://debian:12"


@pytest.mark.slow
@pytest.mark.full  # builds an image
async def test_an_archive_of_docker_save_is_built_and_its_variables_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMETIC_APPTAINER_BINARY", need_variable("APPTAINER"))
    monkeypatch.setenv("APPTAINER_CACHEDIR", str(tmp_path / "cache"))
    archive = tmp_path / "image.tar"
    write_docker_archive(
        archive,
        Path(need_variable("IMAGE_BASE_TAR")),
        ["PATH=/usr/bin:/bin", "FROM_IMAGE=yes it is"],
    )
    for _ in range(2):
        async with hermetic.open("apptainer", image=archive) as env:
            assert (await env.run("echo $FROM_IMAGE")).output == "yes it is\n"
    [sif] = (tmp_path / "cache" / "hermetic").iterdir()
    assert sif.name.startswith("image.tar-")


@pytest.mark.slow
async def test_a_directory_is_started_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMETIC_APPTAINER_BINARY", need_variable("APPTAINER"))
    monkeypatch.setenv("APPTAINER_CACHEDIR", str(tmp_path / "cache"))
    root = tmp_path / "root"
    with tarfile.open(need_variable("IMAGE_BASE_TAR")) as image:
        image.extractall(root, [member for member in image if not member.isdev()], filter="tar")
    async with hermetic.open("apptainer", image=root) as env:
        assert (await env.run("touch /srv/new; ls /srv")).output == "new\n"
    assert not (root / "srv" / "new").exists()
    assert not (tmp_path / "cache").exists()
