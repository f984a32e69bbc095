"""Servers of this user that run now: each has a locked file with its URL beside the tokens."""

import contextlib
import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from hermetic.registry.private import make_private
from hermetic.registry.records import SETTING, runtime_path, runtime_root
from hermetic.serve.tokens import FOLDER

NAME, MADE_ASIDE = "server-", ".new-"  # starts of names
LONGEST_URL = 4096  # bytes


@contextmanager
def announced(url: str) -> Iterator[None]:
    """While a block lasts, `running_servers` has the URL. Raises ConfigError, OSError."""
    directory = make_private(runtime_root() / FOLDER, SETTING)
    name = secrets.token_hex(4)
    aside, path = directory / f"{MADE_ASIDE}{name}", directory / f"{NAME}{name}"
    fd = os.open(aside, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        os.write(fd, url.encode())
        aside.rename(path)
        yield
    finally:
        for made in (aside, path):
            made.unlink(missing_ok=True)
        os.close(fd)


def running_servers() -> list[str]:
    """Their URLs. Files of servers that were killed are removed."""
    directory = runtime_path() / FOLDER
    try:
        names = sorted(name for name in os.listdir(directory) if name.startswith(NAME))
    except FileNotFoundError:
        return []
    found = []
    for name in names:
        with contextlib.suppress(OSError):  # it has just ended
            fd = os.open(directory / name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
                (directory / name).unlink(missing_ok=True)
            except BlockingIOError:
                found.append(os.read(fd, LONGEST_URL).decode())
            finally:
                os.close(fd)
    return found
