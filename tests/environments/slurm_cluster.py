"""The Slurm cluster that scripts/engines/up has started, as tests look at it from outside."""

import os
import select
import subprocess
from pathlib import Path

import pytest

from hermetic.environments.slurm_jobs import TaggedJob
from hermetic.registry.records import runtime_root, tag_of
from tests.leftovers import SERVERS
from tests.programs import need_variable
from tests.sizes import is_full

SECONDS = 60.0
START = Path(__file__).parents[2] / "scripts/engines/start-slurm.sh"


def need_slurm() -> str:
    """Path of the cluster's slurm.conf.

    Only `./test --full` must have it: Slurm is many packages.
    """
    if not is_full() and not os.environ.get("TEST_SLURM_CONF"):
        pytest.skip(
            "no Slurm runs here; ./test --full and scripts/engines/up slurm install and start it"
        )
    return need_variable("TEST_SLURM_CONF")


def slurm(*words: str) -> str:
    """What one of Slurm's programs prints; needs SLURM_CONF."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def jobs() -> list[str]:
    """The jobs of this run of the tests that have not ended; one that is completing has."""
    lines = slurm(
        "squeue", "--noheader", "--me", "--states=PENDING,RUNNING,SUSPENDED", "--format=%i %k"
    ).splitlines()
    found = [job for line in lines if (job := TaggedJob.parse(line)) is not None]
    return [job.job for job in found if job.root == tag_of(runtime_root())]


def field(job: str, name: str) -> str:
    """A field of `scontrol show job`."""
    said = slurm("scontrol", "--oneliner", "show", "job", job)
    (value,) = [word.partition("=")[2] for word in said.split() if word.startswith(f"{name}=")][:1]
    return value


def daemon(name: str) -> int:
    """Process id of one of the cluster's daemons."""
    state = need_variable("SLURM_STATE")
    return int(Path(state, f"{name}.id").read_text().split()[0])


def end(name: str, number: int) -> None:
    """Ends one of the daemons by a signal; returns when it has ended."""
    pid = daemon(name)
    SERVERS.discard(pid)
    handle = os.pidfd_open(pid)
    try:
        os.kill(pid, number)
        assert select.select([handle], [], [], SECONDS)[0], f"{name} does not end"
    finally:
        os.close(handle)


def mend() -> None:
    """Starts again what a test has killed.

    The daemons are then descendants of this process, and stay.
    """
    subprocess.run([START], check=True, capture_output=True, timeout=SECONDS)
    names = [path.stem for path in Path(need_variable("SLURM_STATE")).glob("*.id")]
    for pid in map(daemon, names):
        # slurmctld has a helper
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        SERVERS.update((pid, *map(int, children)))
