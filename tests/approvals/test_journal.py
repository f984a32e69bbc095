"""The journal: lines are only ever added, nothing that others can write is used, and a full disk
stops no decision.
"""

import json
import logging
from pathlib import Path

import pytest

from hermetic.approvals.journal import Decision, Journal
from hermetic.contract.errors import ConfigError


def decision(command: str = "ls") -> Decision:
    return Decision(
        time=1.0,
        decision="allowed",
        by="policy",
        subject="command",
        task="t",
        environment="local",
        label="safe",
        command=command,
    )


def test_broken_characters_keep_no_decision_from_being_written_down(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    Journal(path).write(decision("rm -rf /srv/x \udcff"))
    assert json.loads(path.read_text())["command"] == "rm -rf /srv/x \\udcff"


def test_lines_are_added_to_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "new" / "d.jsonl"
    Journal(path).write(decision())
    Journal(path, lambda text: text.replace("secret", "***")).write(
        decision("echo secret " + "x" * 5000)
    )
    first, second = map(json.loads, path.read_text().splitlines())
    assert first["command"] == "ls"
    assert second["command"].startswith("echo *** xxx")
    assert len(second["command"]) == 2000
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("mode", [0o666, 0o620, 0o602])
def test_one_that_others_can_write_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "d.jsonl"
    path.touch()
    path.chmod(mode)
    with pytest.raises(
        ConfigError, match="is open to others; look at what it says, then run chmod 600"
    ):
        Journal(path)


def test_one_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "d.jsonl").mkdir()
    with pytest.raises(ConfigError, match="decisions cannot be written"):
        Journal(tmp_path / "d.jsonl")
    (tmp_path / "link").symlink_to("/etc/passwd")
    with pytest.raises(ConfigError, match="decisions cannot be written"):
        Journal(tmp_path / "link")


def test_what_cannot_be_written_down_later_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "d.jsonl"
    journal = Journal(path)
    path.unlink()
    path.mkdir()
    with caplog.at_level(logging.ERROR):
        journal.write(decision())
    assert "could not be written" in caplog.text
