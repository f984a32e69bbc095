"""Three raylets of one machine, and a client of them: `python ray_cluster.py`, whose input ends it,
prints the address.

Runs in an environment that has Ray; see test_ray.py.
"""

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator

SETTINGS = {
    "RAY_AUTH_MODE": "disabled",
    "RAY_health_check_initial_delay_ms": "0",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_failure_threshold": "4",
    "RAY_DEDUP_LOGS": "0",
}


class Raylets:
    """A cluster of three nodes that runs in a process of its own."""

    def __init__(self, process: "subprocess.Popen[str]", address: str) -> None:
        self._process, self.address = process, address

    def kill(self, node_address: str) -> None:
        """Kills the raylet of a node, as a lost machine does."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(node_address + "\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline().strip() == "killed"


@contextlib.contextmanager
def raylets(python: str = sys.executable) -> Iterator[Raylets]:
    """A cluster that lives for a block."""
    words = [python, __file__]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield Raylets(process, json.loads(process.stdout.readline())["address"])
        finally:
            process.stdin.close()
            process.wait(60)


def main() -> None:
    """Serves a cluster until the input ends; a line of it is the address of a node to kill."""
    import os

    os.environ.update(SETTINGS)
    from ray.cluster_utils import Cluster  # type: ignore[import-not-found, unused-ignore]

    given = {"num_cpus": 2, "object_store_memory": 80 << 20}
    cluster = Cluster(
        initialize_head=True,
        head_node_args={**given, "node_ip_address": "127.0.0.2", "include_dashboard": False},
    )
    nodes = {
        address: cluster.add_node(node_ip_address=address, **given)
        for address in ("127.0.0.3", "127.0.0.4")
    }
    print(json.dumps({"address": cluster.address}), flush=True)
    for line in sys.stdin:
        cluster.remove_node(nodes.pop(line.strip()), allow_graceful=False)
        print("killed", flush=True)
    cluster.shutdown()


if __name__ == "__main__":
    main()
