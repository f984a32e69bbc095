"""The vendors' SDKs in environments of their own, and running stand-ins for their services."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.virtual import shared

SDK = Path(__file__).parent / "sdk"
KINDS = ("daytona", "modal")
ENDING_SECONDS = 60.0


def installed(kind: str) -> str:
    """The Python of an environment that has this checkout with the extra of a kind; made on first
    use.
    """
    return shared(kind, f"[{kind},screen]")


@contextmanager
def standin(kind: str, at: Path, *, cuts: bool = False) -> Iterator[dict[str, str]]:
    """A stand-in that runs, as the variables by which the SDK finds it.

    `cuts`: writing to the file `cuts` of its directory cuts its connections.
    """
    at.mkdir()
    if cuts:
        (at / "cuts").touch()
    words = [installed(kind), str(SDK / f"{kind}_server.py"), str(at)]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield {**json.loads(process.stdout.readline()), "STANDIN": str(at)}
        finally:
            process.stdin.close()
            process.wait(ENDING_SECONDS)
