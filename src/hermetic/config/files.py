"""Settings files: their paths and contents, with the line of each setting."""

import errno
import os
import re
import stat
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from hermetic.config.settings import ORIGINAL_NAMES, SECTIONS
from hermetic.config.values import Given
from hermetic.contract.errors import ConfigError
from hermetic.environments.options import choices
from hermetic.environments.profile import SETTINGS, USER_FILE, settings_directory

PROJECT_FILE = "hermetic.toml"
MOST_BYTES = 1 << 20

_TABLES = (*SECTIONS, "environments")
_TRUSTED = "trusted_projects"
_HEADER = re.compile(r"^\s*\[\s*([^\[\]]+?)\s*\]\s*(?:#.*)?$")
_KEY = re.compile(
    r"^\s*((?:[\w-]+|\"[^\"]*\"|'[^']*')(?:\s*\.\s*(?:[\w-]+|\"[^\"]*\"|'[^']*'))*)\s*="
)
_POSITION = re.compile(r" \(at line (\d+), column \d+\)| \(at end of document\)")
# A key of very many parts, for which a parser takes time in proportion to their square.
_LONG_KEY = re.compile(r"""(?<![\w"'-])(?:[\w"'-]++[ \t]*+\.[ \t]*+){64}""")


class SettingsFile(NamedTuple):
    """The settings of one file."""

    path: Path
    given: tuple[Given, ...]
    trusted_projects: tuple[str, ...] = ()


def user_file(environ: Mapping[str, str]) -> Path | None:
    """The user's own file; None without one. Raises ConfigError when a named file is missing."""
    if named := environ.get(USER_FILE):
        path = Path(named).expanduser()
        if not _is_there(path):
            raise ConfigError(
                f"{USER_FILE}: there is no file {path}; make it, or unset the variable",
                setting=USER_FILE,
            )
        return path
    directory = settings_directory(environ)
    return (
        directory / SETTINGS if directory is not None and _is_there(directory / SETTINGS) else None
    )


def project_file(directory: Path) -> Path | None:
    """The nearest hermetic.toml from here up to the top of the repository; without one, only the
    one here.
    """
    if _is_there(directory / PROJECT_FILE):
        return directory / PROJECT_FILE
    above = [directory, *directory.parents]
    top = next((at for at in above if (at / ".git").exists()), directory)
    candidates = above[: above.index(top) + 1]
    return next((at / PROJECT_FILE for at in candidates if _is_there(at / PROJECT_FILE)), None)


def read(path: Path) -> SettingsFile:
    """The settings in the file. Raises ConfigError with file and line, and for a file that others
    can write.

    One that cannot be used is never passed over: what it forbids would be allowed.
    """
    text = _text(path)
    if long := _LONG_KEY.search(text):
        number = text.count("\n", 0, long.start()) + 1
        raise ConfigError(f"{path}:{number}: no setting has a key of so many parts")
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = _POSITION.search(str(error))
        at = line[1] if line and line[1] else text.count("\n") + 1
        raise ConfigError(
            f"{path}:{at}: this is no TOML: {_POSITION.sub('', str(error))}"
        ) from None
    except (RecursionError, ValueError):
        raise ConfigError(
            f"{path}: it holds a number too long or values too deep to be read"
        ) from None
    lines = _lines(text)
    trusted = content.pop(_TRUSTED, [])
    if not isinstance(trusted, list) or not all(isinstance(item, str) for item in trusted):
        raise ConfigError(
            f"{path}:{lines.get(_TRUSTED, 1)}: {_TRUSTED} must be a list of directories",
            setting=_TRUSTED,
        )
    return SettingsFile(path, tuple(_given(path, content, lines)), tuple(trusted))


def _is_there(path: Path) -> bool:
    """Whether the path exists, whatever it is.

    Raises ConfigError where that cannot be determined.
    """
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise _unreadable(path, error) from None
    return True


def _unreadable(path: Path, error: OSError) -> ConfigError:
    if error.errno == errno.ELOOP:
        return ConfigError(
            f"{path} is a link, and nothing protects what it leads to; put the file itself there"
        )
    return ConfigError(
        f"{path} cannot be read: {error.strerror}; change its permissions or take it away"
    )


def _check(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise ConfigError(
            f"{path} is no plain file; put the settings there as one, or take it away"
        )
    if status.st_uid not in (os.geteuid(), 0):
        raise ConfigError(
            f"{path} belongs to another user; look at what it says, then make it yours, or take it away"
        )
    if status.st_mode & stat.S_IWOTH:
        raise ConfigError(
            f"{path} can be written by anybody; look at what it says, then run chmod o-w {path}"
        )


def _text(path: Path) -> str:
    try:
        # a FIFO must not block
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise _unreadable(path, error) from None
    try:
        _check(path, os.fstat(descriptor))
        data = os.read(descriptor, MOST_BYTES + 1)
    except OSError as error:
        raise _unreadable(path, error) from None
    finally:
        os.close(descriptor)
    if len(data) > MOST_BYTES:
        raise ConfigError(
            f"{path} is larger than {MOST_BYTES:,} bytes; it cannot be a settings file"
        )
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
                f"{path}:{lines.get(section, 1)}: {section} must be a table: [{section}]",
                setting=section,
            )
        if section == "environments":
            yield from _of_kinds(path, table, lines)
            continue
        for name, value in table.items():
            setting = f"{section}.{name}"
            if name not in SECTIONS[section].__struct_fields__ and setting not in ORIGINAL_NAMES:
                _refuse(
                    path,
                    lines,
                    setting,
                    f"no setting {name!r} in [{section}]",
                    SECTIONS[section].__struct_fields__,
                )
            yield Given(setting, value, _place(path, lines, setting))


def _of_kinds(path: Path, table: Mapping[str, Any], lines: Mapping[str, int]) -> Iterator[Given]:
    for kind, options in table.items():
        if not isinstance(options, dict):
            at = _place(path, lines, f"environments.{kind}")
            raise ConfigError(
                f"{at}: the options of a kind are a table: [environments.{kind}]", setting=kind
            )
        for name, value in options.items():
            setting = f"environments.{kind}.{name}"
            yield Given(setting, value, _place(path, lines, setting))


def _refuse(
    path: Path, lines: Mapping[str, int], setting: str, problem: str, valid: tuple[str, ...]
) -> None:
    wrong = setting.rpartition(".")[2]
    raise ConfigError(
        f"{_place(path, lines, setting)}: {problem}; {choices(wrong, valid)}", setting=setting
    )


def _place(path: Path, lines: Mapping[str, int], setting: str) -> str:
    """File and line; the line of the table where the setting has none of its own."""
    while setting and setting not in lines:
        setting = setting.rpartition(".")[0]
    return f"{path}:{lines.get(setting, 1)}"


def _lines(text: str) -> dict[str, int]:
    """Setting or table → the line of its first occurrence, where that can be determined."""
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
