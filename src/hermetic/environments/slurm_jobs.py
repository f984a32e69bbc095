"""Slurm's own programs: submitting a job, its state in words, cancelling it, and running a line on
its node.
"""

import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

from hermetic.contract.errors import EnvironmentUnavailable, NotInstalled, Unreachable
from hermetic.environments.starting import run_program

PROGRAMS = ("sbatch", "srun", "squeue", "scancel")
ANSWER_SECONDS = 30.0  # for one of them; they retry for minutes while the controller is down
# The caller may be in a job itself: these variables are of that job, or would be options of ours.
FOREIGN = ("SLURM_", "SLURMD_", "SRUN_", "SBATCH_EXPORT", "PMI_", "PMIX_")
KEPT = ("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_CLUSTERS")
# slurm.conf of Slurm's builds, of Debian before 12, and of a node that has it from its controller
CONFIGURATIONS = (
    "/etc/slurm/slurm.conf",
    "/usr/local/etc/slurm.conf",
    "/etc/slurm-llnl/slurm.conf",
    "/run/slurm/conf",
)
COMMENT = "hermetic"  # the first word of the comment of our jobs

# States of jobs that have not begun, that run, and that have ended, with what the last mean.
WAITING = str.split("""
    PENDING CONFIGURING REQUEUED REQUEUE_HOLD REQUEUE_FED SPECIAL_EXIT RESIZING
""")
RUNNING = frozenset(("RUNNING", "SUSPENDED", "SIGNALING", "STOPPED", "STAGE_OUT"))
MEANINGS: Mapping[str, str] = {
    "BOOT_FAIL": "its node did not boot",
    "CANCELLED": "it was cancelled",
    "COMPLETED": "its resident ended",
    "COMPLETING": "it is ending",
    "DEADLINE": "its deadline has passed",
    "FAILED": "its resident failed",
    "NODE_FAIL": "its node failed",
    "OUT_OF_MEMORY": "it used more memory than it had asked for; raise memory_bytes",
    "PREEMPTED": "a job with a higher priority took its place",
    "REVOKED": "another cluster runs it",
    "TIMEOUT": "its time limit was reached; raise lifetime",
}

# Reasons that waiting does not change.
HOPELESS = str.split("""
    AccountNotAllowed AssocMaxCpuPerJobLimit AssocMaxMemPerJob AssocMaxWallDurationPerJobLimit
    BadConstraints DependencyNeverSatisfied InvalidAccount InvalidQOS JobHeldAdmin JobHeldUser
    PartitionInactive PartitionNodeLimit PartitionTimeLimit QOSMaxCpuPerJobLimit QOSMaxMemoryPerJob
    QOSMaxWallDurationPerJobLimit QOSNotAllowed JobHoldMaxRequeue
""")


class JobState(NamedTuple):
    """A job as the controller sees it."""

    state: str  # empty: the controller does not know it any more
    reason: str = ""
    node: str = ""

    @property
    def is_waiting(self) -> bool:
        """Whether it has no node yet."""
        return self.state in WAITING

    @property
    def has_ended(self) -> bool:
        """Whether it will not run again: we do not let jobs be requeued."""
        return not self.is_waiting and self.state not in RUNNING

    def __str__(self) -> str:
        if not self.state:
            return "Slurm does not know it any more"
        reason = f", {self.reason}" if self.reason not in ("", "None") else ""
        node = f" on {self.node}" if self.node else ""
        meaning = MEANINGS.get(self.state)
        return f"{self.state}{reason}{node}" + (f": {meaning}" if meaning else "")


class TaggedJob(NamedTuple):
    """A job of ours."""

    job: str
    root: str  # tag of the runtime directory that it was made for
    id: str  # of its environment

    @classmethod
    def parse(cls, line: str) -> Self | None:
        """The job of a line of squeue; None for one that is not ours."""
        job, _, comment = line.partition(" ")
        words = comment.split(":")
        return cls(job, *words[1:]) if len(words) == 3 and words[0] == COMMENT else None


def need_programs() -> None:
    """Raises NotInstalled without Slurm's programs."""
    if missing := [name for name in PROGRAMS if shutil.which(name) is None]:
        advice = "run this on a login node of the cluster, or install slurm-client with the cluster's slurm.conf"
        raise NotInstalled(f"no {' and '.join(missing)} on PATH", advice)


def is_configured() -> bool:
    """Whether this machine belongs to a cluster: Slurm's packages alone bring no configuration."""
    return any(name in os.environ for name in KEPT) or any(map(os.path.exists, CONFIGURATIONS))


def own_environ() -> dict[str, str]:
    """The variables of Slurm's programs: the caller's, without those of a job that it may be in."""
    return {
        name: value
        for name, value in os.environ.items()
        if name in KEPT or not name.startswith(FOREIGN)
    }


async def submit(arguments: Sequence[str], script: str) -> str:
    """Submits a batch script; the id of its job.

    Raises EnvironmentUnavailable with Slurm's words.
    """
    said = await _run(["sbatch", "--parsable", *arguments], script.encode())
    return said.strip().partition(";")[0]  # with several clusters, their name follows


async def look(job: str) -> JobState:
    """The state of a job. Raises Unreachable where the controller does not answer."""
    words = ["squeue", "--noheader", "--states=all", f"--jobs={job}", "--format=%T|%r|%N"]
    line = (await _ask(words, unknown="Invalid job id")).strip().splitlines()
    return JobState(*line[0].split("|")) if line else JobState("")


async def cancel(*jobs: str) -> None:
    """Cancels jobs; ended ones are no error. Raises Unreachable."""
    if jobs:
        await _ask(["scancel", "--quiet", *jobs])


async def tagged() -> list[TaggedJob]:
    """All jobs of this user that are ours and have not ended. Raises Unreachable."""
    said = await _ask(["squeue", "--noheader", "--me", "--format=%i %k"])
    return [found for line in said.splitlines() if (found := TaggedJob.parse(line)) is not None]


async def _ask(argv: Sequence[str], *, unknown: str = "") -> str:
    """The output of a question to the controller; empty where it says `unknown`.

    Raises Unreachable.
    """
    try:
        return await _run(argv)
    except CommandFailed as error:
        if unknown and unknown in error.stderr:
            return ""
        raise Unreachable(
            f"Slurm does not answer; check SLURM_CONF, slurmctld and munge: {error.stderr}"
        ) from error


def comment(root: str, id: str) -> str:
    """By which `tagged` finds a job."""
    return f"{COMMENT}:{root}:{id}"


def step(job: str, node: str, line: str) -> list[str]:
    """The program that runs a shell line on the node of a job, with its standard streams.

    The step shares the job's resources, has none of the caller's variables, and ends with this
    program.
    """
    words = [
        *("srun", f"--jobid={job}", "--overlap", "--nodes=1", "--ntasks=1", "--mem=0"),
        *("--unbuffered", "--export=NONE", "--quiet", "--chdir=/", "--mpi=none"),
        *((f"--nodelist={node}",) if node else ()),
    ]
    return [*words, "/bin/sh", "-c", f"{SETTLED}; {line}"]


# Variables of a login that Slurm does not set. Unset, HOME is known to ~ in bash, and to getent
# elsewhere.
SETTLED = (
    'export PATH="${PATH:-/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin}"; '
    'export USER="${USER:-$(id -un)}"; '
    'export HOME="${HOME:-$(getent passwd "$USER" | cut -d: -f6)}"'
)


class CommandFailed(EnvironmentUnavailable):
    """One of Slurm's programs failed."""

    def __init__(self, argv: Sequence[str], stderr: str) -> None:
        super().__init__(f"{shlex.join(argv[:1])} failed: {stderr}")
        self.stderr = stderr


async def _run(argv: Sequence[str], given: bytes = b"") -> str:
    """The output of a program. Raises CommandFailed, Unreachable."""
    try:
        done = await run_program(argv, seconds=ANSWER_SECONDS, given=given, environ=own_environ())
    except TimeoutError:
        raise Unreachable(
            f"{argv[0]}: no answer within {ANSWER_SECONDS:g} s; is slurmctld up?"
        ) from None
    if done.code != 0:
        raise CommandFailed(argv, done.errors)
    return done.output.decode("utf-8", "replace")
