"""Python code run as an ordinary user who may see nothing of the one who runs the tests."""

import os
import pwd
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import distribution, requires
from pathlib import Path

import hermetic
from tests.programs import unavailable


def dependencies() -> Iterator[Path]:
    """Packages that Hermetic needs without any extra."""
    for requirement in requires("hermetic") or []:
        if "extra ==" in requirement:
            continue
        needed = distribution(re.split(r"[^\w.-]", requirement, maxsplit=1)[0])
        tops = {file.parts[0] for file in needed.files or []}
        yield from (
            Path(str(needed.locate_file(top)))
            for top in tops
            if not top.endswith((".dist-info", ".."))
        )


PACKAGES = (Path(hermetic.__file__).parent, *dependencies())


class OrdinaryUser:
    """A user with a copy of Hermetic in a directory of his own, and an interpreter that he may run."""

    def __init__(
        self,
        name: str,
        home: Path,
        *,
        groups: Sequence[int] = (),
        packages: Sequence[Path] = PACKAGES,
    ) -> None:
        self.name, self.home, self.groups = name, home, groups
        (home / "packages").mkdir()
        for package in packages:
            target = home / "packages" / package.name
            if package.is_dir():
                shutil.copytree(package, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(package, target)
        entry = pwd.getpwnam(name)
        self.uid, self.gid = entry.pw_uid, entry.pw_gid
        for folder, _, files in os.walk(home):
            for path in (folder, *(os.path.join(folder, file) for file in files)):
                os.chown(path, entry.pw_uid, entry.pw_gid)
        self.environ = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(home / "packages"),
            "HOME": str(home),
            "TMPDIR": str(home),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        self.python = self._interpreter()

    def start(self, code: str, *words: str, **more: str) -> "subprocess.Popen[str]":
        """Begins to run the code, with more variables."""
        return self._spawn(self.python, code, *words, **more)

    def run(self, code: str, *words: str, **more: str) -> str:
        """What the code prints; fails the test when it fails."""
        with self.start(code, *words, **more) as process:
            said, _ = process.communicate(timeout=100)
        assert process.returncode == 0, said
        return said

    def _spawn(self, python: str, code: str, *words: str, **more: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [python, "-c", code, *words],
            env={**self.environ, **more},
            cwd="/",
            stdout=subprocess.PIPE,
            text=True,
            user=self.uid,
            group=self.gid,
            extra_groups=self.groups,
        )

    def _interpreter(self) -> str:
        """Ours where the user may run it, else the system's of the same version, for which our
        packages fit.
        """
        check = f"import hermetic, msgspec, sys; sys.exit(sys.version_info[:2] != {sys.version_info[:2]})"
        usable = [
            path for path in (sys.executable, "/usr/bin/python3") if self._succeeds(path, check)
        ]
        if not usable:
            unavailable(
                f"{self.name} may run no Python {sys.version_info[0]}.{sys.version_info[1]} here"
            )
        return usable[0]

    def _succeeds(self, python: str, code: str) -> bool:
        try:
            with self._spawn(python, code) as process:
                process.communicate(timeout=60)
        except PermissionError:
            return False
        return process.returncode == 0
