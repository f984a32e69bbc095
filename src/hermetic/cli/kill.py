"""`hermetic kill`: ends processes with their whole trees."""

import argparse
import asyncio
from typing import TYPE_CHECKING

from hermetic.cli.command import FAILED, complain
from hermetic.cli.places import Place, add_place_option, attached, find_process
from hermetic.cli.report import one_line
from hermetic.contract.errors import ExecutionError
from hermetic.contract.limits import KILL_GRACE

if TYPE_CHECKING:
    from hermetic.cli.command import SubParsers


def add_parser(subparsers: "SubParsers") -> None:
    """Declares the arguments."""
    parser = subparsers.add_parser(
        "kill", description="Ends processes with their whole trees: TERM, then KILL to what is left after the grace."
    )
    parser.add_argument("--grace", metavar="S", type=float, default=KILL_GRACE, help="seconds (default: %(default)s)")
    parser.add_argument("--signal", metavar="NAME", help="only send this signal to the tree: INT, USR1, 9 …")
    add_place_option(parser)
    parser.add_argument("ids", nargs="+", metavar="ID", help="an id from `hermetic ps`, or the start of one")


def run(arguments: argparse.Namespace) -> int:
    """Ends them; 1 when one could not be."""
    return asyncio.run(_kill_all(arguments))


async def _kill_all(arguments: argparse.Namespace) -> int:
    code = 0
    async with attached(arguments.place) as places:
        for wanted in arguments.ids:
            try:
                print(one_line(await _kill(places, wanted, arguments)))
            except ExecutionError as error:
                code = complain(error, FAILED)
    return code


async def _kill(places: list[Place], wanted: str, arguments: argparse.Namespace) -> str:
    found = await find_process(places, wanted)
    process = await found.environment.process(found.info.id)
    if arguments.signal is not None:
        name: str = arguments.signal
        await process.signal(int(name) if name.isdigit() else name)
        return f"{process.id}: sent {name}"
    return f"{process.id}: {await process.kill(arguments.grace)}"
