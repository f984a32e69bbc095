"""A network of two ends on this machine, whose packets can be dropped."""

import contextlib
import os
import subprocess
from collections.abc import Iterator

from tests.programs import need

HERE, THERE = "10.231.77.1", "10.231.77.2"


class Network:
    """The far end is a network namespace; `around` runs a program in it."""

    def __init__(self) -> None:
        self.name = f"hermetic-{os.getpid()}"
        self.around = ["ip", "netns", "exec", self.name]

    def drop(self) -> None:
        """From now on every packet is lost, and nobody is told."""
        self._filter("-A")

    def mend(self) -> None:
        """From now on packets arrive."""
        self._filter("-D")

    def _filter(self, change: str) -> None:
        for way in ("INPUT", "OUTPUT"):
            run(*self.around, "iptables", change, way, "-j", "DROP")


@contextlib.contextmanager
def network() -> Iterator[Network]:
    """A network with this machine at one end. Needs root."""
    need("iptables")
    made = Network()
    near, far = f"hm{os.getpid()}", f"hn{os.getpid()}"
    run("ip", "netns", "add", made.name)
    try:
        run("ip", "link", "add", near, "type", "veth", "peer", "name", far, "netns", made.name)
        run("ip", "addr", "add", f"{HERE}/30", "dev", near)
        run("ip", "-n", made.name, "addr", "add", f"{THERE}/30", "dev", far)
        run("ip", "link", "set", near, "up")
        run("ip", "-n", made.name, "link", "set", far, "up")
        yield made
    finally:
        run("ip", "netns", "del", made.name)  # the two ends go with it


def run(*words: str) -> None:
    """Runs a program of the system to its end."""
    subprocess.run([need(words[0]), *words[1:]], check=True, capture_output=True, timeout=30)
