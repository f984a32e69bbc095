"""Other versions of Python on this machine."""

import os
import shutil
import subprocess
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


def _works(python: str) -> bool:
    """Whether it makes environments; a shim may stand for none."""
    return subprocess.run([python, "-c", "import ensurepip"], capture_output=True).returncode == 0
