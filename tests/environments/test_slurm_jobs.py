"""Slurm without a cluster: states in words, options, and variables of the caller's own job."""

import os
from pathlib import Path

import pytest

from hermetic.contract.errors import ConfigError, Unreachable
from hermetic.environments import slurm_jobs
from hermetic.environments.slurm import Slurm
from hermetic.environments.slurm_jobs import JobState, TaggedJob, comment, own_environ


def test_variables_of_the_callers_own_job_are_not_passed_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    monkeypatch.setenv("SLURM_CONF", "/etc/slurm.conf")
    environ = own_environ()
    assert "SLURM_JOB_ID" not in environ
    assert environ["SLURM_CONF"] == "/etc/slurm.conf"


def test_a_state_is_told_with_its_meaning() -> None:
    assert str(JobState("OUT_OF_MEMORY", "OutOfMemory", "n1")).startswith(
        "OUT_OF_MEMORY, OutOfMemory on n1: it used"
    )
    assert str(JobState("")) == "Slurm does not know it any more"
    assert JobState("").has_ended
    assert not JobState("PENDING", "Priority").has_ended


def test_a_closed_network_needs_a_container() -> None:
    with pytest.raises(ConfigError, match="needs an image"):
        Slurm({"network": False})


def test_a_job_is_ours_by_its_comment() -> None:
    assert TaggedJob.parse(f"7 {comment('abc', 'e-1')}") == TaggedJob("7", "abc", "e-1")
    assert TaggedJob.parse("7 (null)") is None
    assert TaggedJob.parse("7 hermetic: somebody's own") is None


async def test_programs_without_a_cluster_have_no_jobs_to_collect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in slurm_jobs.PROGRAMS:
        (tmp_path / name).write_text(
            "#!/bin/sh\necho 'fatal: Could not establish a configuration source' >&2\nexit 1\n"
        )
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for name in slurm_jobs.KEPT:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(slurm_jobs, "CONFIGURATIONS", (str(tmp_path / "slurm.conf"),))
    assert await Slurm.collect("/", lambda id: None) == []  # type: ignore[arg-type, return-value]
    (tmp_path / "slurm.conf").touch()
    with pytest.raises(Unreachable, match="configuration source"):
        await Slurm.collect("/", lambda id: None)  # type: ignore[arg-type, return-value]
