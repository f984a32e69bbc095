"""The same names for callers without an event loop: each method waits for its counterpart's answer.

An event loop in a thread of its own does the work; `open` and `attach` start it, `close` ends it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from hermetic.blocking.faces import Environment, EventStream, Fleet, Process, Session, attach, open

if TYPE_CHECKING:
    from hermetic.blocking.toolbox import Notices, Toolbox

__all__ = [
    "Environment",
    "EventStream",
    "Fleet",
    "Notices",
    "Process",
    "Session",
    "Toolbox",
    "attach",
    "open",
]


def __getattr__(name: str) -> object:
    if name not in ("Notices", "Toolbox"):  # they import the policy, which is slow
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module("hermetic.blocking.toolbox"), name)
    globals()[name] = value
    return value
