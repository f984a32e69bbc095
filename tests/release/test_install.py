"""Wheel and source distribution, each installed into a clean environment: commands run, the console
has its page.
"""

import email
import email.message
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import urllib.request
import zipfile
from pathlib import Path

import pytest

import hermetic
from hermetic.contract import VERSION
from hermetic.registry.records import runtime_path
from tests.programs import need, unavailable
from tests.pythons import find_python
from tests.release.packages import build
from tests.virtual import ROOT, install, outside, run, uv

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = set(PROJECT["optional-dependencies"])
VERSIONS = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))

pytestmark = pytest.mark.slow


def works(programs: Path, elsewhere: Path) -> None:
    """Raises AssertionError unless the installed program runs a command and serves the page."""
    program = programs / "hermetic"
    assert run(program, "--version", cwd=elsewhere, env=outside()).startswith(
        f"hermetic {VERSION} "
    )
    assert run(program, "run", "--", "echo $((6 * 7))", cwd=elsewhere, env=outside()) == "42\n"
    inside = run(
        programs / "python",
        "-c",
        "import hermetic; print(hermetic.__file__)",
        cwd=elsewhere,
        env=outside(),
    )
    assert inside.startswith(str(programs.parent)), "it is this checkout that runs"
    serving = subprocess.Popen(
        [program, "serve"],
        cwd=elsewhere,
        env=outside(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert serving.stdout is not None
        told = serving.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+/", told)
        assert found is not None, told
        page = fetch(found[0]).decode()
        script = re.search(r'src="\.?/?([\w./-]+\.js)"', page)
        assert script is not None, page
        assert len(fetch(found[0] + script[1])) > 10_000
    finally:
        serving.terminate()
        serving.communicate(timeout=60)
        shutil.rmtree(runtime_path() / "console", ignore_errors=True)


def fetch(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return bytes(answer.read())


def metadata_of(wheel: Path) -> email.message.Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(archive.read(name))


def test_the_wheel_works_in_a_clean_environment(tmp_path: Path) -> None:
    wheel = build("wheel", tmp_path / "dist")
    metadata = metadata_of(wheel)
    assert (
        (metadata["Name"], metadata["Version"])
        == ("hermetic", VERSION)
        == ("hermetic", hermetic.__version__)
    )
    assert (metadata["License-Expression"], metadata["Requires-Python"]) == ("MIT", ">=3.11")
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata["Summary"]
    assert len(metadata.get_all("Classifier", [])) > 5
    assert set(metadata.get_all("Provides-Extra", [])) == EXTRAS
    bare = [
        line
        for line in metadata.get_all("Requires-Dist", [])
        if not re.search(r"[<>=]", line.split(";")[0])
    ]
    assert bare == [], "a dependency without a bound"
    names = zipfile.ZipFile(wheel).namelist()
    assert "hermetic/py.typed" in names
    assert [
        name
        for name in names
        if not name.startswith(("hermetic/", f"hermetic-{VERSION}.dist-info/"))
    ] == []
    works(install(f"{wheel}[serve]", tmp_path / "installed"), tmp_path)


@pytest.mark.full
def test_the_source_distribution_works_in_a_clean_environment_without_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = build("sdist", tmp_path / "dist")
    with tarfile.open(sources) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "README.md",
        "LICENSE",
        "CHANGELOG.md",
        "pyproject.toml",
        "test",
        "console/build.py",
    } <= names
    assert not [
        name for name in names if "node_modules" in name or name.startswith((".venv", ".git/"))
    ]
    for program in ("node", "npm"):
        (tmp_path / "bin" / program).parent.mkdir(exist_ok=True)
        (tmp_path / "bin" / program).write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / "bin" / program).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{outside()['PATH']}")
    works(install(f"{sources}[serve]", tmp_path / "installed"), tmp_path)


def test_packages_have_the_files_of_the_repository_and_no_others(tmp_path: Path) -> None:
    if not (ROOT / ".git").exists():
        unavailable("this is no clone, so nothing lists the files of the repository")
    copy, names = (
        tmp_path / "copy",
        set(filter(None, run("git", "ls-files", "-z", cwd=ROOT).split("\0"))),
    )
    for name in names:
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, copy / name)
    for folder in {Path(name).parent for name in names} | {Path("scratch")}:
        (copy / folder).mkdir(exist_ok=True)
        for stray in ("two\nlines", "notes.orig", ".env", "core"):
            (copy / folder / stray).write_text("of a person, and not of the project\n")
    run(
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "-d",
        tmp_path,
        cwd=copy,
        env=outside(HERMETIC_CONSOLE="later"),
    )
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as sources:
        assert {name.partition("/")[2] for name in sources.getnames()} == names | {"PKG-INFO"}
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        installed = {f"src/{name}" for name in wheel.namelist() if ".dist-info/" not in name}
    assert installed == {name for name in names if name.startswith("src/")}


def test_the_changelog_begins_with_what_is_next_or_with_this_version() -> None:
    headings = re.findall(
        r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert headings[0] == "Unreleased" or headings[0].split()[0] == VERSION


@pytest.mark.full
@pytest.mark.parametrize("extra", sorted(EXTRAS))
def test_every_extra_resolves_alone(extra: str, tmp_path: Path) -> None:
    wheel = build("wheel", tmp_path / "dist")
    told = run(
        sys.executable,
        "-m",
        "pip",
        "install",
        "--dry-run",
        "--ignore-installed",
        f"{wheel}[{extra}]",
        env=outside(),
    )
    assert "Would install" in told
    assert f"hermetic-{VERSION}" in told


@pytest.mark.full
@pytest.mark.parametrize("version", VERSIONS)
def test_the_wheel_works_on_every_python_that_it_names(version: str, tmp_path: Path) -> None:
    python = find_python(version) or unavailable(f"no Python {version} here")
    works(
        install(f"{build('wheel', tmp_path / 'dist')}[serve]", tmp_path / "installed", python),
        tmp_path,
    )


@pytest.mark.full
def test_uvx_and_pipx_run_it_without_installing_it(tmp_path: Path) -> None:
    need("bash")
    wheel = build("wheel", tmp_path / "dist")
    folders = {
        name: str(tmp_path / name.lower()) for name in ("UV_TOOL_DIR", "PIPX_HOME", "PIPX_BIN_DIR")
    }
    command = ("hermetic", "run", "--", "echo $((6 * 7))")
    assert uv("tool", "run", "--from", wheel, "hermetic", "--version", **folders).startswith(
        f"hermetic {VERSION} "
    )
    assert uv("tool", "run", "--from", wheel, *command, **folders) == "42\n"
    assert uv("tool", "run", "pipx", "run", "--spec", wheel, *command, **folders) == "42\n"
