"""The programs that a portable runtime is built from: any Python, of any user."""

import asyncio
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import pytest

from hermetic.environments.runtime import build, store
from tests.environments.ordinary_user import PACKAGES, OrdinaryUser
from tests.environments.test_runtime import inside
from tests.programs import need_root, unavailable
from tests.pythons import find_python
from tests.sizes import at_full_size

BUILD = """
import asyncio
from hermetic.environments.runtime import store
runtime = asyncio.run(store.portable(lean=True))
print(runtime.directory, runtime.version)
"""


def standalone() -> list[str]:
    """Standalone builds of Python on this machine, of our version, where uv and others put them."""
    version = f"3.{sys.version_info.minor}"
    patterns = (
        f".local/share/uv/python/cpython-{version}*/bin/python{version}",
        f".local/share/*/cpython-{version}*/bin/python{version}",
    )
    return [str(path) for pattern in patterns for path in Path.home().glob(pattern)]


@pytest.mark.parametrize("python", ["moved", *standalone()])
def test_one_is_built_from_a_python_that_lies_anywhere(python: str, tmp_path: Path) -> None:
    """As that of a standalone build, which finds its standard library beside itself."""
    version = f"python3.{sys.version_info.minor}"
    if python == "moved":
        (tmp_path / "own/bin").mkdir(parents=True)
        shutil.copy(build.source_files()[0], tmp_path / "own/bin/python3")
        left_out = shutil.ignore_patterns(
            "test", "tests", "site-packages", "dist-packages", "__pycache__", "config-*"
        )
        source = sysconfig.get_path("stdlib")
        shutil.copytree(
            source, tmp_path / "own" / sys.platlibdir / version, ignore=left_out, symlinks=False
        )
        python = str(tmp_path / "own/bin/python3")
    for package in PACKAGES:
        shutil.copytree(
            package,
            tmp_path / "packages" / package.name,
            ignore=shutil.ignore_patterns("__pycache__"),
        )
    environ = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(tmp_path / "packages"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    done = subprocess.run(
        [python, "-c", BUILD], env=environ, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    runtime = asyncio.run(store.runtime_at(done.stdout.split()[0]))
    code = "import json, sys; print(sys.prefix)"
    assert (
        inside(runtime, tmp_path / "root", runtime.python, "-I", "-S", "-c", code)
        == "/.hermetic/python"
    )


@pytest.mark.parametrize("version", ["3.11", *at_full_size("3.12"), "3.13"])
def test_the_lean_library_has_all_that_its_modules_import(version: str, tmp_path: Path) -> None:
    """Also where a module puts another one in its place, as collections.abc does since 3.13."""
    python = find_python(version)
    if python is None:
        unavailable(f"no Python {version} here")
    words = [python, "-I", "-S", "-c"]
    stdlib = subprocess.run(
        [*words, "import os; print(os.path.dirname(os.__file__))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    for name in build._closure(Path(python)):
        if name.startswith(f"{stdlib}/") and os.path.exists(name):
            copy = tmp_path / os.path.relpath(name, stdlib)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(name, copy)
    code = "import sys; sys.path[:] = sys.argv[1:3]\nfor name in sys.argv[3:]: __import__(name)"
    paths = [str(tmp_path), str(tmp_path / "lib-dynload")]
    done = subprocess.run(
        [*words, code, *paths, *build.LEAN.split()], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_an_ordinary_user_builds_one_from_a_system_python(tmp_path: Path) -> None:
    """Also from Debian's python3 where the user may not run ours."""
    need_root("only root becomes another user")
    home = Path(tempfile.mkdtemp(prefix="hm-user-", dir="/tmp"))
    try:
        user = OrdinaryUser("nobody", home)
        home.chmod(0o755)
        directory, version = user.run(BUILD).split()
        assert version.startswith(f"{sys.version_info.major}.{sys.version_info.minor}.")
        runtime = asyncio.run(store.runtime_at(directory))
        assert (
            inside(runtime, tmp_path, runtime.bash, "-c", f"{runtime.python} -I -S -c 'print(7)'")
            == "7"
        )
    finally:
        shutil.rmtree(home)
