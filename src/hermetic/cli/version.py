"""`hermetic version`."""

import argparse
import json
import os
import sys

from hermetic.cli.command import JSON, Command, options
from hermetic.contract import VERSION


def _version(arguments: argparse.Namespace) -> int:
    """Prints the version."""
    python, system = ".".join(map(str, sys.version_info[:3])), os.uname().sysname
    if arguments.json:
        print(json.dumps({"hermetic": VERSION, "python": python, "system": system}, indent=2))
    else:
        print(f"hermetic {VERSION} (Python {python}, {system})")
    return 0


COMMANDS = {
    "version": Command(
        """\
The version of Hermetic and of the Python it runs on.

  hermetic version --json""",
        options(JSON),
        _version,
    ),
}
