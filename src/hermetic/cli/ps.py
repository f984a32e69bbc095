"""`hermetic ps`: what runs where."""

import argparse
import asyncio
from typing import TYPE_CHECKING

import msgspec

from hermetic.cli.command import complain
from hermetic.cli.places import Found, add_place_option, attached, problems_of, processes_of
from hermetic.cli.report import age, print_json, print_table, size
from hermetic.contract.process import ProcessInfo

if TYPE_CHECKING:
    from hermetic.cli.command import SubParsers


def add_parser(subparsers: "SubParsers") -> None:
    """Declares the arguments."""
    parser = subparsers.add_parser("ps", description="What runs in the environments of this user.")
    parser.add_argument("-a", "--all", action="store_true", help="also what has ended, as long as its log is kept")
    parser.add_argument("--json", action="store_true", help="as JSON")
    add_place_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints the processes; and on stderr which environments could not be looked into, and why."""
    found, problems = asyncio.run(_look(arguments.place))
    chosen = [one for one in found if arguments.all or one.info.is_running]
    if arguments.json:
        print_json([_as_data(one) for one in chosen])
    else:
        print_table(("ID", "ENVIRONMENT", "PID", "STATE", "AGE", "OUTPUT", "COMMAND"), map(_row, chosen))
    for problem in problems:
        complain(problem, 0)
    return 0


async def _look(wanted: str | None) -> tuple[list[Found], list[str]]:
    async with attached(wanted) as places:
        listed = await asyncio.gather(*map(processes_of, places))
    return [found for listing in listed for found in listing], problems_of(places)


def _row(found: Found) -> tuple[str, ...]:
    info, environment = found.info, found.environment
    return (
        info.id,
        environment.task or environment.id,
        str(info.pid or "-"),
        _state(info),
        age(info.started),
        size(info.out + (info.err or 0)),
        info.command,
    )


def _state(info: ProcessInfo) -> str:
    if info.ending is None:
        return info.state
    return f"{info.ending}, {info.left} left" if info.left else str(info.ending)


def _as_data(found: Found) -> dict[str, object]:
    place = {"environment": found.environment.id, "task": found.environment.task, "kind": found.environment.kind}
    fields: dict[str, object] = msgspec.to_builtins(found.info)
    return {"id": fields.pop("id"), **place, "process_kind": fields.pop("kind"), **fields}
