"""Rows of a user tighten, and spare only what the generic rule guesses; rows of a project only
tighten.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import hermetic
from hermetic.approvals.rules import extension_of
from hermetic.approvals.settings import ApprovalSettings
from hermetic.cli.dispatch import main
from hermetic.config import Settings, load
from hermetic.contract.errors import ConfigError
from hermetic.policy.assess import Surroundings, examine_command
from hermetic.policy.explain import explain_command
from hermetic.policy.extension import Extension

ROW = {
    "shipit": {
        "rules": [["^(promote|retire)", "our-release", "changes what customers see: {}"]],
        "values": "region",
    },
    "rules": {
        "our-release": {
            "category": "cloud-destroy",
            "catches": ["shipit --region eu promote api", "sh -c 'shipit retire api'"],
            "spares": ["shipit status", "echo shipit promote"],
        }
    },
}
FILE = """
[approvals.programs.shipit]
rules = [["^(promote|retire)", "our-release", "changes what customers see: {}"]]
[approvals.programs.rules.our-release]
category = "cloud-destroy"
catches = ["shipit promote api"]
spares = ["shipit status"]
"""
SPARES = """
[approvals.programs.shipit]
rules = [["^purge", ""]]
"""


def rules_of(command: str, *layers: dict[str, Any]) -> set[str]:
    around = Surroundings(extension=Extension(layers))
    return {part.rule for part in examine_command(command, around).verdict.parts}


def test_a_row_adds_a_rule_with_its_examples() -> None:
    assert extension_of((ROW,)) is not None
    assert rules_of("cd x && shipit promote api", ROW) == {"our-release"}
    assert rules_of("shipit status", ROW) == set()


def test_roles_of_operands_and_options_hold_for_a_row_of_yours() -> None:
    row = {
        "wipeit": {"operands": "deletes*", "tree": "-"},
        "runit": {"run": "exec"},
        "sendit": {"code": "run"},
    }
    assert "delete-system" in rules_of("wipeit /usr", row)
    assert "delete-system" in rules_of("sendit --run 'rm -rf /usr'", row)
    assert rules_of("wipeit notes.txt", row) == {"delete-in-workspace"}


def test_a_row_of_yours_takes_nothing_from_what_is_known() -> None:
    harmless = {"rm": {"rules": [[".", ""]], "dry": "."}, "git": {"rules": [[".", ""]]}}
    assert "delete-system" in rules_of("rm -rf /usr", harmless)
    assert "rewrite-shared-history" in rules_of("git push --force", harmless)


def test_a_pattern_without_a_rule_spares_what_the_generic_rule_guesses() -> None:
    guessed = "shipit purge --yes --all"
    assert examine_command(guessed).verdict.label == "dangerous"
    assert rules_of(guessed, {"shipit": {"rules": [["^purge", ""]]}}) == set()
    assert rules_of("shipit erase --force --all", {"shipit": {"rules": [["^purge", ""]]}}) != set()


def test_what_is_hardline_and_what_a_program_runs_is_never_spared() -> None:
    everything = {"shipit": {"rules": [[".", ""]]}}
    hidden = "shipit purge --yes > /dev/sda"
    assert examine_command(hidden).verdict.hardline
    assert examine_command(
        hidden, Surroundings(extension=Extension((everything,)))
    ).verdict.hardline
    assert "delete-system" in rules_of("shipit purge $(rm -rf /usr)", everything)


def test_one_table_does_not_silence_another() -> None:
    assert rules_of("shipit promote api", ROW, {"shipit": {"dry": "."}}) == {"our-release"}
    weak = {
        "shipit": {"rules": []},
        "rules": {"our-release": {"category": "none", "label": "caution"}},
    }
    around = Surroundings(extension=Extension((ROW, weak)))
    assert examine_command("shipit promote api", around).verdict.label == "dangerous"


@pytest.mark.parametrize(
    ("layer", "says"),
    [
        ({"shipit": {"colour": "red"}}, "colour"),
        ({"shipit": {"rules": [["^x", "no-such-rule", ""]]}}, "no rule no-such-rule"),
        ({"shipit": {"rules": [["(", "write-system", ""]]}}, "cannot be read"),
        ({"shipit": {"operands": "eats"}}, "no role eats"),
        ({"shipit": {"hook": "git"}}, "no hook"),
        ({"lists": {"x": "y"}}, "no table of a program"),
        ({"shipit": 1}, "no table of a program"),
        (
            {**ROW, "rules": {"our-release": {"category": "x", "catches": ["shipit status"]}}},
            "misses 'shipit status'",
        ),
        ({**ROW, "rules": {"our-release": {"category": "x"}}}, "needs catches"),
    ],
)
def test_a_row_that_cannot_be_used_is_refused_with_a_reason(
    layer: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        extension_of((layer,))


async def test_tools_follow_the_rows_of_the_settings(tmp_path: Path) -> None:
    settings = Settings(approvals=ApprovalSettings(programs=(ROW,)))
    toolbox = hermetic.Toolbox(options={"cwd": str(tmp_path), "login": False}, settings=settings)
    try:
        refused = json.loads(
            await toolbox.call("terminal", {"command": "shipit promote api"}, task_id="t")
        )
        allowed = json.loads(
            await toolbox.call("terminal", {"command": "echo shipit promote"}, task_id="t")
        )
    finally:
        await toolbox.close(remove=True)
    assert refused["status"] == "blocked"
    assert "changes what customers see: promote" in str(refused)
    assert allowed["exit_code"] == 0


def settings_with(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *, user: str = "", project: str = ""
) -> Any:
    own = folder / "own.toml"
    own.write_text(user)
    own.chmod(0o600)
    work = folder / "work"
    work.mkdir(exist_ok=True)
    (work / "hermetic.toml").write_text(project)
    monkeypatch.setenv("HERMETIC_CONFIG", str(own))
    return load(str(work))


def test_a_project_adds_rows_to_yours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_with(tmp_path, monkeypatch, user=SPARES, project=FILE)
    assert len(settings.approvals.programs) == 2
    assert rules_of("shipit promote api", *settings.approvals.programs) == {"our-release"}
    assert rules_of("shipit purge --yes --all", *settings.approvals.programs) == set()


def test_a_project_cannot_spare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="patterns all name a rule"):
        settings_with(tmp_path, monkeypatch, project=SPARES)
    trusted = f'trusted_projects = ["{tmp_path / "work"}"]\n'
    assert settings_with(tmp_path, monkeypatch, user=trusted, project=SPARES).approvals.programs


def test_explain_names_commands_rows_effects_and_rules() -> None:
    explained = explain_command(
        "sudo cp a /etc/hosts; frobnicate", Surroundings(extension=Extension((ROW,)))
    )
    by_name = {command.command.split()[0]: command for command in explained.commands}
    assert by_name["cp"].depth > by_name["sudo"].depth
    assert "write /etc/hosts" in by_name["cp"].effects
    assert "write-system" in {rule.rule for rule in by_name["cp"].rules}
    assert by_name["frobnicate"].knowledge == ("generic rule",)
    assert explained.verdict.label == "dangerous"


def test_explain_and_test_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings_with(tmp_path, monkeypatch, project=FILE)
    monkeypatch.chdir(tmp_path / "work")
    assert main(["policy", "explain", "shipit promote api"]) == 4
    shown = capsys.readouterr().out
    assert "row of yours" in shown
    assert "our-release (dangerous, cloud-destroy): changes what customers see: promote" in shown
    assert main(["policy", "explain", "git status", "--json"]) == 0
    (command,) = json.loads(capsys.readouterr().out)["commands"]
    assert "row of git.toml" in command["knowledge"]
    assert main(["policy", "check", "shipit promote api"]) == 4
    capsys.readouterr()
    assert main(["policy", "test"]) == 0
    assert "1 rules, 2 examples" in capsys.readouterr().out
    rows = tmp_path / "rows.toml"
    rows.write_text(
        FILE.replace("approvals.programs.", "").replace(
            'spares = ["shipit status"]', 'spares = ["shipit retire x"]'
        )
    )
    assert main(["policy", "test", str(rows), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["failed"] == [
        "rule our-release catches 'shipit retire x'"
    ]
