"""A home and a runtime directory of the run's own: the user's profile and settings do not show in
the figures.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FOREIGN_PREFIXES = ("HERMETIC_", "TERMINAL_", "XDG_")
FOREIGN_NAMES = frozenset({"BASH_ENV", "ENV", "PROMPT_COMMAND", "CDPATH"})


@contextmanager
def private_home() -> Iterator[Path]:
    """An empty home for everything that is started inside the block."""
    # Not under TMPDIR, which may be long: the path of a Unix socket has to stay below 100 bytes.
    directory = Path(tempfile.mkdtemp(prefix="hm-bench-", dir="/tmp"))
    before = dict(os.environ)
    try:
        for name in before:
            if name in FOREIGN_NAMES or name.startswith(FOREIGN_PREFIXES):
                del os.environ[name]
        for variable, folder in (("HERMETIC_RUNTIME_DIR", "run"), ("HOME", "home")):
            (directory / folder).mkdir(mode=0o700)
            os.environ[variable] = str(directory / folder)
        yield directory
    finally:
        os.environ.clear()
        os.environ.update(before)
        shutil.rmtree(directory, ignore_errors=True)
