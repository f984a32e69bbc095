"""The states of pods in words, by what the API server says of them."""

from typing import Any

import pytest

from hermetic.environments.pods.states import state_of, why_lost

EVICTED = "The node was low on resource: memory."
RUNNING = {"running": {"startedAt": "now"}}


def pod(container: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    """The object of a pod with one container in this state."""
    states = {} if container is None else {"containerStatuses": [{"state": container}]}
    return {"metadata": {"name": "p"}, "status": {**status, **states}}


def ended(code: int, reason: str) -> dict[str, Any]:
    """The state of a container that has ended."""
    return {"terminated": {"exitCode": code, "reason": reason}}


@pytest.mark.parametrize(
    ("object", "words"),
    [
        (
            pod(phase="Failed", reason="Evicted", message=EVICTED),
            f"it was evicted: Evicted: {EVICTED}",
        ),
        (
            pod(ended(137, "Error"), phase="Failed", reason="Preempting", message="Preempted"),
            "it was preempted by a pod with a higher priority: Preempting: Preempted",
        ),
        (
            pod(ended(143, "Error"), phase="Failed", reason="DeadlineExceeded"),
            "its lifetime is over: DeadlineExceeded",
        ),
        (pod(ended(137, "OOMKilled"), phase="Failed"), "it ran out of memory: OOMKilled"),
        (pod(ended(1, "Error"), phase="Failed"), "its main process ended with exit code 1"),
        (pod(ended(0, "Completed"), phase="Running"), "its main process ended with exit code 0"),
        (
            {**pod(RUNNING, phase="Running"), "metadata": {"deletionTimestamp": "now"}},
            "it is being deleted: by a person, an eviction, a drained or a lost node",
        ),
    ],
)
def test_a_pod_that_has_ended_says_why(object: dict[str, Any], words: str) -> None:
    assert state_of(object) == ("gone", words)


def test_a_pod_that_may_still_come_up_is_waited_for() -> None:
    assert state_of(pod()) == ("pending", "it has no node yet")
    pulling = {"waiting": {"reason": "ContainerCreating"}}
    assert state_of(pod(pulling, phase="Pending")) == ("pending", "ContainerCreating")
    assert state_of(pod(RUNNING, phase="Running")).state == "running"


def test_a_lost_node_is_named_with_what_the_cluster_says() -> None:
    silent = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
    node = {"metadata": {"name": "n1"}, "status": {"conditions": [silent]}}
    assert why_lost(node) == "its node n1 is lost: NodeStatusUnknown"
    silent["status"] = "True"
    assert why_lost(node) == ""
