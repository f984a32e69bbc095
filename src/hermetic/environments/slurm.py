"""Jobs of a Slurm cluster: the resident is the main process of a batch job, and a step of the job
carries the stream.

Only Slurm's own programs are used, and nothing has to be shared between this machine and the nodes:
the resident is sent through a step. It runs in the foreground of the job, so the job ends with it,
and `scancel`, a time limit or a preemption reach it as SIGTERM, upon which it ends all that it has
started.
"""

import asyncio
import contextlib
import logging
import math
import secrets
import shlex
import socket
import time
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import msgspec

from hermetic.contract.environment import (
    Abandoned,
    EnvironmentRecord,
    Finding,
    Isolation,
    NewEnvironment,
    Started,
)
from hermetic.contract.errors import ConfigError, EnvironmentUnavailable, NotInstalled, Unreachable
from hermetic.contract.limits import LIFETIME, START
from hermetic.environments import slurm_jobs
from hermetic.environments.checkup import missing, try_program
from hermetic.environments.containers.sif import HOME, NO_NETWORK, SEPARATE
from hermetic.environments.options import (
    OptionsBackend,
    RuntimeOptions,
    Seconds,
    check_word,
    resident_config,
)
from hermetic.environments.remote import MARK, NO_SHELL_CODES, RemoteBackend, python_line
from hermetic.environments.slurm_jobs import HOPELESS, JobState, own_environ
from hermetic.environments.starting import StartFailed, start_resident
from hermetic.link.archive import BOOT
from hermetic.registry.records import check_own, runtime_root, tag_of

log = logging.getLogger("hermetic")

GIVEN_SECONDS = 120  # for the first step of a job that has begun; then it ends
ENDING_SECONDS = 60.0  # for a cancelled job; Slurm's KillWait is 30 s unless the site sets it
OWN_ENDING_SECONDS = 2.0  # for a job whose resident has ended
# seconds between two looks at a job: Slurm has no event for its states
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 5.0
NOTED_SECONDS = 2.0  # of waiting, from which on the reason is logged
# exit codes without a resident: its own failure, no Python, no apptainer
NOT_STARTED = "1 | 97 | 126 | 127 | 255"

# Made by the job and by the first step, whichever is first; both are of one user.
MAKE = 'umask 077; mkdir "$d" 2>/dev/null; [ -O "$d" ] && [ ! -L "$d" ] || exit 1; mkfifo "$d/lines" 2>/dev/null'

# The batch script. It runs the lines that steps send, each with streams of its own, until one has
# run a resident. bash runs a trap after the program that it waits for: a resident ends all that it
# started upon SIGTERM.
SCRIPT = f"""\
#!/bin/bash
{slurm_jobs.SETTLED}
%(prelude)s
d=%(scratch)s/hermetic-slurm-$SLURM_JOB_ID
trap 'rm -rf "$d"; exit 143' TERM
{MAKE}
cd /
exec 3<>"$d/lines"
while read -r -t {GIVEN_SECONDS} own line <&3; do
    (
        trap : TERM
        exec <"$d/$own/in" >"$d/$own/out" 2>"$d/$own/errors" 3>&-
        /bin/sh -c "$line"
        echo $? >"$d/$own/code"
    )
    case $(cat "$d/$own/code") in {NOT_STARTED}) ;; *) break ;; esac
done
rm -rf "$d"
"""
# Run in a step: sends a line to the job with its own input, and returns what that prints and how it
# ends.
BOOTED = f"""\
{MAKE}
mkdir "$d/$own" && mkfifo "$d/$own/in" "$d/$own/out" || exit 1
exec 6<&0
printf '%s %s\\n' "$own" "$line" >"$d/lines"
cat <&6 >"$d/$own/in" &
cat "$d/$own/out"
cat "$d/$own/errors" >&2
exit "$(cat "$d/$own/code")"
"""

# Options of sbatch that choose where a job runs, by the same names.
SELECTION = ("partition", "account", "qos", "constraint", "reservation", "nodelist", "gpus")
Count = Annotated[int, msgspec.Meta(ge=1)]


class SlurmOptions(RuntimeOptions, frozen=True, kw_only=True):
    """The options of `slurm`. Those without a value are left to the cluster."""

    # run by apptainer on the node: a .sif there, docker://NAME; empty: commands run on the node
    # itself
    image: str = ""
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    reservation: str | None = None
    nodelist: str | None = None
    cpu: Count | None = None
    memory_bytes: Count | None = None
    gpus: str | None = None  # as sbatch takes it: "1", "a100:2"
    extra_args: tuple[str, ...] = ()  # further arguments of sbatch
    prelude: str = ""  # shell lines before everything on the node: "module load apptainer"
    apptainer: str = "apptainer"  # the program on the node
    apptainer_args: tuple[str, ...] = ()  # further arguments of apptainer exec: "--nv"
    scratch: str = "/tmp"  # directory of the node for sockets and a container's files
    network: bool = True  # of a container: the node's; False: none
    cwd: str = "~"
    pending: Seconds = 600.0  # for the job to begin
    lifetime: Annotated[float, msgspec.Meta(ge=60)] = LIFETIME  # the job's time limit
    setup: str | None = None  # run once in the new environment's own shell


class Slurm(OptionsBackend):
    """Commands run in a job of their own, on the node or in a container there."""

    kind = "slurm"
    option_shape = SlurmOptions
    chosen: SlurmOptions
    identity = ("image", *SELECTION, "cpu", "memory_bytes", "network")
    variables = slurm_jobs.KEPT
    leaves_files = True
    orphans = True  # a job outlives an opener that was killed
    answers_within = 30.0

    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__(options)
        for name in (*SELECTION, "scratch"):
            check_word(name, getattr(self.chosen, name))
        if not self.chosen.scratch.startswith("/"):
            raise ConfigError("scratch must be a whole path on the node", setting="scratch")
        if not self.chosen.network and not self.chosen.image:
            raise ConfigError(
                "network=False needs an image: the node's own network is not closed",
                setting="network",
            )

    @property
    def isolation(self) -> Isolation:
        """A job is a process of the user on another machine; a container separates files and
        processes.
        """
        if not self.chosen.image:
            note = "commands run as you on a node, and change what the cluster shares with it: homes, project files"
            return Isolation(kind=self.kind, shared_paths=("/",), notes=(note,))
        notes = ["the container runs with your uid and no capability; the kernel is the node's"]
        if self.chosen.network:
            notes.append("the network is the node's: what the node can reach, a command can reach")
        return Isolation(
            kind=self.kind,
            separate_files=True,
            separate_processes=True,
            separate_network=not self.chosen.network,
            notes=tuple(notes),
        )

    @classmethod
    async def doctor(cls) -> Finding:
        """Checks the programs, and that the controller answers."""
        try:
            slurm_jobs.need_programs()
        except NotInstalled as error:
            return missing(error)
        arguments = ("--noheader", "--format=partition %P: %D nodes, %a")
        return await try_program(
            ("sinfo",),
            arguments,
            install="install slurm-client",
            environ=own_environ(),
            repair="check SLURM_CONF, and that slurmctld and munge are up",
        )

    # -- life
    async def start(self, new: NewEnvironment) -> Started:
        """Submits a job and starts a resident in it.

        Raises EnvironmentUnavailable, and leaves no job.
        """
        slurm_jobs.need_programs()
        chosen, tag = self.chosen, tag_of(runtime_root())
        config = resident_config(
            chosen,
            new,
            make_cwd=True,
            guardian=False,
            foreground=True,
            arrival=START,
        )
        # a killed opener may have left a job; the record is locked, so that none is in use
        if new.id.startswith("t-"):
            await _cancel_all(tag, new.id)
        state = JobState("")
        try:
            words = [
                f"--job-name=hermetic-{config.id}",
                f"--comment={slurm_jobs.comment(tag, new.id)}",
                *self._arguments(),
            ]
            job = await slurm_jobs.submit(
                words, SCRIPT % {"prelude": chosen.prelude, "scratch": chosen.scratch}
            )
            state = await self._running(job)
            try:
                started = await JobNode(chosen, job, state.node).start_there(config, chosen.runtime)
            except EnvironmentUnavailable as error:
                if (state := await slurm_jobs.look(job)).has_ended:
                    raise EnvironmentUnavailable(f"slurm: job {job} is {state}. {error}") from error
                raise
        except BaseException:
            await asyncio.shield(asyncio.ensure_future(_discard(tag, new.id)))
            raise
        return msgspec.structs.replace(
            started, place={**started.place, "job": job, "node": state.node}
        )

    def _arguments(self) -> Iterator[str]:
        chosen = self.chosen
        yield from ("--nodes=1", "--ntasks=1", "--no-requeue", "--export=NONE")
        yield from ("--chdir=/", "--output=/dev/null")
        yield f"--time={math.ceil(chosen.lifetime / 60)}"
        for name in SELECTION:
            if (value := getattr(chosen, name)) is not None:
                yield f"--{name}={value}"
        if chosen.cpu is not None:
            yield f"--cpus-per-task={chosen.cpu}"
        if chosen.memory_bytes is not None:
            yield f"--mem={math.ceil(chosen.memory_bytes / (1 << 20))}M"
        yield from chosen.extra_args

    async def _running(self, job: str) -> JobState:
        """The state of a job that has begun.

        Raises EnvironmentUnavailable with the reason for which it has not.
        """
        began, pause, noted = time.monotonic(), FIRST_PAUSE, ""
        while (state := await slurm_jobs.look(job)).is_waiting:
            waited = time.monotonic() - began
            if state.reason in HOPELESS:
                raise EnvironmentUnavailable(
                    f"slurm: job {job} would never begin: {state.reason}; change its options"
                )
            if waited >= self.chosen.pending:
                raise EnvironmentUnavailable(
                    f"slurm: job {job} waits since {waited:.0f} s: {state.reason}; raise the option pending, or ask "
                    "for less"
                )
            if waited > NOTED_SECONDS and state.reason != noted:
                log.warning("slurm: job %s waits: %s", job, noted := state.reason)
            await asyncio.sleep(min(pause, self.chosen.pending - waited))
            pause = min(pause * 1.5, LONGEST_PAUSE)
        if state.has_ended:
            raise EnvironmentUnavailable(f"slurm: job {job} is {state}, before it was ready")
        return state

    async def reach(self, record: EnvironmentRecord) -> socket.socket:
        """A stream to the resident, carried by a step.

        ConnectionRefusedError has the state of a job that ended.
        """
        try:
            return await self._node(record).reach(record)
        except (EnvironmentUnavailable, OSError) as error:
            state = await _settled(record.place["job"])
            if state.has_ended:
                raise ConnectionRefusedError(f"job {record.place['job']} is {state}") from error
            raise

    async def is_gone(self, record: EnvironmentRecord) -> bool:
        """Whether the job has ended. Raises Unreachable."""
        return (await slurm_jobs.look(record.place["job"])).has_ended

    async def remove(self, record: EnvironmentRecord) -> str:
        """Cancels the job; returns when it has ended. Raises Unreachable."""
        job = record.place["job"]
        found = [known for known in await slurm_jobs.tagged() if known.job == job]
        if not found:
            return f"job {job} was gone already"
        check_own(record, job, found[0].id == record.id)
        state = await _changed(job, "RUNNING", OWN_ENDING_SECONDS)
        if state.has_ended:  # with its resident; Slurm takes seconds more to free the node
            return f"job {job} has ended"
        await slurm_jobs.cancel(job)
        state = await _settled(job)
        if not state.has_ended or state.state == "COMPLETING":
            raise Unreachable(f"job {job} does not end: {state}", environment=record.id)
        return f"cancelled job {job}"

    @classmethod
    async def collect(cls, root: str, abandoned: Abandoned) -> list[str]:
        """Cancels jobs that were made for a runtime directory and that no record knows."""
        ended: list[str] = []
        if not slurm_jobs.is_configured():
            return ended
        with contextlib.suppress(NotInstalled):
            slurm_jobs.need_programs()
            for known in await slurm_jobs.tagged():
                if known.root == tag_of(root):
                    async with abandoned(known.id) as it_is:
                        if it_is:
                            await slurm_jobs.cancel(known.job)
                            await _settled(known.job)
                            ended.append(f"slurm job {known.job}")
        return ended

    def _node(self, record: EnvironmentRecord) -> "JobNode":
        return JobNode(self.chosen, record.place["job"], record.place["node"])


class JobNode(RemoteBackend):
    """The node of a job, or the container there: a resident is started by the job itself, and
    reached by steps.
    """

    def __init__(self, options: SlurmOptions, job: str, node: str) -> None:
        self.chosen: SlurmOptions = options
        self._job, self._node = job, node

    def __str__(self) -> str:
        return f"job {self._job} on {self._node}"

    def environ(self) -> Mapping[str, str]:
        """The caller's, without those of a job that it may be in."""
        return own_environ()

    def line_argv(self, line: str) -> list[str]:
        """A step that runs a shell line in the container, or on the node."""
        return slurm_jobs.step(
            self._job, self._node, f"{self.chosen.prelude}\n{self._inside(line)}"
        )

    async def boot(self, python: str, given: bytes) -> Started:
        """Through the batch script, so that the resident is in the foreground of the job."""
        line = python_line(BOOT, python=python)
        own, inside = secrets.token_hex(4), shlex.quote(self._inside(line))
        argv = slurm_jobs.step(
            self._job, self._node, f"d={self._directory} own={own} line={inside}\n{BOOTED}"
        )
        try:
            return await start_resident(
                argv,
                given,
                seconds=START,
                afterwards="is ended",
                environ=self.environ(),
                after=MARK,
            )
        except StartFailed as error:
            if (
                self.chosen.image
                and error.exit_code in NO_SHELL_CODES
                and self.chosen.apptainer in error.stderr
            ):
                advice = "set the option apptainer to its path there, or prelude to 'module load apptainer'"
                raise EnvironmentUnavailable(
                    f"{self}: apptainer cannot be run; {advice}. {error}"
                ) from error
            raise

    async def is_gone(self, record: EnvironmentRecord) -> bool:
        """Whether the job has ended: it ends with the resident. Raises Unreachable."""
        return (await slurm_jobs.look(self._job)).has_ended

    @property
    def _directory(self) -> str:
        """The directory on the node that the batch script makes and removes."""
        return f"{self.chosen.scratch}/hermetic-slurm-{self._job}"

    def _inside(self, line: str) -> str:
        """The line for the node's shell; its container has /tmp and the home in common with all
        others of the job.
        """
        options = self.chosen
        if not options.image:
            return line
        work, home = f"{self._directory}/work", f"{self._directory}/home"
        words = [options.apptainer, "--quiet", "exec", *SEPARATE, "--writable-tmpfs"]
        words += ["--workdir", work, "--home", f"{home}:{HOME}", "--pwd", "/"]
        words += [] if options.network else NO_NETWORK
        words += [*options.apptainer_args, options.image, "/bin/sh", "-c", line]
        return f"umask 077; mkdir -p {shlex.quote(work)} {shlex.quote(home)} && exec {shlex.join(words)}"


async def _settled(job: str) -> JobState:
    """The state of a job that may be ending; once it has ended, the final one, unless that takes
    too long.
    """
    return await _changed(job, "COMPLETING", ENDING_SECONDS)


async def _changed(job: str, before: str, seconds: float) -> JobState:
    """The state of a job that may be in the state `before`: the next one, unless that takes too
    long.
    """
    until, pause = time.monotonic() + seconds, FIRST_PAUSE
    while (state := await slurm_jobs.look(job)).state == before and time.monotonic() < until:
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, 1.0)
    return state


async def _cancel_all(tag: str, id: str) -> None:
    jobs = [known.job for known in await slurm_jobs.tagged() if (known.root, known.id) == (tag, id)]
    await slurm_jobs.cancel(*jobs)
    for job in jobs:
        await _settled(job)


async def _discard(tag: str, id: str) -> None:
    """Cancels what a failed start has submitted, also where its answer was not received."""
    # the first error is the cause; `hermetic gc` finds what is left
    with contextlib.suppress(EnvironmentUnavailable):
        await _cancel_all(tag, id)
