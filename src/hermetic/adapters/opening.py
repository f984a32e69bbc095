"""Environments that an adapter opens for its framework."""

import contextlib
import tempfile
from collections.abc import Mapping
from typing import Any

import hermetic
from hermetic import Environment
from hermetic.contract.errors import ExecutionError
from hermetic.fleet.opening import Opening
from hermetic.fleet.opening import is_living as is_living
from hermetic.registry.janitor_process import remove_tree

# Kinds whose files are those of this machine, and the option that names the directory to work in.
HERE = {"local": "cwd", "sandbox": "workspace"}


def with_directory(kind: str, options: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """The options, with a new directory of this machine to work in, and its path.

    The path is "" if the options name a directory, or if the kind has files of its own.
    """
    option = HERE.get(kind)
    if option is None or option in options:
        return dict(options), ""
    own = tempfile.mkdtemp(prefix="hermetic-")
    return {**options, option: own}, own


def attach(id: str, options: Mapping[str, Any]) -> Opening:
    """Attaches to an environment that was opened with these options: the same policy judges what is
    run.
    """
    return hermetic.attach(id, policy=options.get("policy"), approver=options.get("approver"))


async def end(environment: Environment | None, own: str) -> None:
    """Ends an environment and all that runs in it, and removes the directory that was made for it."""
    with contextlib.suppress(ExecutionError):
        if environment is not None:
            await environment.close(remove=True)
    if own:
        remove_tree(own)
