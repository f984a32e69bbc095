"""Answers "always" on disk: kept whole, readable by a person, and never believed when the file
cannot be trusted.
"""

import os
import re
import stat
from pathlib import Path

import pytest

from hermetic.approvals.grants import Grants
from hermetic.approvals.store import Store
from hermetic.contract.approval import Approval, Need
from hermetic.contract.errors import ConfigError


def approval(key: str = "k", command: str = "rm -rf /srv/app") -> Approval:
    return Approval(
        command=command,
        covers=f"exactly `{command}`",
        key=key,
        environment="local",
        program="/usr/bin/rm",
        granted=1.0,
        expires=4e9,
    )


NEED = Need(decoded="rm -rf /srv/app", reason="x", category="c", rule="r", argv=("rm",), exact="k")


def test_what_is_kept_is_found_again_in_a_file_for_people(tmp_path: Path) -> None:
    path = tmp_path / "state" / "approvals.toml"
    odd = approval("odd", 'echo "ß\\" \x1b[2J\n\x7f 😀')
    Store(path).add(approval(), odd)
    assert Store(path).read() == (approval(), odd)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    text = path.read_text()
    assert 'command = "rm -rf /srv/app"' in text
    assert "# 2096-10-02 07:06 UTC" in text
    assert "\x1b" not in text
    assert [name.name for name in path.parent.iterdir() if name.name.startswith(".")] == []


def test_the_same_act_is_kept_once_and_can_be_taken_back(tmp_path: Path) -> None:
    store = Store(tmp_path / "a.toml")
    store.add(approval())
    store.add(approval(), approval("other"))
    assert [one.key for one in store.read()] == ["k", "other"]
    assert store.remove("k")
    assert not store.remove("k")
    assert [one.key for one in Store(store.path).read()] == ["other"]


def test_two_processes_do_not_lose_each_others_answers(tmp_path: Path) -> None:
    one, other = Store(tmp_path / "a.toml"), Store(tmp_path / "a.toml")
    one.add(approval("a"))
    other.add(approval("b"))
    one.add(approval("c"))
    assert {kept.key for kept in other.read()} == {"a", "b", "c"}


BROKEN = {
    "no TOML": "[[approval]\n",
    "no UTF-8": b"\xff\xfe",
    "a wrong type": "[[approval]]\ncommand = 1\n",
    "a field that is missing": '[[approval]]\ncommand = "x"\n',
    "something else": "[other]\nx = 1\n",
    "cut off": '[[approval]]\ncommand = "rm -rf',
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_a_broken_file_is_refused_and_allows_nothing(tmp_path: Path, text: str | bytes) -> None:
    path = tmp_path / "a.toml"
    store = Store(path)
    store.add(approval())
    grants = Grants(store, lambda: 2.0)
    assert grants.covers(NEED, "t", "local", lambda argv: "/usr/bin/rm")
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert grants.covers(NEED, "t", "local", lambda argv: "/usr/bin/rm") is False
    with pytest.raises(ConfigError, match="count for nothing: the file cannot be understood"):
        Store(path)
    with pytest.raises(ConfigError, match="mend it, or move it away"):
        store.add(approval("new"))
    assert path.read_bytes() == (text if isinstance(text, bytes) else text.encode())


@pytest.mark.parametrize("mode", [0o666, 0o622, 0o640, 0o604, 0o602])
def test_a_file_that_is_open_to_others_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "a.toml"
    store = Store(path)
    store.add(approval())
    path.chmod(mode)
    with pytest.raises(
        ConfigError, match="is open to others; look at what it says, then run chmod 600"
    ):
        Store(path)
    assert (
        Grants(store, lambda: 2.0).covers(NEED, "t", "local", lambda argv: "/usr/bin/rm") is False
    )


def test_a_file_that_is_no_file_or_somebody_elses_is_refused(tmp_path: Path) -> None:
    real, link = tmp_path / "real.toml", tmp_path / "a.toml"
    Store(real).add(approval())
    link.symlink_to(real)
    with pytest.raises(ConfigError, match="is no plain file"):
        Store(link)
    (tmp_path / "dir").mkdir()
    with pytest.raises(ConfigError, match="is no plain file"):
        Store(tmp_path / "dir")
    if os.geteuid() == 0:
        os.chown(real, 12345, 12345)
        with pytest.raises(ConfigError, match="belongs to another user"):
            Store(real)


def test_a_clock_that_is_turned_back_and_a_time_that_is_none_make_nothing_hold(
    tmp_path: Path,
) -> None:
    store = Store(tmp_path / "a.toml")
    store.add(approval())
    granted = approval().granted
    assert Grants(store, lambda: granted).all()
    assert not Grants(store, lambda: granted - 3600).all()
    path = tmp_path / "a.toml"
    path.write_text(re.sub("expires = .*", "expires = nan", path.read_text()))
    assert not Grants(Store(path), lambda: granted).all()


@pytest.mark.parametrize(
    ("place", "program", "task", "now"),
    [
        ("docker", "/usr/bin/rm", "t", 2.0),
        ("local", "/tmp/evil/rm", "t", 2.0),
        ("local", "/usr/bin/rm", "t", 5e9),
    ],
    ids=["another place", "another program", "too late"],
)
def test_an_approval_holds_for_its_place_program_and_time(
    tmp_path: Path, place: str, program: str, task: str, now: float
) -> None:
    store = Store(tmp_path / "a.toml")
    store.add(approval())
    assert Grants(store, lambda: now).covers(NEED, task, place, lambda argv: program) is False
