"""The kind `ray`, and a fleet of it: environments on nodes, opened and reached through the host
actor of each node.
"""

import asyncio
import contextlib
import importlib.metadata
import random
import socket
import time
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from hermetic.contract.environment import (
    EnvironmentRecord,
    Finding,
    Isolation,
    NewEnvironment,
    Started,
)
from hermetic.contract.errors import ConfigError, EnvironmentUnavailable, Unreachable
from hermetic.contract.limits import CALLED_START, CONNECT, LEASE, SILENCE, UNATTENDED
from hermetic.environments import catalog
from hermetic.environments.checkup import missing
from hermetic.environments.options import Lease, OptionsBackend, Seconds, new_resident_id
from hermetic.fleet.fleet import Fleet
from hermetic.fleet.ray.cluster import Cluster, Node, no_package
from hermetic.fleet.ray.host import HostState
from hermetic.fleet.ray.streams import by_calls, by_tcp

FULL_PAUSE, LONGEST_PAUSE = 0.2, 5.0  # seconds between two looks for a free unit


class RayOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of `ray`."""

    inside: str = "local"  # the kind that the host of the node opens
    options: dict[str, Any] = {}  # of that kind
    address: str | None = None  # of the cluster; None: the one that this machine belongs to
    namespace: str = "hermetic"  # of the host actors
    # how bytes travel; auto: by TCP where the node can be reached
    stream: Literal["auto", "tcp", "calls"] = "auto"
    cwd: str | None = None
    env: dict[str, str] = {}
    startup: Seconds = CALLED_START  # for the environment to answer
    pending: Seconds = 0.0  # for a node with a free unit; 0: an error at once
    lease: Lease = LEASE
    unattended: Seconds = UNATTENDED
    setup: str | None = None  # run once in the new environment's own shell


class RayBackend(OptionsBackend):
    """Commands run in an environment of another kind, on a node of a Ray cluster."""

    kind = "ray"
    option_shape = RayOptions
    chosen: RayOptions
    identity = ("inside", "options", "address", "namespace")
    variables = ("RAY_",)
    leaves_files = True
    noticed_after = SILENCE
    answers_within = 20.0

    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__(options)
        if self.chosen.inside == self.kind:
            raise ConfigError("ray cannot run inside ray; name another kind", setting="inside")
        self._inner = catalog.find(self.chosen.inside)(self._inner_options())
        self._cluster = Cluster(self.chosen.address, self.chosen.namespace)

    def _inner_options(self) -> dict[str, Any]:
        chosen = self.chosen
        common: dict[str, Any] = {"lease": chosen.lease, "unattended": chosen.unattended}
        if chosen.cwd is not None:
            common["cwd"] = chosen.cwd
        if chosen.env:
            common["env"] = chosen.env
        return {**common, **chosen.options}

    @property
    def isolation(self) -> Isolation:
        """That of the kind inside, as seen from a node; the node is another machine, or this one."""
        inner = self._inner.isolation
        return msgspec.structs.replace(
            inner, kind=self.kind, notes=(*inner.notes, f"{inner.kind} on a node of Ray")
        )

    @classmethod
    async def doctor(cls) -> Finding:
        """Checks the package; no cluster is asked."""
        if problem := no_package():
            return missing(problem)
        return Finding(
            state="ok", found=f"ray {importlib.metadata.version('ray')}; no cluster was asked"
        )

    async def start(self, new: NewEnvironment) -> Started:
        """Opens an environment on the node with most room. Raises EnvironmentUnavailable."""
        name, until, pause = (
            new_resident_id(new.id),
            time.monotonic() + self.chosen.pending,
            FULL_PAUSE,
        )
        while True:
            hosts = await self._hosts()
            for node, _ in hosts:
                started = await self._start_on(node, name, new.token)
                if started is not None:
                    return started
            if time.monotonic() + pause > until:
                raise EnvironmentUnavailable(
                    f"ray: none of {len(hosts)} nodes has a free unit; add nodes, raise their resource 'hermetic', "
                    "or set the option pending"
                )
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _hosts(self) -> list[tuple[Node, HostState]]:
        """The nodes with free units, best first: those that have the image, then those with most
        room.
        """
        nodes = await self._cluster.nodes()
        states = await asyncio.gather(*map(self._state, nodes))
        found = [
            (node, state)
            for node, state in zip(nodes, states, strict=True)
            if state is not None and state.free
        ]
        # Weighed by chance: callers that look at the same moment do not all take the same node.
        return sorted(found, key=lambda one: (not one[1].has_image, -one[1].free * random.random()))

    async def _state(self, node: Node) -> HostState | None:
        with contextlib.suppress(Unreachable):
            host = await self._cluster.host(node)
            asked = host.state.remote(self.chosen.inside, self._inner_options())
            return HostState(*await self._cluster.ask(asked))
        return None

    async def _start_on(self, node: Node, name: str, token: bytes) -> Started | None:
        """None where the node is full, or did not answer.

        Raises EnvironmentUnavailable where the kind fails.
        """
        host = await self._cluster.host(node)
        asked = host.open.remote(name, self.chosen.inside, self._inner_options(), token)
        try:
            record, problem = await self._cluster.ask(asked, self.chosen.startup)
        except BaseException as error:
            # it may have been opened; else its lease ends it
            with contextlib.suppress(EnvironmentUnavailable):
                await self._cluster.ask(host.end.remote(name))
            if isinstance(error, Unreachable):
                return None
            raise
        if record is None:
            if problem == "full":
                return None
            raise EnvironmentUnavailable(f"ray node {node.address}: {problem}")
        place = {"node": node.id, "address": node.address, "name": name}
        return Started(
            socket=record["socket"],
            pid=record["pid"],
            guardian=record["guardian"],
            resident=record["resident"],
            place=place,
            notes=tuple(record["notes"]),
        )

    async def reach(self, record: EnvironmentRecord) -> socket.socket:
        """A stream to the resident. Raises ConnectionRefusedError where its node is dead."""
        node, name = await self._node(record), record.place["name"]
        host = await self._cluster.host(node)
        if self.chosen.stream != "calls":
            address, port, ticket = await self._cluster.ask(host.ticket.remote(name))
            try:
                return await by_tcp(address, port, ticket, CONNECT)
            except ConnectionRefusedError:
                raise
            except (OSError, TimeoutError) as error:
                if self.chosen.stream == "tcp":
                    raise Unreachable(
                        f"ray: {address}:{port} cannot be reached: {error}"
                    ) from error
        return await by_calls(self._cluster, host, name)

    async def is_gone(self, record: EnvironmentRecord) -> bool:
        """Whether the node is dead, or the environment has ended there. Raises Unreachable."""
        try:
            host = await self._cluster.host(await self._node(record))
        except ConnectionRefusedError:
            return True
        return not await self._cluster.ask(host.is_living.remote(record.place["name"]))

    async def remove(self, record: EnvironmentRecord) -> str:
        """Ends the environment on its node. Raises Unreachable."""
        name = record.place["name"]
        try:
            host = await self._cluster.host(await self._node(record))
        except ConnectionRefusedError as error:
            return str(error)
        ended = await self._cluster.ask(host.end.remote(name))
        return f"ended {name} on {record.place['address']}" if ended else f"{name} was gone already"

    async def _node(self, record: EnvironmentRecord) -> Node:
        for node in await self._cluster.nodes():
            if node.id == record.place["node"]:
                return node
        address = record.place["address"]
        raise ConnectionRefusedError(f"the Ray node {address} is dead, and what ran there is lost")


class RayFleet(Fleet):
    """A fleet whose environments are on the nodes of a Ray cluster; `kind` and `options` are those
    of each node.
    """

    def __init__(
        self,
        kind: str = "local",
        *,
        address: str | None = None,
        warm: int = 0,
        idle: float | None = 300.0,
        starts: int = 8,
        pending: float = 0.0,
        stream: str = "auto",
        **options: Any,
    ) -> None:
        """The same arguments as of Fleet, and those of the kind `ray`."""
        common = {
            name: options.pop(name)
            for name in ("lease", "unattended", "cwd", "env", "setup")
            if name in options
        }
        super().__init__(
            "ray",
            warm=warm,
            idle=idle,
            starts=starts,
            inside=kind,
            options=options,
            address=address,
            pending=pending,
            stream=stream,
            **common,
        )
