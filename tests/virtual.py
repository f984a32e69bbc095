"""Virtual environments for packages that the tests' own must not have.

The benchmarks need them too, and they run without pytest.
"""

import fcntl
import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SECONDS = 600.0
LIKE_PIP = {
    "UV_DEFAULT_INDEX": "PIP_INDEX_URL",
    "UV_FIND_LINKS": "PIP_FIND_LINKS",
    "SSL_CERT_FILE": "PIP_CERT",
}


def run(*words: object, **options: Any) -> str:
    """What a program prints. Raises AssertionError with all of it where it fails."""
    done = subprocess.run(
        [str(word) for word in words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        **options,
    )
    assert done.returncode == 0, f"{' '.join(map(str, words))}\n{done.stdout}{done.stderr}"
    return str(done.stdout)


def install(package: object, into: Path, python: str = sys.executable) -> Path:
    """The directory of programs of a new environment that holds nothing but the package and what it
    needs.
    """
    uv("venv", "--quiet", "--python", python, into)
    uv("pip", "install", "--quiet", "--python", into, package)
    return into / "bin"


def shared(name: str, extras: str, *packages: str, python: str = sys.executable) -> str:
    """The Python of an environment with this checkout and further packages; made on first use, for
    all workers.
    """
    home = ROOT / ".venv" / "environments" / name
    ready = home / "ready"
    wanted = hashlib.sha256(
        (ROOT / "pyproject.toml").read_bytes() + repr(packages).encode()
    ).hexdigest()
    home.parent.mkdir(exist_ok=True)
    with home.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not ready.exists() or ready.read_text() != wanted:
            uv("venv", "--quiet", "--clear", "--python", python, home)
            words = ("--editable", f"{ROOT}{extras}", "pytest", *packages)
            uv("pip", "install", "--quiet", "--python", home, *words, HERMETIC_CONSOLE="later")
            ready.write_text(wanted)
    return str(home / "bin" / "python")


def uv(*words: object, **variables: str) -> str:
    """What uv prints.

    It has the index of pip and the tests' own cache, so that only the first run downloads.
    """
    like_pip = {name: os.environ[like] for name, like in LIKE_PIP.items() if like in os.environ}
    return run(
        sys.executable,
        "-m",
        "uv",
        *words,
        env=outside(**like_pip, UV_PYTHON=sys.executable, **variables),
    )


def outside(**more: str) -> dict[str, str]:
    """Variables without any that lead back to this checkout."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "VIRTUAL_ENV"))
    }
    return {**kept, **more}
