"""`hermetic config`: the settings of a directory, and the source of each."""

import argparse
import os
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from hermetic.cli.command import JSON, Command, options
from hermetic.cli.opening import current_directory
from hermetic.cli.report import one_line, print_json, print_table
from hermetic.config.loading import load
from hermetic.config.settings import SECTIONS, Settings
from hermetic.contract.errors import InvalidArgument

# Settings that hold a secret, and whether a value does.
SECRETS: Mapping[str, Callable[[Any], bool]] = {
    "sudo.password": lambda value: value is not None,
    "web.proxy": lambda value: "@" in (value or ""),
}


def _config(given: argparse.Namespace) -> int:
    """Prints the settings; passwords are not shown."""
    if given.directory is not None and not os.path.isdir(given.directory):
        raise InvalidArgument(
            f"there is no directory {given.directory}; name one that exists", argument="directory"
        )
    settings = load(given.directory or current_directory())
    listed = _listed(settings)
    if given.json:
        sources = {name: settings.places.get(name) for name in listed}
        print_json({"settings": listed, "places": sources, "notes": settings.notes})
        return 0
    rows = [
        (name, _shown(value), settings.places.get(name, "default"))
        for name, value in listed.items()
    ]
    print_table(("SETTING", "VALUE", "FROM"), rows)
    for note in settings.notes:
        print(f"note: {one_line(note)}")
    return 0


def _listed(settings: Settings) -> dict[str, Any]:
    """Every setting by its name, with the options of the chosen kind."""
    listed: dict[str, Any] = {}
    for section in SECTIONS:
        for name, value in msgspec.structs.asdict(getattr(settings, section)).items():
            setting = f"{section}.{name}"
            is_secret = setting in SECRETS and SECRETS[setting](value)
            listed[setting] = "(hidden)" if is_secret else value
    kind = settings.environment.kind
    return listed | {
        f"environments.{kind}.{name}": value for name, value in settings.options.items()
    }


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


COMMANDS = {
    "config": Command(
        """\
The settings that hold here, and where each comes from.

  hermetic config
  hermetic config ~/app --json""",
        options("directory [DIRECTORY]  instead of the current one", JSON),
        _config,
    ),
}
