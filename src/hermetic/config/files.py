"""Settings files: where they are, and what they say, with the line for each setting."""

import os
import re
import stat
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from hermetic.config.given import Given
from hermetic.config.settings import ORIGINAL_NAMES, SECTIONS
from hermetic.contract.errors import ConfigError
from hermetic.environments.options import choices
from hermetic.environments.profile import USER_FILE, settings_directory

PROJECT_FILE = "hermetic.toml"
MOST_BYTES = 1 << 20

_TABLES = (*SECTIONS, "environments")
_TRUSTED = "trusted_projects"
_HEADER = re.compile(r"^\s*\[\s*([^\[\]]+?)\s*\]\s*(?:#.*)?$")
_KEY = re.compile(r"^\s*((?:[\w-]+|\"[^\"]*\"|'[^']*')(?:\s*\.\s*(?:[\w-]+|\"[^\"]*\"|'[^']*'))*)\s*=")
_POSITION = re.compile(r" \(at line (\d+), column \d+\)| \(at end of document\)")


class SettingsFile(NamedTuple):
    """What one file says."""

    path: Path
    given: tuple[Given, ...]
    trusted_projects: tuple[str, ...] = ()


def user_file(environ: Mapping[str, str]) -> Path | None:
    """The user's own file; None when there is none. Raises ConfigError when the one that is named is not there."""
    if named := environ.get(USER_FILE):
        path = Path(named).expanduser()
        if not path.is_file():
            raise ConfigError(
                f"{USER_FILE}: there is no file {path}; make it, or unset the variable", setting=USER_FILE
            )
        return path
    directory = settings_directory(environ)
    return directory / "config.toml" if directory is not None and (directory / "config.toml").is_file() else None


def project_file(directory: Path) -> Path | None:
    """The nearest hermetic.toml from here up to the top of the repository; without one, only the one here."""
    if (directory / PROJECT_FILE).is_file():
        return directory / PROJECT_FILE
    above = [directory, *directory.parents]
    top = next((at for at in above if (at / ".git").exists()), directory)
    candidates = above[: above.index(top) + 1]
    return next((at / PROJECT_FILE for at in candidates if (at / PROJECT_FILE).is_file()), None)


def is_ours(path: Path) -> bool:
    """True when the file belongs to this user or to root."""
    return path.stat().st_uid in (os.geteuid(), 0)


def read(path: Path) -> SettingsFile:
    """What the file says. Raises ConfigError with file and line, and for a file that anybody can write."""
    if _mode(path) & stat.S_IWOTH:
        raise ConfigError(f"{path} can be written by anybody; look at what it says, then run chmod o-w {path}")
    text = _text(path)
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = _POSITION.search(str(error))
        at = line[1] if line and line[1] else text.count("\n") + 1
        raise ConfigError(f"{path}:{at}: this is no TOML: {_POSITION.sub('', str(error))}") from None
    lines = _lines(text)
    trusted = content.pop(_TRUSTED, [])
    if not isinstance(trusted, list) or not all(isinstance(item, str) for item in trusted):
        raise ConfigError(
            f"{path}:{lines.get(_TRUSTED, 1)}: {_TRUSTED} must be a list of directories", setting=_TRUSTED
        )
    return SettingsFile(path, tuple(_given(path, content, lines)), tuple(trusted))


def _mode(path: Path) -> int:
    try:
        return path.stat().st_mode
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}; change its permissions or take it away") from None


def _text(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            data = stream.read(MOST_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}; change its permissions or take it away") from None
    if len(data) > MOST_BYTES:
        raise ConfigError(f"{path} is larger than {MOST_BYTES:,} bytes; it cannot be a settings file")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}: this is no UTF-8; save it as UTF-8") from None


def _given(path: Path, content: Mapping[str, Any], lines: Mapping[str, int]) -> Iterator[Given]:
    for section, table in content.items():
        if section not in _TABLES:
            _refuse(path, lines, section, f"no section {section!r}", (*_TABLES, _TRUSTED))
        if not isinstance(table, dict):
            raise ConfigError(
                f"{path}:{lines.get(section, 1)}: {section} must be a table: [{section}]", setting=section
            )
        if section == "environments":
            yield from _of_kinds(path, table, lines)
            continue
        for name, value in table.items():
            setting = f"{section}.{name}"
            if name not in SECTIONS[section].__struct_fields__ and setting not in ORIGINAL_NAMES:
                _refuse(
                    path, lines, setting, f"no setting {name!r} in [{section}]", SECTIONS[section].__struct_fields__
                )
            yield Given(setting, value, _place(path, lines, setting))


def _of_kinds(path: Path, table: Mapping[str, Any], lines: Mapping[str, int]) -> Iterator[Given]:
    for kind, options in table.items():
        if not isinstance(options, dict):
            at = _place(path, lines, f"environments.{kind}")
            raise ConfigError(f"{at}: the options of a kind are a table: [environments.{kind}]", setting=kind)
        for name, value in options.items():
            setting = f"environments.{kind}.{name}"
            yield Given(setting, value, _place(path, lines, setting))


def _refuse(path: Path, lines: Mapping[str, int], setting: str, problem: str, valid: tuple[str, ...]) -> None:
    wrong = setting.rpartition(".")[2]
    raise ConfigError(f"{_place(path, lines, setting)}: {problem}; {choices(wrong, valid)}", setting=setting)


def _place(path: Path, lines: Mapping[str, int], setting: str) -> str:
    """File and line; the line of the table where the setting has none of its own."""
    while setting and setting not in lines:
        setting = setting.rpartition(".")[0]
    return f"{path}:{lines.get(setting, 1)}"


def _lines(text: str) -> dict[str, int]:
    """Setting or table → the line where it is first written, as far as lines tell."""
    found: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            table = _dotted(header[1])
            found.setdefault(table, number)
        elif key := _KEY.match(line):
            found.setdefault(f"{table}.{_dotted(key[1])}".lstrip("."), number)
    return found


def _dotted(key: str) -> str:
    return ".".join(part.strip().strip("\"'") for part in key.split("."))
