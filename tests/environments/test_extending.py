"""The kind of environment on the page about extending works as it stands there, and passes the
suite.
"""

import tomllib
from pathlib import Path

import pytest

import hermetic
from tests.conformance.suite import SHORT, run_suite, summarize
from tests.docs.pages import blocks
from tests.environments.plugins import install
from tests.programs import need, need_root
from tests.sizes import is_full

PAGE = "docs/how-to/add-a-backend.md"


@pytest.fixture
def chroot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The kind of the page, known by the entry point of the page."""
    need("chroot")
    need_root("chroot is for root")
    code, _ = blocks(PAGE, "python")
    (project,) = blocks(PAGE, "toml")
    points = tomllib.loads(project.text)["project"]["entry-points"]["hermetic.environments"]
    (module,) = {value.partition(":")[0] for value in points.values()}
    install(
        tmp_path,
        module,
        code.text,
        {kind: value.partition(":")[2] for kind, value in points.items()},
        monkeypatch,
    )
    (kind,) = points
    return str(kind)


async def test_it_opens_and_runs(chroot: str) -> None:
    async with hermetic.open(chroot, root="/", env={"GIVEN": "1"}) as env:
        await env.run("cd /tmp; kept=2")
        assert (await env.run("echo $GIVEN $kept $PWD")).output == "1 2 /tmp\n"
        assert env.isolation.separate_files
        assert env.isolation.kind == chroot


async def test_its_options_are_checked_by_name(chroot: str) -> None:
    with pytest.raises(hermetic.ConfigError, match="did you mean 'root'"):
        await hermetic.open(chroot, rooot="/")
    with pytest.raises(hermetic.ConfigError, match="root"):
        await hermetic.open(chroot)


async def test_an_empty_root_is_told(chroot: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(hermetic.EnvironmentUnavailable, match="no shell can be started there"):
        await hermetic.open(chroot, root=str(tmp_path / "empty"))


@pytest.mark.slow
def test_it_passes_the_suite(chroot: str, tmp_path: Path) -> None:
    at = tmp_path / "suite"
    at.mkdir()
    cases = run_suite(chroot, at, ["root=/"], [] if is_full() else ["-k", " or ".join(SHORT)])
    assert len(cases) > (400 if is_full() else len(SHORT))
    wrong = [case for case in cases if case.outcome != "passed"]
    assert not wrong, summarize(wrong)
