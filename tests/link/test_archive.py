"""The archive that a resident starts from."""

import marshal
import subprocess
import sys
from pathlib import Path

import pytest

from hermetic import resident
from hermetic.link.archive import BOOT, NO_PYTHON_CODE, PACKAGE, build_archive, starting_input
from hermetic.link.readiness import refusal_frame
from hermetic.resident.wire import frames
from tests.resident.running import running


def test_the_archive_holds_every_module_as_source_and_compiled() -> None:
    folder = Path(resident.__file__).parent
    paths = [Path(PACKAGE) / path.relative_to(folder) for path in folder.rglob("*.py")]
    names = {".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in paths}
    _, compiled, sources = marshal.loads(build_archive())
    assert set(sources) == set(compiled) == names
    assert sources[f"{PACKAGE}.wire.frames"] == Path(frames.__file__).read_bytes()


def loaded(archive: bytes) -> str:
    """How a Python that is given this archive has its modules."""
    start, _, _ = BOOT.partition(f"from {PACKAGE}.life.main")
    told = "f.FRAME_BODY, len(codes) > 0, f.pack.__code__.co_filename"
    script = f"{start}import {PACKAGE}.wire.frames as f; print({told})"
    given = starting_input(archive, b"")
    said = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script], input=given, capture_output=True, check=True
    )
    return said.stdout.decode()


@pytest.mark.parametrize("for_this_python", [False, True])
def test_this_python_runs_the_compiled_modules(for_this_python: bool) -> None:
    body, is_compiled, file = loaded(build_archive(for_this_python=for_this_python)).split()
    assert (body, is_compiled) == (str(frames.FRAME_BODY), "True")
    assert file.endswith("frames.py")


def test_another_python_runs_the_source() -> None:
    _, compiled, sources = marshal.loads(build_archive())
    other = marshal.dumps((b"\0\0\r\n", compiled, sources), 2)
    assert loaded(other).split() == [str(frames.FRAME_BODY), "False", f"{PACKAGE}.wire.frames"]


@pytest.mark.parametrize("for_this_python", [False, True])
def test_a_traceback_has_the_lines_of_the_source(for_this_python: bool) -> None:
    start, _, _ = BOOT.partition(f"from {PACKAGE}.life.main")
    script = f"{start}import traceback\nfrom {PACKAGE}.wire import frames as f\ntry: f.unpack(b'\\xc1')\n"
    script += "except f.FrameError: print(traceback.format_exc())"
    given = starting_input(build_archive(for_this_python=for_this_python), b"")
    said = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script], input=given, capture_output=True, check=True
    )
    assert b"raise FrameError" in said.stdout


def test_garbage_is_collected_in_a_resident() -> None:
    with running() as started, started.client() as client:
        before = client.ask("info")[0]["rss"]
        for turn in range(300):
            client.ask("run", b"true", id=f"c{turn}", text=4)
        assert client.ask("info")[0]["rss"] - before < 8 << 20


@pytest.mark.parametrize("config", [b"", b"\xc1" * 10])
def test_a_bad_configuration_ends_the_start(config: bytes) -> None:
    given = starting_input(build_archive(), config)
    said = subprocess.run(
        [sys.executable, "-I", "-S", "-c", BOOT], input=given, capture_output=True, timeout=20
    )
    assert said.returncode != 0


def test_an_old_python_refuses_by_a_frame() -> None:
    old = [str(path) for path in Path(sys.base_prefix).parent.glob("3.[67].*/bin/python3")]
    # Where there is none, this Python stands for one.
    script = BOOT if old else BOOT.replace("sys.version_info < (3, 8)", "True")
    said = subprocess.run(
        [*(old[:1] or [sys.executable]), "-I", "-S", "-c", script], input=b"", capture_output=True
    )
    assert said.returncode == NO_PYTHON_CODE
    assert said.stdout == refusal_frame("NoPython", "python3 is older than 3.8")
