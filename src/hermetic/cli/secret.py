"""`hermetic secret`: a password from a person to a process, past everybody else."""

import argparse
import asyncio
import getpass
import sys
from typing import TYPE_CHECKING

from hermetic.cli.choosing import settings_here
from hermetic.cli.places import add_place_option, attached, find_process
from hermetic.cli.report import one_line
from hermetic.cli.ruled import Ruled
from hermetic.contract.errors import InputClosed, InvalidArgument

if TYPE_CHECKING:
    from hermetic.cli.command import SubParsers


def add_parser(subparsers: "SubParsers") -> None:
    """Declares the arguments."""
    parser = subparsers.add_parser(
        "secret",
        description="Reads one line without showing it and types it into a process. It is in no result, log or screen, "
        "even where the process prints it. Without a terminal the line comes from standard input.",
    )
    add_place_option(parser)
    parser.add_argument("id", metavar="ID", help="an id from `hermetic ps`, or the start of one")


def run(arguments: argparse.Namespace) -> int:
    """Asks and passes it on."""
    id = asyncio.run(_look(arguments))  # before anybody types
    secret = _ask(f"secret for {one_line(id)}: ")
    if not secret:
        raise InvalidArgument("the line is empty: nothing was typed into the process", argument="secret")
    asyncio.run(_type(arguments, secret))
    return 0


def _ask(prompt: str) -> str:
    if sys.stdin.isatty():
        return getpass.getpass(prompt)
    return sys.stdin.readline().rstrip("\n")


async def _look(arguments: argparse.Namespace) -> str:
    async with attached(arguments.place) as places:
        found = await find_process(places, arguments.id)
        if found.info.ending is not None:
            raise InputClosed(f"process {found.info.id} has ended; nobody reads a secret", process_id=found.info.id)
        return found.info.id


async def _type(arguments: argparse.Namespace, secret: str) -> None:
    ruled = Ruled(settings_here())
    async with attached(arguments.place) as places:
        found = await find_process(places, arguments.id)
        ruled.put_before(found.environment)
        process = await found.environment.process(found.info.id)
        await process.write_secret(secret)
