"""Kinds of environment that another distribution brings, written where this run finds them."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.programs import need, need_variable

JAIL = '''
import subprocess

from hermetic.environments.calling import CallingBackend, CallingOptions
from hermetic.environments.command import CommandBackend, CommandOptions


class JailOptions(CommandOptions, frozen=True, kw_only=True):
    root: str
    read_only: bool = False


class Jail(CommandBackend):
    """Commands see another directory as `/`."""

    kind = "jail"
    option_shape = JailOptions
    calls = []  # what runs before each of its programs

    def command(self, argv):
        bind = "--ro-bind" if self.chosen.read_only else "--bind"
        words = ["bwrap", bind, self.chosen.root, "/", "--proc", "/proc", "--dev", "/dev", "--clearenv",
                 "--setenv", "PATH", "/bin", "--setenv", "HOME", "/root", *argv]
        for call in self.calls:
            words = call(words)
        return words


class CalledOptions(CallingOptions, frozen=True, kw_only=True):
    root: str


class CalledJail(CallingBackend):
    """The same by nothing but blocking calls, each of which is a process of this machine."""

    kind = "called jail"
    option_shape = CalledOptions

    def call(self, script):
        words = Jail({"root": self.chosen.root}).command(["sh", "-c", script])
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.stdout.decode(errors="replace"), done.returncode
'''


def install(
    at: Path, module: str, source: str, kinds: dict[str, str], patch: pytest.MonkeyPatch
) -> None:
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


def install_jail(at: Path, patch: pytest.MonkeyPatch) -> Path:
    """Makes the kinds `jail` and `called jail` known; the root directory for them, of one busybox and
    without /tmp.
    """
    need("bwrap")
    install(at, "jail_kind", JAIL, {"jail": "Jail", "called jail": "CalledJail"}, patch)
    root = at / "root"
    root.mkdir()
    subprocess.run(["tar", "-C", root, "-xf", need_variable("IMAGE_MUSL_TAR")], check=True)
    for name in ("tmp", "var/tmp"):
        (root / name).rmdir()
    return root
