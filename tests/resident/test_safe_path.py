"""A path leads to the same place whichever way it is found."""

import os
from pathlib import Path

import pytest

from hermetic.resident.files.safe_path import find, find_quickly

PATHS = (
    "plain",
    "below/deep/file",
    "link/deep/file",
    "below/../plain",
    "below//./deep/file",
    "below/missing",
    "loose",
)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "below" / "deep").mkdir(parents=True)
    (tmp_path / "below" / "deep" / "file").write_text("x")
    (tmp_path / "plain").write_text("x")
    (tmp_path / "link").symlink_to("below")
    (tmp_path / "loose").symlink_to("nowhere")
    return tmp_path


@pytest.mark.parametrize("path", PATHS)
def test_one_step_finds_what_every_step_by_itself_finds(tree: Path, path: str) -> None:
    with find(f"{tree}/{path}", follow=False) as slow:
        quick = find_quickly(f"{tree}/{path}")
        assert quick is not None
        with quick:
            assert (quick.path, quick.key) == (slow.path, slow.key)


@pytest.mark.parametrize("path", ["/", "/tmp/..", "/tmp/.", "/tmp/", "/nowhere/at/all"])
def test_what_has_no_name_of_its_own_is_walked_to(path: str) -> None:
    assert find_quickly(path) is None


def test_no_descriptor_stays_open(tree: Path) -> None:
    before = os.listdir("/proc/self/fd")
    for path in PATHS:
        if (place := find_quickly(f"{tree}/{path}")) is not None:
            place.close()
    assert os.listdir("/proc/self/fd") == before
