"""Internals of an environment for fleets, tools and the gate, which its user does not need."""

from typing import Any

import msgspec

from hermetic.contract.approval import Guard
from hermetic.contract.environment import EnvironmentRecord
from hermetic.contract.errors import EnvironmentUnavailable
from hermetic.link import answers
from hermetic.link.link import Link
from hermetic.session.environment import Environment
from hermetic.session.session import Session


def record_of(environment: Environment) -> EnvironmentRecord:
    """What this host remembers of it."""
    return environment._record


def link_of(session: Session) -> Link:
    """The connection to its resident: for requests that no method of a session makes, and to see
    how it is used.
    """
    return session._link


async def detach(environment: Environment) -> None:
    """Closes our link alone.

    `close` would also copy files back from an environment that mirrors a directory.
    """
    await environment._link.close()


def put_behind(environment: Environment, guard: Guard) -> None:
    """From now on the guard decides on what is run, typed and written there."""
    environment._guard = guard


async def set_lease(environment: Environment, seconds: float) -> None:
    """How long it lives from now on without an attached client, whatever runs there.

    Raises EnvironmentUnavailable.
    """
    await environment._link.ask("lease", answers.done, lease=seconds, unattended=seconds)


async def give_to_task(environment: Environment, task: str) -> Environment:
    """An environment that was opened without a task, as that task's; the old object is not to be
    used any more.

    The lock of the task's id is held by the caller. Raises EnvironmentUnavailable when it is gone.
    """
    record, records, link = environment._record, environment._records, environment._link
    clocks = {
        name: record.options[name] for name in ("lease", "unattended") if name in record.options
    }
    await link.ask("lease", answers.done, **clocks)
    given = msgspec.structs.replace(record, task=task)
    async with records.lock(record.id):
        try:
            records.write(given)
        except OSError as error:
            raise EnvironmentUnavailable(
                f"environment {record.id} is gone: {error}", environment=record.id
            ) from error
    environment._is_closed = True
    held = environment._held
    return Environment(environment._backend, given, link, records, ends_on_close=False, held=held)


async def disk_bytes(environment: Environment, spool_bytes: int | None) -> int:
    """What it takes on disks, as far as anybody can tell: output that is kept, and the place
    itself.
    """
    measure: Any = getattr(environment._backend, "disk_bytes", None)
    place = 0 if measure is None else await measure(environment._record)
    return (spool_bytes or 0) + place
