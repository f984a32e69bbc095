"""`hermetic logs`: the output of a process, byte by byte."""

import argparse
import sys
from typing import TYPE_CHECKING

from hermetic.cli.command import INTERRUPTED
from hermetic.cli.copying import LogCopy
from hermetic.cli.interrupts import Interrupted, Interrupts, run_interruptibly
from hermetic.cli.places import add_place_option, attached, find_process

if TYPE_CHECKING:
    from hermetic.cli.command import SubParsers


def add_parser(subparsers: "SubParsers") -> None:
    """Declares the arguments."""
    parser = subparsers.add_parser("logs", description="The output of a process or command, as it was printed.")
    parser.add_argument("-f", "--follow", action="store_true", help="go on until the process has ended")
    parser.add_argument("--stderr", action="store_true", help="the separate stderr instead of stdout")
    parser.add_argument("--offset", metavar="N", type=int, default=0, help="start at this byte")
    add_place_option(parser)
    parser.add_argument("id", metavar="ID", help="an id from `hermetic ps -a`, or the start of one")


def run(arguments: argparse.Namespace) -> int:
    """Prints the log."""
    try:
        dropped = run_interruptibly(lambda interrupts: _print(arguments, interrupts))
    except Interrupted:
        return INTERRUPTED
    if dropped:
        sys.stderr.write(f"hermetic: {dropped} bytes fell out of the log's cap and are not shown\n")
    return 0


async def _print(arguments: argparse.Namespace, interrupts: Interrupts) -> int:
    async with attached(arguments.place) as places:
        found = await find_process(places, arguments.id)
        log = f"{found.info.id}/err" if arguments.stderr else found.info.id
        copy = LogCopy(found.environment, log, lambda data: interrupts.write(1, data), arguments.offset)
        await (copy.to_the_end() if arguments.follow else copy.to_now())
        return copy.dropped
