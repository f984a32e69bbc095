"""The wheel carries the page, built with the machine's Node or with one of the package index."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.console.browsing import ROOT, need_page
from tests.programs import need

pytestmark = [pytest.mark.slow, pytest.mark.full]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of this checkout without anything that was built."""
    command = [need("git"), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        (target := tmp_path / "checkout" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target)
    return tmp_path / "checkout"


def wheel_of(checkout: Path, *, path: str) -> Path:
    """The wheel that pip builds."""
    out = checkout.parent / "wheels"
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--wheel-dir",
        str(out),
        str(checkout),
    ]
    done = subprocess.run(command, env={**os.environ, "PATH": path}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (wheel,) = out.glob("*.whl")
    return wheel


def page_in(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return [name for name in archive.namelist() if name.startswith("hermetic/serve/page/")]


def test_a_wheel_carries_the_page(checkout: Path) -> None:
    asyncio.run(need_page())
    found = page_in(wheel_of(checkout, path=os.environ["PATH"]))
    assert "hermetic/serve/page/index.html" in found
    assert any(name.endswith(".js.gz") for name in found)


def test_node_comes_from_the_package_index_where_the_machine_has_none(
    checkout: Path, tmp_path: Path
) -> None:
    asyncio.run(need_page())
    programs = tmp_path / "programs"
    programs.mkdir()
    for folder in os.environ["PATH"].split(os.pathsep):
        for program in Path(folder).glob("*"):
            if (
                program.name not in ("node", "nodejs", "npm", "npx")
                and not (programs / program.name).is_symlink()
            ):
                (programs / program.name).symlink_to(program)
    assert "hermetic/serve/page/index.html" in page_in(wheel_of(checkout, path=str(programs)))


def test_a_package_without_its_page_installs_and_serve_says_how_to_get_it(
    checkout: Path, tmp_path: Path
) -> None:
    (tmp_path / "npm").write_text("#!/bin/sh\necho the registry is down; exit 1\n")
    (tmp_path / "node").write_text("#!/bin/sh\necho v99.0.0\n")
    for name in ("npm", "node"):
        (tmp_path / name).chmod(0o755)
    wheel = wheel_of(checkout, path=f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert page_in(wheel) == []
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed := tmp_path / "installed")
    variables = {**os.environ, "PYTHONPATH": str(installed)}
    command = [sys.executable, "-P", "-m", "hermetic", "serve", "--port", "0"]
    with subprocess.Popen(
        command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        assert "The console is at http://127.0.0.1:" in server.stdout.readline()
        server.send_signal(signal.SIGINT)
        assert "run `scripts/build-console`" in server.communicate(timeout=60)[1]
