"""The environment that the settings and the command line choose: its options and the denying rules."""

import argparse
import os
import shlex
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from hermetic.cli.lookup import attached
from hermetic.contract.errors import ConfigError, EnvironmentUnavailable
from hermetic.environments import catalog
from hermetic.environments.options import MissingOption, UnknownOption, choices
from hermetic.fleet.opening import is_living
from hermetic.resident.lazy import Lazy
from hermetic.session.environment import Environment
from hermetic.session.keeping import put_behind

if TYPE_CHECKING:
    from hermetic import config
    from hermetic.approvals import context as contexts
    from hermetic.approvals import gate as gates
    from hermetic.config import Settings
else:
    config = Lazy("hermetic.config")  # slow to import, and most users have no settings
    contexts, gates = Lazy("hermetic.approvals.context"), Lazy("hermetic.approvals.gate")

# Options of some kinds that have a flag of their own; all others are given with --option.
SHORT = ("image", "host", "user", "workspace", "runtime")
ENVIRONMENT = """\
--env KIND     kind of environment (default: as your settings say, else local)
--image I      image, for docker, podman and apptainer
--host H       machine to run on, for ssh
--user U       user there, for ssh, docker and podman
--workspace D  directory that may be written, for sandbox
--runtime R    whose Python and bash: auto, image, portable, or a portable runtime's path
-o, --option KEY=VALUE… -> options
               any option of that kind; the value is JSON, or else text; may be repeated"""
_SETTINGS = ("HERMETIC_", "HERMES_", "TERMINAL_")  # prefixes of variables that are settings


class Chosen(NamedTuple):
    """The kind of environment and its options, and the settings they come from; None where nothing
    is set.
    """

    kind: str
    options: dict[str, Any]
    settings: "Settings | None"


def choose(arguments: argparse.Namespace) -> Chosen:
    """The settings, overridden by the command line. Raises ConfigError."""
    settings = settings_here(arguments.env)
    given = given_options(arguments)
    if settings is None:
        return Chosen("local", given, None)
    return Chosen(settings.environment.kind, {**settings.options, **given}, settings)


def checked_settings(kind: str | None, options: Mapping[str, Any]) -> "Settings":
    """The settings of the current directory, once its kind has taken these options too: a wrong one
    is reported before a client waits. Raises ConfigError.
    """
    settings = config.load(current_directory(), kind=kind)
    with option_errors():
        catalog.find(settings.environment.kind)({**settings.options, **options})
    return settings


def given_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options that the command line names. Raises ConfigError."""
    options = dict(read_option(text) for text in arguments.options)
    said = {name: getattr(arguments, name) for name in SHORT}
    return {**options, **{name: value for name, value in said.items() if value is not None}}


def read_option(text: str) -> tuple[str, Any]:
    """`memory_bytes=1000` → ("memory_bytes", 1000); a value that is not JSON is text."""
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise ConfigError(f"{text!r} is no option; write it as KEY=VALUE", setting=text)
    try:
        return name, msgspec.json.decode(value)
    except msgspec.DecodeError:
        return name, value


@contextmanager
def option_errors() -> Iterator[None]:
    """Turns errors of options into errors that name the command-line flag."""
    try:
        yield
    except UnknownOption as error:
        raise ConfigError(
            f"{_flag(error.setting)} is no option of the kind {error.kind}; {choices(error.setting, error.valid)}",
            setting=error.setting,
        ) from None
    except MissingOption as error:
        example = f", for example {error.example}" if error.example else ""
        problem = f"{error.kind} needs {_flag(error.setting)}{example}"
        raise ConfigError(problem, setting=error.setting) from None


def _flag(option: str | None) -> str:
    return f"--{option}" if option in SHORT else f"-o {option}=…"


def settings_here(kind: str | None = None) -> "Settings | None":
    """The settings of the current directory, with the options of `kind` where it is given. Raises
    ConfigError.

    None where nothing is set: the import of settings is slow, and most users have none.
    """
    if kind is None and not _has_settings(os.environ, current_directory()):
        return None
    return config.load(current_directory(), kind=kind)


def current_directory() -> str:
    """The directory whose settings apply."""
    try:
        return os.getcwd()
    except FileNotFoundError:  # it was removed, so there is no project
        return "/"


def _has_settings(environ: Mapping[str, str], directory: str) -> bool:
    """Whether a settings file or variable may exist."""
    base = environ.get("XDG_CONFIG_HOME") or f"{environ.get('HOME', '')}/.config"
    above = [directory]
    while above[-1] != os.path.dirname(above[-1]):
        above.append(os.path.dirname(above[-1]))
    files = [f"{base}/hermetic/config.toml", *(os.path.join(at, "hermetic.toml") for at in above)]
    return any(
        name.startswith(_SETTINGS) and name != "HERMETIC_RUNTIME_DIR" for name in environ
    ) or any(map(_may_be, files))


def _may_be(path: str) -> bool:
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:  # reading the settings reports the error
        return True
    return True


class DenyRules:
    """Enforces the deny rules of the settings. Without such rules the policy is not imported."""

    def __init__(self, settings: "Settings | None") -> None:
        self._gate: gates.PolicyGate | None = None
        if settings is None:
            return
        said = settings.approvals
        denying = tuple(rule for rule in said.rules if rule.decision == "deny")
        if denying or said.deny:
            self._gate = gates.make_gate(
                msgspec.structs.replace(said, mode="allow", rules=denying), keeps=True
            )

    def __repr__(self) -> str:
        return f"<DenyRules {'with rules' if self._gate else 'without rules'}>"

    def guard_environment(self, environment: Environment) -> None:
        """From now on, commands, input and writes there are checked first."""
        if self._gate is not None:
            put_behind(environment, gates.EnvironmentGuard(self._gate, environment))

    async def check_before_opening(
        self,
        kind: str,
        options: Mapping[str, Any],
        task: str | None,
        command: str | Sequence[str],
        cwd: str | None,
    ) -> None:
        """Checks a command before its environment is opened. Raises NotPermitted."""
        if self._gate is None or (task is not None and await is_living(task)):
            return
        backend = catalog.find(kind)(options)
        text = command if isinstance(command, str) else shlex.join(command)
        context = contexts.PolicyContext(backend.kind, backend.isolation, backend.options)
        await self._gate.command(task or "hermetic", text, context, cwd=cwd)


@asynccontextmanager
async def guarded(task: str | None) -> AsyncIterator[Environment]:
    """The environment of a task, where the user's deny rules hold. Raises EnvironmentUnavailable."""
    rules = DenyRules(settings_here())
    async with attached(task) as (known,):
        if known.environment is None:
            raise EnvironmentUnavailable(known.problem)
        rules.guard_environment(known.environment)
        yield known.environment
