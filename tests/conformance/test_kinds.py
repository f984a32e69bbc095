"""Every kind of environment passes the behaviour suite: `local` all of it, the others a part unless at full size."""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.suite import FILES, MAY_LACK, SHORT, Case, run_suite, summarize
from tests.environments.engines import need_engine
from tests.environments.plugins import install_jail
from tests.environments.sshd import running, shared_options
from tests.programs import in_ci, need, need_variable
from tests.sizes import is_full

Options = Mapping[str, Any]


class Setup(ExitStack):
    """What a kind needs while it is put to the suite: a directory, variables, and things to be ended."""

    def __init__(self, at: Path, patch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.at, self.patch = at, patch


def local(setup: Setup) -> tuple[str, Options]:
    return "local", {}


def sandbox(setup: Setup) -> tuple[str, Options]:
    need("bwrap")
    return "sandbox", {}


def container(kind: str, image: str, **more: Any) -> Callable[[Setup], tuple[str, Options]]:
    """An engine's container of a test image."""

    def prepare(setup: Setup) -> tuple[str, Options]:
        if kind == "apptainer":
            setup.patch.setenv("HERMETIC_APPTAINER_BINARY", need_variable("APPTAINER"))
            return kind, {"image": need_variable(f"IMAGE_{image.upper()}_SIF")}
        need_engine(kind)
        return kind, {"image": need_variable(f"IMAGE_{image.upper()}"), **more}

    return prepare


def ssh(setup: Setup) -> tuple[str, Options]:
    """With a home that has no profile."""
    return "ssh", {**shared_options(), "env": {"HOME": str(setup.at)}}


def ssh_without_python(setup: Setup) -> tuple[str, Options]:
    """With all programs of this machine but Python."""
    programs = setup.at / "bin"
    programs.mkdir()
    for folder in ("/usr/bin", "/bin", "/usr/sbin", "/sbin"):
        for name in os.listdir(folder):
            if not name.startswith(("python", "pypy")) and not (programs / name).exists():
                (programs / name).symlink_to(shutil.which(name, path=folder) or os.devnull)
    setting = f'ForceCommand export PATH={programs}; eval "$SSH_ORIGINAL_COMMAND"'
    sshd = setup.enter_context(running(setup.at / "sshd", setting))
    return "ssh", sshd.options


def command(setup: Setup) -> tuple[str, Options]:
    """A kind of one program, without Python and bash."""
    return "jail", {"root": str(install_jail(setup.at, setup.patch))}


# Images that lack Python, bash, the GNU C library, root, or a root directory that can be written to.
IMAGES = ("scratch", "musl", "nopython", "minimal", "nobash")
READ_ONLY = {"extra_args": ["--read-only", "--tmpfs=/root", "--tmpfs=/var/tmp"]}  # the last: for output beyond memory
KINDS: dict[str, Callable[[Setup], tuple[str, Options]]] = {
    "local": local,
    "sandbox": sandbox,
    "docker": container("docker", "tools"),
    "podman": container("podman", "tools"),
    "apptainer": container("apptainer", "tools"),
    "ssh": ssh,
    "ssh without Python": ssh_without_python,
    "command": command,
    **{f"docker {image}": container("docker", image) for image in IMAGES},
    "docker user": container("docker", "user", cwd="/home/someone"),
    "docker read-only": container("docker", "nopython", **READ_ONLY),
    "podman scratch": container("podman", "scratch"),
    "apptainer scratch": container("apptainer", "scratch"),
}
AT_FULL_SIZE = {
    **{f"podman {image}": container("podman", image) for image in IMAGES[1:]},
    "podman user": container("podman", "user", cwd="/home/someone"),
    "podman read-only": container("podman", "nopython", **READ_ONLY),
    **{f"apptainer {image}": container("apptainer", image) for image in IMAGES[1:]},
}
WHOLE = ("local",)
WITH_ALL_PROGRAMS = ("docker", "podman", "apptainer", "ssh")  # others lack one that a test would run there


@pytest.fixture
def setup(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Setup]:
    with Setup(tmp_path_factory.mktemp("prepared"), monkeypatch) as found:
        yield found


@pytest.mark.slow
@pytest.mark.parametrize("name", [*KINDS, *(AT_FULL_SIZE if is_full() else ())])
def test_a_kind_passes_the_behaviour_suite(name: str, setup: Setup, tmp_path: Path) -> None:
    is_whole = is_full() or name in WHOLE
    kind, options = {**KINDS, **AT_FULL_SIZE}[name](setup)
    words = [f"{name}={json.dumps(value)}" for name, value in options.items()]
    cases = run_suite(kind, tmp_path, words, [] if is_whole else ["-k", " or ".join(SHORT)])
    assert not (failed := [case for case in cases if case.outcome == "failed"]), summarize(failed)
    on_this_machine = name in ("local", "sandbox") and in_ci()
    may_lack = () if name in WITH_ALL_PROGRAMS or on_this_machine else MAY_LACK
    assert not (skipped := _skipped(cases, may_lack)), summarize(skipped)
    assert {case.file for case in cases} == set(FILES) or not is_whole
    assert len(cases) > (400 if is_whole else len(SHORT))


def _skipped(cases: list[Case], may_lack: tuple[str, ...]) -> list[Case]:
    """The tests that were skipped for another reason than those that contain a text of `may_lack`."""
    skipped = [case for case in cases if case.outcome == "skipped"]
    return [case for case in skipped if not any(reason in case.detail for reason in may_lack)]
