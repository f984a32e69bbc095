"""Settings in environment variables: ours by one rule, those of Hermes by a table."""

import difflib
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hermetic.config.settings import SECTIONS
from hermetic.config.values import Given, checked_option, typed
from hermetic.contract.errors import ConfigError
from hermetic.environments import catalog
from hermetic.environments.options import choices

_KIND = "HERMETIC_ENVIRONMENT"
_NEAR = 0.9  # likeness of two names, from which one is taken for the other misspelt
_PROGRAMS = "_BINARY"  # HERMETIC_DOCKER_BINARY and the like name programs; backends read them


def ours(environ: Mapping[str, str]) -> Iterator[Given]:
    """HERMETIC_ENVIRONMENT is the kind, HERMETIC_SECTION_NAME a setting, HERMETIC_KIND_OPTION an
    option.

    Raises ConfigError for a name that begins like one of these and is none.
    """
    starts = {f"HERMETIC_{name.upper()}_": name for name in (*SECTIONS, *catalog.KINDS)}
    for variable, text in sorted(environ.items()):
        if variable.startswith("HERMETIC_") and not variable.startswith(tuple(starts)):
            _check_misspelt(variable)
        if variable == _KIND:
            yield Given("environment.kind", text, variable, is_text=True)
        for start, section in starts.items():
            name = variable.removeprefix(start).lower()
            if not variable.startswith(start) or not name or variable.endswith(_PROGRAMS):
                continue
            if section not in SECTIONS:
                checked_option(section, name, variable)
                yield Given(f"environments.{section}.{name}", text, variable, is_text=True)
            elif name in (valid := SECTIONS[section].__struct_fields__):
                yield Given(f"{section}.{name}", text, variable, is_text=True)
            else:
                raise ConfigError(
                    f"{variable}: {section} has no setting {name!r}; {choices(name, valid)}"
                )


def _check_misspelt(variable: str) -> None:
    """Raises ConfigError for a name that is nearly that of a setting; other names are not ours."""
    settings = [
        f"HERMETIC_{section}_{name}".upper()
        for section, shape in SECTIONS.items()
        for name in shape.__struct_fields__
    ]
    near = difflib.get_close_matches(variable, [_KIND, *settings], n=1, cutoff=_NEAR)
    if near and variable != _KIND:
        raise ConfigError(f"{variable} is no setting; did you mean {near[0]}?")


# Variable of Hermes → its settings. Those that begin with a dot are options of docker and podman.
ORIGINAL: Mapping[str, str] = {
    "TERMINAL_ENV": "environment.kind",
    "TERMINAL_CWD": "environment.cwd",
    "TERMINAL_TIMEOUT": "terminal.timeout",
    "TERMINAL_MAX_FOREGROUND_TIMEOUT": "terminal.longest_timeout",
    "TERMINAL_LIFETIME_SECONDS": "environment.lease",
    "TERMINAL_DOCKER_IMAGE": ".image",
    "TERMINAL_SINGULARITY_IMAGE": "environments.apptainer.image",
    "TERMINAL_MODAL_IMAGE": "environments.modal.image",
    "TERMINAL_DAYTONA_IMAGE": "environments.daytona.image",
    "TERMINAL_SSH_HOST": "environments.ssh.host",
    "TERMINAL_SSH_USER": "environments.ssh.user",
    "TERMINAL_SSH_PORT": "environments.ssh.port",
    "TERMINAL_SSH_KEY": "environments.ssh.key",
    "TERMINAL_CONTAINER_CPU": ".cpu environments.apptainer.cpu environments.modal.cpu environments.daytona.cpu",
    "TERMINAL_CONTAINER_MEMORY": ".memory_bytes environments.apptainer.memory_bytes environments.modal.memory_bytes "
    "environments.daytona.memory_bytes",
    "TERMINAL_CONTAINER_DISK": ".disk_bytes environments.daytona.disk_bytes",
    "TERMINAL_DOCKER_PERSIST_ACROSS_PROCESSES": "environment.across_processes",
    "TERMINAL_CONTAINER_PERSISTENT": ".persistent environments.modal.persistent environments.daytona.persistent",
    "TERMINAL_DOCKER_VOLUMES": ".volumes",
    "TERMINAL_DOCKER_ENV": ".env",
    "TERMINAL_DOCKER_FORWARD_ENV": ".forward_env",
    "TERMINAL_DOCKER_EXTRA_ARGS": ".extra_args",
    "TERMINAL_DOCKER_NETWORK": ".network",
    "TERMINAL_DOCKER_MOUNT_CWD_TO_WORKSPACE": ".host_cwd",
    "TERMINAL_DOCKER_RUN_AS_HOST_USER": ".user",
    "HERMES_REDACT_SECRETS": "redaction.enabled",
    "HERMES_WRITE_SAFE_ROOT": "files.write_root",
    "HERMES_TIMEZONE": "code_execution.timezone",
    "HERMES_ALLOW_PRIVATE_URLS": "web.private_hosts",
    "SUDO_PASSWORD": "sudo.password",
    "HERMES_YOLO_MODE": "approvals.mode",
    "HERMES_INTERACTIVE": "approvals.answers",
    "HERMES_GATEWAY_SESSION": "approvals.answers",
    "HERMES_EXEC_ASK": "approvals.answers",
}
_SWITCHES = ("TERMINAL_DOCKER_MOUNT_CWD_TO_WORKSPACE", "TERMINAL_DOCKER_RUN_AS_HOST_USER")


def original_settings(variable: str) -> list[str]:
    """The settings that a variable of Hermes sets."""
    each = ("environments.docker{}", "environments.podman{}")
    names = ORIGINAL[variable].split()
    return [
        shape.format(name)
        for name in names
        for shape in (each if name.startswith(".") else ("{}",))
    ]


def of_the_original(environ: Mapping[str, str], directory: str) -> Iterator[Given]:
    """The variables of Hermes as settings; an empty one counts as unset, except for a password.

    What a variable says is read when the setting is used: one for a kind that is not chosen is no
    mistake.
    """
    read = {
        "TERMINAL_ENV": lambda given: given.value.strip().lower(),
        "TERMINAL_CONTAINER_MEMORY": _mebibytes,
        "TERMINAL_CONTAINER_DISK": _mebibytes,
        "TERMINAL_DOCKER_NETWORK": _yes_no_or_name,
        "TERMINAL_DOCKER_MOUNT_CWD_TO_WORKSPACE": _switch(directory, None),
        "TERMINAL_DOCKER_RUN_AS_HOST_USER": _switch(f"{os.geteuid()}:{os.getegid()}", None),
        "HERMES_ALLOW_PRIVATE_URLS": lambda given: ["*"] if typed(given, bool) else [],
        "HERMES_YOLO_MODE": _switch("allow", "ask"),
        "HERMES_INTERACTIVE": _switch("terminal", "nobody"),
        "HERMES_GATEWAY_SESSION": _switch("queue", "nobody"),
        "HERMES_EXEC_ASK": _switch("queue", "nobody"),
    }
    for variable in ORIGINAL:
        text = environ.get(variable)
        if text is None or (not text.strip() and variable != "SUDO_PASSWORD"):
            continue
        if variable in _SWITCHES and text.strip().lower() in ("0", "false", "no", "off", "n"):
            continue
        for setting in original_settings(variable):
            # 0 is no limit there
            if not (setting.startswith("environments.apptainer.") and _is_zero(text)):
                yield Given(setting, text, variable, is_text=True, read=read.get(variable))


def _mebibytes(given: Given) -> int:
    return int(typed(given, float) * (1 << 20))


def _switch(on: str, off: str | None) -> Callable[[Given], Any]:
    return lambda given: on if typed(given, bool) else off


def _yes_no_or_name(given: Given) -> bool | str:
    try:
        return bool(typed(given, bool))
    except ConfigError:
        return str(given.value)


def _is_zero(text: str) -> bool:
    try:
        return float(text) == 0
    except ValueError:
        return False
