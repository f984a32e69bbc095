"""Builds the wheel and the source distribution of this checkout."""

import subprocess
import sys
from pathlib import Path

from tests.programs import unavailable
from tests.virtual import ROOT, run


def build(target: str, into: Path) -> Path:
    """The built file of a target, `wheel` or `sdist`.

    Ends the test where the console's page cannot be built.
    """
    page = subprocess.run(
        [sys.executable, ROOT / "console" / "build.py"], capture_output=True, text=True
    )
    if page.returncode:
        unavailable(page.stderr.strip())
    run(sys.executable, "-m", "hatchling", "build", "-t", target, "-d", into, cwd=ROOT)
    (built,) = into.iterdir()
    return built
