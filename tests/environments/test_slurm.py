"""Jobs of the real Slurm: their life, what ends them, and what is said where one does not begin."""

import asyncio
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import hermetic
from hermetic.contract.environment import NewEnvironment
from hermetic.contract.errors import EnvironmentUnavailable, NotInstalled
from hermetic.environments.slurm import Slurm
from hermetic.registry.records import Records, new_id, runtime_root
from tests.environments.clusters import until
from tests.environments.slurm_cluster import daemon, end, field, jobs, mend, need_slurm, slurm
from tests.programs import need_variable
from tests.sizes import at_full_size

pytestmark = pytest.mark.slow

# Leaves its parent and its kernel session, as a daemon does, and prints its pid.
DAEMON = (
    "python3 -c 'import os, time; os.fork() and os._exit(0); os.setsid(); print(os.getpid(), flush=True); "
    "time.sleep(600)'"
)


@pytest.fixture(autouse=True)
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every test has the cluster's settings, and leaves no job."""
    monkeypatch.setenv("SLURM_CONF", need_slurm())
    yield
    assert jobs() == []


def is_alive(pid: int) -> bool:
    """Whether a process of this machine, which is all nodes, lives."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def scratch_of(job: str) -> Path:
    """The directory of a job on its node."""
    return Path(f"/tmp/hermetic-slurm-{job}")


async def test_a_job_lives_as_long_as_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALLERS_TOKEN", "s3cr3t")
    async with hermetic.open("slurm", env={"GIVEN": "1"}) as environment:
        (job,) = jobs()
        result = await environment.run(
            "cd /; echo $GIVEN $SLURM_JOB_ID ${CALLERS_TOKEN-none}; export SET=2"
        )
        assert result.output == f"1 {job} none\n"
        assert (await environment.run("echo $SET $PWD")).output == "2 /\n"
        data = os.urandom(3 << 20)
        await environment.write_file("/tmp/noise", data)
        assert await environment.read_bytes("/tmp/noise") == data
        await environment.run("rm /tmp/noise")
        assert "s3cr3t" not in slurm("scontrol", "write", "batch_script", job, "-")
    await until(lambda: not scratch_of(job).exists())


async def test_another_caller_attaches_to_a_task() -> None:
    task = secrets.token_hex(4)
    async with hermetic.open("slurm", task=task) as first:
        await first.run("KEPT=1")
        second = await hermetic.attach(task)
        assert (await second.run("echo $KEPT")).output == "1\n"
        await second.close()
        await first.close(remove=True)


@pytest.mark.full
async def test_options_are_requests_to_slurm() -> None:
    given: dict[str, Any] = {
        "cpu": 2,
        "memory_bytes": 100 << 20,
        "partition": "all",
        "nodelist": "n2",
        "lifetime": 90,
    }
    async with hermetic.open("slurm", **given, extra_args=("--nice=7",)) as environment:
        (job,) = jobs()
        assert field(job, "NumCPUs") == "2"
        assert field(job, "MinMemoryNode") == "100M"
        assert field(job, "TimeLimit") == "00:02:00"
        assert field(job, "NodeList") == "n2"
        assert field(job, "Nice") == "7"
        assert field(job, "Requeue") == "0"
        assert (await environment.run("echo $SLURMD_NODENAME")).output == "n2\n"


@pytest.mark.parametrize("image", ["tools", *at_full_size("nopython")])
async def test_a_container_on_the_node_has_files_of_its_own(image: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "image": need_variable(f"IMAGE_{image.upper()}_SIF"),
        "apptainer": need_variable("APPTAINER"),
    }
    async with hermetic.open("slurm", **options) as environment:
        (job,) = jobs()
        assert (
            await environment.run(f"ls {tmp_path}; pwd; touch here /tmp/there && echo ok")
        ).output.endswith("/root\nok\n")
        other = await hermetic.attach(environment.id)  # by another container of the same job
        assert (await other.run("ls ~ /tmp/there")).output.split() == [
            "/tmp/there",
            "/root:",
            "here",
        ]
        await other.close()
        assert "there" not in os.listdir("/tmp")
    await until(lambda: not scratch_of(job).exists())


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"partition": "none"}, "invalid partition"),
        ({"nodelist": "n99"}, "Invalid node name"),
        ({"cpu": 65}, "Requested node configuration is not available"),
        ({"extra_args": ("--hold",)}, "would never begin: JobHeldUser"),
        (
            {"extra_args": ("--begin=now+1hour",), "pending": 1},
            r"waits since \d s: BeginTime; raise the option pending",
        ),
        ({"image": "/none.sif"}, "apptainer cannot be run; set the option apptainer"),
        ({"prelude": "exit 3"}, "job .* is .*"),
    ],
)
async def test_a_job_that_cannot_begin_says_why(given: dict[str, Any], words: str) -> None:
    async with asyncio.timeout(60):
        with pytest.raises(EnvironmentUnavailable, match=words):
            await hermetic.open("slurm", **given)


async def test_an_image_that_is_not_there_is_named() -> None:
    with pytest.raises(EnvironmentUnavailable, match=r"could not open image /none\.sif"):
        await hermetic.open("slurm", image="/none.sif", apptainer=need_variable("APPTAINER"))


@pytest.mark.full
async def test_reasons_of_waiting_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(EnvironmentUnavailable):
        await hermetic.open("slurm", extra_args=("--begin=now+1hour",), pending=4)
    assert "waits: BeginTime" in caplog.text


async def test_a_cancelled_start_leaves_no_job() -> None:
    async def opened() -> None:
        async with hermetic.open("slurm", extra_args=("--begin=now+1hour",)):
            pass

    opening = asyncio.ensure_future(opened())
    await until(lambda: bool(jobs()) or opening.done())
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening


async def test_scancel_ends_commands_as_lost_and_leaves_no_process() -> None:
    async with hermetic.open("slurm") as environment:
        (job,) = jobs()
        process = await environment.start(f"{DAEMON}; sleep 600")
        chunk = await process.read(wait=30)
        pid = int(chunk.data)
        assert is_alive(pid)
        running = asyncio.ensure_future(environment.run("sleep 600"))
        await environment.processes()
        slurm("scancel", job)
        async with asyncio.timeout(60):
            result = await running
        assert isinstance(result.ending, hermetic.Lost)
        # Slurm tells the step that carries the stream, the resident, or both first.
        assert (
            f"job {job} is CANCELLED" in result.ending.reason
            or "by SIGTERM" in result.ending.reason
        )
        assert not is_alive(pid)
    assert not scratch_of(job).exists()


@pytest.mark.full
async def test_a_time_limit_ends_commands_as_lost_and_leaves_no_process() -> None:
    async with hermetic.open("slurm", lifetime=60) as environment:
        (job,) = jobs()
        process = await environment.start(f"{DAEMON}; sleep 600")
        chunk = await process.read(wait=30)
        result = await environment.run("sleep 600")
        assert isinstance(result.ending, hermetic.Lost)
        assert (
            "raise lifetime" in result.ending.reason or "its time was over" in result.ending.reason
        )
        assert not is_alive(int(chunk.data))
    assert not scratch_of(job).exists()


@pytest.mark.full
@pytest.mark.alone
async def test_a_lost_node_ends_commands_as_lost() -> None:
    try:
        async with hermetic.open("slurm", nodelist="n3", lease=2, unattended=5) as environment:
            pid = (await environment.info()).pid
            running = asyncio.ensure_future(environment.run("sleep 600"))
            await environment.processes()
            await asyncio.to_thread(end, "slurmd-n3", signal.SIGKILL)
            async with asyncio.timeout(180):
                result = await running
            assert isinstance(result.ending, hermetic.Lost)
            assert "NODE_FAIL" in result.ending.reason
        await until(lambda: not is_alive(pid))  # by its own clock: no slurmd is there to kill it
    finally:
        await asyncio.to_thread(mend)


@pytest.mark.full
@pytest.mark.alone
async def test_a_controller_that_does_not_answer_costs_no_running_command() -> None:
    async with hermetic.open("slurm") as environment:
        running = asyncio.ensure_future(environment.run("sleep 3; echo done"))
        await environment.processes()
        controller = daemon("slurmctld")
        os.kill(controller, signal.SIGSTOP)
        try:
            assert (await running).output == "done\n"
            assert (await environment.run("echo on")).output == "on\n"
        finally:
            os.kill(controller, signal.SIGCONT)


async def saved(job: str) -> None:
    """Returns when the controller has written to disk that the job runs, as it does every few
    seconds; one that is killed before that does not know it.
    """
    state = Path(need_variable("SLURM_STATE")) / "control/job_state"
    before = state.stat().st_mtime_ns
    slurm("scontrol", "update", f"jobid={job}", "admincomment=saved")
    await until(lambda: state.stat().st_mtime_ns > before)


@pytest.mark.full
@pytest.mark.alone
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_a_restarted_controller_costs_nothing(number: signal.Signals) -> None:
    async with hermetic.open("slurm") as environment:
        (job,) = jobs()
        counter = f"/tmp/hermetic-{secrets.token_hex(4)}"
        running = asyncio.ensure_future(
            environment.run(f"echo once >>{counter}; sleep 6; cat {counter}; rm {counter}")
        )
        await environment.processes()
        await saved(job)
        try:
            await asyncio.to_thread(end, "slurmctld", number)
            # without a controller: over the stream that there is
            assert (await environment.run("echo on")).output == "on\n"
        finally:
            await asyncio.to_thread(mend)
        result = await running
        assert (result.output, result.ending) == ("once\n", hermetic.Exited(0))
        other = await hermetic.attach(environment.id)  # by a new step
        assert (await other.run("echo there")).output == "there\n"
        await other.close()
        async with hermetic.open("slurm") as second:
            assert (await second.run("echo new")).output == "new\n"
        assert jobs() == [job]


OPENER = """
import asyncio, hermetic
async def main():
    environment = await hermetic.open("slurm", lease=1)
    print((await environment.info()).pid, flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""


async def test_a_killed_caller_leaves_no_job_after_the_lease() -> None:
    words = [sys.executable, "-c", OPENER]
    opener = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
    assert opener.stdout is not None
    pid = int(await opener.stdout.readline())
    (job,) = jobs()
    opener.kill()
    await opener.wait()
    await until(lambda: not jobs())
    assert not is_alive(pid)
    await until(lambda: not scratch_of(job).exists())


async def test_gc_cancels_a_job_without_a_record(tmp_path: Path) -> None:
    await Slurm({}).start(
        NewEnvironment(id=new_id(), directory=str(tmp_path), spool=None, token=b"t" * 32, label="")
    )
    (job,) = jobs()
    words = [sys.executable, "-m", "hermetic", "gc"]
    done = await asyncio.to_thread(
        subprocess.run, words, capture_output=True, text=True, timeout=120
    )
    assert f"slurm job {job}" in done.stdout
    assert jobs() == []


@pytest.mark.full
async def test_a_job_that_is_not_ours_is_not_cancelled() -> None:
    other = slurm("sbatch", "--parsable", "--output=/dev/null", "--wrap", "sleep 600").strip()
    try:
        async with hermetic.open("slurm") as environment:
            record = Records(runtime_root()).read(environment.id)
            assert record is not None
            moved = msgspec.structs.replace(record, place={**record.place, "job": other})
            assert "gone already" in await Slurm({}).remove(moved)
        assert field(other, "JobState") in ("RUNNING", "PENDING")
    finally:
        slurm("scancel", other)


async def test_doctor_finds_the_cluster_and_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert (await Slurm.doctor()).state == "ok"
    with monkeypatch.context() as patch:
        patch.setenv("SLURM_CONF", "/none")
        finding = await Slurm.doctor()
        assert (finding.state, "check SLURM_CONF" in finding.advice) == ("broken", True)
        patch.setenv("PATH", "/none")
        finding = await Slurm.doctor()
        assert (finding.state, "login node" in finding.advice) == ("missing", True)
        with pytest.raises(NotInstalled, match="no sbatch and srun"):
            await hermetic.open("slurm")
