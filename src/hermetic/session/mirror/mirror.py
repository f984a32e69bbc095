"""Directories of this machine kept the same in an environment: sent before commands, taken back
when it is closed.
"""

import asyncio
import logging
import os
import secrets
import tarfile
import tempfile
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import msgspec

from hermetic.contract.endings import Exited
from hermetic.contract.environment import EnvironmentRecord
from hermetic.contract.errors import EnvironmentUnavailable, ExecutionError
from hermetic.contract.limits import SYNC_BACK, SYNC_PAUSE, SYNC_TRIES
from hermetic.environments.profile import CACHES, INSIDE, SKILLS
from hermetic.link.failures import ResidentGone
from hermetic.link.link import Link
from hermetic.registry.private import spool_base
from hermetic.registry.records import Records
from hermetic.session.files import Files
from hermetic.session.mirror.arrivals import Arrivals
from hermetic.session.mirror.there import GIVE_BACK, STAGING, TAKE_IN
from hermetic.session.mirror.tree import Entry, pack, scan
from hermetic.session.session import Session

FORCE = "HERMETIC_FORCE_SYNC"  # set: look before every command
STATE = "sync.json"

Sent = dict[str, dict[str, Entry]]  # directory here → path → what was sent

_log = logging.getLogger("hermetic.sync")


class Mirror:
    """The directories `sync` (here → there) of one environment. Another process may mirror the same
    ones.

    Of the directory `profile` only credential files, skills and caches are sent, and nothing of it
    comes back.
    """

    def __init__(self, link: Link, record: EnvironmentRecord, records: Records) -> None:
        self._session = Session(link, "")
        self._files = Files(link, "")
        self._record = record
        self._records = records
        options = record.options
        self._pairs: dict[str, str] = dict(options["sync"])
        self._profile: str | None = options["profile"] or None
        self._given = (*options["credential_files"], SKILLS, *CACHES) if self._profile else ()
        self._looked = float("-inf")
        self._lock = asyncio.Lock()

    def __repr__(self) -> str:
        return f"<Mirror of {', '.join(self._pairs)} in {self._record.id}>"

    async def send(self) -> None:
        """Sends what has changed here since the last time, unless that is only seconds ago.

        Raises EnvironmentUnavailable; then the next call sends the same again.
        """
        loop = asyncio.get_running_loop()
        async with self._lock:
            if loop.time() - self._looked < SYNC_PAUSE and not os.environ.get(FORCE):
                return
            async with self._records.lock(f"{self._record.id}-sync"):
                for here, there in self._pairs.items():
                    with self._explained(f"{here} could not be sent to {there}"):
                        await self._send(here, there)
                if self._profile is not None:
                    with self._explained(f"the profile {self._profile} could not be sent"):
                        await self._send(self._profile, INSIDE, self._given)
            self._looked = loop.time()

    async def take_back(self) -> None:
        """Takes what commands have changed there. It is finished before a cancelled caller goes on.

        Raises EnvironmentUnavailable when all attempts fail; the files then stay there.
        """
        taking = asyncio.ensure_future(self._take_back())
        try:
            await asyncio.shield(taking)
        except asyncio.CancelledError:
            while not taking.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([taking])
            taking.result()
            raise

    async def _take_back(self) -> None:
        async with self._lock, self._records.lock(f"{self._record.id}-sync"):
            for here, there in self._pairs.items():
                for attempt in range(1, SYNC_TRIES + 1):
                    try:
                        with self._explained(f"{there} did not come back to {here}"):
                            await self._take(here, there)
                        break
                    except EnvironmentUnavailable as error:
                        if attempt == SYNC_TRIES or isinstance(error.__cause__, ResidentGone):
                            raise
                        await asyncio.sleep(2.0**attempt)

    @contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        try:
            yield
        except (ExecutionError, OSError, tarfile.TarError) as error:
            raise EnvironmentUnavailable(f"{what}: {error}", environment=self._record.id) from error

    async def _send(self, here: str, there: str, only: Sequence[str] | None = None) -> None:
        sent = self._read_state()
        key = here if only is None else f"{here} profile"
        before = sent.get(key, {})
        now = await asyncio.to_thread(scan, here, STAGING, _log.warning, only)
        changed = {path: entry for path, entry in now.items() if not entry.is_as(before.get(path))}
        gone = [path for path in before if path not in now]
        if not changed and not gone and key in sent:
            return
        async with self._staging(there) as (folder, staging):
            with tempfile.TemporaryFile(dir=spool_base()) as archive:
                packed = await asyncio.to_thread(pack, here, changed, archive)
                await self._session.upload(f"/proc/self/fd/{archive.fileno()}", f"{staging}/tar")
            await self._session.write_file(f"{staging}/gone", _joined(gone))
            await self._python(TAKE_IN, folder, staging)
        kept = {path: entry for path, entry in before.items() if path in now}
        self._write_state({**sent, key: {**kept, **packed}})

    async def _take(self, here: str, there: str) -> None:
        sent = self._read_state()
        if here not in sent:
            return  # no command ran that could have changed anything
        known = sent[here]
        words = [word for path, entry in known.items() for word in (path, entry.digest)]
        with tempfile.TemporaryDirectory(prefix=STAGING, dir=spool_base()) as aside:
            async with self._staging(there) as (folder, staging):
                await self._session.write_file(f"{staging}/known", _joined(words))
                await self._run(
                    self._record.place.get("python", "python3"),
                    "-I",
                    "-S",
                    "-c",
                    GIVE_BACK,
                    folder,
                    staging,
                    str(SYNC_BACK),
                )
                await self._files.download(f"{staging}/tar", f"{aside}/tar", most=2 * SYNC_BACK)
            came = await asyncio.to_thread(
                Arrivals(here, known, _log.warning).unpack, f"{aside}/tar"
            )
        self._write_state({**sent, here: {**known, **came}})

    @asynccontextmanager
    async def _staging(self, there: str) -> AsyncIterator[tuple[str, str]]:
        """The directory there as a whole path, and a private one in it that is taken away
        afterwards.
        """
        name = f"{STAGING}{secrets.token_hex(4)}"
        text = 'cd && mkdir -p -- "$0" && cd -- "$0" && mkdir -m 700 -- "$1" && pwd -P'
        folder = (await self._run("sh", "-c", text, there, name)).removesuffix("\n")
        try:
            yield folder, f"{folder}/{name}"
        finally:
            await self._run("rm", "-rf", f"{folder}/{name}")

    async def _python(self, code: str, *arguments: str) -> None:
        python = self._record.place.get("python", "python3")
        await self._run(python, "-I", "-S", "-c", code, *arguments)

    async def _run(self, *words: str) -> str:
        done = await self._session.run(words)
        if done.ending != Exited(0):
            raise OSError(done.output.strip().rpartition("\n")[2] or str(done.ending))
        return done.output

    def _read_state(self) -> Sent:
        try:
            return msgspec.json.decode(self._state.read_bytes(), type=Sent)
        except (OSError, msgspec.DecodeError):
            return {}

    def _write_state(self, sent: Sent) -> None:
        aside = self._state.with_suffix(".new")
        aside.write_bytes(msgspec.json.encode(sent))
        aside.rename(self._state)

    @property
    def _state(self) -> Path:
        return Path(self._record.directory, STATE)


def _joined(words: Iterable[str]) -> bytes:
    return b"".join(os.fsencode(word) + b"\0" for word in words)
