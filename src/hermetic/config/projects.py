"""What a project's file may set: it comes with a checkout, and a checkout must not open the machine it lies on."""

from collections.abc import Iterator
from pathlib import Path

from hermetic.config.files import SettingsFile
from hermetic.config.given import Given
from hermetic.config.settings import ORIGINAL_NAMES
from hermetic.contract.errors import ConfigError

# Options by which a place becomes no more open to this machine than it is without them.
_HARMLESS = frozenset({"image", "cwd", "cpu", "memory_bytes", "pids", "env", "lease", "unattended", "login", "setup"})
# What of the user's own files a place is shown, and whose home its commands have, no checkout decides.
_OF_THE_USER = tuple(f"environment.{name}" for name in ("profile", "home", "credential_files"))
_HARMLESS_LOCAL = frozenset({"lease", "unattended", "login"})


def of_project(project: SettingsFile, user: SettingsFile | None) -> Iterator[Given]:
    """The project's settings. Raises ConfigError for one that only the user may make, unless the project is trusted."""
    trusted = () if user is None else user.trusted_projects
    folder = project.path.parent.resolve()
    if any(Path(path).expanduser().resolve() == folder for path in trusted):
        yield from project.given
        return
    kind = next((given for given in user.given if given.setting == "environment.kind"), None) if user else None
    for given in project.given:
        if _opens_more(given, kind):
            raise ConfigError(
                f"{given.place}: a project cannot set {given.setting} like this, because it could open your machine; "
                f'set it in your own file or by a variable, or add trusted_projects = ["{folder}"] to your own file',
                setting=given.setting,
            )
        yield given


def _tightens(name: str, value: object) -> bool:
    """Whether a setting of approvals only forbids or asks for more."""
    if name == "rules":
        rules = value if isinstance(value, list) else [None]
        return all(isinstance(rule, dict) and rule.get("decision") in ("ask", "deny") for rule in rules)
    return name == "deny" or (name == "mode" and value == "deny")


def _opens_more(given: Given, kind: Given | None) -> bool:
    section, _, rest = given.setting.partition(".")
    if ORIGINAL_NAMES.get(given.setting, given.setting) in _OF_THE_USER:
        return True
    if section == "sudo" or (given.setting == "redaction.enabled" and given.value is not True):
        return True
    if given.setting in ("code_execution.passthrough", "code_execution.isolated"):
        return given.setting.endswith("passthrough") or given.value is not True
    if given.setting == "environment.kind":
        return given.value == "local" and kind is not None and kind.value != "local"
    if section == "approvals":
        return not _tightens(rest, given.value)
    if section != "environments":
        return False
    name, _, option = rest.partition(".")
    if option == "network":
        return given.value is not False
    return option not in (_HARMLESS_LOCAL if name == "local" else _HARMLESS)
