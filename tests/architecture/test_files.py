"""What every source file keeps to: its size, its first line, the Python it has to run on, names it
must not hold.
"""

import ast
import re
import subprocess
from pathlib import Path

import pytest

from tests.programs import need

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "hermetic"
MOST_LINES = 600

# Paths of somebody's machine. System paths that exist on every Linux are fine.
MACHINE_PATHS = re.compile(r"(?<![\w.$}~])/(?:work|builds|Users)/|\.py[e]nv\b")
# Hosts that packages or images come from: which one is used is a setting of the machine.
HOSTS = re.compile(
    r"(?:gh|q|g)(?:cr|uay)\.io\b|\bdocker\.io/|hub\.docker\.com|\bregistry[\w-]*\.[a-z]+\.[a-z]+"
    r"|\b(?:pypi|npmjs|pythonhosted|crates)\.(?:org|com|io)\b|\b\w+\.debian\.(?:org|net)\b|mirror\.\w+\.\w+"
)


def sources(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_there_are_sources_to_look_at() -> None:
    assert PACKAGE / "__init__.py" in sources(PACKAGE)


def test_the_resident_parses_as_python_3_8() -> None:
    for path in sources(PACKAGE / "resident"):
        ast.parse(path.read_bytes(), filename=str(path), feature_version=(3, 8))


def test_newer_grammar_than_3_8_is_told() -> None:
    with pytest.raises(SyntaxError):
        ast.parse("match x:\n    case 1: pass\n", feature_version=(3, 8))


def test_no_source_file_is_too_long() -> None:
    sizes = {named(path): len(path.read_bytes().splitlines()) for path in sources(PACKAGE)}
    assert {path: lines for path, lines in sizes.items() if lines > MOST_LINES} == {}


def test_every_package_says_what_lives_in_it() -> None:
    folders = {path.parent for path in sources(PACKAGE)}
    silent = [
        named(folder)
        for folder in sorted(folders)
        if not (init := folder / "__init__.py").is_file()
        or not ast.get_docstring(ast.parse(init.read_bytes()))
    ]
    assert silent == []


def tracked_files() -> list[Path]:
    """Files git knows; the checkout may belong to somebody else than who runs the tests."""
    git = need("git")
    listing = subprocess.run(
        [git, "-c", "safe.directory=*", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True
    )
    return [
        path
        for name in listing.stdout.decode().split("\0")
        if name and (path := ROOT / name).is_file()
    ]


def foreign_names(text: str) -> list[str]:
    """Machine paths and hosts in a text, this checkout's own path among them."""
    own = re.compile(re.escape(str(ROOT)) + r"(?![\w-])")
    return [
        match.group() for pattern in (MACHINE_PATHS, HOSTS, own) for match in pattern.finditer(text)
    ]


def test_no_tracked_file_names_a_machine_or_a_registry() -> None:
    found = {
        named(path): names
        for path in tracked_files()
        if (names := foreign_names(path.read_text(errors="replace")))
    }
    assert found == {}


@pytest.mark.parametrize(
    "parts",
    [
        ("/wo", "rk/x"),
        ("FROM gh", "cr.io/a/b"),
        ("docker", ".io/library/x"),
        ("https://pypi", ".org/simple"),
        ("deb", ".debian.org"),
        ("~/.py", "env/bin"),
        ("registry-1", ".docker.com"),
        (str(ROOT), "/src"),
    ],
)
def test_a_foreign_name_is_told(parts: tuple[str, str]) -> None:
    assert foreign_names("".join(parts))


@pytest.mark.parametrize(
    "text", ["apt_install docker.io", "/workspace/x", "/tmp/work/x", "~/work/x", "/root/.ssh"]
)
def test_an_ordinary_name_is_not(text: str) -> None:
    assert foreign_names(text) == []
