"""Lock files: held by one process at a time, removed by the last holder. Locks on directories."""

import contextlib
import fcntl
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from hermetic.contract.concurrency import in_thread


@asynccontextmanager
async def locked(path: Path) -> AsyncIterator[int]:
    """Holds the lock at `path`.

    The descriptor may be given to a child, which then holds it for as long as it lives.
    """
    fd = await _locked(path)
    try:
        yield fd
    finally:
        _remove_lock(path, fd)


@asynccontextmanager
async def locked_at_once(path: Path) -> AsyncIterator[bool]:
    """Holds the lock at `path` without waiting; False if another process holds it."""
    try:
        fd = take_lock(path, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        yield False
        return
    try:
        yield True
    finally:
        _remove_lock(path, fd)


@contextmanager
def locked_in_thread(path: Path) -> Iterator[None]:
    """Holds the lock at `path`; for a thread, which it blocks."""
    fd = take_lock(path, fcntl.LOCK_EX)
    try:
        yield
    finally:
        _remove_lock(path, fd)


def take_lock(path: Path, operation: int) -> int:
    """A descriptor that holds the lock file at `path`, made if missing; blocks unless `operation`
    says otherwise.
    """
    while True:
        fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, operation)
        except BaseException:
            os.close(fd)
            raise
        if _is_same_file(fd, path):
            return fd
        os.close(fd)  # its last holder has just removed it


def _remove_lock(path: Path, fd: int) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    os.close(fd)


def hold_directory(directory: str) -> int:
    """A descriptor that marks a directory as in use, also while only a child that inherited it is
    left.
    """
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    fcntl.flock(fd, fcntl.LOCK_SH)
    return fd


async def wait_until_unused(directory: Path) -> None:
    """Returns when no process holds the directory, such as one whose caller was killed, or it does
    not exist.
    """
    try:
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        await acquire(fd)
    finally:
        os.close(fd)


async def _locked(path: Path) -> int:
    """A descriptor that holds the lock at `path`."""
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            await acquire(fd)
            # The previous holder may have removed the file; then this lock is of a file that no
            # other process finds.
            if _is_same_file(fd, path):
                return fd
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)


async def acquire(fd: int) -> None:
    """Locks a descriptor; returns when no other process holds a lock on its file."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        await _wait_for_lock(fd)


async def _wait_for_lock(fd: int) -> None:
    """Waits in a thread, on a descriptor of its own that a cancelled waiter leaves to it.

    The thread is not one of asyncio's pool: waiters would occupy those, and the holder of the lock
    may need one.
    """
    own = os.dup(fd)

    def wait() -> None:
        try:
            fcntl.flock(own, fcntl.LOCK_EX)
        finally:
            os.close(own)

    await in_thread(wait)


def _is_same_file(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False
