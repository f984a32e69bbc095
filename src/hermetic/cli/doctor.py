"""`hermetic doctor`: what works here, what not, and what to do."""

import argparse
import asyncio
from typing import TYPE_CHECKING

from hermetic.cli.checks import all_checks
from hermetic.cli.command import FAILED
from hermetic.cli.report import one_line, print_json

if TYPE_CHECKING:
    from hermetic.cli.command import SubParsers

NEEDED = frozenset({"python", "bash", "runtime directory", "local"})


def add_parser(subparsers: "SubParsers") -> None:
    """Declares the arguments."""
    parser = subparsers.add_parser(
        "doctor", description="Tries what Hermetic needs and says what works here, what not, and what to do."
    )
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Prints the checks; 1 when commands cannot be run on this machine."""
    checks = asyncio.run(all_checks())
    if arguments.json:
        print_json(checks)
    else:
        for check in checks:
            print(f"{check.state:8} {check.name:18} {one_line(check.found, 160)}")
            if check.advice:
                print(f"{'':27} → {one_line(check.advice, 300)}")
    is_well = all(check.state in ("ok", "weak") for check in checks if check.name in NEEDED)
    return 0 if is_well else FAILED
