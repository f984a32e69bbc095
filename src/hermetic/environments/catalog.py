"""Kind → backend class, imported on first use."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from hermetic.contract.environment import Backend
from hermetic.contract.errors import ConfigError
from hermetic.environments.options import choices
from hermetic.resident.lazy import Lazy

if TYPE_CHECKING:
    from hermetic.environments import (
        apptainer,
        daytona,
        docker,
        kubernetes,
        local,
        modal,
        plugins,
        sandbox,
        slurm,
        ssh,
    )
else:
    apptainer = Lazy("hermetic.environments.apptainer")
    daytona = Lazy("hermetic.environments.daytona")
    docker = Lazy("hermetic.environments.docker")
    kubernetes = Lazy("hermetic.environments.kubernetes")
    local = Lazy("hermetic.environments.local")
    modal = Lazy("hermetic.environments.modal")
    plugins = Lazy("hermetic.environments.plugins")
    sandbox = Lazy("hermetic.environments.sandbox")
    slurm = Lazy("hermetic.environments.slurm")
    ssh = Lazy("hermetic.environments.ssh")

KINDS: Mapping[str, Callable[[], type[Backend]]] = {
    "apptainer": lambda: apptainer.Apptainer,
    "daytona": lambda: daytona.Daytona,
    "docker": lambda: docker.Docker,
    "kubernetes": lambda: kubernetes.Kubernetes,
    "local": lambda: local.Local,
    "modal": lambda: modal.Modal,
    "podman": lambda: docker.Podman,
    "sandbox": lambda: sandbox.Sandbox,
    "slurm": lambda: slurm.Slurm,
    "ssh": lambda: ssh.Ssh,
    "singularity": lambda: apptainer.Apptainer,
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
    if found := KINDS.get(kind):
        return found()
    if entry := plugins.entry_points().get(kind):
        return plugins.load(entry)
    raise ConfigError(
        f"unknown environment kind {kind!r}; {choices(kind, kinds())}", setting="kind"
    )
