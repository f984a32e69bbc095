"""The environment that is meant: by the settings that hold here, and by the options that override them."""

import argparse
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from hermetic.contract.errors import ConfigError
from hermetic.environments.options import MissingOption, UnknownOption, choices
from hermetic.resident.lazy import Lazy

if TYPE_CHECKING:
    from hermetic import config
    from hermetic.config import Settings
else:
    config = Lazy("hermetic.config")  # settings take their time to be imported, and most people have none

# Options of some kinds that have a word of their own; all others are said with --option.
SHORT = {
    "image": ("I", "image, for docker, podman and apptainer"),
    "host": ("H", "machine to run on, for ssh"),
    "user": ("U", "user there, for ssh, docker and podman"),
    "workspace": ("D", "directory that may be written, for sandbox"),
}
_SETTINGS = ("HERMETIC_", "HERMES_", "TERMINAL_")  # how variables begin that say something about settings


class Chosen(NamedTuple):
    """The kind of environment and its options, and the settings they come from; None where nothing is set."""

    kind: str
    options: dict[str, Any]
    settings: "Settings | None"


def add_environment_options(parser: argparse.ArgumentParser) -> None:
    """Declares --env, --image and the like, and --option."""
    parser.add_argument("--env", metavar="KIND", help="kind of environment (default: as your settings say, else local)")
    for name, (letter, meaning) in SHORT.items():
        parser.add_argument(f"--{name}", metavar=letter, help=meaning)
    parser.add_argument(
        "-o", "--option", metavar="KEY=VALUE", action="append", default=[], dest="options",
        help="any option of that kind; the value is JSON, or else text; may be repeated",
    )  # fmt: skip


def choose(arguments: argparse.Namespace) -> Chosen:
    """What the settings say, overridden by the command line. Raises ConfigError."""
    settings = settings_here(arguments.env)
    given = given_options(arguments)
    if settings is None:
        return Chosen("local", given, None)
    return Chosen(settings.environment.kind, {**settings.options, **given}, settings)


def given_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options that the command line names. Raises ConfigError."""
    options = dict(read_option(text) for text in arguments.options)
    said = {name: getattr(arguments, name) for name in SHORT}
    return {**options, **{name: value for name, value in said.items() if value is not None}}


def read_option(text: str) -> tuple[str, Any]:
    """`memory_bytes=1000` → ("memory_bytes", 1000); what is no JSON is text."""
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise ConfigError(f"{text!r} is no option; write it as KEY=VALUE", setting=text)
    try:
        return name, msgspec.json.decode(value)
    except msgspec.DecodeError:
        return name, value


@contextmanager
def in_words_of_the_shell() -> Iterator[None]:
    """Says what is wrong with an option as it is written on the command line."""
    try:
        yield
    except UnknownOption as error:
        option = f"--{error.setting}" if error.setting in SHORT else f"-o {error.setting}=…"
        raise ConfigError(
            f"{option} is no option of the kind {error.kind}; {choices(error.setting, error.valid)}",
            setting=error.setting,
        ) from None
    except MissingOption as error:
        example = f", for example {error.example}" if error.example else ""
        option = f"--{error.setting}" if error.setting in SHORT else f"-o {error.setting}=…"
        raise ConfigError(f"{error.kind} needs {option}{example}", setting=error.setting) from None


def settings_here(kind: str | None = None) -> "Settings | None":
    """The settings of the current directory, with the options of `kind` where it is given. Raises ConfigError.

    None where nothing is set: settings take their time to be imported, and most people have none.
    """
    if kind is None and not _has_settings(os.environ, here()):
        return None
    return config.load(here(), kind=kind)


def here() -> str:
    """The directory whose settings hold."""
    try:
        return os.getcwd()
    except FileNotFoundError:  # it was removed: there is no project around us then
        return "/"


def _has_settings(environ: Mapping[str, str], directory: str) -> bool:
    """Whether there is anything to read."""
    base = environ.get("XDG_CONFIG_HOME") or f"{environ.get('HOME', '')}/.config"
    above = [directory]
    while above[-1] != os.path.dirname(above[-1]):
        above.append(os.path.dirname(above[-1]))
    files = [f"{base}/hermetic/config.toml", *(os.path.join(at, "hermetic.toml") for at in above)]
    return any(name.startswith(_SETTINGS) and name != "HERMETIC_RUNTIME_DIR" for name in environ) or any(
        map(_may_be, files)
    )


def _may_be(path: str) -> bool:
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:  # the reader of settings reports what is wrong with it
        return True
    return True
