"""Each adapter with the real framework, installed into an environment of its own."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "inspect_ai": ("inspect_ai", "pytest-asyncio"),
    "minisweagent": ("mini-swe-agent",),
    "pydantic_ai": ("pydantic-ai-slim", "anyio", "trio"),
}


def installed(name: str) -> Path:
    """The Python of an environment that has the framework and this checkout; made on first use."""
    home = ROOT / ".venv" / "frameworks" / name
    python = home / "bin" / "python"
    if not (home / "ready").exists():
        venv.create(home, with_pip=True, clear=True)
        packages = ("pytest", *PACKAGES[name])
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--editable", ROOT, *packages], check=True)
        (home / "ready").touch()
    return python


@pytest.mark.full
@pytest.mark.parametrize("name", sorted(PACKAGES))
def test_an_adapter_works_with_the_real_framework(name: str, tmp_path: Path) -> None:
    words = ["--noconftest", "-q", "-c", os.devnull, "-p", "no:cacheprovider", "-o", "asyncio_mode=auto"]
    quiet = {"MSWEA_SILENT_STARTUP": "1", "MSWEA_GLOBAL_CONFIG_DIR": str(tmp_path), "INSPECT_DISPLAY": "none"}
    done = subprocess.run(
        [installed(name), "-m", "pytest", *words, ROOT / "tests" / "adapters" / "real" / f"test_{name}.py"],
        cwd=tmp_path,
        env={**os.environ, **quiet},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-1000:]


def test_the_core_imports_no_framework() -> None:
    text = "import hermetic, sys; print([name for name in ('inspect_ai', 'pydantic', 'mcp') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", text], capture_output=True, text=True).stdout == "[]\n"
