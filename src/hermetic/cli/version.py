"""`hermetic version`."""

import argparse
import json
import os
import sys
from typing import TYPE_CHECKING

from hermetic.contract import VERSION

if TYPE_CHECKING:
    from hermetic.cli.command import SubParsers


def add_parser(subparsers: "SubParsers") -> None:
    """Declares the arguments."""
    parser = subparsers.add_parser("version", description="The version of Hermetic and of the Python it runs on.")
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Prints the version."""
    python, system = ".".join(map(str, sys.version_info[:3])), os.uname().sysname
    if arguments.json:
        print(json.dumps({"hermetic": VERSION, "python": python, "system": system}, indent=2))
    else:
        print(f"hermetic {VERSION} (Python {python}, {system})")
    return 0
