"""Kinds and options: found, or refused with what would be right."""

import sys
from pathlib import Path

import pytest

from hermetic.contract.environment import NewEnvironment
from hermetic.contract.errors import ConfigError, InvalidArgument
from hermetic.environments import catalog
from hermetic.environments.local import Local


def test_local_is_known() -> None:
    assert catalog.find("local") is Local
    assert "local" in catalog.kinds()


def test_an_unknown_kind_names_the_valid_ones_and_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"did you mean 'local'\? Valid: .*local") as caught:
        catalog.find("lokal")
    assert caught.value.setting == "kind"


def test_other_distributions_bring_their_own_kinds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere.py").write_text("class Elsewhere:\n    kind = 'elsewhere'\n")
    info = tmp_path / "elsewhere-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: elsewhere\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[hermetic.environments]\nelsewhere = elsewhere:Elsewhere\nbroken = elsewhere:Missing\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert catalog.find("elsewhere").kind == "elsewhere"
    assert {"elsewhere", "local"} <= set(catalog.kinds())
    with pytest.raises(ConfigError, match="cannot be loaded"):
        catalog.find("broken")
    sys.modules.pop("elsewhere")


def test_an_unknown_option_names_the_valid_ones_and_the_nearest() -> None:
    with pytest.raises(
        ConfigError, match=r"did you mean 'passthrough'\? Valid: cwd, env"
    ) as caught:
        Local({"passthru": []})
    assert caught.value.setting == "passthru"


@pytest.mark.parametrize(
    "options",
    [
        {"lease": "soon"},
        {"lease": -1},
        {"lease": float("nan")},
        {"login": "yes"},
        {"cwd": 5},
        {"env": {"A": 1}},
        {"env": {"": "x"}},
        {"env": {"A=B": "x"}},
        {"env": {"1A": "x"}},
        {"env": {"A": "\0"}},
        {"env": {"A": "\udcff"}},
    ],
    ids=repr,
)
def test_an_option_that_does_not_fit_is_named(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError) as caught:
        Local(options)
    assert caught.value.setting in options


def test_a_lease_that_would_end_before_anybody_attached_names_the_least() -> None:
    with pytest.raises(ConfigError, match=r">= 0\.1"):
        Local({"lease": 0})
    assert Local({"lease": 0.1, "unattended": 0}).options["lease"] == 0.1


async def test_a_cwd_that_is_a_file_or_missing_starts_nothing(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for cwd, why in ((file, "is not a directory"), (tmp_path / "missing", "does not exist")):
        with pytest.raises(InvalidArgument, match=why) as caught:
            await Local({"cwd": cwd}).start(
                NewEnvironment(id="e-1", directory="/", spool=None, token=b"", label="")
            )
        assert caught.value.argument == "cwd"


def test_relative_directories_are_remembered_as_whole_paths(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert Local({}).options["cwd"] == str(tmp_path)
    assert Local({"cwd": "sub"}).options["cwd"] == str(tmp_path / "sub")


def test_a_current_directory_that_is_gone_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(ConfigError, match="current directory is gone") as caught:
        Local({})
    assert caught.value.setting == "cwd"
    assert Local({"cwd": "/"}).options["cwd"] == "/"
