"""What the state of a pod means: it runs, it may still come up, or it never will; and why, in
words.
"""

from typing import Any, Literal, NamedTuple

from hermetic.environments.pods.api import Object

# Reasons of a waiting container that only another pod helps against. The first that is seen has the
# full message.
HOPELESS = {
    "ErrImagePull": "the image cannot be pulled: check its name, and pull_secrets for a private registry",
    "ImagePullBackOff": "the image cannot be pulled: check its name, and pull_secrets for a private registry",
    "ErrImageNeverPull": "the image is not on the node, and pull_policy forbids a pull",
    "InvalidImageName": "the name of the image is not valid",
    "ImageInspectError": "the image on the node cannot be read",
    "CreateContainerConfigError": "the container cannot be configured: check volumes, secrets and user",
    "CreateContainerError": "the container cannot be created",
    "RunContainerError": "the container cannot be started; an image for this kind has a sh",
}
LACKS_NODE = (
    "no node takes the pod: ask for less, check node_selector, tolerations and runtime_class, or set pending to the "
    "seconds that an autoscaler needs"
)
WORDS = {
    "Evicted": "it was evicted",
    "Preempting": "it was preempted by a pod with a higher priority",
    "DeadlineExceeded": "its lifetime is over",
    "OOMKilled": "it ran out of memory",
    "NodeLost": "its node was lost",
    "Shutdown": "its node was shut down",
    "Terminated": "its node was shut down",
}


class PodState(NamedTuple):
    """How a pod is, and why where it is not well."""

    state: Literal["running", "pending", "unschedulable", "failed", "gone"]
    reason: str = ""


def state_of(pod: Object) -> PodState:
    """The state of a pod by its object."""
    status: Any = pod.get("status") or {}
    phase = status.get("phase", "Pending")
    if phase in ("Failed", "Succeeded"):
        return PodState("gone", why_ended(pod))
    if pod["metadata"].get("deletionTimestamp"):
        return PodState(
            "gone", "it is being deleted: by a person, an eviction, a drained or a lost node"
        )
    for container in status.get("containerStatuses") or ():
        state: Any = container.get("state") or {}
        if waiting := state.get("waiting"):
            if advice := HOPELESS.get(waiting.get("reason", "")):
                return PodState(
                    "failed", _joined(advice, waiting["reason"], waiting.get("message"))
                )
        elif state.get("terminated"):
            return PodState("gone", why_ended(pod))
        elif state.get("running") and phase == "Running":
            return PodState("running")
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "Unschedulable":
            return PodState("unschedulable", _joined(LACKS_NODE, condition.get("message")))
    return PodState("pending", _waits_for(status))


def why_ended(pod: Object) -> str:
    """Why a pod has ended."""
    status: Any = pod.get("status") or {}
    for container in status.get("containerStatuses") or ():
        ended = (container.get("state") or {}).get("terminated")
        if ended and status.get("reason") is None:
            reason = ended.get("reason", "")
            said = WORDS.get(
                reason, f"its main process ended with exit code {ended.get('exitCode')}"
            )
            return _joined(
                said, reason if reason not in ("Completed", "Error") else None, ended.get("message")
            )
    reason = status.get("reason") or status.get("phase", "")
    return _joined(WORDS.get(reason, "it ended"), reason, status.get("message"))


def why_lost(node: Object) -> str:
    """Why a node does not run its pods now; empty where it is ready."""
    for condition in (node.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "Ready" and condition.get("status") != "True":
            name = node["metadata"]["name"]
            return _joined(
                f"its node {name} is lost", condition.get("reason"), condition.get("message")
            )
    return ""


def _waits_for(status: Any) -> str:
    reasons = [
        (container.get("state") or {}).get("waiting", {}).get("reason", "")
        for container in status.get("containerStatuses") or ()
    ]
    return next(filter(None, reasons), "") or "it has no node yet"


def _joined(*parts: str | None) -> str:
    return ": ".join(part.strip() for part in parts if part and part.strip())
