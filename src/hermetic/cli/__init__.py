"""The command line: modules with `COMMANDS`, and `dispatch`, which finds and runs one.

A front door: it translates arguments into calls and answers into text or JSON, and decides nothing.
"""

from hermetic.cli.dispatch import main

__all__ = ["main"]
