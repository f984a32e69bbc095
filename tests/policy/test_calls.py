"""Every row of the table of calls catches and spares its own examples."""

from __future__ import annotations

import re
import shlex

import pytest

from hermetic.policy import assess, examine_python
from hermetic.policy.languages.calls import LANGUAGES, Row, rows
from hermetic.policy.languages.folds import FOLDS
from hermetic.policy.languages.hooks import Hooks
from hermetic.policy.programs.table import TABLE

INLINE = {
    "perl": "perl -e",
    "ruby": "ruby -e",
    "javascript": "node -e",
    "php": "php -r",
    "lua": "lua -e",
}


def label(example: str) -> str:
    """The verdict on an example: a text in Python, or in the language before its colon."""
    match = re.match(rf"({'|'.join(LANGUAGES)}): ", example)
    if match is None:
        return examine_python(example).verdict.label
    return assess(f"{INLINE[match[1]]} {shlex.quote(example[match.end() :])}").label


def examples(kind: str) -> list[str]:
    return [example for row in rows() for example in getattr(row, kind)]


@pytest.mark.parametrize("example", examples("catches"))
def test_a_row_catches_its_examples(example: str) -> None:
    assert label(example) == "dangerous"


@pytest.mark.parametrize("example", examples("spares"))
def test_a_row_spares_its_examples(example: str) -> None:
    assert label(example) != "dangerous"


ARGUMENTS = ("", "1", "x", "'a'", "[]", "'a', 2", "['a', [1]], 'b', 3")


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("arguments", ARGUMENTS)
def test_every_call_is_judged_whatever_its_arguments(language: str, arguments: str) -> None:
    names = [name for row in rows() for name in (getattr(row, language) or row.any).split()]
    calls = [f"{name.replace('*', 'm').removeprefix('.')}({arguments})" for name in names]
    calls += [f"x.{name[1:]}({arguments})" for name in names if name.startswith(".")]
    unjudged = []
    for call in calls:
        inline = INLINE.get(language, "python3 -c")
        verdict = assess(f"{inline} {shlex.quote(call)}")
        unjudged += [(call, part.reason) for part in verdict.parts if part.rule == "not-judged"]
    assert unjudged == []


def test_rows_name_hooks_folds_and_rules_that_exist() -> None:
    hooks = {name.removeprefix("hook_") for name in dir(Hooks) if name.startswith("hook_")}
    assert {row.hook for row in rows() if row.hook} == hooks
    assert {row.fold for row in rows() if row.fold} - {"map"} == set(FOLDS)
    assert {row.raises for row in rows() if row.raises} <= set(TABLE.rules)


def test_a_row_that_does_something_shows_it_by_an_example() -> None:
    silent = [
        row
        for row in rows()
        if not row.catches and not row.spares and not row.fold and not row.gives
    ]
    assert silent == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_name_stands_in_one_row(language: str) -> None:
    names = [name for row in rows() for name in getattr(row, language).split()]
    assert sorted({name for name in names if names.count(name) > 1}) == []


def test_a_row_lists_names_of_a_language() -> None:
    def listed(row: Row) -> bool:
        return any(getattr(row, language) for language in (*LANGUAGES, "any"))

    assert all(map(listed, rows()))
