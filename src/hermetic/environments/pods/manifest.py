"""Options of the kind, and the manifest of a pod by them: one hardened container whose main process
is the resident.
"""

import hashlib
import json
import math
import re
import time
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from hermetic.contract.errors import ConfigError
from hermetic.environments.clouds.backend import SandboxOptions
from hermetic.environments.containers.arguments import ROOT_CAPABILITIES
from hermetic.environments.options import Seconds
from hermetic.environments.pods.api import Object

CONTAINER = "main"
# Labels besides those of every sandbox: the name by which a start finds its pod, the pool that a
# pod waits in, and what a NetworkPolicy selects.
NAME, POOL, NETWORK = "hermetic-name", "hermetic-pool", "hermetic-network"
# annotation: when a pod that is not ready is abandoned, in seconds since 1970
READY_BY = "hermetic/ready-by"
EXIT_SECONDS = 5  # for the main process after a signal
LOST_SECONDS = 30  # on a node that does not answer, after which the cluster deletes the pod
LABEL = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")

# The main process until the resident replaces it, run as `sh -c WAIT sh SECONDS`: runs each line of
# its input. It exits after so many seconds without one, and at the end of its input.
WAIT = """\
(trap 'kill $!; exit' TERM; sleep "$1" & wait; kill $$) &
clock=$!
trap 'exit 0' TERM
while IFS= read -r line; do
    kill $clock 2>/dev/null
    wait
    eval "$line"
done
"""


class KubernetesOptions(SandboxOptions, frozen=True, kw_only=True):
    """The options of `kubernetes`."""

    namespace: str | None = None  # None: that of the context
    context: str | None = None  # of the kubeconfig; None: the current one
    # None: KUBECONFIG, ~/.kube/config, or the service account of this pod
    kubeconfig: str | None = None
    runtime_class: str | None = None  # such as "gvisor" or "kata"
    # of ephemeral storage; 0: the cluster's default
    disk_bytes: Annotated[int, msgspec.Meta(ge=0)] = 0
    # further ones, such as {"nvidia.com/gpu": 1}
    resources: dict[str, str | int] = msgspec.field(default_factory=dict)
    node_selector: dict[str, str] = msgspec.field(default_factory=dict)
    tolerations: list[dict[str, Any]] = msgspec.field(default_factory=list)
    service_account: str | None = None  # its token is not mounted
    pull_secrets: tuple[str, ...] = ()
    pull_policy: str | None = None
    user: Annotated[int, msgspec.Meta(ge=0)] | None = None  # the image's
    volumes: dict[str, str | dict[str, Any]] = msgspec.field(
        default_factory=dict
    )  # path inside → name of a claim, or a volume of the API
    labels: dict[str, str] = msgspec.field(default_factory=dict)  # besides our own
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    pod: dict[str, Any] = msgspec.field(default_factory=dict)  # merged into the pod's spec
    pending: Seconds = 0  # for a node to take a pod that none has room for
    pool: Annotated[int, msgspec.Meta(ge=0)] = 0  # pods like this one that wait for an environment
    claim: str | None = None  # a SandboxWarmPool of agent-sandbox, whose template makes the pod


# Options that say how a pod is made: of a claimed one, its template does.
MADE_BY_TEMPLATE = (
    "image",
    "cpu",
    "memory_bytes",
    "disk_bytes",
    "resources",
    "network",
    "runtime_class",
    "node_selector",
    "tolerations",
    "service_account",
    "pull_secrets",
    "pull_policy",
    "user",
    "volumes",
    "pod",
    "pool",
)


def check(options: KubernetesOptions) -> None:
    """Raises ConfigError for options that no cluster would take."""
    if options.claim is not None:
        usual = KubernetesOptions()
        for name in MADE_BY_TEMPLATE:
            if getattr(options, name) != getattr(usual, name):
                raise ConfigError(
                    f"claim takes a pod as its template makes it; leave out {name}", setting=name
                )
    for name, labels in (("labels", options.labels), ("node_selector", options.node_selector)):
        for key, value in labels.items():
            if not LABEL.fullmatch(value):
                raise ConfigError(
                    f"{name}: {key}={value!r} is no label of Kubernetes", setting=name
                )
    for path, volume in options.volumes.items():
        if not path.startswith("/"):
            raise ConfigError(f"volumes: {path!r} is no absolute path", setting="volumes")
        if isinstance(volume, dict) and not [key for key in volume if key != "readOnly"]:
            raise ConfigError(
                f"volumes: {path!r} names no volume, such as {{'emptyDir': {{}}}}",
                setting="volumes",
            )


def pool_key(options: KubernetesOptions) -> str:
    """The same for options that make the same pod."""
    made = msgspec.structs.asdict(options)
    for name in (
        "env",
        "cwd",
        "setup",
        "login",
        "lease",
        "unattended",
        "sync",
        "profile",
        "credential_files",
        "pool",
    ):
        del made[name]
    return hashlib.sha256(json.dumps(made, sort_keys=True).encode()).hexdigest()[:16]


def manifest(
    options: KubernetesOptions, name: str, labels: Mapping[str, str], waits: float
) -> Object:
    """The pod. Its main process waits for a resident for so many seconds."""
    volumes, mounts = _volumes(options)
    spec: Object = {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": math.ceil(options.lifetime + waits),
        "terminationGracePeriodSeconds": EXIT_SECONDS,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "serviceAccountName": options.service_account,
        "runtimeClassName": options.runtime_class,
        "nodeSelector": options.node_selector,
        "imagePullSecrets": [{"name": secret} for secret in options.pull_secrets],
        "tolerations": [*options.tolerations, *_lost_nodes(options)],
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "volumes": volumes,
        "containers": [_container(options, mounts, waits)],
    }
    network = {} if options.network else {NETWORK: "off"}
    by = time.time() + options.startup + options.pending
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {**options.labels, **network, **labels},
            "annotations": {**options.annotations, READY_BY: f"{by:.0f}"},
        },
        "spec": merged(
            {key: value for key, value in spec.items() if value not in (None, {}, [])}, options.pod
        ),
    }


def _container(options: KubernetesOptions, mounts: list[Object], waits: float) -> Object:
    amounts: dict[str, str | int] = dict(options.resources)
    if options.cpu:
        amounts["cpu"] = f"{math.ceil(options.cpu * 1000)}m"
    if options.memory_bytes:
        amounts["memory"] = options.memory_bytes
    if options.disk_bytes:
        amounts["ephemeral-storage"] = options.disk_bytes
    added = {} if options.user else {"add": list(ROOT_CAPABILITIES)}
    security: Object = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"], **added},
    }
    if options.user is not None:
        security |= {"runAsUser": options.user, "runAsNonRoot": options.user != 0}
    container = {
        "name": CONTAINER,
        "image": options.image,
        "imagePullPolicy": options.pull_policy,
        "command": ["sh", "-c", WAIT, "sh", f"{math.ceil(waits)}"],
        "stdin": True,
        "stdinOnce": True,
        "resources": {"requests": amounts, "limits": amounts} if amounts else {},
        "securityContext": security,
        "volumeMounts": mounts,
    }
    return {key: value for key, value in container.items() if value not in (None, {}, [])}


def _volumes(options: KubernetesOptions) -> tuple[list[Object], list[Object]]:
    volumes, mounts = [], []
    for number, (path, volume) in enumerate(options.volumes.items()):
        source = (
            {"persistentVolumeClaim": {"claimName": volume}}
            if isinstance(volume, str)
            else dict(volume)
        )
        mounts.append(
            {
                "name": f"v{number}",
                "mountPath": path,
                "readOnly": bool(source.pop("readOnly", False)),
            }
        )
        volumes.append({"name": f"v{number}", **source})
    return volumes, mounts


def _lost_nodes(options: KubernetesOptions) -> list[Object]:
    """Tolerations by which the cluster deletes a pod of a lost node sooner than after its usual
    five minutes.
    """
    keys = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
    own = {toleration.get("key") for toleration in options.tolerations}
    return [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": LOST_SECONDS}
        for key in keys
        if key not in own
    ]


def merged(base: Any, more: Any) -> Any:
    """`more` over `base`, object by object; null removes a field."""
    if not isinstance(base, dict) or not isinstance(more, dict):
        return more
    whole = {**base, **{key: merged(base.get(key), value) for key, value in more.items()}}
    return {key: value for key, value in whole.items() if value is not None}
