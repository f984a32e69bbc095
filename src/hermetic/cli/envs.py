"""`hermetic envs`: the environments of this user on this machine."""

import argparse
import asyncio
from typing import TYPE_CHECKING, NamedTuple

from hermetic.cli.command import complain
from hermetic.cli.places import Place, attached
from hermetic.cli.report import age, print_json, print_table, size, span
from hermetic.contract.environment import EnvironmentInfo
from hermetic.contract.errors import EnvironmentUnavailable
from hermetic.registry.records import Records, runtime_root
from hermetic.session.keeping import disk_bytes

if TYPE_CHECKING:
    from hermetic.cli.command import SubParsers


class Seen(NamedTuple):
    """An environment, and what its resident says if it lives."""

    place: Place
    info: EnvironmentInfo | None
    disk: int | None = None  # bytes


def add_parser(subparsers: "SubParsers") -> None:
    """Declares the arguments."""
    parser = subparsers.add_parser("envs", description="The environments of this user on this machine.")
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Prints the environments."""
    seen = asyncio.run(_look())
    if arguments.json:
        print_json([_as_data(one) for one in seen])
    else:
        headings = ("ID", "KIND", "TASK", "STATE", "AGE", "RUNNING", "ATTACHED", "MEMORY", "DISK", "LEASE")
        print_table(headings, map(_row, seen))
    for damaged in Records(runtime_root()).damaged():
        complain(damaged, 0)
    return 0


async def _look() -> list[Seen]:
    async with attached() as places:
        return list(await asyncio.gather(*map(_ask, places)))


async def _ask(place: Place) -> Seen:
    if place.environment is None:
        return Seen(place, None)
    try:
        info = await place.environment.info()
    except EnvironmentUnavailable:
        return Seen(place, None)
    try:
        return Seen(place, info, await disk_bytes(place.environment, info.spool_bytes))
    except EnvironmentUnavailable:  # the engine does not answer; the resident did
        return Seen(place, info)


def _state(seen: Seen) -> str:
    """alive, gone, or why it cannot be used now."""
    return "alive" if seen.info else "gone" if seen.place.environment else seen.place.state


def _row(seen: Seen) -> tuple[str, ...]:
    record, info = seen.place.record, seen.info
    known = (record.id, record.kind, record.task or "-")
    if info is None:
        return (*known, _state(seen), age(record.created), "-", "-", "-", "-", "-")
    memory = "-" if info.rss is None else size(info.rss)
    # We ourselves are attached while we look.
    attached_others = str(max(0, info.clients - 1))
    used = (memory, "-" if seen.disk is None else size(seen.disk))
    return (*known, "alive", age(record.created), str(info.processes), attached_others, *used, span(info.lease))


def _as_data(seen: Seen) -> dict[str, object]:
    record = seen.place.record
    return {
        "id": record.id, "kind": record.kind, "task": record.task, "created": record.created,
        "options": record.options, "alive": seen.info is not None, "state": _state(seen),
        "info": seen.info, "disk_bytes": seen.disk, "notes": record.notes,
    }  # fmt: skip
