"""Other versions of Python on this machine."""

import os
import shutil
import subprocess
import sys
from pathlib import Path


def find_python(version: str) -> str | None:
    """A Python of a version such as "3.12" that makes environments: on PATH, or one of pyenv's."""
    name = f"python{version}"
    versions = Path(os.environ.get("PYENV_ROOT", "/nonexistent"), "versions")
    found = [
        path
        for path in (shutil.which(name), *map(str, sorted(versions.glob(f"*/bin/{name}"))))
        if path
    ]
    return next(filter(_works, found), None)


def other_pythons() -> list[str]:
    """Interpreters besides this one, without starting any: of the system, and pyenv's."""
    found: set[str] = set()
    for minor in range(8, 15):
        # pyenv keeps versions side by side
        beside = Path(sys.base_prefix).parent.glob(f"3.{minor}.*/bin/python3.{minor}")
        found |= {
            str(path) for path in (Path(f"/usr/bin/python3.{minor}"), *beside) if path.exists()
        }
    return sorted(found - {os.path.realpath(sys.executable)})


def _works(python: str) -> bool:
    """Whether it makes environments; a shim may stand for none."""
    return subprocess.run([python, "-c", "import ensurepip"], capture_output=True).returncode == 0
