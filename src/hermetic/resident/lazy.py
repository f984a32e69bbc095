"""Modules of ours that are imported on first use, so that callers who do not need them do not wait
for them.

Type checkers are shown the module itself:

    if TYPE_CHECKING:
        from hermetic.session import patching
    else:
        patching = Lazy("hermetic.session.patching")

`tests/architecture` counts `Lazy` with a literal name as an import. No other import by string is
allowed.
"""

from __future__ import annotations

import sys


class Lazy:
    """A module, imported when one of its names is first used.

    Leading dots start at `package`, as in an import.
    """

    def __init__(self, name: str, package: str = "") -> None:
        self._name = name
        self._package = package

    def __repr__(self) -> str:
        return "<Lazy %s%s>" % (self._package, self._name)

    def __getattr__(self, name: str) -> object:
        return getattr(load(self), name)


def load(module: object) -> object:
    """Imports a lazy module now, and returns it. Any other module is returned as it is."""
    if not isinstance(module, Lazy):
        return module
    name = module._name.lstrip(".")
    return __import__(
        name, {"__package__": module._package}, None, ["_"], len(module._name) - len(name)
    )


def is_loaded(module: object) -> bool:
    """True when the first use of this module costs no import.

    A lazy one has to be named without dots.
    """
    return not isinstance(module, Lazy) or module._name in sys.modules
