"""The pods of a namespace as sandboxes: created, taken from a pool, claimed, found again."""

from collections.abc import Mapping, Sequence
from typing import Any

from hermetic.contract.errors import ConfigError
from hermetic.environments.clouds.hosted import Gone, NewSandbox
from hermetic.environments.pods.api import ApiFailure, Cluster
from hermetic.environments.pods.claims import ClaimedPod, claim_of, claims
from hermetic.environments.pods.manifest import NAME, NETWORK, KubernetesOptions, manifest
from hermetic.environments.pods.pod import Pod, selector_of
from hermetic.environments.pods.pool import PodPool
from hermetic.environments.pods.states import state_of


class PodApi:
    """Pods of a namespace that belong to environments.

    `with_claims`: also those that claims of agent-sandbox hold.
    """

    def __init__(self, cluster: Cluster, *, with_claims: bool) -> None:
        self._cluster, self._with_claims = cluster, with_claims
        self._created: list[Pod] = []

    async def aclose(self) -> None:
        """Closes the streams to main processes."""
        for pod in self._created:
            await pod.detach()

    async def create(self, new: NewSandbox, options: KubernetesOptions) -> "Pod":
        """A new pod that waits for its resident."""
        if options.claim is not None:
            claimed = ClaimedPod(self._cluster, new.name, {})
            await claimed.claimed(claim_of(options, new))
            return claimed
        if not options.network:
            await self._check_policy()
        labels = {**new.tags, NAME: new.name}
        wanted = manifest(options, new.name, labels, options.startup + options.pending)
        pod = Pod(self._cluster, wanted, options.pending)
        self._created.append(pod)
        if options.pool and await self._took(pod, new, options):
            return pod
        await pod.create()
        return pod

    async def _took(self, pod: "Pod", new: NewSandbox, options: KubernetesOptions) -> bool:
        """Whether a pod of the pool is the new one; the pool gets what it lacks in any case."""
        pool = PodPool(self._cluster, options)
        taken = await pool.take(new)
        if taken is not None:
            pod.object = taken
        await pool.fill()
        return taken is not None

    async def _check_policy(self) -> None:
        """Raises ConfigError where no NetworkPolicy of the namespace cuts off pods with our label."""
        path = self._cluster.path("networkpolicies", group="apis/networking.k8s.io/v1")
        found = (await self._cluster.request("GET", path))["items"]
        if not any(map(_cuts_off, found)):
            raise ConfigError(
                f"network=False needs a NetworkPolicy in the namespace {self._cluster.namespace} that selects "
                f"{NETWORK}=off and allows nothing; docs/how-to/run-on-kubernetes.md has one",
                setting="network",
            )

    async def find(self, id: str, *, ended: bool = False) -> Pod:
        """The pod with this id.

        Raises Gone where it does not exist, and for one that has ended unless `ended`.
        """
        namespace, name, uid, *claim = id.split("/")
        gone, found = "", {}
        try:
            found = await self._cluster.request(
                "GET", self._cluster.path("pods", name, namespace=namespace)
            )
            if found["metadata"]["uid"] != uid:
                gone, found = "it was deleted, and another pod has its name", {}
            elif (state := state_of(found)).state == "gone":
                gone = state.reason
        except ApiFailure as error:
            if error.code != 404:
                raise
            gone = "it was deleted: by a person, an eviction, or a drained or lost node"
        if gone and not (ended and (found or claim)):
            raise Gone(gone)
        return ClaimedPod(self._cluster, claim[0], found) if claim else Pod(self._cluster, found)

    async def named(self, name: str) -> "Pod":
        """The pod that was created or claimed under this name."""
        for pod in await self.tagged({NAME: name}):
            return pod
        raise Gone(f"no pod is called {name}")

    async def tagged(self, tags: Mapping[str, str]) -> "Sequence[Pod]":
        """The pods with these labels, ended ones included."""
        found = await self._cluster.request(
            "GET", self._cluster.path("pods"), params={"labelSelector": selector_of(tags)}
        )
        pods = [Pod(self._cluster, one) for one in found["items"]]
        return [*pods, *(await claims(self._cluster, tags) if self._with_claims else ())]


def _cuts_off(policy: Any) -> bool:
    """Whether a NetworkPolicy selects our label and allows nothing."""
    spec = policy["spec"]
    wanted = spec.get("podSelector", {}).get("matchLabels", {})
    is_ours = wanted.get(NETWORK) == "off" and len(wanted) == 1
    both = set(spec.get("policyTypes") or ()) >= {"Ingress", "Egress"}
    return is_ours and both and not spec.get("ingress") and not spec.get("egress")
