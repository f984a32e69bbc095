"""Claims of agent-sandbox: pods of a SandboxWarmPool, each given to one environment by the cluster's
controller.

The pod is made by the pool's template, so the resident runs beside its main process. Deleting the
claim ends the pod; so does the claim's own clock.
"""

import datetime
from collections.abc import Mapping, Sequence

from hermetic.contract.errors import EnvironmentUnavailable
from hermetic.environments.clouds.hosted import Gone, NewSandbox, Ran
from hermetic.environments.pods.api import ApiFailure, Cluster, Object
from hermetic.environments.pods.manifest import NAME, KubernetesOptions
from hermetic.environments.pods.pod import Pod, selector_of
from hermetic.environments.pods.states import state_of
from hermetic.environments.remote import python_line
from hermetic.link.archive import BOOT

GROUP = "apis/extensions.agents.x-k8s.io/v1beta1"
SANDBOX_GROUP = "apis/agents.x-k8s.io/v1beta1"
# annotations: of a Sandbox whose pod has another name; of a pod with several containers
POD_NAME = "agents.x-k8s.io/pod-name"
DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
# Reasons for which a claim is not ready, and that waiting does not change.
HOPELESS = (
    "ClaimExpired",
    "EnvVarsInjectionRejected",
    "InvalidMetadata",
    "PodFailed",
    "PodSucceeded",
    "SandboxExpired",
    "TemplateNotFound",
    "VolumeClaimTemplatesError",
    "WarmPoolNotFound",
)
NOT_SERVED = (403, 404)  # answers where agent-sandbox is not installed, or not for this caller


class ClaimedPod(Pod):
    """The pod of a claim. Its object is empty until the claim has one."""

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        object: Object,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(cluster, object)
        self._claim, self._labels = name, labels

    @property
    def id(self) -> str:
        """That of the pod, with the name of the claim behind it."""
        if not self.object:
            return f"{self._cluster.namespace}/{self._claim}"
        return f"{super().id}/{self._claim}"

    @property
    def container(self) -> str:
        """The one that the template names, else its first."""
        chosen = (self.object["metadata"].get("annotations") or {}).get(DEFAULT_CONTAINER)
        name: str = chosen or self.object["spec"]["containers"][0]["name"]
        return name

    @property
    def is_over(self) -> bool:
        """Never: a claim ends its pod and itself by its own clock."""
        return False

    async def tags(self) -> Mapping[str, str]:
        """The labels of its claim. Raises Gone."""
        if self._labels is not None:
            return self._labels
        try:
            claim = await self._cluster.request("GET", self._claim_path())
        except ApiFailure as error:
            if error.code == 404:
                raise Gone("its claim was deleted, or its time was over") from error
            raise
        labels: Mapping[str, str] = claim["metadata"].get("labels") or {}
        return labels

    async def claimed(self, claim: Object) -> None:
        """Creates the claim and waits until it has a pod. Raises EnvironmentUnavailable, Gone."""
        path = self._cluster.path("sandboxclaims", group=GROUP)
        try:
            claim = await self._cluster.request("POST", path, claim)
        except ApiFailure as error:
            if error.code == 404:
                raise EnvironmentUnavailable(
                    f"the cluster has no SandboxClaim; install agent-sandbox, or leave out claim: {error}"
                ) from error
            raise
        while not _is_ready(claim):
            claim = await self._cluster.changed(path, claim)
        self.object = await self._pod_of(claim["status"]["sandbox"]["name"])
        if (state := state_of(self.object)).state != "running":
            raise Gone(state.reason)

    async def _pod_of(self, sandbox: str) -> Object:
        path = self._cluster.path("sandboxes", sandbox, group=SANDBOX_GROUP)
        metadata = (await self._cluster.request("GET", path))["metadata"]
        name = (metadata.get("annotations") or {}).get(POD_NAME) or sandbox
        return await self._cluster.request("GET", self._cluster.path("pods", name))

    async def boot(self, python: str, given: bytes, seconds: float) -> Ran:
        """By an exec: the resident detaches itself."""
        return await self.run(python_line(BOOT, python=python), given, seconds)

    async def end(self, kept_for: str | None) -> None:
        """Deletes the claim; the cluster deletes its pod."""
        try:
            await self._cluster.request("DELETE", self._claim_path())
        except ApiFailure as error:
            if error.code != 404:
                raise

    def _claim_path(self) -> str:
        return self._cluster.path("sandboxclaims", self._claim, group=GROUP)


async def claims(cluster: Cluster, tags: Mapping[str, str]) -> Sequence[ClaimedPod]:
    """The claims of a namespace with these labels; none where agent-sandbox is not installed."""
    try:
        found = await cluster.request(
            "GET",
            cluster.path("sandboxclaims", group=GROUP),
            params={"labelSelector": selector_of(tags)},
        )
    except ApiFailure as error:
        if error.code in NOT_SERVED:
            return []
        raise
    metadata = [claim["metadata"] for claim in found["items"]]
    return [ClaimedPod(cluster, one["name"], {}, one.get("labels") or {}) for one in metadata]


def claim_of(options: KubernetesOptions, new: NewSandbox) -> Object:
    """The claim of a new environment. Variables are not in it: they would forbid a warm pod."""
    over = datetime.datetime.now(datetime.UTC) + datetime.timedelta(
        seconds=options.lifetime + options.startup
    )
    return {
        "apiVersion": GROUP.removeprefix("apis/"),
        "kind": "SandboxClaim",
        "metadata": {
            "name": new.name,
            "labels": {**options.labels, **new.tags, NAME: new.name},
            "annotations": options.annotations,
        },
        "spec": {
            "warmPoolRef": {"name": options.claim},
            "lifecycle": {
                "shutdownTime": over.strftime("%Y-%m-%dT%H:%M:%SZ"),
                "shutdownPolicy": "Delete",
            },
        },
    }


def _is_ready(claim: Object) -> bool:
    """Whether a claim has its pod. Raises EnvironmentUnavailable where it will have none."""
    name = claim["metadata"]["name"]
    for condition in (claim.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "Ready":
            if condition.get("reason") in HOPELESS:
                said = f"{condition['reason']}: {condition.get('message', '')}"
                raise EnvironmentUnavailable(f"claim {name}: {said}")
            if condition.get("status") == "True":
                return bool(((claim["status"]).get("sandbox") or {}).get("name"))
    return False
