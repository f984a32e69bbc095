"""Garbage collection: removes what killed processes left of ended environments, and never a living
one.
"""

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial

from hermetic.contract.environment import Backend, EnvironmentRecord
from hermetic.contract.errors import (
    ConfigError,
    EnvironmentUnavailable,
    ExecutionError,
    Unreachable,
)
from hermetic.contract.fleet import Removed
from hermetic.contract.limits import UNATTENDED
from hermetic.environments import catalog
from hermetic.environments.local_resident import end_listener
from hermetic.environments.runtime import store
from hermetic.environments.unix_socket import is_listened_in, listeners
from hermetic.fleet.reaching import reach
from hermetic.registry.janitor import NAME as JANITOR
from hermetic.registry.janitor import remove_dead_socket
from hermetic.registry.janitor_process import remove_tree
from hermetic.registry.private import spool_base
from hermetic.registry.records import DamagedRecord, Records, is_id
from hermetic.session.environment import forget

LOCK = ".lock"


async def collect(
    records: Records, ids: Sequence[str] = (), problems: list[str] | None = None
) -> list[Removed]:
    """Removes leftovers, or only the environments with these ids; skips those that are locked or
    alive.

    The reasons why some cannot be reached now are added to `problems`.
    """
    problems = [] if problems is None else problems
    removed = [one async for one in _environments(records, ids, problems)]
    if ids:
        return [*removed, *[one async for one in _elsewhere(records, ids, problems)]]
    for leftovers in (
        _directories,
        partial(_elsewhere, ids=(), problems=problems),
        _spools,
        _locks,
        _runtimes,
    ):
        removed += [one async for one in leftovers(records)]
    return removed


async def _environments(
    records: Records, ids: Sequence[str], problems: list[str]
) -> AsyncIterator[Removed]:
    """Records whose resident is gone, or has not answered for as long as it may be unattended."""
    for record in records.all():
        if ids and record.id not in ids:
            continue
        async with records.lock_at_once(record.id) as is_ours:
            try:
                if (
                    is_ours
                    and records.read(record.id) == record
                    and await _remove_ended(record, records)
                ):
                    yield Removed(what="environment", name=record.task or record.id)
            except (OSError, ExecutionError) as error:  # it may live and be unreachable now
                problems.append(f"{record.task or record.id}: {error}")


async def _remove_ended(record: EnvironmentRecord, records: Records) -> bool:
    """False if it lives.

    Raises EnvironmentUnavailable, ConfigError or OSError if that is not known.
    """
    backend = catalog.find(record.kind)(record.options)
    try:
        attached = await reach(record, records, patience=0)
    except Unreachable as error:
        if error.state == "full":
            return False
        if error.state != "stalled" or not await _is_overdue(record, records, backend):
            raise
        attached = None
    if attached is not None:
        await attached.link.close()
        return False
    await backend.remove(record)
    forget(record, records)
    return True


async def _is_overdue(record: EnvironmentRecord, records: Records, backend: Backend) -> bool:
    """Whether a stalled resident has not answered for as long as it may be unattended while
    something runs.

    The lease does not count: it runs only without clients and processes, which only the resident
    knows. A container that its engine paused is not overdue.
    """
    if records.stalled_for(record.id) < record.options.get("unattended", UNATTENDED):
        return False
    is_paused = getattr(backend, "is_paused", None)
    return is_paused is None or not await is_paused(record)


async def end_damaged(records: Records, id: str) -> str:
    """Ends the resident of a damaged record, found by its socket, and removes its files; the text
    says what was done.

    Raises EnvironmentUnavailable if the process cannot be ended.
    """
    async with records.lock(id):
        pids = await listeners(records.root / id)
        for pid in pids:
            await end_listener(pid)
        records.discard(id)
    await collect(records)  # its container and its spool, found by their names
    return f"ended process {', '.join(map(str, pids))}" if pids else "nothing lived there"


async def _directories(records: Records) -> AsyncIterator[Removed]:
    """Directories of openers that were killed before they could write a record, or after they had
    moved it away.
    """
    for name in sorted(os.listdir(records.root)):
        if name.startswith(".") and is_id(name[1:].partition(".")[0]):
            remove_tree(records.root / name)
            yield Removed(what="directory", name=name)
        elif is_id(name):
            async with _abandoned(records, name) as it_is:
                if it_is and not await is_listened_in(records.root / name):
                    remove_tree(records.root / name)
                    yield Removed(what="directory", name=name)
    if await remove_dead_socket(str(records.root)):
        yield Removed(what="lock", name=JANITOR)


async def _elsewhere(
    records: Records, ids: Sequence[str], problems: list[str]
) -> AsyncIterator[Removed]:
    """Containers and sandboxes without a record, found by each kind; with `ids` only what openers of
    these that were killed have created elsewhere.
    """

    @asynccontextmanager
    async def abandoned(id: str) -> AsyncIterator[bool]:
        async with _abandoned(records, id) as it_is:
            yield it_is and (not ids or id in ids)

    for kind in catalog.kinds():
        may_be_billed = False
        try:
            backend = catalog.find(kind)
            may_be_billed = getattr(backend, "orphans", False)
            collect_kind = getattr(backend, "collect", None)
            if collect_kind is not None and (may_be_billed or not ids):
                for name in await collect_kind(str(records.root), abandoned):
                    yield Removed(what="place", name=name)
        except (OSError, EnvironmentUnavailable, ConfigError) as error:
            if may_be_billed:
                problems.append(str(error))  # without an engine there are no containers


async def _spools(records: Records) -> AsyncIterator[Removed]:
    """Directories for output, of this runtime directory's environments alone."""
    base = spool_base()
    for path in sorted(base.iterdir()) if base is not None else ():
        id, _, rest = path.name.partition(".")
        if is_id(id) and rest.startswith(f"{records.tag}."):
            async with _abandoned(records, id, spool=str(path)) as it_is:
                if it_is and not await is_listened_in(records.root / id):
                    remove_tree(path)
                    yield Removed(what="spool", name=str(path))


async def _locks(records: Records) -> AsyncIterator[Removed]:
    """Lock files without a holder."""
    for name in sorted(os.listdir(records.root)):
        if name.endswith(LOCK):
            async with records.lock_at_once(name.removesuffix(LOCK)) as is_ours:
                if is_ours:
                    yield Removed(what="lock", name=name)


async def _runtimes(records: Records) -> AsyncIterator[Removed]:
    """Portable runtimes that no environment names and that were not used for long."""
    with suppress(ConfigError):  # no cache
        for name in await store.collect(
            {record.place.get("runtime", "") for record in records.all()}
        ):
            yield Removed(what="runtime", name=name)


@asynccontextmanager
async def _abandoned(records: Records, id: str, *, spool: str | None = None) -> AsyncIterator[bool]:
    """True when no record has this id, or this spool, and no process opens it; its lock is held
    then.
    """
    async with records.lock_at_once(id) as is_ours:
        try:
            record = records.read(id) if is_ours else None
            is_unknown = record is None or (spool is not None and record.spool != spool)
        except DamagedRecord:
            is_unknown = not await is_listened_in(records.root / id)
        yield is_ours and is_unknown
