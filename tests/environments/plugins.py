"""Kinds of environment that another distribution brings, written where this run finds them."""

import sys
from pathlib import Path

import pytest

PLAIN = '''
from hermetic.environments.bare import BareBackend


class Plain(BareBackend):
    """Commands run as the caller, on the caller's machine, as if there were no Python."""

    kind = "plain"

    def command(self, argv):
        return list(argv)
'''


def install(at: Path, module: str, source: str, kinds: dict[str, str], patch: pytest.MonkeyPatch) -> None:
    """Makes a distribution known to this process and to those it starts: kind → class in `source`."""
    (at / f"{module}.py").write_text(source)
    told = at / f"{module}.dist-info"
    told.mkdir()
    (told / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1\n")
    lines = "".join(f"{kind} = {module}:{name}\n" for kind, name in kinds.items())
    (told / "entry_points.txt").write_text(f"[hermetic.environments]\n{lines}")
    patch.syspath_prepend(at)
    patch.setenv("PYTHONPATH", str(at))
    patch.delitem(sys.modules, module, raising=False)
