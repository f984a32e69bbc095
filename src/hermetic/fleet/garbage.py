"""What processes that are gone left of environments that are gone: found, and taken away, never anything that lives."""

import os
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from hermetic.contract.environment import Backend, EnvironmentRecord
from hermetic.contract.errors import ConfigError, EnvironmentUnavailable, ExecutionError, Unreachable
from hermetic.contract.fleet import Removed
from hermetic.contract.limits import UNATTENDED
from hermetic.environments import catalog
from hermetic.environments.beside import end_listener
from hermetic.environments.unix_socket import is_listened_in, listeners
from hermetic.fleet.reaching import reach
from hermetic.registry.janitor import NAME as JANITOR
from hermetic.registry.janitor import remove_dead_socket
from hermetic.registry.private import spool_base
from hermetic.registry.records import DamagedRecord, Records, is_id
from hermetic.session.environment import forget

LOCK = ".lock"


async def collect(records: Records, problems: list[str] | None = None) -> list[Removed]:
    """Takes it away; what is held by somebody's lock, or answers, or cannot be asked now, is left alone.

    `problems` gets why environments could not be asked.
    """
    return [
        *[removed async for removed in _environments(records, problems=problems)],
        *[removed async for removed in _directories(records)],
        *[removed async for removed in _places(records)],
        *[removed async for removed in _spools(records)],
        *[removed async for removed in _locks(records)],
    ]


async def collect_some(records: Records, ids: Sequence[str]) -> tuple[list[Removed], list[str]]:
    """The same for environments with these ids alone; and why some of them could not be looked at."""
    problems: list[str] = []
    return [removed async for removed in _environments(records, ids, problems)], problems


async def _environments(
    records: Records, ids: Sequence[str] | None = None, problems: list[str] | None = None
) -> AsyncIterator[Removed]:
    """Records whose resident is gone, or has not answered for as long as it may be unattended."""
    for record in records.all():
        if ids is not None and record.id not in ids:
            continue
        async with records.lock_at_once(record.id) as is_ours:
            try:
                if is_ours and records.read(record.id) == record and await _took_away(record, records):
                    yield Removed(what="environment", name=record.task or record.id)
            except (OSError, ExecutionError) as error:  # it may live where we cannot get to now
                if problems is not None:
                    problems.append(f"{record.task or record.id}: {error}")


async def _took_away(record: EnvironmentRecord, records: Records) -> bool:
    """False where it lives. Raises EnvironmentUnavailable, ConfigError or OSError where it cannot be looked at."""
    backend = catalog.find(record.kind)(record.options)
    try:
        living = await reach(record, records, patience=0)
    except Unreachable as error:
        if error.state == "full":
            return False
        if error.state != "stalled" or not await _is_overdue(record, records, backend):
            raise
        living = None
    if living is not None:
        await living.link.close()
        return False
    await backend.remove(record)
    forget(record, records)
    return True


async def _is_overdue(record: EnvironmentRecord, records: Records, backend: Backend) -> bool:
    """Whether a stalled resident has not answered for as long as it may be unattended while something runs.

    Its lease is not asked: it counts only while nobody is attached and nothing runs, which only the resident knows.
    One that its engine paused is not overdue.
    """
    if records.stalled_for(record.id) < record.options.get("unattended", UNATTENDED):
        return False
    is_paused = getattr(backend, "is_paused", None)
    return is_paused is None or not await is_paused(record)


async def end_damaged(records: Records, id: str) -> str:
    """Ends what lives under a record that cannot be used, found by its socket, and removes what it had; what was done.

    Raises EnvironmentUnavailable where the process cannot be ended.
    """
    async with records.lock(id):
        pids = listeners(records.root / id)
        for pid in pids:
            await end_listener(pid)
        records.discard(id)
    await collect(records)  # its container and its spool, which are known by their names
    return f"ended process {', '.join(map(str, pids))}" if pids else "nothing lived there"


async def _directories(records: Records) -> AsyncIterator[Removed]:
    """Directories of openers that were killed before they could write a record, or after they had moved it away."""
    for name in sorted(os.listdir(records.root)):
        if name.startswith(".") and is_id(name[1:].partition(".")[0]):
            shutil.rmtree(records.root / name, ignore_errors=True)
            yield Removed(what="directory", name=name)
        elif is_id(name):
            async with _abandoned(records, name) as it_is:
                if it_is and not await is_listened_in(records.root / name):
                    shutil.rmtree(records.root / name, ignore_errors=True)
                    yield Removed(what="directory", name=name)
    if await remove_dead_socket(str(records.root)):
        yield Removed(what="lock", name=JANITOR)


async def _places(records: Records) -> AsyncIterator[Removed]:
    """Containers and the like that outlived their records; each kind knows its own."""
    for kind in catalog.kinds():
        try:
            collect_places = getattr(catalog.find(kind), "collect", None)
            if collect_places is not None:
                for name in await collect_places(str(records.root), lambda id: _abandoned(records, id)):
                    yield Removed(what="place", name=name)
        except (OSError, EnvironmentUnavailable, ConfigError):
            continue  # no engine, no places


async def _spools(records: Records) -> AsyncIterator[Removed]:
    """Directories for output, of this runtime directory's environments alone."""
    base = spool_base()
    for path in sorted(base.iterdir()) if base is not None else ():
        id, _, rest = path.name.partition(".")
        if is_id(id) and rest.startswith(f"{records.mark}."):
            async with _abandoned(records, id, spool=str(path)) as it_is:
                if it_is and not await is_listened_in(records.root / id):
                    shutil.rmtree(path, ignore_errors=True)
                    yield Removed(what="spool", name=str(path))


async def _locks(records: Records) -> AsyncIterator[Removed]:
    """Files that only tell of a lock which nobody holds."""
    for name in sorted(os.listdir(records.root)):
        if name.endswith(LOCK):
            async with records.lock_at_once(name.removesuffix(LOCK)) as is_ours:
                if is_ours:
                    yield Removed(what="lock", name=name)


@asynccontextmanager
async def _abandoned(records: Records, id: str, *, spool: str | None = None) -> AsyncIterator[bool]:
    """True when no record has this id, or not this spool, and nobody is opening it; its lock is held then."""
    async with records.lock_at_once(id) as is_ours:
        try:
            record = records.read(id) if is_ours else None
            is_unknown = record is None or (spool is not None and record.spool != spool)
        except DamagedRecord:
            is_unknown = not await is_listened_in(records.root / id)
        yield is_ours and is_unknown
