"""Every kind of environment passes the behaviour suite: `local` all of it, the others a part unless at full size."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.suite import FILES, MAY_LACK, SHORT, Case, run_suite, summarize
from tests.environments.engines import need_engine
from tests.environments.plugins import PLAIN, install
from tests.environments.sshd import shared_options
from tests.programs import in_ci, need, need_variable
from tests.sizes import is_full

Options = Mapping[str, Any]


def local(patch: pytest.MonkeyPatch, at: Path) -> tuple[str, Options]:
    return "local", {}


def sandbox(patch: pytest.MonkeyPatch, at: Path) -> tuple[str, Options]:
    need("bwrap")
    return "sandbox", {}


def docker(patch: pytest.MonkeyPatch, at: Path) -> tuple[str, Options]:
    need_engine("docker")
    return "docker", {"image": need_variable("IMAGE_TOOLS")}


def podman(patch: pytest.MonkeyPatch, at: Path) -> tuple[str, Options]:
    need_engine("podman")
    return "podman", {"image": need_variable("IMAGE_TOOLS")}


def apptainer(patch: pytest.MonkeyPatch, at: Path) -> tuple[str, Options]:
    patch.setenv("HERMETIC_APPTAINER_BINARY", need_variable("APPTAINER"))
    return "apptainer", {"image": need_variable("IMAGE_TOOLS_SIF")}


def ssh(patch: pytest.MonkeyPatch, at: Path) -> tuple[str, Options]:
    """With a home that has no profile."""
    return "ssh", {**shared_options(), "env": {"HOME": str(at)}}


def only_bash(patch: pytest.MonkeyPatch, at: Path) -> tuple[str, Options]:
    """Bare mode with nothing but a bash in between."""
    install(at, "plain_kind", PLAIN, {"plain": "Plain"}, patch)
    return "plain", {}


def docker_without_python(patch: pytest.MonkeyPatch, at: Path) -> tuple[str, Options]:
    """An image with bash and busybox alone."""
    need_engine("docker")
    return "docker", {"image": need_variable("IMAGE_BARE")}


def apptainer_without_python(patch: pytest.MonkeyPatch, at: Path) -> tuple[str, Options]:
    patch.setenv("HERMETIC_APPTAINER_BINARY", need_variable("APPTAINER"))
    return "apptainer", {"image": need_variable("IMAGE_BARE_SIF")}


WHOLE = (local,)
PARTLY = (sandbox, docker, podman, apptainer, ssh, docker_without_python)
ONLY_AT_FULL_SIZE = (only_bash, apptainer_without_python)  # take minutes
ON_THIS_MACHINE = (local, sandbox)  # their programs are the machine's, which may lack one

Prepare = Callable[[pytest.MonkeyPatch, Path], tuple[str, Options]]


@pytest.mark.slow
@pytest.mark.parametrize(
    "prepare", [*WHOLE, *PARTLY, *(ONLY_AT_FULL_SIZE if is_full() else ())], ids=lambda prepare: prepare.__name__
)
def test_a_kind_passes_the_behaviour_suite(
    prepare: Prepare, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_whole = is_full() or prepare in WHOLE
    kind, options = prepare(monkeypatch, tmp_path_factory.mktemp("prepared"))
    words = [f"{name}={json.dumps(value)}" for name, value in options.items()]
    cases = run_suite(kind, tmp_path, words, [] if is_whole else ["-k", " or ".join(SHORT)])
    assert not (failed := [case for case in cases if case.outcome == "failed"]), summarize(failed)
    may_lack = MAY_LACK if prepare in ON_THIS_MACHINE and not in_ci() else ()
    assert not (skipped := _skipped(cases, may_lack)), summarize(skipped)
    assert {case.file for case in cases} == set(FILES) or not is_whole
    assert len(cases) > (400 if is_whole else len(SHORT))


def _skipped(cases: list[Case], may_lack: tuple[str, ...]) -> list[Case]:
    """The tests that were skipped for another reason than those that contain a text of `may_lack`."""
    skipped = [case for case in cases if case.outcome == "skipped"]
    return [case for case in skipped if not any(reason in case.detail for reason in may_lack)]
