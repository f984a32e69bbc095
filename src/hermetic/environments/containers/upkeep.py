"""Abandoned containers, and the disk usage of a container."""

from pathlib import Path

from hermetic.contract.environment import Abandoned
from hermetic.contract.errors import EnvironmentUnavailable
from hermetic.environments.containers.arguments import LABEL, runtime_label
from hermetic.environments.containers.client import EngineClient

NAME = "hermetic-"  # a container's name is this, its environment's id, and something random


async def remove_abandoned(client: EngineClient, root: str, abandoned: Abandoned) -> list[str]:
    """Removes the containers made for a runtime directory that no record knows; their names."""
    wanted = f"label={LABEL}.runtime={runtime_label(Path(root))}"
    answer = await client.run("ps", "--all", "--no-trunc", "--filter", wanted, "--format", "{{.Names}}")
    if answer.code != 0:
        raise EnvironmentUnavailable(f"the containers cannot be listed: {answer.errors}")
    removed = []
    for name in answer.output.split():
        async with abandoned(name.removeprefix(NAME).rpartition("-")[0]) as it_is:
            if it_is:
                await client.remove(name)
                removed.append(f"container {name}")
    return removed


async def written_bytes(client: EngineClient, container: str) -> int:
    """Size of the files written in a container. Raises EnvironmentUnavailable."""
    answer = await client.run("inspect", "--size", "--type", "container", "--format", "{{.SizeRw}}", container)
    if answer.code != 0 or not answer.output.isdigit():
        raise EnvironmentUnavailable(f"container {container} tells no size: {answer.errors or answer.output}")
    return int(answer.output)
