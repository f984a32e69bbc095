"""The page on settings tells of every one, with its default."""

from pathlib import Path

import msgspec

from hermetic.config import load
from hermetic.config.projects import RULES, rule_of
from hermetic.config.settings import SECTIONS
from hermetic.config.values import DEFAULT_IMAGE, option_fields
from hermetic.config.variables import ORIGINAL
from hermetic.environments import catalog
from tests.docs.pages import blocks, read, rows

PAGE = "docs/settings.md"
SETTINGS = [
    (f"{section}.{field.name}", field.default)
    for section, shape in SECTIONS.items()
    for field in msgspec.structs.fields(shape)
]
KEYS = [setting for setting, _ in SETTINGS] + [
    f"environments.{kind}.{option}" for kind in catalog.KINDS for option in option_fields(kind)
]


def shown(default: object) -> str:
    if default is None or isinstance(default, bool | tuple):
        return {None: "–", True: "yes", False: "no", (): "none"}[default]
    return f"{default:,.0f}" if isinstance(default, int | float) else f"`{default}`"


def test_every_setting_has_a_row_with_its_default() -> None:
    told = {row[0]: row[1] for row in rows(PAGE)}
    assert {name: shown(default) for name, default in SETTINGS} == {
        name: told.get(f"`{name}`") for name, _ in SETTINGS
    }


def test_every_variable_of_the_original_has_a_row() -> None:
    told = {row[0] for row in rows(PAGE)}
    assert [variable for variable in ORIGINAL if f"`{variable}`" not in told] == []


def test_what_a_project_may_set_is_told() -> None:
    told = {
        setting.strip("`"): (row[0], row[2])
        for row in rows(PAGE)
        if row[0] in ("tighten", "choose", "refused")
        for setting in row[1].split(", ")
    }
    assert told == {setting: (known.word, known.rule) for setting, known in RULES.items()}


def test_every_setting_has_a_rule_for_projects() -> None:
    assert [setting for setting in KEYS if not rule_of(setting)] == []


def test_the_default_image_is_told() -> None:
    assert DEFAULT_IMAGE in read(PAGE)


def test_the_example_is_a_settings_file(tmp_path: Path) -> None:
    [block] = blocks(PAGE, "toml")
    file = tmp_path / "config.toml"
    file.write_text(block.text)
    settings = load(str(tmp_path), environ={"HERMETIC_CONFIG": str(file)})
    assert settings.options == {"image": "python:3.12", "network": False}
    assert settings.terminal.timeout == 300
