"""The options that say which environment is meant, and their values as `open` wants them."""

import argparse
from typing import Any

import msgspec

from hermetic.contract.errors import ConfigError

# Options of some kinds that have a word of their own; all others are said with --option.
SHORT = {
    "image": ("I", "image, for docker, podman and apptainer"),
    "host": ("H", "machine to run on, for ssh"),
    "user": ("U", "user there, for ssh, docker and podman"),
    "workspace": ("D", "directory that may be written, for sandbox"),
}


def add_environment_options(parser: argparse.ArgumentParser) -> None:
    """Declares --env, --image and the like, and --option."""
    parser.add_argument("--env", metavar="KIND", default="local", help="kind of environment (default: local)")
    for name, (letter, meaning) in SHORT.items():
        parser.add_argument(f"--{name}", metavar=letter, help=meaning)
    parser.add_argument(
        "-o", "--option", metavar="KEY=VALUE", action="append", default=[], dest="options",
        help="any option of that kind; the value is JSON, or else text; may be repeated",
    )  # fmt: skip


def chosen_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options for `open`. Raises ConfigError."""
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
