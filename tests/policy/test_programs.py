"""Rows of programs say only what the interpreter understands."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from hermetic.policy import marks
from hermetic.policy.languages import calls
from hermetic.policy.options import parse_options
from hermetic.policy.programs import table
from hermetic.policy.programs.catalog import HOOKS
from hermetic.policy.programs.interpret import CONDITIONS, ROLES
from hermetic.policy.programs.table import TABLE, Row
from hermetic.policy.programs.texts import is_action

PROGRAMS = sorted(TABLE)


def rows() -> list[tuple[str, Row]]:
    return [(program, TABLE.row(program)) for program in PROGRAMS]


def test_every_entry_names_a_rule_and_a_condition_and_has_a_pattern_that_compiles() -> None:
    for program, row in rows():
        for entry in (*row.rules, *row.checks):
            re.compile(entry.pattern.removeprefix("!"))
            assert not entry.rule or is_action(entry.rule) or entry.rule in TABLE.rules, program
            assert not entry.when or entry.when in CONDITIONS, program
        re.compile(row.dry)


def test_an_entry_without_a_reason_has_a_rule_that_gives_one() -> None:
    for program, row in rows():
        for entry in (*row.rules, *row.checks):
            if entry.rule and not is_action(entry.rule):
                assert entry.reason or TABLE.rules[entry.rule].reason, program


def test_nothing_is_an_option_behind_the_value_of_a_last_option() -> None:
    options = parse_options(["-q", "-c", "code", "-x", "a"], "c", stop_early=True, last=("c",))
    assert options.rest == ["code", "-x", "a"]
    assert options.operands == []
    assert parse_options(["-e", "--", "run", "-v"], last=("--",)).rest == ["run", "-v"]
    assert parse_options(["-c"], "c", last=("c",)).rest == []


def test_every_role_hook_and_origin_of_output_exists() -> None:
    for program, row in rows():
        assert {role.rstrip("*") for role in row.operands.split()} <= ROLES, program
        assert not row.hook or row.hook in HOOKS, program
        origins = set(row.prints.split()) - {"input", "read", "origin", "nothing", "queries"}
        assert all(hasattr(marks, name.upper()) for name in origins)


def test_every_pattern_of_a_small_language_compiles_and_has_an_action_or_a_rule() -> None:
    for language, entries in TABLE.texts.items():
        for entry in entries:
            re.compile(entry.pattern)
            assert not entry.rule or is_action(entry.rule) or entry.rule in TABLE.rules, language


def test_every_hook_is_named_by_a_row() -> None:
    assert set(HOOKS) <= {row.hook for _, row in rows()}


def test_a_field_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    written = tmp_path / "mine.toml"
    written.write_text('[deploy]\nruels = [["^now", "cloud-destroys", "deploys"]]\n')
    with pytest.raises(Exception, match="ruels"):
        table.Table({"mine": table.load(written)}).row("deploy")


def test_rows_of_one_program_add_up(tmp_path: Path) -> None:
    written = tmp_path / "mine.toml"
    written.write_text(
        '[deploy]\ntraits = "a"\n["deploy other"]\ntraits = "b"\nvalues = "n name"\n'
    )
    row = table.Table({"mine": table.load(written)}).row("deploy")
    assert (row.traits, row.short, row.long) == ("a b", "n", ("name",))


def test_a_file_of_rows_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for path in (*table.FILES, calls.FILE):
        table.load(path)
    monkeypatch.setattr(tomllib, "loads", None)  # whatever reads TOML again fails
    for path in (*table.FILES, calls.FILE):
        assert table.load(path)
