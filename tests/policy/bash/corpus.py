"""Shell scripts to read: those of the machine, and bash's own, from Debian's source package."""

from __future__ import annotations

import os
import re
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

from tests.programs import need, unavailable

SHEBANG = re.compile(rb"#! ?/(usr/)?bin/(env )?(ba|da)?sh\b")
MAINTAINER = {".preinst", ".postinst", ".prerm", ".postrm", ".config"}
FOLDERS = (
    "/usr/bin",
    "/usr/sbin",
    "/etc/init.d",
    "/etc/profile.d",
    "/usr/share/bash-completion",
    "/usr/lib/git-core",
)


def of_machine() -> list[Path]:
    """Maintainer scripts, shell programs and completions that are installed."""
    info = Path("/var/lib/dpkg/info")
    found = [
        path for path in sorted(info.glob("*")) if path.suffix in MAINTAINER and _is_shell(path)
    ]
    for folder in FOLDERS:
        found += [path for path in _files(folder) if "completions" in path.parts or _is_shell(path)]
    return found


def of_bash(folder: Path) -> list[Path]:
    """bash's tests, its examples and its `configure`, unpacked into the folder; nothing else is
    changed.
    """
    need("apt-get")
    source = _download(folder)
    with tarfile.open(source) as archive:
        archive.extractall(folder, filter="data")
    (top,) = (path for path in folder.iterdir() if (path / "tests").is_dir())
    tests = [path for path in sorted((top / "tests").iterdir()) if _is_test(path)]
    examples = [
        path
        for path in _files(str(top / "examples"))
        if path.suffix in (".sh", ".bash") or _is_shell(path)
    ]
    return [*tests, *examples, top / "configure"]


def _is_test(path: Path) -> bool:
    return path.suffix in (".tests", ".sub") or path.name.startswith("run-")


def _files(folder: str) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders.sort()
        paths = (Path(parent, name) for name in sorted(names))
        yield from (path for path in paths if path.is_file() and not path.is_symlink())


def _is_shell(path: Path) -> bool:
    with path.open("rb") as file:
        return SHEBANG.match(file.read(40)) is not None


def _download(folder: Path) -> Path:
    """bash's upstream archive, by apt with sources of its own: those of the machine, asked for
    source packages.
    """
    parts, lists, cache = (
        folder / name for name in ("parts", "lists/partial", "cache/archives/partial")
    )
    for one in (parts, lists, cache):
        one.mkdir(parents=True)
    for path in [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*")]:
        if path.suffix in (".sources", ".list") and path.is_file():
            text = re.sub(r"(?m)^Types:.*", "Types: deb-src", path.read_text())
            (parts / path.name).write_text(re.sub(r"(?m)^deb\s", "deb-src ", text))
    settings = {
        "Dir::Etc::sourcelist": "/dev/null",
        "Dir::Etc::sourceparts": parts,
        "Dir::State::lists": lists.parent,
        "Dir::Cache": cache.parents[1],
        "APT::Sandbox::User": "",
    }
    options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
    for action in (["update"], ["source", "--download-only", "bash"]):
        command = ["apt-get", "--quiet", *options, *action]
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=300, check=False
        )
    found = sorted(folder.glob("bash_*.orig.tar.*"))
    if not found:
        unavailable(f"apt-get has no source package of bash: {done.stderr[-300:]}")
    return found[0]
