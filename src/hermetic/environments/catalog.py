"""Kind → backend class, imported on first use."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from hermetic.contract.environment import Backend
from hermetic.contract.errors import ConfigError
from hermetic.environments.options import choices
from hermetic.resident.lazy import Lazy

if TYPE_CHECKING:
    from hermetic.environments import plugins
else:
    plugins = Lazy("hermetic.environments.plugins")

_docker = Lazy("hermetic.environments.docker")
_apptainer = Lazy("hermetic.environments.apptainer")

# The module of a kind and the name of its class there.
KINDS: Mapping[str, tuple[Any, str]] = {
    "apptainer": (_apptainer, "Apptainer"),
    "daytona": (Lazy("hermetic.environments.daytona"), "Daytona"),
    "docker": (_docker, "Docker"),
    "kubernetes": (Lazy("hermetic.environments.kubernetes"), "Kubernetes"),
    "local": (Lazy("hermetic.environments.local"), "Local"),
    "modal": (Lazy("hermetic.environments.modal"), "Modal"),
    "podman": (_docker, "Podman"),
    "sandbox": (Lazy("hermetic.environments.sandbox"), "Sandbox"),
    "slurm": (Lazy("hermetic.environments.slurm"), "Slurm"),
    "ssh": (Lazy("hermetic.environments.ssh"), "Ssh"),
    "singularity": (_apptainer, "Apptainer"),
}

# Other names of kinds.
ALIASES: Mapping[str, str] = {"singularity": "apptainer"}


def kinds() -> list[str]:
    """Every kind that can be opened here, those of other distributions included."""
    return sorted({*KINDS, *plugins.entry_points()})


def find(kind: str) -> type[Backend]:
    """The backend class of a kind. Raises ConfigError that names the kinds there are."""
    if not isinstance(kind, str):
        raise ConfigError(
            f"the kind must be text, not {type(kind).__name__}; {choices('', kinds())}",
            setting="kind",
        )
    if kind in KINDS:
        module, name = KINDS[kind]
        return cast("type[Backend]", getattr(module, name))
    if entry := plugins.entry_points().get(kind):
        return plugins.load(entry)
    raise ConfigError(
        f"unknown environment kind {kind!r}; {choices(kind, kinds())}", setting="kind"
    )
