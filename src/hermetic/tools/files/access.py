"""Which files the tools may read and write, and what a toolbox remembers of them."""

import asyncio
import os
from collections.abc import AsyncIterator, Hashable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cached_property
from weakref import WeakKeyDictionary, WeakValueDictionary

from hermetic.approvals.context import PolicyContext
from hermetic.contract.files import Bounds
from hermetic.contract.limits import REMEMBERED_FILES
from hermetic.registry.private import cache_directory
from hermetic.registry.records import real_runtime_path
from hermetic.session.arguments import encode_path
from hermetic.session.environment import Environment
from hermetic.tools.base.task import Recent, Task

# Patterns of resolved paths. The resident enforces them.
_FOLDERS = (".ssh", ".aws", ".gnupg", ".kube", ".docker", ".azure", ".config/gh", ".config/gcloud")
_FILES = (".netrc", ".pgpass", ".npmrc", ".pypirc", ".git-credentials")
_HOMES = ("~", "/root", "/home/*")
CREDENTIALS = (
    *(f"*/{folder}/*" for folder in _FOLDERS),
    *(f"{home}/{file}" for home in _HOMES for file in _FILES),
    *str.split("/etc/shadow /etc/shadow- /etc/gshadow /etc/gshadow- /etc/sudoers /etc/sudoers.d/*"),
)
SYSTEM = str.split("""
    /etc/passwd /etc/group /etc/systemd/* /usr/lib/systemd/* /lib/systemd/* /boot/* /proc/* /sys/*
    /run/docker.sock /var/run/docker.sock /run/podman/* /run/containerd/*
""")
OURS = ("~/.config/hermetic/*", "~/.local/state/hermetic/*", "~/.hermes/*", "*/hermetic.toml")
PROCESSES = ("/proc/*/environ", "/proc/*/mem", "/proc/kcore")
VARIABLES = (
    "*/.env",
    *(f"*/.env.{name}" for name in ("local", "production", "development", "staging", "test")),
)

FileKey = tuple[str, str]  # file system, resolved path


def write_bounds(root: str | None) -> Bounds:
    """Where a tool may write: below the root, if there is one, and nothing that is protected."""
    return Bounds(root=root, deny=(*CREDENTIALS, *SYSTEM, *OURS, *_records()))


def _records() -> tuple[str, ...]:
    """Records of environments, with their tokens, and the programs that environments get."""
    cache = cache_directory()
    return (
        "/run/user/*/hermetic/*",
        f"{real_runtime_path()}/*",
        *((f"{os.path.realpath(cache)}/*",) if cache else ()),
    )


async def check_unopened(
    paths: Sequence[str], bounds: Bounds, place: Environment | PolicyContext
) -> list[str]:
    """The resolved paths in an environment that is not open yet; [] in an open one, where the
    resident checks them.

    Raises NotPermitted for a path that is out of bounds.
    """
    if not isinstance(place, PolicyContext):
        return []
    for path in paths:
        encode_path(path, "path")
        place.check(path, bounds)
    return [place.real(place.whole(path)) for path in paths]


class WriteJudge:
    """A judge for `Task.environment`: refuses paths while nothing is opened, and remembers which
    ones were allowed.
    """

    def __init__(self, task: Task, paths: Sequence[str], bounds: Bounds) -> None:
        self._task, self._paths, self._bounds = task, paths, bounds
        self._allowed: set[str] = set()  # resolved paths

    async def __call__(self, place: Environment | PolicyContext) -> None:
        """Judges the paths of an environment that is not open yet. Raises NotPermitted."""
        resolved = await check_unopened(self._paths, self._bounds, place)
        if resolved and self._task.gate is not None:
            await self._task.gate.write(self._task.id, resolved, place)
            self._allowed = set(resolved)

    async def allow(self, resolved: Sequence[str], environment: Environment) -> None:
        """Judges the resolved paths that were not allowed yet. Raises NotPermitted."""
        new = [path for path in resolved if path not in self._allowed]
        if new and self._task.gate is not None:
            await self._task.interruptible(self._task.gate.write(self._task.id, new, environment))


def read_bounds() -> Bounds:
    """Excludes credentials, variables of processes, and the records of environments."""
    return Bounds(deny=(*CREDENTIALS, *PROCESSES, *VARIABLES, *_records(), "~/.config/hermetic/*"))


class FileMemory:
    """Locks on files, who read and wrote them, and repeated calls: one for each toolbox, bounded."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[FileKey, asyncio.Lock] = WeakValueDictionary()
        # Task and file → signature.
        self._seen: Recent[tuple[str, FileKey], str] = Recent(REMEMBERED_FILES)
        # File → task, signature.
        self._writers: Recent[FileKey, tuple[str, str]] = Recent(REMEMBERED_FILES)
        self._calls: Recent[tuple[str, Hashable], tuple[str, int]] = Recent(REMEMBERED_FILES)
        self._systems: WeakKeyDictionary[Environment, str] = WeakKeyDictionary()

    @cached_property
    def read_bounds(self) -> Bounds:
        """Limits of reading."""
        return read_bounds()

    def system_of(self, environment: Environment) -> str:
        """The environment's file system: the same for environments that see the same files."""
        if environment not in self._systems:
            is_separate = environment.isolation.separate_files
            self._systems[environment] = environment.id if is_separate else environment.kind
        return self._systems[environment]

    @asynccontextmanager
    async def working_on(self, system: str, paths: Iterable[str]) -> AsyncIterator[None]:
        """Locks these files for the block, in one order for all."""
        async with AsyncExitStack() as stack:
            for path in sorted(set(paths)):
                lock = self._locks.setdefault((system, path), asyncio.Lock())
                await stack.enter_async_context(lock)
            yield

    def saw(self, task: str, system: str, path: str, signature: str) -> None:
        """The task has read the file with this signature."""
        self._seen[task, (system, path)] = signature

    def wrote(self, task: str, system: str, path: str, signature: str) -> None:
        """The task has written the file, which has this signature now."""
        self.saw(task, system, path, signature)
        self._writers[system, path] = (task, signature)

    def warning(self, task: str, system: str, path: str, signature: str) -> str | None:
        """A warning for a task that is about to replace a file with this signature, if it may not
        know it.
        """
        key = (system, path)
        writer, written = self._writers.get(key, (task, ""))
        seen = self._seen.get((task, key))
        if writer != task and written == signature and seen != signature:
            return f"{path} was written by another task ({writer}) and not read since by this one; read it to be sure"
        if seen is not None and seen != signature:
            return f"{path} has changed since it was last read; read it again to see whether something was lost"
        return None

    def repeats(self, task: str, call: Hashable, state: str) -> int:
        """How often the task has made this call while the result stayed the same; 0 the first time."""
        known, times = self._calls.get((task, call), ("", -1))
        times = times + 1 if known == state else 0
        self._calls[task, call] = (state, times)
        return times

    def forget_task(self, task: str) -> None:
        """Forgets what a task has read and asked: its environment is gone."""
        for key in [key for key in self._seen if key[0] == task]:
            del self._seen[key]
        self.forget_calls(task)

    def forget_calls(self, task: str) -> None:
        """Forgets which calls a task has made: its model may have lost the answers."""
        for key in [key for key in self._calls if key[0] == task]:
            del self._calls[key]
