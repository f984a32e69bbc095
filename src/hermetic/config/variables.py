"""Settings in environment variables: ours by one rule, those of Hermes by a table."""

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from hermetic.config.given import Given, typed
from hermetic.config.kinds import option_types
from hermetic.config.settings import SECTIONS
from hermetic.contract.errors import ConfigError
from hermetic.environments import catalog
from hermetic.environments.options import choices

_PREFIX = "HERMETIC_"
_KIND = "HERMETIC_ENVIRONMENT"
_PROGRAMS = "_BINARY"  # HERMETIC_DOCKER_BINARY and the like name programs; backends read them
_MEBIBYTE = 1 << 20
_NO = ("0", "false", "no", "off", "n")


def ours(environ: Mapping[str, str]) -> Iterator[Given]:
    """HERMETIC_ENVIRONMENT is the kind, HERMETIC_SECTION_NAME a setting, HERMETIC_KIND_OPTION an option.

    Raises ConfigError for a name that begins like one of these and is none.
    """
    for variable, text in sorted(environ.items()):
        if variable == _KIND:
            yield Given("environment.kind", text, variable, is_text=True)
        elif variable.startswith(_PREFIX) and not variable.endswith(_PROGRAMS):
            yield from _setting(variable, text)
            yield from _option(variable, text)


def _setting(variable: str, text: str) -> Iterator[Given]:
    for section, shape in SECTIONS.items():
        if name := _rest(variable, section):
            if name not in shape.__struct_fields__:
                raise ConfigError(
                    f"{variable}: {section} has no setting {name!r}; {choices(name, shape.__struct_fields__)}"
                )
            yield Given(f"{section}.{name}", text, variable, is_text=True)


def _option(variable: str, text: str) -> Iterator[Given]:
    for kind in catalog.KINDS:
        if name := _rest(variable, kind):
            types = option_types(kind)
            if types is not None and name not in types:
                raise ConfigError(f"{variable}: {kind!r} has no option {name!r}; {choices(name, types)}")
            yield Given(f"environments.{kind}.{name}", text, variable, is_text=True)


def _rest(variable: str, section: str) -> str:
    """The part of the name after the section, in lower case; empty for another section."""
    start = f"{_PREFIX}{section.upper()}_"
    return variable.removeprefix(start).lower() if variable.startswith(start) else ""


class _Old(NamedTuple):
    """A variable of Hermes, its settings, and how its value is parsed."""

    variable: str
    settings: tuple[str, ...]
    read: Callable[[Given], Any] | None = None


def _json(wanted: Any) -> Callable[[Given], Any]:
    return lambda given: typed(given, wanted)


def _mebibytes(given: Given) -> int:
    return int(typed(given, float) * _MEBIBYTE)


def _each(kinds: tuple[str, ...], option: str) -> tuple[str, ...]:
    return tuple(f"environments.{kind}.{option}" for kind in kinds)


_ENGINES = ("docker", "podman")
_TEXTS = tuple[str, ...]

ORIGINAL: tuple[_Old, ...] = (
    _Old("TERMINAL_ENV", ("environment.kind",), lambda given: given.value.strip().lower()),
    _Old("TERMINAL_CWD", ("environment.cwd",)),
    _Old("TERMINAL_TIMEOUT", ("terminal.timeout",), _json(float)),
    _Old("TERMINAL_MAX_FOREGROUND_TIMEOUT", ("terminal.longest_timeout",), _json(float)),
    _Old("TERMINAL_LIFETIME_SECONDS", ("environment.lease",), _json(float)),
    _Old("TERMINAL_DOCKER_IMAGE", _each(_ENGINES, "image")),
    _Old("TERMINAL_SINGULARITY_IMAGE", ("environments.apptainer.image",)),
    _Old("TERMINAL_SSH_HOST", ("environments.ssh.host",)),
    _Old("TERMINAL_SSH_USER", ("environments.ssh.user",)),
    _Old("TERMINAL_SSH_PORT", ("environments.ssh.port",), _json(int)),
    _Old("TERMINAL_SSH_KEY", ("environments.ssh.key",)),
    _Old("TERMINAL_CONTAINER_CPU", _each((*_ENGINES, "apptainer"), "cpu"), _json(float)),
    _Old("TERMINAL_CONTAINER_MEMORY", _each((*_ENGINES, "apptainer"), "memory_bytes"), _mebibytes),
    _Old("TERMINAL_CONTAINER_DISK", _each(_ENGINES, "disk_bytes"), _mebibytes),
    _Old("TERMINAL_DOCKER_PERSIST_ACROSS_PROCESSES", ("environment.across_processes",), _json(bool)),
    _Old("TERMINAL_CONTAINER_PERSISTENT", _each(_ENGINES, "persistent"), _json(bool)),
    _Old("TERMINAL_DOCKER_VOLUMES", _each(_ENGINES, "volumes"), _json(_TEXTS)),
    _Old("TERMINAL_DOCKER_ENV", _each(_ENGINES, "env"), _json(dict[str, str | bool | int | float])),
    _Old("TERMINAL_DOCKER_FORWARD_ENV", _each(_ENGINES, "forward_env"), _json(_TEXTS)),
    _Old("TERMINAL_DOCKER_EXTRA_ARGS", _each(_ENGINES, "extra_args"), _json(_TEXTS)),
    _Old("TERMINAL_DOCKER_NETWORK", _each(_ENGINES, "network"), _json(bool | str)),
    _Old("HERMES_REDACT_SECRETS", ("redaction.enabled",), _json(bool)),
    _Old("HERMES_WRITE_SAFE_ROOT", ("files.write_root",)),
    _Old("HERMES_TIMEZONE", ("code_execution.timezone",)),
    _Old("SUDO_PASSWORD", ("sudo.password",)),
    _Old("HERMES_YOLO_MODE", ("approvals.mode",), lambda given: "allow" if typed(given, bool) else "ask"),
    _Old("HERMES_INTERACTIVE", ("approvals.answers",), lambda given: "terminal" if typed(given, bool) else "nobody"),
    _Old("HERMES_GATEWAY_SESSION", ("approvals.answers",), lambda given: "queue" if typed(given, bool) else "nobody"),
    _Old("HERMES_EXEC_ASK", ("approvals.answers",), lambda given: "queue" if typed(given, bool) else "nobody"),
)


def of_the_original(environ: Mapping[str, str], directory: str) -> Iterator[Given]:
    """The variables of Hermes as settings; an empty one counts as unset, except for a password.

    What a variable says is read when the setting is used: one for a kind that is not chosen is no mistake.
    """
    for old in ORIGINAL:
        text = environ.get(old.variable)
        if text is None or (not text.strip() and old.variable != "SUDO_PASSWORD"):
            continue
        for setting in old.settings:
            if not (setting.startswith("environments.apptainer.") and _is_zero(text)):  # 0 is no limit there
                yield Given(setting, text, old.variable, is_text=old.read is not None, read=old.read)
    for variable, option, value in (
        ("TERMINAL_DOCKER_MOUNT_CWD_TO_WORKSPACE", "host_cwd", directory),
        ("TERMINAL_DOCKER_RUN_AS_HOST_USER", "user", f"{os.geteuid()}:{os.getegid()}"),
    ):
        text = environ.get(variable, "").strip()
        if text and text.lower() not in _NO:
            for setting in _each(_ENGINES, option):
                yield Given(setting, text, variable, is_text=True, read=_chosen(value))


def _chosen(value: str) -> Callable[[Given], Any]:
    return lambda given: value if typed(given, bool) else None


def _is_zero(text: str) -> bool:
    try:
        return float(text) == 0
    except ValueError:
        return False
