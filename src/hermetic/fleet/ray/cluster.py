"""A Ray cluster as a caller uses it: its nodes, their host actors, and calls that do not hang.

Ray is imported here alone, on first use and on a thread: that takes seconds.
"""

import asyncio
import importlib.util
import socket
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeVar

from hermetic.contract.errors import NotInstalled, Unreachable
from hermetic.fleet.ray.host import Host

R = TypeVar("R")

CALL_SECONDS = 15.0  # for a short call; one to an actor of a dead node would wait for ever
CONNECT_SECONDS = 60.0
LISTENER_SECONDS = 5.0  # for the cluster's address to take a connection
UNITS_PER_CPU = 4  # environments of a node that has no resource "hermetic"
RESOURCE = "hermetic"


class Node(NamedTuple):
    """A living node."""

    id: str
    address: str
    units: int


def no_package() -> NotInstalled | None:
    """Ray, where it is not installed."""
    if importlib.util.find_spec("ray") is not None:
        return None
    return NotInstalled("no ray package", "pip install 'hermetic[ray]', here and on all nodes")


class Cluster:
    """A cluster by its address; None is the one that this machine belongs to."""

    def __init__(self, address: str | None, namespace: str) -> None:
        self._address, self._namespace = address, namespace

    async def nodes(self) -> list[Node]:
        """The nodes that live. Raises EnvironmentUnavailable."""
        return await self._in_thread(self._nodes)

    async def host(self, node: Node) -> Any:
        """The host actor of a node, made where there is none."""
        return await self._in_thread(lambda: self._host(node))

    async def ask(self, what: Awaitable[R], seconds: float = CALL_SECONDS) -> R:
        """The answer of an actor. Raises Unreachable: a call that failed may have been done."""
        from ray.exceptions import RayError

        try:
            async with asyncio.timeout(seconds):
                return await what
        except TimeoutError:
            raise Unreachable(f"ray: no answer within {seconds:g} s") from None
        except RayError as error:
            said = str(error).strip().splitlines() or [type(error).__name__]
            raise Unreachable(f"ray: {said[0]}") from error

    def _ray(self) -> Any:
        if (problem := no_package()) is not None:
            raise problem
        import ray

        if not ray.is_initialized():
            try:
                self._check_listener()
                ray.init(
                    address=self._address or "auto",
                    namespace=self._namespace,
                    log_to_driver=False,
                    logging_level="ERROR",
                    configure_logging=False,
                )
            # ConnectionError, RuntimeError, and what a library of Ray's raises
            except Exception as error:
                message = f"ray: no cluster answers at {self._address or 'auto'}: {error}"
                raise Unreachable(
                    f"{message}; start one (ray start --head), or set the option address"
                ) from error
        return ray

    def _check_listener(self) -> None:
        """Raises OSError where nothing listens at the address: Ray itself would try for minutes."""
        host, _, port = (self._address or "").rpartition(":")
        if host and port.isdigit() and "/" not in host:
            socket.create_connection((host, int(port)), LISTENER_SECONDS).close()

    def _nodes(self) -> list[Node]:
        found = []
        for node in self._ray().nodes():
            if node["Alive"]:
                resources = node["Resources"]
                units = int(resources.get(RESOURCE, UNITS_PER_CPU * resources.get("CPU", 1)))
                found.append(Node(node["NodeID"], node["NodeManagerAddress"], units))
        return found

    def _host(self, node: Node) -> Any:
        ray = self._ray()
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        actor = ray.remote(Host).options(
            name=f"host/{node.id}",
            namespace=self._namespace,
            lifetime="detached",
            get_if_exists=True,
            num_cpus=0,
            max_concurrency=1000,
            max_restarts=-1,
            max_task_retries=0,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node.id, soft=False),
        )
        return actor.remote(node.id, node.address, node.units)

    async def _in_thread(self, work: Callable[[], R]) -> R:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                return await asyncio.to_thread(work)
        except TimeoutError:
            raise Unreachable(f"ray: no answer within {CONNECT_SECONDS:g} s") from None
