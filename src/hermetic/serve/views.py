"""Environments and processes as the API shows them."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from hermetic.contract.environment import EnvironmentInfo, EnvironmentRecord, Isolation
from hermetic.contract.process import ProcessInfo
from hermetic.link.answers import TreeMember
from hermetic.redaction.redactor import Redactor

OURS = "console-internal"  # tag of the server's own processes, which no list shows
HIDDEN = "***"

_REDACTOR = Redactor()


class EnvironmentView(msgspec.Struct, frozen=True, kw_only=True):
    """An environment."""

    id: str
    kind: str
    task: str | None
    state: str  # alive, stalled, full, busy, broken, damaged or gone
    problem: str = ""  # why it cannot be used now
    created: float  # seconds since 1970
    uptime: float | None = None  # seconds
    isolation: Isolation | None = None
    image: str | None = None
    cwd: str | None = None
    rss: int | None = None  # bytes of its resident
    cpu_seconds: float | None = None  # of everything that ran there
    memory_bytes: int | None = None  # of everything that runs there
    clients: int = 0  # attached programs, without this server
    processes: int = 0  # that run
    sessions: int = 0
    lease: float | None = None  # seconds
    notes: tuple[str, ...] = ()
    held: bool = False  # new calls of its agent wait


class EnvironmentDetail(EnvironmentView, frozen=True, kw_only=True):
    """An environment with all that its resident reports."""

    info: EnvironmentInfo | None = None
    options: dict[str, Any] = {}  # without values of variables and secrets


class ProcessView(ProcessInfo, frozen=True, kw_only=True):
    """A process."""

    who: Literal["agent", "person"] = "agent"
    recording: str | None = None  # id of the recording that is being made of it
    terminal: bool = False  # a terminal that a person opened
    ports: tuple[int, ...] = ()  # that it listens on, where known
    tree: tuple[TreeMember, ...] = ()  # only in the detail


def process_view(info: ProcessInfo, **more: object) -> ProcessView:
    """A process with what the server knows of it."""
    who = "person" if info.is_of_person else "agent"
    known: dict[str, Any] = {
        **msgspec.structs.asdict(info),
        "who": who,
        "terminal": info.personal,
        **more,
    }
    return ProcessView(**known)


def is_ours(info: ProcessInfo) -> bool:
    """True for a process that the server started for itself."""
    return info.tag == OURS


def environment_fields(record: EnvironmentRecord) -> dict[str, Any]:
    """What a record says of an environment."""
    cwd = record.options.get("cwd") or record.options.get("workspace")
    return {
        "id": record.id,
        "kind": record.kind,
        "task": record.task,
        "created": record.created,
        "notes": record.notes,
        "image": record.options.get("image"),
        "cwd": cwd if isinstance(cwd, str) else None,
    }


def shown_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of an environment without values of variables and without what looks like a
    secret.
    """
    return {
        name: _shown(value, is_hidden=name in ("env", "environ")) for name, value in options.items()
    }


def _shown(value: Any, *, is_hidden: bool = False) -> Any:
    match value:
        case dict():
            return {
                str(key): HIDDEN if is_hidden else _shown(inner) for key, inner in value.items()
            }
        case list() | tuple():
            return [_shown(inner) for inner in value]
        case str():
            return _REDACTOR.redact(value, "environment")
    return value
