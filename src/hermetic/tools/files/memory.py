"""What a toolbox remembers of files: who works on one, who has read and written it, what was asked again and again."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Hashable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TypeVar

from hermetic.contract.limits import REMEMBERED_FILES
from hermetic.session.environment import Environment

K = TypeVar("K")
V = TypeVar("V")
FileKey = tuple[str, str]  # place, true path


def place_of(environment: Environment) -> str:
    """The same for environments that see the same files."""
    return environment.id if environment.isolation.separate_files else environment.kind


class FileMemory:
    """One for each toolbox. Sizes are bounded: what was longest not used is forgotten."""

    def __init__(self) -> None:
        self._locks: dict[FileKey, tuple[asyncio.Lock, int]] = {}
        self._seen: OrderedDict[tuple[str, FileKey], str] = OrderedDict()  # task and file → signature
        self._writers: OrderedDict[FileKey, tuple[str, str]] = OrderedDict()  # file → task, signature
        self._asked: OrderedDict[tuple[str, Hashable], tuple[str, int]] = OrderedDict()

    @asynccontextmanager
    async def working_on(self, place: str, paths: Iterable[str]) -> AsyncIterator[None]:
        """While the block runs nobody else works on these files; all take them in one order."""
        async with AsyncExitStack() as stack:
            for path in sorted(set(paths)):
                await stack.enter_async_context(self._locked((place, path)))
            yield

    @asynccontextmanager
    async def _locked(self, key: FileKey) -> AsyncIterator[None]:
        lock, users = self._locks.get(key, (asyncio.Lock(), 0))
        self._locks[key] = lock, users + 1
        try:
            async with lock:
                yield
        finally:
            lock, users = self._locks.pop(key)
            if users > 1:
                self._locks[key] = lock, users - 1

    def saw(self, task: str, place: str, path: str, signature: str) -> None:
        """The task knows the file as it is by this signature."""
        _put(self._seen, (task, (place, path)), signature)

    def wrote(self, task: str, place: str, path: str, signature: str) -> None:
        """The task has written the file, which has this signature now."""
        self.saw(task, place, path, signature)
        _put(self._writers, (place, path), (task, signature))

    def warning(self, task: str, place: str, path: str, signature: str) -> str | None:
        """What a task should know that is about to write over a file with this signature."""
        key = (place, path)
        writer, written = self._writers.get(key, (task, ""))
        seen = self._seen.get((task, key))
        if writer != task and written == signature and seen != signature:
            return f"{path} was written by another task ({writer}) and not read since by this one; read it to be sure"
        if seen is not None and seen != signature:
            return f"{path} has changed since it was last read; read it again to see whether something was lost"
        return None

    def repeats(self, task: str, question: Hashable, state: str) -> int:
        """How often the task has asked this while the answer stayed the same; 0 the first time."""
        known, times = self._asked.get((task, question), ("", -1))
        times = times + 1 if known == state else 0
        _put(self._asked, (task, question), (state, times))
        return times

    def forget_task(self, task: str) -> None:
        """The task's environment is gone: what it has read and asked there counts for nothing in the next one."""
        for key in [key for key in self._seen if key[0] == task]:
            del self._seen[key]
        self.forget_questions(task)

    def forget_questions(self, task: str) -> None:
        """A caller that has lost what it was told may ask anew."""
        for key in [key for key in self._asked if key[0] == task]:
            del self._asked[key]


def _put(table: "OrderedDict[K, V]", key: K, value: V) -> None:
    table[key] = value
    table.move_to_end(key)
    while len(table) > REMEMBERED_FILES:
        table.popitem(last=False)
