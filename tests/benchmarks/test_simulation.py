"""The simulation of large batches: it finishes, counts each task once, and shows its limits."""

import math

from benchmarks.simulation import ENGINES, HOUR, Cluster, simulate

KUBERNETES = ENGINES[0]


def test_every_task_finishes_once_though_nodes_die() -> None:
    cluster = Cluster(KUBERNETES, nodes=10, tasks=2000, at_once=400, node_life=HOUR)
    outcome = simulate(cluster)
    assert outcome.finished == 2000
    assert outcome.lost > 0
    assert outcome.retried > 0
    assert outcome.peak <= 400


def test_the_same_seed_gives_the_same_outcome() -> None:
    cluster = Cluster(KUBERNETES, nodes=4, tasks=300, at_once=100)
    assert simulate(cluster, 7) == simulate(cluster, 7)
    assert simulate(cluster, 7) != simulate(cluster, 8)


def test_creation_is_the_limit_of_many_short_tasks() -> None:
    cluster = Cluster(
        KUBERNETES, nodes=100, tasks=4000, at_once=4000, task_seconds=1.0, node_life=math.inf
    )
    outcome = simulate(cluster._replace(node_life=1e12))
    assert outcome.per_hour <= KUBERNETES.creations * HOUR
    assert outcome.per_hour > 0.8 * KUBERNETES.creations * HOUR
    more = KUBERNETES._replace(creations=200.0)
    assert (
        simulate(cluster._replace(engine=more, node_life=1e12, callers=8)).per_hour
        > 2 * outcome.per_hour
    )


def test_room_is_the_limit_of_a_small_cluster() -> None:
    cluster = Cluster(KUBERNETES, nodes=1, tasks=300, at_once=1000, node_life=1e12)
    assert simulate(cluster).peak == KUBERNETES.per_node
