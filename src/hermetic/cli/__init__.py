"""The command line: one file per command, each with `add_parser(subparsers)` and `run(arguments) -> exit code`.

A front door: it translates arguments into calls and answers into text or JSON, and decides nothing.
"""

from hermetic.cli.dispatch import main

__all__ = ["main"]
