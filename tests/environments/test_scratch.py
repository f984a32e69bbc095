"""Room on a disk for what environments write: where it is, and when there is too much of it."""

import getpass
import logging
import os
from pathlib import Path

import pytest

from hermetic.contract.errors import ConfigError
from hermetic.environments.containers.scratch import (
    disk_use,
    image_cache,
    scratch_base,
    warn_of_use,
)


def test_the_scratch_directory_follows_the_settings_then_the_site_then_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = f"hermetic-{os.geteuid()}"
    monkeypatch.setenv("HERMETIC_SPOOL_DIR", str(_private(tmp_path / "spool")))
    assert scratch_base(site=tmp_path / "none") == tmp_path / "spool"
    site = _private(tmp_path / "site")
    assert scratch_base(site) == site / getpass.getuser() / "hermetic"
    monkeypatch.setenv("TERMINAL_SCRATCH_DIR", str(tmp_path / "theirs"))
    assert scratch_base(site) == tmp_path / "theirs" / own
    monkeypatch.setenv("HERMETIC_SCRATCH_DIR", str(tmp_path / "ours"))
    assert scratch_base(site) == tmp_path / "ours" / own
    assert (tmp_path / "ours" / own).stat().st_mode & 0o777 == 0o700


def test_images_are_kept_beside_apptainers_own_cache_or_in_scratch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMETIC_SCRATCH_DIR", str(tmp_path))
    assert image_cache() == tmp_path / f"hermetic-{os.geteuid()}" / ".apptainer" / "hermetic"
    monkeypatch.setenv("APPTAINER_CACHEDIR", str(tmp_path / "cache"))
    assert image_cache() == tmp_path / "cache" / "hermetic"


def test_much_use_of_the_disk_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "file").write_bytes(bytes(1_000_000))
    with caplog.at_level(logging.WARNING, logger="hermetic"):
        warn_of_use(tmp_path)
        assert not caplog.records
        monkeypatch.setenv("TERMINAL_DISK_WARNING_GB", "0.0005")
        warn_of_use(tmp_path)
    assert "more than 0.0005" in caplog.text
    monkeypatch.setenv("HERMETIC_DISK_WARNING_GB", "much")
    with pytest.raises(ConfigError, match="'much' is no number"):
        warn_of_use(tmp_path)


def test_a_tree_that_is_too_large_to_count_is_not_counted_to_its_end(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "file").write_bytes(bytes(10_000))
    used, is_all = disk_use(tmp_path, seconds=60)
    assert is_all
    assert used >= 200_000
    assert disk_use(tmp_path, seconds=60, most=50_000)[1] is False
    assert disk_use(tmp_path, seconds=-1) == (0, False)


def _private(path: Path) -> Path:
    path.mkdir(mode=0o700)
    return path
