"""What an agent types all day is never stopped."""

from __future__ import annotations

from pathlib import Path

from hermetic.policy import assess

COMMANDS = [
    line.replace("⏎", "\n")
    for line in (Path(__file__).parent / "everyday.txt").read_text("utf-8").splitlines()
    if line and not line.startswith("#")
]


def test_no_everyday_command_is_dangerous() -> None:
    stopped = [
        (command, verdict.reason)
        for command in COMMANDS
        if (verdict := assess(command)).label == "dangerous"
    ]
    assert len(COMMANDS) >= 300
    assert stopped == []


def test_most_everyday_commands_are_safe() -> None:
    doubted = [command for command in COMMANDS if assess(command).label != "safe"]
    assert len(doubted) <= len(COMMANDS) * 0.20, doubted
