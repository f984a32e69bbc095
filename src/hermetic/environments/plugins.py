"""Backends that other distributions bring, by the entry-point group `hermetic.environments`."""

from importlib import metadata
from typing import cast

from hermetic.contract.environment import Backend
from hermetic.contract.errors import ConfigError

GROUP = "hermetic.environments"


def entry_points() -> dict[str, metadata.EntryPoint]:
    """Kind → entry point."""
    return {entry.name: entry for entry in metadata.entry_points(group=GROUP)}


def load(entry: metadata.EntryPoint) -> type[Backend]:
    """The class behind an entry point. Raises ConfigError when it cannot be imported."""
    try:
        return cast("type[Backend]", entry.load())
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"environment kind {entry.name!r} cannot be loaded from {entry.value}: {error}; "
            "reinstall or remove the distribution that brings it",
            setting="kind",
        ) from error
