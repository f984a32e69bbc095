"""Kind → backend class, imported on first use."""

import importlib
from collections.abc import Mapping
from typing import cast

from hermetic.contract.environment import Backend
from hermetic.contract.errors import ConfigError
from hermetic.environments.options import choices

KINDS: Mapping[str, str] = {
    "apptainer": "hermetic.environments.apptainer:Apptainer",
    "docker": "hermetic.environments.docker:Docker",
    "local": "hermetic.environments.local:Local",
    "podman": "hermetic.environments.docker:Podman",
    "sandbox": "hermetic.environments.sandbox:Sandbox",
    "ssh": "hermetic.environments.ssh:Ssh",
    "singularity": "hermetic.environments.apptainer:Apptainer",
}

# Other names of kinds.
ALIASES: Mapping[str, str] = {"singularity": "apptainer"}

PLUGINS = "hermetic.environments.plugins"


def kinds() -> list[str]:
    """Every kind that can be opened here, those of other distributions included."""
    return sorted({*KINDS, *importlib.import_module(PLUGINS).entry_points()})


def find(kind: str) -> type[Backend]:
    """The backend class of a kind. Raises ConfigError that names the kinds there are."""
    if not isinstance(kind, str):
        raise ConfigError(f"the kind must be text, not {type(kind).__name__}; {choices('', kinds())}", setting="kind")
    if place := KINDS.get(kind):
        module, _, name = place.partition(":")
        return cast("type[Backend]", getattr(importlib.import_module(module), name))
    plugins = importlib.import_module(PLUGINS)
    if entry := plugins.entry_points().get(kind):
        return plugins.load(entry)  # type: ignore[no-any-return]
    raise ConfigError(f"unknown environment kind {kind!r}; {choices(kind, kinds())}", setting="kind")
