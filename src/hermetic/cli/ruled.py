"""The user's own rules on the command line: it asks nobody, but what they deny is not done here either."""

import importlib
import os
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from hermetic.environments import catalog
from hermetic.session.environment import Environment
from hermetic.session.opening import is_living

_SETTINGS = ("HERMETIC_", "HERMES_", "TERMINAL_")  # how variables begin that say something about settings

if TYPE_CHECKING:
    from hermetic.session.guard import Guard


def _here() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:  # it was taken away under our feet: there is no project around us then
        return "/"


def _has_settings(environ: Mapping[str, str], here: str) -> bool:
    """Whether there is anything to read: settings take their time to be imported, and most people have none."""
    base = environ.get("XDG_CONFIG_HOME") or f"{environ.get('HOME', '')}/.config"
    above = [here]
    while above[-1] != os.path.dirname(above[-1]):
        above.append(os.path.dirname(above[-1]))
    files = [f"{base}/hermetic/config.toml", *(os.path.join(at, "hermetic.toml") for at in above)]
    return any(name.startswith(_SETTINGS) and name != "HERMETIC_RUNTIME_DIR" for name in environ) or any(
        map(_may_be, files)
    )


def _may_be(path: str) -> bool:
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:  # who reads the settings says what is wrong with it
        return True
    return True


class Ruled:
    """What the settings deny, held to. Where they deny nothing, nothing is looked at, and the policy not imported."""

    def __init__(self) -> None:
        """Raises ConfigError for settings that cannot be used."""
        self._modules: Any = None
        here = _here()
        if not _has_settings(os.environ, here):
            return
        said = importlib.import_module("hermetic.config").load(here).approvals
        denying = tuple(rule for rule in said.rules if rule.decision == "deny")
        if denying or said.deny:
            self._modules = importlib.import_module("hermetic.session.guard")
            self._door = self._modules.ruled_door(msgspec.structs.replace(said, mode="allow", rules=denying))

    def __repr__(self) -> str:
        return f"<Ruled {'by what is denied' if self._modules else 'by nothing'}>"

    def put_before(self, environment: Environment) -> None:
        """From now on, what is run, typed and written there is looked at first."""
        if self._modules is not None:
            guard: Guard = self._modules.Guard(self._door, environment)
            environment._put_behind(guard)

    async def check_unopened(
        self, kind: str, options: Mapping[str, Any], task: str | None, command: str | Sequence[str], cwd: str | None
    ) -> None:
        """Looks at a command before its place is opened. Raises NotPermitted."""
        if self._modules is None or (task is not None and await is_living(task)):
            return
        backend = catalog.find(kind)(options)
        text = command if isinstance(command, str) else shlex.join(command)
        spot = self._modules.Spot(backend.kind, backend.isolation, backend.options)
        await self._door.command(task or "hermetic", text, spot, cwd=cwd)
