"""`hermetic gc`: takes away what processes that are gone left of environments that are gone."""

import argparse
import asyncio
from typing import TYPE_CHECKING

from hermetic.cli.command import complain
from hermetic.cli.report import one_line, print_json
from hermetic.contract.fleet import Removed
from hermetic.fleet.garbage import collect, collect_some
from hermetic.registry.janitor_process import UNREACHABLE
from hermetic.registry.records import Records, runtime_root

if TYPE_CHECKING:
    from hermetic.cli.command import SubParsers


def add_parser(subparsers: "SubParsers") -> None:
    """Declares the arguments."""
    parser = subparsers.add_parser(
        "gc",
        description="Takes away what killed processes left: records, directories and containers of environments that "
        "are gone. What lives, or is being opened, is left alone.",
    )
    parser.add_argument("ids", nargs="*", metavar="ID", help="look at these environments alone")
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Prints what was removed; UNREACHABLE when an environment that was named could not be looked at."""
    records = Records(runtime_root())
    removed, problems = asyncio.run(_collect(records, arguments.ids))
    if arguments.json:
        print_json(removed)
    else:
        for one in removed:
            print(f"{one.what:12} {one_line(one.name, 160)}")
    for problem in problems:
        complain(problem, UNREACHABLE)
    return UNREACHABLE if problems and arguments.ids else 0


async def _collect(records: Records, ids: list[str]) -> tuple[list[Removed], list[str]]:
    if ids:
        return await collect_some(records, ids)
    problems: list[str] = []
    return await collect(records, problems), problems
