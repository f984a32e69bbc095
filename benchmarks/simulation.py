"""A batch on a cluster, simulated: environments are created at the engine's rate, nodes fail, lost
tasks run again.

    python -m benchmarks.simulation [--tasks N] [--seed N]

prints a table of engines and sizes. The latencies are those that `python -m benchmarks.scale`
prints; docs/scale.md has both, and says what the model leaves out. Nothing is started.
"""

import argparse
import heapq
import math
import random
from collections.abc import Iterator
from typing import NamedTuple

HOUR = 3600.0


class Engine(NamedTuple):
    """What an engine takes for one environment, in seconds, and what it can carry."""

    name: str
    opening: float  # median from the request to the first command
    spread: float  # of that, as the sigma of a lognormal distribution
    creations: float  # most new environments in a second, for all callers together
    closing: float  # from the end of a task until its place is free again
    noticed: float  # from the death of a node until its commands are lost
    per_node: int  # environments on a node
    caller_cpu: float  # seconds of the caller's processor for one environment
    caller_bytes: int  # of the caller's memory for one open environment


# Openings alone, closings and the caller's part are measured (docs/scale.md). The rate of creation,
# and how soon a dead node is noticed, are assumed from the engines' defaults: a laboratory of two
# processors cannot show them.
ENGINES = (
    Engine("kubernetes", 2.1, 0.3, 20.0, 2.0, 40.0, 60, 0.053, 1_500_000),
    Engine("kubernetes, warm pods", 0.5, 0.3, 20.0, 2.0, 40.0, 60, 0.053, 1_500_000),
    Engine("slurm", 2.3, 0.5, 30.0, 4.0, 300.0, 64, 0.012, 1_200_000),
    Engine("ray, local inside", 0.3, 0.5, 300.0, 0.1, 15.0, 64, 0.010, 800_000),
)


class Cluster(NamedTuple):
    """A batch and where it runs."""

    engine: Engine
    nodes: int
    tasks: int
    at_once: int  # most environments that the callers hold
    task_seconds: float = 120.0  # median
    task_spread: float = 0.7
    node_life: float = 24 * HOUR  # mean, as of preemptible machines
    opening_fails: float = 0.01  # of openings, which are repeated
    callers: int = 1  # processes


class Outcome(NamedTuple):
    """What came of a batch."""

    seconds: float
    finished: int
    lost: int  # tasks that a dead node cost, each run again
    retried: int  # openings that failed
    peak: int  # environments at once
    busy: float  # share of the time of environments that tasks had
    waiting: float  # mean seconds from a task's turn to its first command
    callers_busy: float  # share of one processor of each caller
    callers_bytes: int  # of each caller, at the peak

    @property
    def per_hour(self) -> float:
        """Tasks finished in an hour."""
        return self.finished / self.seconds * HOUR


def simulate(cluster: Cluster, seed: int = 1) -> Outcome:
    """Runs a batch to its end."""
    return _Run(cluster, random.Random(seed)).run()


class _Run:
    """Events in the order of their time: an environment is ready, a task has ended, a node dies."""

    def __init__(self, cluster: Cluster, chance: random.Random) -> None:
        self.cluster, self.engine, self.chance = cluster, cluster.engine, chance
        self.now = self.slot = self.used = self.tasked = self.waited = 0.0
        self.events: list[tuple[float, int, str, int]] = []
        self.number = 0
        self.todo = cluster.tasks
        self.free = [cluster.engine.per_node] * cluster.nodes
        self.life = [0] * cluster.nodes  # how often a node has died
        self.held: dict[int, tuple[int, int, float]] = {}  # environment: node, its life, since when
        self.lost = self.retried = self.finished = self.peak = self.begun = 0

    def run(self) -> Outcome:
        for node in range(self.cluster.nodes):
            self._later(self.chance.expovariate(1 / self.cluster.node_life), "dies", node)
        self._open_more()
        while self.finished < self.cluster.tasks:
            self.now, _, event, subject = heapq.heappop(self.events)
            getattr(self, f"_{event}")(subject)
            self._open_more()
        cluster = self.cluster
        cpu = self.begun * self.engine.caller_cpu / cluster.callers
        return Outcome(
            self.now,
            self.finished,
            self.lost,
            self.retried,
            self.peak,
            self.tasked / self.used,
            self.waited / self.begun,
            cpu / self.now,
            math.ceil(self.peak / cluster.callers) * self.engine.caller_bytes,
        )

    def _later(self, seconds: float, event: str, subject: int) -> None:
        self.number += 1
        heapq.heappush(self.events, (self.now + seconds, self.number, event, subject))

    def _open_more(self) -> None:
        """Requests environments while there is room; the engine and the callers take them one after
        the other.
        """
        while self.todo and len(self.held) < self.cluster.at_once:
            node = max(range(len(self.free)), key=self.free.__getitem__)
            if self.free[node] <= 0:
                return
            self.todo -= 1
            self.free[node] -= 1
            self.begun += 1
            # The slower of two queues: creation in the engine, and the processors of the callers.
            gap = max(1 / self.engine.creations, self.engine.caller_cpu / self.cluster.callers)
            self.slot = max(self.slot, self.now) + gap
            taken = (
                self.slot
                - self.now
                + self.chance.lognormvariate(math.log(self.engine.opening), self.engine.spread)
            )
            self.waited += taken
            id = self.number
            self.held[id] = node, self.life[node], self.now
            self.peak = max(self.peak, len(self.held))
            self._later(taken, "ready", id)

    def _ready(self, id: int) -> None:
        if self._is_lost(id):
            return
        if self.chance.random() < self.cluster.opening_fails:
            self.retried += 1
            self.todo += 1
            self._let_go(id)
            return
        cluster = self.cluster
        seconds = self.chance.lognormvariate(math.log(cluster.task_seconds), cluster.task_spread)
        self.tasked += seconds
        self._later(seconds, "ended", id)

    def _ended(self, id: int) -> None:
        if not self._is_lost(id):
            self.finished += 1
            self._let_go(id)

    def _let_go(self, id: int) -> None:
        node, _, since = self.held.pop(id)
        self.used += self.now - since + self.engine.closing
        self._later(self.engine.closing, "freed", node)

    def _freed(self, node: int) -> None:
        self.free[node] = min(self.engine.per_node, self.free[node] + 1)

    def _is_lost(self, id: int) -> bool:
        """Whether its node has died meanwhile; then the task begins anew, once that was noticed."""
        if id not in self.held:
            return True
        node, life, _ = self.held[id]
        if self.life[node] == life:
            return False
        self._noticed(id)
        return True

    def _noticed(self, id: int) -> None:
        if id in self.held:
            _, _, since = self.held.pop(id)
            self.used += self.now - since
            self.lost += 1
            self.todo += 1

    def _dies(self, node: int) -> None:
        """A node dies, is noticed, and comes back empty after ten minutes."""
        self.life[node] += 1
        self.free[node] = 0
        for id, (where, _, _) in self.held.items():
            if where == node:
                self._later(self.engine.noticed, "noticed", id)
        self._later(600.0, "returns", node)
        self._later(self.chance.expovariate(1 / self.cluster.node_life), "dies", node)

    def _returns(self, node: int) -> None:
        self.free[node] = self.engine.per_node


SIZES = ((4, 200, 1), (40, 2000, 1), (170, 10_000, 1), (170, 10_000, 8))  # nodes, at once, callers


def rows(tasks: int, seed: int) -> Iterator[str]:
    """A table in Markdown."""
    names = (
        "engine",
        "nodes",
        "at once",
        "callers",
        "tasks an hour",
        "first command",
        "busy",
        "lost",
        "caller's processor",
        "caller's memory",
    )
    yield f"| {' | '.join(names)} |"
    yield "|---" * len(names) + "|"
    for engine in ENGINES:
        for nodes, at_once, callers in SIZES:
            out = simulate(Cluster(engine, nodes, tasks, at_once, callers=callers), seed)
            yield (
                f"| {engine.name} | {nodes} | {out.peak:,} | {callers} | {out.per_hour:,.0f} | {out.waiting:.1f} s | "
                f"{out.busy:.0%} | {out.lost} | {out.callers_busy:.0%} | {out.callers_bytes / 1e9:.1f} GB |"
            )


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--tasks", type=int, default=30_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    print("\n".join(rows(given.tasks, given.seed)))


if __name__ == "__main__":
    main()
