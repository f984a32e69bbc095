"""Opening environments and attaching to living ones."""

import asyncio
import errno
import os
import secrets
import shlex
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Generator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from hermetic.approvals.settings import ApprovalSettings
from hermetic.contract.approval import Approver, Mode
from hermetic.contract.concurrency import in_thread, shielded
from hermetic.contract.environment import Backend, EnvironmentRecord, NewEnvironment
from hermetic.contract.errors import ConfigError, EnvironmentUnavailable, InvalidArgument
from hermetic.contract.limits import FIRST_CLIENT, TASK_LENGTH
from hermetic.contract.variables import is_text
from hermetic.environments import catalog
from hermetic.environments.starting import MOST_STDERR
from hermetic.environments.unix_socket import is_listened_in, peer_pid
from hermetic.fleet.reaching import check_of, link_to, reach, scarce
from hermetic.link.archive import read_modules
from hermetic.link.link import Link
from hermetic.registry.file_lock import wait_until_unused
from hermetic.registry.host_process import is_scarce
from hermetic.registry.janitor import JanitorClient
from hermetic.registry.janitor_process import remove_tree
from hermetic.registry.private import spool_base
from hermetic.registry.records import (
    RECORD,
    SETTING,
    DamagedRecord,
    Records,
    id_for_task,
    new_id,
    runtime_path,
    runtime_root,
)
from hermetic.resident.lazy import Lazy
from hermetic.session.environment import Environment, end, forget
from hermetic.session.keeping import put_behind

if TYPE_CHECKING:
    from hermetic.approvals import gate as gates
else:
    gates = Lazy("hermetic.approvals.gate")

# Seconds: a resident writes a lost record again within 5, and one whose opener was killed before
# the record ends.
REWRITTEN = FIRST_CLIENT + 5.0
PAUSE = 0.1
NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


class LivesOtherwise(ConfigError):
    """The task lives with other options than those it was to be opened with."""

    def __init__(self, task: str, differing: list[str]) -> None:
        self.task, self.differing = task, tuple(differing)
        self.problem = (
            f"task {task!r} lives with other options: {', '.join(differing)}; leave them out"
        )
        super().__init__(
            f"{self.problem}, or end it first: replace=True, or `hermetic rm {shlex.quote(task)}`",
            setting=differing[0],
        )


class Opening:
    """An environment to come: await it, or use it in `async with`, which closes it at the end."""

    def __init__(
        self,
        make: Callable[[], Awaitable[Environment]],
        guard: Callable[[Environment], None],
        call: str,
    ) -> None:
        self._make = make
        self._guard = guard
        self._call = call  # as the caller wrote it, for messages
        self._is_entered = False
        self._environment: Environment | None = None

    def __repr__(self) -> str:
        return f"<Opening by {self._call}: await it, or use `async with`>"

    def __await__(self) -> Generator[Any, None, Environment]:
        return self._opened().__await__()

    async def _opened(self) -> Environment:
        environment = await self._make()
        self._guard(environment)
        return environment

    async def __aenter__(self) -> Environment:
        if self._is_entered:
            raise RuntimeError(f"another `async with` uses this opening; call {self._call} again")
        self._is_entered = True
        try:
            self._environment = await self
        except BaseException:
            self._is_entered = False
            raise
        return self._environment

    async def __aexit__(self, *_: object) -> None:
        assert self._environment is not None, "it was entered"
        environment, self._environment, self._is_entered = self._environment, None, False
        await environment.close()

    if not TYPE_CHECKING:  # checkers say it in their own words

        def __getattr__(self, name: str) -> object:
            if name.startswith("_"):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            raise AttributeError(
                f"{self._call} gives no environment before it is awaited, so it has no {name!r}; {self._advice()}"
            )

        def _advice(self) -> str:
            return (
                f"write `await {self._call}` or `async with {self._call} as env`; "
                "without async, use hermetic.blocking"
            )

        def __enter__(self) -> object:
            raise TypeError(f"`with` takes no {self._call}; {self._advice()}")

        def __exit__(self, *_: object) -> None:
            """Never called."""


def open(
    kind: str,
    *,
    task: str | None = None,
    replace: bool = False,
    policy: Literal["ask", "deny", "allow"] | None = None,
    approver: Approver | None = None,
    **options: Any,
) -> Opening:
    """Opens an environment of this kind. With `task`, attaches to the living one of that task.

    With `policy` ("ask", "deny" or "allow"), this caller's commands, input and writes are judged
    first, and `approver` is asked about dangerous ones; without it, the caller is trusted. Raises:
    ConfigError for an unknown kind or option, and for a living task with other options unless
    `replace=True`; EnvironmentUnavailable when it does not come up; Unreachable when the task's
    environment may live and does not let this caller in: nothing is ended then, and nothing
    started.
    """
    return Opening(
        lambda: open_environment(kind, task, options, replace=replace),
        _guarding(policy, approver),
        f"hermetic.open({kind!r}, …)" if options or task else f"hermetic.open({kind!r})",
    )


def attach(
    task_or_id: str,
    *,
    policy: Literal["ask", "deny", "allow"] | None = None,
    approver: Approver | None = None,
) -> Opening:
    """Attaches to a living environment by its task or id.

    Raises: EnvironmentUnavailable when there is none; Unreachable when it may live and does not let
    this caller in.
    """
    return Opening(
        lambda: attach_environment(task_or_id),
        _guarding(policy, approver),
        f"hermetic.attach({task_or_id!r})",
    )


def _guarding(policy: Mode | None, approver: Approver | None) -> Callable[[Environment], None]:
    """A function that puts the gate before an environment.

    The policy is imported on demand: that is slow.
    """
    if policy is None and approver is None:
        return lambda environment: None
    if policy not in (None, "ask", "deny", "allow"):
        raise ConfigError(
            f'policy must be "ask", "deny", "allow" or None, not {policy!r}', setting="policy"
        )
    gate = gates.make_gate(ApprovalSettings(mode=policy or "ask"), approver)
    return lambda environment: put_behind(environment, gates.EnvironmentGuard(gate, environment))


class StartRequest(NamedTuple):
    """A new environment that is wanted, while the lock of its record is held."""

    backend: Backend
    records: Records
    id: str
    task: str | None
    janitor: JanitorClient
    token: bytes | None = None  # of the new resident; None: a new one
    observes: bool = False  # the client attaches later; this one prolongs no lease


Start = Callable[[StartRequest], Awaitable[Environment]]


async def open_environment(
    kind: str,
    task: str | None,
    options: Mapping[str, Any],
    *,
    replace: bool = False,
    start: Start | None = None,
    tolerated: Collection[str] = (),
) -> Environment:
    """As `open`; `start` makes the environment where none lives, or gets one from elsewhere.

    A living environment may differ in the options that are `tolerated`.
    """
    async with _no_bare_errors():
        backend = catalog.find(kind)(options)  # its module may have to be imported
    if task is not None and (fault := _fault_of(task)):
        raise ConfigError(fault, setting="task")
    records = Records(runtime_root())
    id = new_id() if task is None else id_for_task(task)
    async with _no_bare_errors(), _janitor_for(backend, records, id) as janitor, records.lock(id):
        if task is not None and (
            record := await _known(records, task) or await _unrecorded(records, task)
        ):
            attached = await reach(record, records)
            if attached is not None:
                differing = [
                    name for name in _differing(record, backend, options) if name not in tolerated
                ]
                if not differing:
                    janitor.done()
                    return Environment(*attached, records, ends_on_close=False)
                if replace:
                    await end(*attached, records)
                await attached.link.close()
                if not replace:
                    raise LivesOtherwise(task, differing)
            else:
                await remove_rest(record, records)
        return await (start or start_new)(StartRequest(backend, records, id, task, janitor))


def _fault_of(task: object) -> str:
    """Why a value is no valid task; empty if it is one."""
    if not isinstance(task, str) or not task:
        return f"a task must be a text that is not empty, not {task!r}; None is an environment of its own"
    if len(task) > TASK_LENGTH:
        start, length = task[:32], len(task)
        return f"the task {start!r}… has {length} characters, the most is {TASK_LENGTH}; use a shorter one, or its hash"
    return "" if is_text(task) else f"the task {task!r} is not valid UTF-8; use another key"


async def attach_environment(
    task_or_id: str, patience: float | None = None, *, observes: bool = False
) -> Environment:
    """As `attach`; `patience` is how many seconds are waited for one that is stalled, full or busy.

    With `observes` the client does not prolong the lease of the environment.
    """
    if fault := _fault_of(task_or_id):
        raise InvalidArgument(fault, argument="task_or_id")
    async with _no_bare_errors():
        records = Records(runtime_root())
        record = records.find(task_or_id)
        attached = await reach(record, records, patience, observes=observes) if record else None
    if attached is None:
        known = ", ".join(other.task or other.id for other in records.all()) or "none"
        raise EnvironmentUnavailable(
            f"no environment {task_or_id!r} lives here; open it. Known here: {known}",
            environment=task_or_id,
        )
    return Environment(*attached, records, ends_on_close=False)


async def is_living(task: str) -> bool:
    """Whether a task's environment answers; starts nothing. Raises Unreachable, ConfigError."""
    if fault := _fault_of(task):
        raise ConfigError(fault, setting="task")
    records = Records(runtime_root())
    async with _no_bare_errors():
        record = await _known(records, task)
        attached = await reach(record, records) if record else None
    if attached is None:
        return False
    await attached.link.close()
    return True


async def _known(records: Records, task: str) -> EnvironmentRecord | None:
    """The record of a task. Raises DamagedRecord if it is damaged and a resident lives there."""
    try:
        return records.of_task(task)
    except DamagedRecord:
        if await is_listened_in(records.root / id_for_task(task)):
            raise
        return None


async def _unrecorded(records: Records, task: str) -> EnvironmentRecord | None:
    """The record that a living resident has rewritten after its loss; None without a resident. The
    lock is held.

    Raises DamagedRecord for a resident that writes none.
    """
    directory, until = records.root / id_for_task(task), time.monotonic() + REWRITTEN
    while await is_listened_in(directory):
        if record := await _known(records, task):
            return record
        if time.monotonic() > until:
            raise DamagedRecord(directory / RECORD, "it is missing")
        await asyncio.sleep(PAUSE)
    return None


@asynccontextmanager
async def _no_bare_errors() -> AsyncIterator[None]:
    """Maps a lack of descriptors, memory or disk space to a typed error."""
    try:
        yield
    except OSError as error:
        if problem := scarce(error):
            raise problem from error
        if error.errno in NO_SPACE:
            path = error.filename or str(runtime_path())
            setting = SETTING if path.startswith(str(runtime_path())) else "HERMETIC_SPOOL_DIR"
            advice = f"free some there, or set {setting} to a directory elsewhere"
            raise EnvironmentUnavailable(
                f"no room at {path}: {error.strerror}; {advice}"
            ) from error
        raise


async def remove_rest(stale: EnvironmentRecord, records: Records) -> None:
    """Removes the rest of an ended environment first, so that no late cleanup removes files of the
    new one.
    """
    await catalog.find(stale.kind)(stale.options).remove(stale)
    forget(stale, records)


async def start_new(ordered: StartRequest) -> Environment:
    """A new environment under its id."""
    backend, records, id, task, janitor, token, observes = ordered
    spool = janitor.spool or _new_spool(records, id)
    try:
        if spool is not None:
            os.mkdir(spool, mode=0o700)
        await wait_until_unused(records.root / id)
        records.make_directory(id)
        janitor.made()
        if not read_modules.cache_info().currsize:  # compiling them takes time
            await in_thread(read_modules)
        record = await _started(backend, records, id, task, spool, token or secrets.token_bytes(32))
        link = await _first_link(backend, record, records, janitor, observes=observes)
    except BaseException:
        records.discard(id)
        if spool is not None:
            remove_tree(spool)
        raise
    held = janitor.hand_over()
    environment = Environment(backend, record, link, records, ends_on_close=task is None, held=held)
    try:
        await _set_up(environment, backend.options.get("setup"))
    except BaseException:
        await shielded(_ended(backend, record, link, records))
        raise
    return environment


def _janitor_for(backend: Backend, records: Records, id: str) -> JanitorClient:
    """Registers an environment that is about to be opened, where its resident cannot clean up on
    this host itself.
    """
    if not getattr(backend, "leaves_files", False):
        return JanitorClient(records, id, is_wanted=False)
    check = check_of(backend, id, backend.options, slack=getattr(backend, "noticed_after", 0.0))
    return JanitorClient(records, id, is_wanted=True, spool=_new_spool(records, id), check=check)


def _new_spool(records: Records, id: str) -> str | None:
    """The path of a new spool; None where there is no disk for it."""
    base = spool_base()
    return None if base is None else f"{base}/{id}.{records.tag}.{secrets.token_hex(4)}"


async def _started(
    backend: Backend, records: Records, id: str, task: str | None, spool: str | None, token: bytes
) -> EnvironmentRecord:
    directory = str(records.root / id)
    new = NewEnvironment(id=id, directory=directory, spool=spool, token=token, label=task or id)
    started = await backend.start(new)
    own = {"id": id, "directory": directory, "spool": spool, "token": token}
    known = {"kind": backend.kind, "task": task, "options": backend.options, "created": time.time()}
    return EnvironmentRecord(**{**msgspec.structs.asdict(started), **own, **known})


async def _first_link(
    backend: Backend,
    record: EnvironmentRecord,
    records: Records,
    janitor: JanitorClient,
    *,
    observes: bool,
) -> Link:
    """Writes the record of a new resident and attaches to it; removes it on failure."""
    peers: list[int] = []
    link = link_to(
        backend,
        record,
        records,
        lambda stream: peers.append(peer_pid(stream)),
        observes=observes,
    )
    try:
        records.write(record)
        await link.open()
        await janitor.up(peers[-1])
    except BaseException as error:  # also cancellation: no other process knows of it yet
        await shielded(_removed(backend, record, link, records))
        if isinstance(error, OSError) and not is_scarce(error) and error.errno not in NO_SPACE:
            raise EnvironmentUnavailable(
                f"the new resident cannot be reached: {error}", environment=record.id
            ) from error
        raise
    return link


async def _removed(
    backend: Backend, record: EnvironmentRecord, link: Link, records: Records
) -> None:
    """Takes a resident away that may not answer."""
    await link.close()
    await backend.remove(record)
    forget(record, records)


async def _ended(backend: Backend, record: EnvironmentRecord, link: Link, records: Records) -> None:
    """Ends an environment that nobody has got."""
    await end(backend, record, link, records)
    await link.close()


async def _set_up(environment: Environment, text: str | None) -> None:
    """Runs the option `setup` in the new environment's own shell, which keeps what it sets."""
    if text is None:
        return
    result = await environment.run(text)
    if result.exit_code != 0:
        said = f"; it said:\n{result.output[-MOST_STDERR:]}" if result.output else ""
        raise EnvironmentUnavailable(
            f"setup {result.ending}: correct its text{said}", environment=environment.id
        )


def _differing(record: EnvironmentRecord, backend: Backend, given: Mapping[str, Any]) -> list[str]:
    """The options the caller named, or that its kind always compares, that the living one was not
    opened with.
    """
    if record.kind != backend.kind:
        return ["kind"]
    # Through JSON as the record went, so that a tuple equals the list it was stored as.
    asked = msgspec.json.decode(msgspec.json.encode(backend.options))
    names = dict.fromkeys((*given, *getattr(backend, "identity", ())))
    return [name for name in names if asked.get(name) != record.options.get(name)]
