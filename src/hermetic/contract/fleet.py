"""Many environments: what a keeper of them tells."""

from typing import Literal

import msgspec


class TaskInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A task's environment in a fleet, at this moment."""

    task: str
    id: str
    kind: str
    cwd: str | None  # where its sessions start
    users: int  # blocks of `use` that are open
    processes: int | None  # that run there; None when it does not answer
    disk_bytes: int | None


class FleetInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A fleet at this moment."""

    tasks: tuple[TaskInfo, ...]
    warm: int  # environments that wait for a task
    starting: int  # environments that are starting
    disk_bytes: int  # of all of them, as far as it is known
    problem: str = ""  # why the last environment of a pool did not start


class Removed(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a killed process left, and that was removed."""

    what: Literal["environment", "directory", "spool", "lock", "place", "runtime"]
    name: str
