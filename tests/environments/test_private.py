"""Private directories, and which of them lie in memory."""

import os
import shutil
from pathlib import Path

import pytest

from hermetic.contract.errors import ConfigError
from hermetic.registry.private import is_in_memory, make_private, spool_base
from hermetic.registry.records import runtime_root
from tests.programs import need_root


def test_a_directory_is_made_for_us_alone(tmp_path: Path) -> None:
    made = make_private(tmp_path / "a" / "b", "S")
    assert made.stat().st_mode & 0o777 == 0o700


def test_a_directory_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o1777)
    with pytest.raises(ConfigError, match="is for everybody; set ") as shared:
        make_private(open_to_all, "S")
    assert "chmod" not in str(shared.value)
    open_to_all.chmod(0o777)
    with pytest.raises(ConfigError, match="chmod 700"):
        make_private(open_to_all, "S")


def test_a_directory_of_somebody_else_is_refused(tmp_path: Path) -> None:
    need_root("only root can give a directory away")
    foreign = tmp_path / "foreign"
    foreign.mkdir(mode=0o700)
    os.chown(foreign, 12345, 12345)
    with pytest.raises(ConfigError, match="belongs to another user"):
        make_private(foreign, "S")


def test_a_link_or_file_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "file").touch()
    for name in ("link", "file"):
        with pytest.raises(ConfigError):
            make_private(tmp_path / name, "S")


def test_the_runtime_directory_follows_the_settings(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    short = Path(os.environ["HERMETIC_RUNTIME_DIR"]) / "t"
    monkeypatch.setenv("HERMETIC_RUNTIME_DIR", str(short / "x"))
    assert runtime_root() == short / "x"
    monkeypatch.delenv("HERMETIC_RUNTIME_DIR")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short))
    assert runtime_root() == short / "hermetic"
    monkeypatch.setenv("HERMETIC_RUNTIME_DIR", str(tmp_path / ("long" * 30)))
    with pytest.raises(ConfigError, match="too long"):
        runtime_root()
    shutil.rmtree(short)


def test_file_systems_in_memory_are_told_from_disks(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(
        "/dev/sda1 / ext4 rw 0 0\ntmpfs /mem tmpfs rw 0 0\n/dev/sdb1 /mem/disk ext4 rw 0 0\n"
        "tmpfs /with\\040space tmpfs rw 0 0\n/dev/sda1 /twice ext4 rw 0 0\ntmpfs /twice tmpfs rw 0 0\n"
    )
    told = {
        path: is_in_memory(Path(path), str(mounts))
        for path in ("/", "/mem", "/mem/a", "/mem/disk/a", "/memory")
    }
    assert told == {
        "/": False,
        "/mem": True,
        "/mem/a": True,
        "/mem/disk/a": False,
        "/memory": False,
    }
    assert is_in_memory(Path("/with space/x"), str(mounts))
    assert is_in_memory(Path("/twice"), str(mounts))  # the later mount covers the earlier


def test_output_is_spooled_to_a_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    base = spool_base()
    assert base is None or not is_in_memory(base)
    if is_in_memory(Path("/dev/shm")):
        monkeypatch.setenv("HERMETIC_SPOOL_DIR", f"/dev/shm/hermetic-test-{os.getpid()}")
        with pytest.raises(ConfigError, match="lies in memory"):
            spool_base()
        os.rmdir(f"/dev/shm/hermetic-test-{os.getpid()}")
    if not is_in_memory(tmp_path):
        monkeypatch.setenv("HERMETIC_SPOOL_DIR", str(tmp_path / "spool"))
        assert spool_base() == tmp_path / "spool"
