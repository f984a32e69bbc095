"""Loads all settings: user's file, project's file, Hermes variables, our variables; the last one wins."""

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from hermetic.approvals.settings import ApprovalSettings
from hermetic.config.files import SettingsFile, project_file, read, user_file
from hermetic.config.given import Given, typed
from hermetic.config.kinds import checked, default_image, option_types
from hermetic.config.projects import of_project
from hermetic.config.settings import (
    ORIGINAL_NAMES,
    CodeSettings,
    EnvironmentSettings,
    FilesSettings,
    RedactionSettings,
    Settings,
    SudoSettings,
    TerminalSettings,
)
from hermetic.config.variables import of_the_original, ours
from hermetic.contract.errors import ConfigError
from hermetic.environments.options import choices
from hermetic.resident.lazy import Lazy

if TYPE_CHECKING:
    from hermetic.approvals import rules
else:
    rules = Lazy("hermetic.approvals.rules")  # imports the policy, which is slow

T = TypeVar("T", bound=msgspec.Struct)

# Homes on a developer's machine: a directory there is not meant for an environment with its own files.
_HOMES = (*(f"/{home}/" for home in ("Users", "home")), "C:\\", "C:/")
_OWN_FILES = ("docker", "podman", "apptainer", "ssh")
_ADDED = ("approvals.deny", "approvals.rules", "redaction.variables")
_COMMON = ("cwd", "lease", "unattended")  # settings of [environment] that every kind has as options
_OF_A_PROFILE = ("profile", "home", "credential_files")  # those that only some kinds have


def load(
    directory: str | None = None, *, environ: Mapping[str, str] | None = None, kind: str | None = None
) -> Settings:
    """The settings for work in `directory`, by default the current one, with the options of `kind` where it is given.

    Raises ConfigError, with the place.
    """
    environ = os.environ if environ is None else environ
    here = Path(directory or os.getcwd()).absolute()
    notes: list[str] = []
    user = _user(environ)
    project_path = project_file(here)
    project = None if project_path is None else read(project_path)
    before = list(_canonical(_of(user)))
    after = list(_canonical([*of_the_original(environ, str(here)), *ours(environ)]))
    if kind is not None:
        after.append(Given("environment.kind", kind, "--env"))
    chosen = _merged([*before, *_of_project(project, user, _merged([*before, *after])), *after])
    environment = _section("environment", EnvironmentSettings, chosen)
    checked_kind = checked(environment.kind, _place(chosen, "environment.kind"))
    environment = msgspec.structs.replace(environment, kind=checked_kind)
    approvals = _section("approvals", ApprovalSettings, chosen)
    if approvals.rules or approvals.deny:
        rules.Rules(approvals.rules, approvals.deny)
    return Settings(
        environment=environment,
        options=_options(environment, chosen, notes),
        terminal=_section("terminal", TerminalSettings, chosen),
        files=_section("files", FilesSettings, chosen),
        code_execution=_section("code_execution", CodeSettings, chosen),
        redaction=_section("redaction", RedactionSettings, chosen),
        sudo=_section("sudo", SudoSettings, chosen),
        approvals=approvals,
        places={setting: given.place for setting, given in chosen.items()},
        notes=tuple(notes),
        sources=tuple(str(file.path.absolute()) for file in (user, project) if file is not None),
    )


def _user(environ: Mapping[str, str]) -> SettingsFile | None:
    path = user_file(environ)
    if path is None:
        return None
    file = read(path)
    for given in file.given:
        if given.setting == "sudo.password" and stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise ConfigError(
                f"{given.place}: others may read this password; run chmod 600 {path}", setting=given.setting
            )
    return file


def _of(file: SettingsFile | None) -> tuple[Given, ...]:
    return () if file is None else file.given


def _of_project(project: SettingsFile | None, user: SettingsFile | None, own: Mapping[str, Given]) -> Iterator[Given]:
    """The permitted settings of the project's file."""
    if project is None:
        return
    if project.trusted_projects:
        raise ConfigError(f"{project.path}: only your own file may set trusted_projects", setting="trusted_projects")
    trusted = () if user is None else user.trusted_projects
    yield from of_project(project.path, _canonical(project.given), own, trusted)


def _canonical(layers: Iterable[Given]) -> Iterator[Given]:
    """The same, with aliases of kinds resolved. Raises ConfigError for an unknown kind or option."""
    for given in layers:
        section, _, rest = given.setting.partition(".")
        if section != "environments":
            yield given._replace(setting=ORIGINAL_NAMES.get(given.setting, given.setting))
            continue
        name, _, option = rest.partition(".")
        kind = checked(name, given.place)
        types = option_types(kind)
        if types is not None and option not in types:
            raise ConfigError(
                f"{given.place}: {kind!r} has no option {option!r}; {choices(option, types)}", setting=given.setting
            )
        yield given._replace(setting=f"environments.{kind}.{option}")


def _section(name: str, shape: type[T], chosen: Mapping[str, Given]) -> T:
    values: dict[str, Any] = {}
    for field in msgspec.structs.fields(shape):
        if given := chosen.get(f"{name}.{field.name}"):
            values[field.name] = typed(given, field.type)
    return shape(**values)


def _options(environment: EnvironmentSettings, chosen: Mapping[str, Given], notes: list[str]) -> dict[str, Any]:
    """The options of the chosen kind."""
    kind = environment.kind
    types = option_types(kind)
    options: dict[str, Any] = {}
    of_a_profile = [name for name in _OF_A_PROFILE if f"environment.{name}" in chosen and types and name in types]
    for name in (*_COMMON, *of_a_profile):
        value = getattr(environment, name)
        if value is not None and (types is None or name in types) and not _is_elsewhere(kind, name, chosen, notes):
            options[name] = value
    start = f"environments.{kind}."
    for setting, given in chosen.items():
        if setting.startswith(start):
            name = setting.removeprefix(start)
            options[name] = given.value if types is None else typed(given, types[name])
    if environment.home == "real" and kind != "local":
        notes.append(f"environment.home = real was left out: {kind} has a home of its own, never yours")
    if "image" not in options and (image := default_image(kind)):
        options["image"] = image
    return options


def _is_elsewhere(kind: str, name: str, chosen: Mapping[str, Given], notes: list[str]) -> bool:
    """True for a Hermes variable with a directory of this machine that the environment does not have."""
    given = chosen[f"environment.{name}"]
    if given.place != "TERMINAL_CWD" or kind not in _OWN_FILES or not str(given.value).startswith(_HOMES):
        return False
    notes.append(f"TERMINAL_CWD={given.value} was left out: it is a directory of this machine, and {kind} has its own")
    return True


def _merged(layers: Iterable[Given]) -> dict[str, Given]:
    """The last value of each setting. Deny lists, rules and secrets accumulate, so that no layer removes another's."""
    chosen: dict[str, Given] = {}
    for given in layers:
        before = chosen.get(given.setting)
        if before is not None and given.setting in _ADDED:
            wanted = list[Any] if given.setting == "approvals.rules" else tuple[str, ...]
            given = given._replace(value=[*typed(before, wanted), *typed(given, wanted)], is_text=False)
        chosen[given.setting] = given
    return chosen


def _place(chosen: Mapping[str, Given], setting: str) -> str:
    return chosen[setting].place if setting in chosen else "default"
