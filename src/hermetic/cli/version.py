"""`hermetic version`."""

import argparse
import platform
from importlib import import_module
from typing import TYPE_CHECKING

from hermetic.cli.report import print_json

if TYPE_CHECKING:
    from hermetic.cli.dispatch import SubParsers


def add_parser(subparsers: "SubParsers") -> None:
    """Declares the arguments."""
    parser = subparsers.add_parser("version", description="The version of Hermetic and of the Python it runs on.")
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Prints the version."""
    version = import_module("hermetic").__version__
    python, system = platform.python_version(), platform.system()
    if arguments.json:
        print_json({"hermetic": version, "python": python, "system": system})
    else:
        print(f"hermetic {version} (Python {python}, {system})")
    return 0
