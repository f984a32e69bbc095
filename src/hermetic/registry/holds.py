"""Environments whose agents a person has stopped: their tool calls are held until the person
releases them.

A hold is a file in the runtime directory, which no environment but `local` can reach. It outlives
the environment: the next one of the same task is held too.
"""

import contextlib
import os
import time
from pathlib import Path
from typing import Literal

import msgspec

from hermetic.registry.private import make_private
from hermetic.registry.records import SETTING, is_id, runtime_name, runtime_path, runtime_root

DIRECTORY = "held"
ALL = "all"  # the name of the hold of every environment
FREE = "free."  # start of the name of a file that excepts one environment from it
Mode = Literal["freeze", "end"]


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    """One stop."""

    environment: str  # id; "all": of every environment, also of later ones
    mode: Mode = "freeze"  # what became of the processes
    since: float  # seconds since 1970
    by: str = ""

    @property
    def message(self) -> str:
        """For a model whose call is held."""
        what = "frozen" if self.mode == "freeze" else "ended"
        return (
            f"not run: the user has stopped this task; its processes are {what}, and nothing new runs until the user "
            "releases it. Do not try again by yourself: say what you were about to do, and wait for the user"
        )


def hold(id: str | None, mode: Mode, by: str) -> Hold:
    """Holds an environment, or all. Raises ConfigError, OSError."""
    held = Hold(environment=id or ALL, mode=mode, since=time.time(), by=by)
    for name in _names():
        if name.startswith(FREE) and id in (None, name.removeprefix(FREE)):
            _path(name).unlink(missing_ok=True)
    while True:
        directory = make_private(runtime_root() / DIRECTORY, SETTING)
        aside = directory / f".{held.environment}.{os.getpid()}"
        # the directory was empty and has just been removed
        with contextlib.suppress(FileNotFoundError):
            fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with open(fd, "wb") as file:
                file.write(msgspec.json.encode(held))
            aside.rename(directory / held.environment)
            return held


def release(id: str | None) -> list[str]:
    """Ends the hold of an environment, or all holds; returns the environments that were held, or
    "all".

    An environment that is released while all are held is excepted from that.
    """
    released = []
    for held in holds():
        if id in (None, held.environment):
            _path(held.environment).unlink(missing_ok=True)
            released.append(held.environment)
    if id is not None and _path(ALL).exists():
        _path(f"{FREE}{id}").touch(0o600)
        released = released or [id]
    for name in _names() if id is None else ():
        if name.startswith(FREE):
            _path(name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # not empty, or gone
        _path(ALL).parent.rmdir()
    return released


def holds() -> list[Hold]:
    """Every hold."""
    return [held for name in _names() if (name == ALL or is_id(name)) and (held := _read(name))]


def is_name(name: str) -> bool:
    """True for the name of a file that holds or excepts an environment, or all."""
    return name == ALL or is_id(name.removeprefix(FREE))


def holds_path() -> str:
    """A path that exists while anything is held."""
    return f"{runtime_name()}/{DIRECTORY}"


def held(*ids: str) -> Hold | None:
    """The hold that applies to an environment with one of these ids, or to all; None: it may run."""
    own = next((found for id in ids if (found := _read(id))), None)
    if own is not None or any(_path(f"{FREE}{id}").exists() for id in ids):
        return own
    return _read(ALL)


def _names() -> list[str]:
    try:
        return sorted(os.listdir(runtime_path() / DIRECTORY))
    except OSError:
        return []


def _read(name: str) -> Hold | None:
    try:
        return msgspec.json.decode(_path(name).read_bytes(), type=Hold)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, msgspec.MsgspecError):  # what cannot be read holds: a person has put it there
        return Hold(environment=name, since=0.0)


def _path(name: str) -> Path:
    return runtime_path() / DIRECTORY / name
