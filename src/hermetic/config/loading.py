"""Loads all settings: user's file, project's file, Hermes variables, our variables; the last one
wins.
"""

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from hermetic.config.files import project_file, read, user_file
from hermetic.config.projects import of_project
from hermetic.config.settings import ORIGINAL_NAMES, SECTIONS, EnvironmentSettings, Settings
from hermetic.config.values import (
    DEFAULT_IMAGE,
    Given,
    checked_kind,
    checked_option,
    option_fields,
    typed,
)
from hermetic.config.variables import of_the_original, ours
from hermetic.contract.errors import ConfigError
from hermetic.resident.lazy import Lazy

if TYPE_CHECKING:
    from hermetic.approvals import rules
else:
    rules = Lazy("hermetic.approvals.rules")  # imports the policy, which is slow

# Homes on a developer's machine: a directory there is not meant for an environment with its own
# files.
HOMES = (*(f"/{home}/" for home in ("Users", "home")), "C:\\", "C:/")
_OWN_FILES = ("docker", "podman", "apptainer", "ssh", "modal", "daytona", "kubernetes")
_ADDED = (
    "approvals.deny",
    "approvals.rules",
    "approvals.programs",
    "redaction.variables",
    "web.deny",
)
_TABLES = ("approvals.rules", "approvals.programs")
_COMMON = ("cwd", "lease", "unattended")  # settings of [environment] that every kind has as options
_OF_A_PROFILE = ("profile", "home", "credential_files")  # those that only some kinds have
_IMAGES = {
    **dict.fromkeys(("docker", "podman", "modal", "daytona", "kubernetes"), DEFAULT_IMAGE),
    "apptainer": f"docker://{DEFAULT_IMAGE}",
}


def load(
    directory: str | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    kind: str | None = None,
) -> Settings:
    """The settings for work in `directory`, by default the current one, with the options of `kind`
    where it is given.

    Raises ConfigError, with the place.
    """
    environ = os.environ if environ is None else environ
    here = Path(directory or os.getcwd()).absolute()
    user, project = (
        None if path is None else read(path) for path in (user_file(environ), project_file(here))
    )
    before: list[Given] = []
    if user is not None:
        _check_password(user.path, user.given)
        before = list(_canonical(user.given))
    after = list(_canonical([*of_the_original(environ, str(here)), *ours(environ)]))
    if kind is not None:
        after.append(Given("environment.kind", kind, "--env"))
    middle: list[Given] = []
    if project is not None:
        if project.trusted_projects:
            problem = "only your own file may set trusted_projects"
            raise ConfigError(f"{project.path}: {problem}", setting="trusted_projects")
        trusted = () if user is None else user.trusted_projects
        middle = list(
            of_project(project.path, _canonical(project.given), _merged([*before, *after]), trusted)
        )
    chosen = _merged([*before, *middle, *after])
    sections: dict[str, Any] = {
        name: _section(name, shape, chosen) for name, shape in SECTIONS.items()
    }
    named = chosen.get("environment.kind")
    own_name = checked_kind(sections["environment"].kind, named.place if named else "default")
    environment = sections["environment"] = msgspec.structs.replace(
        sections["environment"], kind=own_name
    )
    approvals = sections["approvals"]
    if approvals.rules or approvals.deny:
        rules.Rules(approvals.rules, approvals.deny)
    if approvals.programs:
        rules.extension_of(approvals.programs)
    notes: list[str] = []
    return Settings(
        **sections,
        options=_options(environment, chosen, notes),
        places={setting: given.place for setting, given in chosen.items()},
        notes=tuple(notes),
        sources=tuple(str(file.path.absolute()) for file in (user, project) if file is not None),
    )


def _check_password(path: Path, settings: Iterable[Given]) -> None:
    for given in settings:
        if given.setting == "sudo.password" and stat.S_IMODE(path.stat().st_mode) & 0o077:
            problem = f"others may read this password; run chmod 600 {path}"
            raise ConfigError(f"{given.place}: {problem}", setting=given.setting)


def _canonical(layers: Iterable[Given]) -> Iterator[Given]:
    """The same, with aliases of kinds resolved.

    Raises ConfigError for an unknown kind or option.
    """
    for given in layers:
        section, _, rest = given.setting.partition(".")
        if section != "environments":
            is_layer = given.setting == "approvals.programs" and isinstance(given.value, dict)
            value = [given.value] if is_layer else given.value
            yield given._replace(
                setting=ORIGINAL_NAMES.get(given.setting, given.setting), value=value
            )
            continue
        name, _, option = rest.partition(".")
        kind = checked_kind(name, given.place)
        checked_option(kind, option, given.place)
        yield given._replace(setting=f"environments.{kind}.{option}")


def _section(name: str, shape: type[msgspec.Struct], chosen: Mapping[str, Given]) -> msgspec.Struct:
    fields = [field for field in msgspec.structs.fields(shape) if f"{name}.{field.name}" in chosen]
    return shape(
        **{field.name: typed(chosen[f"{name}.{field.name}"], field.type) for field in fields}
    )


def _options(
    environment: EnvironmentSettings, chosen: Mapping[str, Given], notes: list[str]
) -> dict[str, Any]:
    """The options of the chosen kind."""
    kind = environment.kind
    fields = option_fields(kind)
    options: dict[str, Any] = {}
    of_a_profile = [
        name for name in _OF_A_PROFILE if f"environment.{name}" in chosen and name in fields
    ]
    for name in (*_COMMON, *of_a_profile):
        value = getattr(environment, name)
        if (
            value is not None
            and (not fields or name in fields)
            and not _is_elsewhere(kind, name, chosen, notes)
        ):
            options[name] = value
    start = f"environments.{kind}."
    for setting, given in chosen.items():
        if setting.startswith(start):
            name = setting.removeprefix(start)
            options[name] = typed(given, fields[name].type) if fields else given.value
    if environment.home == "real" and kind != "local":
        notes.append(
            f"environment.home = real was left out: {kind} has a home of its own, never yours"
        )
    if kind in _IMAGES:
        options.setdefault("image", _IMAGES[kind])
    return options


def _is_elsewhere(kind: str, name: str, chosen: Mapping[str, Given], notes: list[str]) -> bool:
    """True for a Hermes variable with a directory of this machine that the environment does not
    have.
    """
    given = chosen[f"environment.{name}"]
    if (
        given.place != "TERMINAL_CWD"
        or kind not in _OWN_FILES
        or not str(given.value).startswith(HOMES)
    ):
        return False
    notes.append(
        f"TERMINAL_CWD={given.value} was left out: it is a directory of this machine, and {kind} has its own"
    )
    return True


def _merged(layers: Iterable[Given]) -> dict[str, Given]:
    """The last value of each setting.

    Deny lists, rules and secrets accumulate, so that no layer removes another's.
    """
    chosen: dict[str, Given] = {}
    for given in layers:
        before = chosen.get(given.setting)
        if before is not None and given.setting in _ADDED:
            wanted = list[Any] if given.setting in _TABLES else tuple[str, ...]
            given = given._replace(
                value=[*typed(before, wanted), *typed(given, wanted)], is_text=False
            )
        chosen[given.setting] = given
    return chosen
