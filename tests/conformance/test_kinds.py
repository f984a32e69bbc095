"""Every kind of environment passes the behaviour suite:

`local` all of it, the others a part unless at full size.
"""

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from hermetic.environments.clouds.stream import SILENCE
from hermetic.registry.records import is_id, runtime_root
from tests.clouds.vendors import KINDS as CLOUDS
from tests.clouds.vendors import installed, standin
from tests.conformance.suite import (
    FILES,
    MAY_LACK,
    PACKAGES,
    SHORT,
    run_suite,
    summarize,
    unexpected_skips,
)
from tests.environments.clusters import kubeconfig
from tests.environments.clusters import standin as api_server
from tests.environments.engines import need_engine
from tests.environments.ordinary_user import OrdinaryUser
from tests.environments.plugins import install_jail
from tests.environments.slurm_cluster import need_slurm
from tests.environments.sshd import running, shared_options
from tests.fleet.ray_cluster import SETTINGS, raylets
from tests.leftovers import await_janitors
from tests.programs import in_ci, need, need_root, need_variable
from tests.sizes import is_full

Options = Mapping[str, Any]
JANITOR_SECONDS = 10 * SILENCE


class Setup(ExitStack):
    """What a kind needs while it is put to the suite: a directory, variables, and things to be
    ended.
    """

    def __init__(self, at: Path, patch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.at, self.patch = at, patch
        self.user: OrdinaryUser | None = None  # who runs the suite instead of this user
        self.python = sys.executable  # that runs it


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


def apptainer_of_a_user(setup: Setup) -> tuple[str, Options]:
    """An ordinary user's container of an image without Python."""
    need_root("only root can run something as another user")
    home = Path(setup.enter_context(TemporaryDirectory(prefix="hm-", dir="/tmp")))
    setup.user = OrdinaryUser(need_variable("APPTAINER_USER"), home, packages=PACKAGES)
    setup.user.environ["HERMETIC_APPTAINER_BINARY"] = need_variable("APPTAINER")
    return "apptainer", {"image": need_variable("IMAGE_NOPYTHON_SIF")}


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


def cloud(kind: str, image: str) -> Callable[[Setup], tuple[str, Options]]:
    """A sandbox of a vendor: by its real SDK, against a stand-in for its service."""

    def prepare(setup: Setup) -> tuple[str, Options]:
        setup.python = installed(kind)
        for name, value in setup.enter_context(standin(kind, setup.at / "standin")).items():
            setup.patch.setenv(name, value)
        setup.callback(_check_sandboxes, setup.at / "standin" / "running")
        return kind, {"image": image}

    return prepare


def _check_sandboxes(running: Path) -> None:
    """Waits for the janitor, which asks the stand-in; then no sandbox runs that would be billed."""
    until = time.monotonic() + JANITOR_SECONDS
    while left := [name for name in os.listdir(runtime_root()) if is_id(name)]:
        assert time.monotonic() < until, f"the janitor has not removed {left}"
        time.sleep(0.1)
    assert os.listdir(running) == []


def pod(image: str) -> Callable[[Setup], tuple[str, Options]]:
    """A pod of the test cluster."""

    def prepare(setup: Setup) -> tuple[str, Options]:
        options = {"image": need_variable(f"IMAGE_{image.upper()}")}
        return "kubernetes", {**options, "kubeconfig": kubeconfig()}

    return prepare


def pod_of_a_standin(setup: Setup) -> tuple[str, Options]:
    """A pod of a stand-in for an API server, which speaks version 5 of the exec protocol."""
    at = setup.at / "api"
    at.mkdir()
    return "kubernetes", {**setup.enter_context(api_server(at)).options, "image": "standin"}


def job(setup: Setup) -> tuple[str, Options]:
    """A job of the test cluster, with a home that has no profile."""
    setup.patch.setenv("SLURM_CONF", need_slurm())
    return "slurm", {"env": {"HOME": str(setup.at)}}


def job_in_a_container(image: str) -> Callable[[Setup], tuple[str, Options]]:
    """A job that runs apptainer."""

    def prepare(setup: Setup) -> tuple[str, Options]:
        setup.patch.setenv("SLURM_CONF", need_slurm())
        program = need_variable("APPTAINER")
        return "slurm", {"image": need_variable(f"IMAGE_{image.upper()}_SIF"), "apptainer": program}

    return prepare


def ray(setup: Setup) -> tuple[str, Options]:
    """A node of three raylets."""
    setup.python = installed("ray")
    for name, value in SETTINGS.items():
        setup.patch.setenv(name, value)
    cluster = setup.enter_context(raylets(setup.python))
    setup.callback(await_janitors, 120)
    return "ray", {"address": cluster.address}


# Images that lack Python, bash, the GNU C library, root, or a root directory that can be written
# to.
IMAGES = ("scratch", "musl", "nopython", "minimal", "nobash")
# the last: for output beyond memory
READ_ONLY = {"extra_args": ["--read-only", "--tmpfs=/root", "--tmpfs=/var/tmp"]}
KINDS: dict[str, Callable[[Setup], tuple[str, Options]]] = {
    "local": local,
    "sandbox": sandbox,
    "docker": container("docker", "tools"),
    "podman": container("podman", "tools"),
    "apptainer": container("apptainer", "tools"),
    "ssh": ssh,
    "ssh without Python": ssh_without_python,
    "command": command,
    **{kind: cloud(kind, "standin") for kind in CLOUDS},
    "kubernetes": pod("tools"),
    "kubernetes stand-in": pod_of_a_standin,
    "slurm": job,
    "docker user": container("docker", "user", cwd="/home/someone"),
    "docker read-only": container("docker", "nopython", **READ_ONLY),
}
# tests/environments/test_any_image.py and test_apptainer.py open each of these images at any size.
AT_FULL_SIZE = {
    **{f"docker {image}": container("docker", image) for image in IMAGES},
    **{f"podman {image}": container("podman", image) for image in IMAGES},
    "podman user": container("podman", "user", cwd="/home/someone"),
    "podman read-only": container("podman", "nopython", **READ_ONLY),
    **{f"apptainer {image}": container("apptainer", image) for image in IMAGES},
    "apptainer user": apptainer_of_a_user,
    **{f"{kind} nopython": cloud(kind, "standin:nopython") for kind in CLOUDS},
    "kubernetes nopython": pod("nopython"),
    "ray": ray,
    "slurm apptainer": job_in_a_container("tools"),
    "slurm apptainer nopython": job_in_a_container("nopython"),
}
WHOLE = ("local",)
WITH_ALL_PROGRAMS = (
    "docker",
    "podman",
    "apptainer",
    "ssh",
    "kubernetes",
    "slurm apptainer",
)  # others lack one that a test would run there


@pytest.fixture
def setup(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Setup]:
    with Setup(tmp_path_factory.mktemp("prepared"), monkeypatch) as found:
        yield found


@pytest.mark.slow
@pytest.mark.parametrize("name", [*KINDS, *(AT_FULL_SIZE if is_full() else ())])
def test_a_kind_passes_the_behaviour_suite(name: str, setup: Setup, tmp_path: Path) -> None:
    is_whole = is_full() or name in WHOLE
    kind, options = {**KINDS, **AT_FULL_SIZE}[name](setup)
    words = [f"{name}={json.dumps(value)}" for name, value in options.items()]
    at = tmp_path if setup.user is None else setup.user.home
    cases = run_suite(
        kind, at, words, [] if is_whole else ["-k", " or ".join(SHORT)], setup.user, setup.python
    )
    assert not (failed := [case for case in cases if case.outcome == "failed"]), summarize(failed)
    on_this_machine = name in ("local", "sandbox", "slurm") and in_ci()
    may_lack = () if name in WITH_ALL_PROGRAMS or on_this_machine else MAY_LACK
    assert not (skipped := unexpected_skips(cases, may_lack)), summarize(skipped)
    assert {case.file for case in cases} == set(FILES) or not is_whole
    assert len(cases) > (400 if is_whole else len(SHORT))
