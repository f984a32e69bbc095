"""`hermetic policy` shows verdicts and figures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hermetic.cli.dispatch import main


def call(*words: str) -> int:
    return main(["policy", *words])


def test_check_says_what_why_and_where(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("check", "ls; r\\m -rf /usr") == 4
    shown = capsys.readouterr().out
    assert shown.startswith("dangerous: deletes a system directory: /usr")
    assert "in characters 4-16: rm -rf /usr" in shown


def test_check_gives_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("check", "ls", "--json") == 0
    assert json.loads(capsys.readouterr().out)["label"] == "safe"


def test_check_takes_a_workspace_and_a_directory(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("check", "rm -rf x", "--workspace", "/srv/w", "--cwd", "/srv/w/a") == 3
    assert call("check", "rm -rf x", "--workspace", "/srv/w", "--cwd", "/srv") == 4


def test_test_counts_hits_and_alarms(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "labelled.jsonl"
    lines = [
        {"command": "rm -rf /", "label": "dangerous", "category": "delete", "technique": "plain"},
        {"command": "ls", "label": "dangerous", "category": "delete", "technique": "hidden"},
        {"command": "reboot", "label": "safe", "category": "x", "technique": "plain"},
        {"command": "ls", "label": "safe", "category": "x", "technique": "plain"},
    ]
    file.write_text("\n".join(json.dumps(line) for line in lines))
    assert call("test", str(file), "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["recall"], result["false_alarms"], result["missed"], result["alarmed"]) == (
        0.5,
        0.5,
        ["ls"],
        ["reboot"],
    )
    assert result["by_category"] == {"delete": [1, 2]}
    assert call("test", str(file)) == 0
    assert "recall on dangerous       50.0%" in capsys.readouterr().out


def test_what_is_shown_cannot_drive_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("check", "rm -rf $'/usr\\e[2J'") == 4
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize("text", [None, "no json\n", '{"label": "safe"}\n'])
def test_a_file_that_cannot_be_read_is_told(
    text: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "labelled.jsonl"
    if text is not None:
        file.write_text(text)
    assert call("test", str(file)) == 2
    assert "each line is an object with `command` and `label`" in capsys.readouterr().err
