"""The archive that a resident starts from."""

import io
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from hermetic.link.archive import BOOT, PACKAGE, build_archive, starting_input
from hermetic.resident import frames


def test_the_archive_is_a_zip_with_every_module_as_source_and_compiled() -> None:
    modules = {path.stem for path in Path(frames.__file__).parent.glob("*.py")}
    with zipfile.ZipFile(io.BytesIO(build_archive())) as archive:
        assert archive.testzip() is None
        expected = {f"{PACKAGE}/{name}{end}" for name in modules for end in (".py", ".pyc")}
        assert set(archive.namelist()) == expected
        assert archive.read(f"{PACKAGE}/frames.py") == Path(frames.__file__).read_bytes()


def test_this_python_runs_the_compiled_modules(tmp_path: Path) -> None:
    path = tmp_path / "resident.zip"
    path.write_bytes(build_archive())
    script = f"import sys; sys.path.insert(0, {str(path)!r}); import {PACKAGE}.frames as f; print(f.__file__)"
    said = subprocess.run([sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=True)
    assert said.stdout.strip().endswith("frames.pyc")


def test_a_module_whose_bytecode_is_of_another_python_runs_from_source(tmp_path: Path) -> None:
    data = build_archive()
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        compiled = archive.read(f"{PACKAGE}/frames.pyc")
    path = tmp_path / "resident.zip"
    path.write_bytes(data.replace(compiled[:4], b"\0\0\r\n"))
    script = (
        f"import sys; sys.path.insert(0, {str(path)!r}); import {PACKAGE}.frames as f; print(f.__file__, f.MAX_BODY)"
    )
    said = subprocess.run([sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=True)
    assert said.stdout.split()[0].endswith("frames.py")


@pytest.mark.parametrize("config", [b"", b"\xc1" * 10])
def test_a_bad_configuration_ends_the_start(config: bytes) -> None:
    given = starting_input(build_archive(), config)
    said = subprocess.run([sys.executable, "-I", "-S", "-c", BOOT], input=given, capture_output=True, timeout=20)
    assert said.returncode != 0
