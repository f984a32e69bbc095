"""Warm pods: pods that run and wait for an environment, each taken by one caller alone."""

import logging
import secrets

from hermetic.environments.clouds.hosted import ROOT, NewSandbox
from hermetic.environments.pods.api import ApiFailure, Cluster, Object
from hermetic.environments.pods.manifest import NAME, POOL, KubernetesOptions, manifest, pool_key
from hermetic.environments.pods.states import state_of
from hermetic.registry.file_lock import locked
from hermetic.registry.records import runtime_root

UNCLAIMED = "pool"  # in place of a runtime directory: any machine's environment may take it
TAKEN = (404, 409, 422)  # answers where another caller was first, or the pod has gone

log = logging.getLogger("hermetic")


class PodPool:
    """The waiting pods of a namespace that are made of the same options."""

    def __init__(self, cluster: Cluster, options: KubernetesOptions) -> None:
        self._cluster, self._options, self._key = cluster, options, pool_key(options)

    async def take(self, new: NewSandbox) -> Object | None:
        """A pod that runs, under the labels of a new environment; None where none waits.

        A pod is taken by a change of the version that was seen, so that the API server refuses a
        second caller.
        """
        for found in await self._waiting():
            if state_of(found).state != "running":
                continue
            labels = {**new.tags, NAME: new.name, POOL: None}
            metadata = {"resourceVersion": found["metadata"]["resourceVersion"], "labels": labels}
            path = self._cluster.path("pods", found["metadata"]["name"])
            try:
                return await self._cluster.request("PATCH", path, {"metadata": metadata})
            except ApiFailure as error:
                if error.code not in TAKEN:
                    raise
        return None

    async def fill(self) -> None:
        """Creates the pods that are missing, and waits for none of them.

        Openings of this machine at the same time do so one after the other: each sees what the one
        before it has created.
        """
        async with locked(runtime_root() / f".pool-{self._key}.lock"):
            await self._create_missing()

    async def _create_missing(self) -> None:
        for _ in range(self._options.pool - len(await self._waiting())):
            labels = {ROOT: UNCLAIMED, POOL: self._key}
            name = f"hermetic-pool-{secrets.token_hex(6)}"
            try:
                wanted = manifest(self._options, name, labels, self._options.lifetime)
                await self._cluster.request("POST", self._cluster.path("pods"), wanted)
            except ApiFailure as error:  # the environment itself has its pod
                log.warning("kubernetes: no further pod can be kept waiting: %s", error)
                return

    async def _waiting(self) -> list[Object]:
        params = {"labelSelector": f"{POOL}={self._key}"}
        found = (await self._cluster.request("GET", self._cluster.path("pods"), params=params))[
            "items"
        ]
        return [pod for pod in found if state_of(pod).state not in ("gone", "failed")]
