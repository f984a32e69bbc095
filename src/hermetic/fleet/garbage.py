"""What processes that are gone left of environments that are gone: found, and taken away, never anything that lives."""

import os
import shutil
import stat
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from hermetic.contract.environment import EnvironmentRecord
from hermetic.contract.errors import ConfigError, EnvironmentUnavailable
from hermetic.contract.fleet import Removed
from hermetic.environments import catalog
from hermetic.environments.janitor import NAME as JANITOR
from hermetic.environments.janitor import bury
from hermetic.environments.private import spool_base
from hermetic.environments.records import Records, is_id
from hermetic.environments.unix_socket import connect
from hermetic.session.environment import forget

LOCK = ".lock"


async def collect(records: Records) -> list[Removed]:
    """Takes it away; what is held by somebody's lock, or answers, or cannot be asked now, is left alone."""
    return [
        *[removed async for removed in _environments(records)],
        *[removed async for removed in _directories(records)],
        *[removed async for removed in _places(records)],
        *[removed async for removed in _spools(records)],
        *[removed async for removed in _locks(records)],
    ]


async def collect_some(records: Records, ids: Sequence[str]) -> list[Removed]:
    """The same for environments with these ids alone."""
    return [removed async for removed in _environments(records, ids)]


async def _environments(records: Records, ids: Sequence[str] | None = None) -> AsyncIterator[Removed]:
    """Records whose resident is gone."""
    for record in records.all():
        if ids is not None and record.id not in ids:
            continue
        async with records.lock_at_once(record.id) as is_ours:
            if is_ours and records.read(record.id) == record and await _took_away(record, records):
                yield Removed(what="environment", name=record.task or record.id)


async def _took_away(record: EnvironmentRecord, records: Records) -> bool:
    try:
        backend = catalog.find(record.kind)(record.options)
        (await backend.reach(record)).close()
    except (FileNotFoundError, ConnectionRefusedError):
        pass
    except (OSError, EnvironmentUnavailable, ConfigError):
        return False  # it may live where we cannot get to now
    else:
        return False
    try:
        await backend.remove(record)
    except EnvironmentUnavailable:
        return False
    forget(record, records)
    return True


async def _directories(records: Records) -> AsyncIterator[Removed]:
    """Directories of openers that were killed before they could write a record, or after they had moved it away."""
    for name in sorted(os.listdir(records.root)):
        if name.startswith(".") and is_id(name[1:].partition(".")[0]):
            shutil.rmtree(records.root / name, ignore_errors=True)
            yield Removed(what="directory", name=name)
        elif is_id(name):
            async with _abandoned(records, name) as it_is:
                if it_is and not await _is_listened_in(records.root / name):
                    shutil.rmtree(records.root / name, ignore_errors=True)
                    yield Removed(what="directory", name=name)
    if await bury(str(records.root)):
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
                if it_is and not await _is_listened_in(records.root / id):
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
        record = records.read(id) if is_ours else None
        yield is_ours and (record is None or (spool is not None and record.spool != spool))


async def _is_listened_in(directory: Path) -> bool:
    """True when a resident lives there, though nobody knows of it: it ends by its lease."""
    for path in _sockets(directory):
        try:
            (await connect(path)).close()
        except OSError:
            continue
        return True
    return False


def _sockets(directory: Path) -> Iterator[str]:
    for folder, _, names in os.walk(directory):
        for name in names:
            path = os.path.join(folder, name)
            if stat.S_ISSOCK(os.lstat(path).st_mode):
                yield path
