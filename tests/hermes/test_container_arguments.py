"""Every argument of `DockerEnvironment` and `SingularityEnvironment`, by what it does to a real
container.
"""

import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest

from hermetic import hermes
from tests.environments.apptainers import Apptainers
from tests.environments.engines import ask, need_engine, ours
from tests.programs import need_variable

MEBIBYTE = 1 << 20


def docker(**arguments: Any) -> hermes.DockerEnvironment:
    """A container that ends with `cleanup`."""
    need_engine("docker")
    return hermes.DockerEnvironment(
        need_variable("IMAGE_TOOLS"), persist_across_processes=False, **arguments
    )


def engines_view() -> dict[str, Any]:
    """What the engine says of the one container."""
    [name] = ours("docker")
    [found] = json.loads(ask("docker", ["inspect", name]))
    view: dict[str, Any] = found
    return view


def test_limits_network_user_mounts_variables_and_further_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o755)
    for folder in ("project", "data"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "file").write_text(f"{folder}\n")
    monkeypatch.setenv("FORWARDED", "from here")
    monkeypatch.setenv("LEFT_HERE", "not passed")
    environment = docker(
        cwd="/workspace",
        timeout=30,
        cpu=0.5,
        memory=256,
        volumes=[f"{tmp_path}/data:/data:ro"],
        forward_env=["FORWARDED", " FORWARDED ", "NOT_SET"],
        env={"TEXT": "a b", "NUMBER": 7, "REAL": 0.5, "YES": True},
        network=False,
        host_cwd=str(tmp_path / "project"),
        auto_mount_cwd=True,
        run_as_host_user=True,
        extra_args=["--hostname", "given"],
    )
    try:
        limits = engines_view()["HostConfig"]
        assert (limits["NanoCpus"], limits["Memory"]) == (500_000_000, 256 * MEBIBYTE)
        assert limits["NetworkMode"] == "none"
        assert limits["CapDrop"] == ["ALL"]
        assert (environment.timeout, environment.cwd) == (30, "/workspace")
        assert environment.execute("cat file /data/file; id -u; hostname") == {
            "output": f"project\ndata\n{os.geteuid()}\ngiven\n",
            "returncode": 0,
        }
        assert environment.execute("echo x > /data/file")["returncode"] != 0
        shown = environment.execute(
            'echo "$TEXT|$NUMBER|$REAL|$YES|$FORWARDED|$LEFT_HERE|${NOT_SET-unset}"'
        )
        assert shown["output"] == "a b|7|0.5|true|from here||unset\n"
    finally:
        environment.cleanup()
    assert ours("docker") == []


def test_a_limit_on_disk_holds_or_is_named_as_missing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "hermetic.hermes"):
        environment = docker(disk=64)
    try:
        filled = environment.execute("head -c 100000000 /dev/zero > /fill")
    finally:
        environment.cleanup()
    is_named = any("no limit on disk_bytes" in one.getMessage() for one in caplog.records)
    assert (filled["returncode"] == 0) == is_named


def test_a_container_without_arguments_has_none_of_these(tmp_path: Path) -> None:
    environment = docker(host_cwd=str(tmp_path))  # without auto_mount_cwd it is not mounted
    try:
        view = engines_view()
        assert view["HostConfig"]["NetworkMode"] != "none"
        assert [mount for mount in view["Mounts"] if mount["Source"] == str(tmp_path)] == []
        assert environment.execute("pwd; id -u; touch /workspace/new") == {
            "output": "/root\n0\n",
            "returncode": 0,
        }
    finally:
        environment.cleanup()


def test_the_home_is_where_the_directory_is_a_tilde() -> None:
    environment = docker(cwd="~")
    try:
        assert (environment.cwd, environment.execute("pwd")["output"]) == ("/root", "/root\n")
    finally:
        environment.cleanup()


def test_what_cannot_be_used_is_left_out_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    arguments: dict[str, Any] = {
        "volumes": ["no-colon", 7, "  "],
        "forward_env": "PATH",
        "env": {"bad name": "x", "LIST": [], "GOOD": "kept"},
        "extra_args": {"--hostname": "x"},
    }
    with caplog.at_level(logging.WARNING, "hermetic.hermes"):
        environment = docker(**arguments)
    try:
        assert environment.execute("echo $GOOD")["output"] == "kept\n"
    finally:
        environment.cleanup()
    said = "\n".join(record.getMessage() for record in caplog.records)
    for word in ("no-colon", "volumes", "forward_env", "bad name", "LIST", "extra_args"):
        assert word in said


def test_files_of_a_persistent_task_outlive_its_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERMINAL_SANDBOX_DIR", str(tmp_path / "kept"))
    (tmp_path / "kept").mkdir(mode=0o700)
    for task, seen in (("a", ""), ("a", "home\nworkspace\n"), ("b", "")):
        environment = docker(task_id=task, persistent_filesystem=True)
        try:
            found = environment.execute("cat /root/file /workspace/file 2>/dev/null")["output"]
            assert (task, found) == (task, seen)
            environment.execute("echo home > /root/file; echo workspace > /workspace/file")
        finally:
            environment.cleanup(force_remove=True)
    assert ours("docker") == []


def test_singularity_keeps_the_files_of_a_persistent_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    image = Apptainers(tmp_path, monkeypatch).image
    for task, seen in (("a", ""), ("a", "kept\n"), ("b", "")):
        environment = hermes.SingularityEnvironment(
            image, "~", 30, cpu=1, memory=512, disk=1024, persistent_filesystem=True, task_id=task
        )
        try:
            assert (environment.cwd, environment.timeout) == ("/root", 30)
            assert environment.execute("cat /root/file 2>/dev/null")["output"] == seen
            environment.execute("echo kept > /root/file")
        finally:
            environment.cleanup()
    assert caplog.text.count("no limit on disk") == 3
