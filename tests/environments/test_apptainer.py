"""Apptainer containers: what is kept apart, what is kept, and that nothing is left, whoever dies
first.
"""

import asyncio
import contextlib
import json
import os
import signal
import socket
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hermetic
from hermetic.registry.records import Records, runtime_root
from tests.environments.apptainers import Apptainers, container_of, see_ended, watchdog_of
from tests.programs import need_variable
from tests.scenarios.living import begin
from tests.sizes import is_full, scale

OPENER = """
import asyncio, json, sys
import hermetic

async def main():
    options = json.loads(sys.argv[1])
    environment = await hermetic.open("apptainer", **options)
    await environment.run("setsid sleep 600 & (sleep 600 &)")
    print(environment.id, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.fixture
def apptainers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Apptainers]:
    # short: sockets lie in it
    with tempfile.TemporaryDirectory(prefix="hm-", dir="/tmp") as runtime:
        monkeypatch.setenv("HERMETIC_RUNTIME_DIR", runtime)
        yield Apptainers(tmp_path, monkeypatch)


async def test_a_command_sees_neither_files_nor_processes_of_the_caller(
    apptainers: Apptainers, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("of the host")
    async with hermetic.open("apptainer", image=apptainers.image) as env:
        seen = await env.run(
            f"cat {tmp_path}/secret; ls -A /root /tmp; ls -d /proc/[0-9]* | wc -l; id -u; hostname"
        )
        assert "of the host" not in seen.output
        lines = seen.output.splitlines()
        assert int(lines[-3]) < 20, "it counts the processes of the host"
        assert int(lines[-2]) == os.geteuid()
        isolation = env.isolation
    assert (isolation.separate_files, isolation.separate_processes, isolation.separate_user) == (
        True,
        True,
        False,
    )
    assert isolation.shared_paths == ()


async def test_a_command_has_no_capability_and_a_filter_of_system_calls(
    apptainers: Apptainers,
) -> None:
    async with hermetic.open("apptainer", image=apptainers.image) as env:
        status = (await env.run("cat /proc/self/status")).output
        fields = dict(line.split(":", 1) for line in status.splitlines())
        assert {
            int(fields[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
        } == {0}
        assert fields["NoNewPrivs"].strip() == "1"
        assert fields["Seccomp"].strip() == "2"
        assert (await env.run("unshare -Ur true")).exit_code != 0
        assert (await env.info()).weak == ()


async def test_root_cannot_change_the_kernels_settings_nor_the_hosts_files(
    apptainers: Apptainers,
) -> None:
    async with hermetic.open("apptainer", image=apptainers.image) as env:
        tried = await env.run(
            "for f in /proc/sys/kernel/core_pattern /proc/sys/vm/drop_caches; do : >> $f && echo changed $f; done; "
            "find /proc/sys /sys /proc/irq /proc/bus -writable -type f 2>/dev/null | head -3; "
            "grep -c ' /etc/hosts ' /proc/mounts"
        )
        assert "changed" not in tried.output
        assert [line for line in tried.output.splitlines() if line.startswith("/proc")] == []
        assert tried.output.splitlines()[-1] == "0", (
            "a file of the host is bound in, and root could write to it"
        )


async def test_neither_variables_nor_the_record_can_be_read_from_outside_or_inside(
    apptainers: Apptainers,
) -> None:
    async with hermetic.open(
        "apptainer", image=apptainers.image, env={"SECRET": "hunter2-of-the-test"}
    ) as env:
        assert (await env.run("echo $SECRET")).output == "hunter2-of-the-test\n"
        assert str(watchdog_of(env).pid) in {path.parent.name for path in _cmdlines()}
        assert b"hunter2-of-the-test" not in b"".join(map(_read, _cmdlines()))
        found = await env.run("find / -xdev -name env.json 2>/dev/null; ls -A /run/hermetic")
        assert "env.json" not in found.output
        record = Records(runtime_root()).read(env.id)
        assert record is not None
        assert (_mode(record.directory), _mode(record.socket)) == (0o700, 0o600)


def _mode(path: str) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


def _cmdlines() -> list[Path]:
    return [*Path("/proc").glob("[0-9]*/cmdline")]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it has ended
        return b""


async def test_without_a_network_nothing_is_reached(apptainers: Apptainers) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        connect = f"exec 3<>/dev/tcp/127.0.0.1/{server.getsockname()[1]} && echo reached"
        async with hermetic.open("apptainer", image=apptainers.image) as env:
            assert (await env.run(connect)).output == "reached\n"
            assert any("network is the host's" in note for note in env.isolation.notes)
        async with hermetic.open("apptainer", image=apptainers.image, network=False) as env:
            assert "reached" not in (await env.run(connect)).output
            assert env.isolation.separate_network


async def test_what_is_written_is_gone_with_the_environment_unless_there_is_an_overlay(
    apptainers: Apptainers, tmp_path: Path
) -> None:
    write, look = "echo kept | tee /srv/file > /root/file", "cat /srv/file /root/file"
    for overlay, expected in ((None, ""), (str(tmp_path / "overlay"), "kept\nkept\n")):
        async with hermetic.open("apptainer", image=apptainers.image, overlay=overlay) as env:
            assert (await env.run(write)).exit_code == 0
            assert env.isolation.shared_paths == ((overlay,) if overlay else ())
        async with hermetic.open("apptainer", image=apptainers.image, overlay=overlay) as env:
            assert (await env.run(f"{look} 2>/dev/null")).output == expected


async def test_an_overlay_serves_one_environment_at_a_time(
    apptainers: Apptainers, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"image": apptainers.image, "overlay": tmp_path / "overlay"}
    async with hermetic.open("apptainer", **options):
        with pytest.raises(hermetic.EnvironmentUnavailable, match="used by another environment"):
            await hermetic.open("apptainer", **options)
    assert apptainers.left() == []


async def test_a_limit_that_cannot_be_had_is_told(
    apptainers: Apptainers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hermetic.environments.apptainer.can_limit", lambda: False)
    async with hermetic.open(
        "apptainer", image=apptainers.image, memory_bytes=1 << 30, pids=100
    ) as env:
        notes = [note for note in env.isolation.notes if "is not limited" in note]
        assert [note.split()[0] for note in notes] == ["memory_bytes", "pids"]
        assert "cpu" in next(
            note for note in env.isolation.notes if "no limit was asked for" in note
        )
        assert set(notes) <= set((await env.info()).weak)


async def test_singularity_is_another_name_for_it(apptainers: Apptainers) -> None:
    async with hermetic.open("singularity", image=apptainers.image) as env:
        assert env.kind == "apptainer"


async def test_another_image_is_never_handed_out_for_a_living_task(
    apptainers: Apptainers, tmp_path: Path
) -> None:
    other = tmp_path / "other.sif"
    other.symlink_to(apptainers.image)
    async with hermetic.open("apptainer", image=apptainers.image, network=False, task="images"):
        with pytest.raises(hermetic.ConfigError, match="image"):
            await hermetic.open("apptainer", image=other, network=False, task="images")
        with pytest.raises(hermetic.ConfigError, match="network"):
            await hermetic.open("apptainer", image=apptainers.image, task="images")
        await (await hermetic.attach("images")).close(remove=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "needs the option 'image'"),
        ({"image": "/nowhere.sif"}, "no image at /nowhere.sif"),
        ({"image": "python:3.12"}, "docker://NAME"),
        ({"image": "/etc/passwd"}, "no image that apptainer knows"),
        ({"image": "/bin", "cwd": "here"}, "whole path"),
        ({"image": "/bin", "overlay": "/tmp/a:b"}, "colon"),
        ({"image": "/bin", "env": {"A=B": "x"}}, "A=B"),
        ({"image": "/bin", "imgae": "x"}, "did you mean 'image'"),
        ({"image": "/bin", "memory_bytes": 0}, "memory_bytes"),
    ],
)
async def test_bad_options_are_named_and_leave_nothing(
    apptainers: Apptainers, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(hermetic.ConfigError, match=message):
        await hermetic.open("apptainer", **options)
    assert apptainers.left() == []


async def test_a_container_that_does_not_start_leaves_nothing(
    apptainers: Apptainers, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.sif"
    broken.write_bytes(_head(apptainers.image))
    empty = tmp_path / "empty"
    empty.mkdir()
    for options, message in (
        ({"image": broken}, "the resident did not start"),
        ({"image": empty}, "the resident did not start"),
        ({"image": apptainers.image, "cwd": "/nowhere"}, "cwd '/nowhere' is not a directory"),
    ):
        with pytest.raises(hermetic.EnvironmentUnavailable, match=message):
            await hermetic.open("apptainer", **options)
        assert apptainers.left() == []


def _head(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(100_000)


async def test_a_missing_program_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(hermetic.EnvironmentUnavailable, match="install apptainer"):
        await hermetic.open("apptainer", image="/bin")
    monkeypatch.setenv("HERMETIC_APPTAINER_BINARY", "/nowhere/apptainer")
    with pytest.raises(hermetic.ConfigError, match="HERMETIC_APPTAINER_BINARY"):
        await hermetic.open("apptainer", image="/bin")


async def test_a_start_that_is_cancelled_leaves_nothing(apptainers: Apptainers) -> None:
    for seconds in (0.02, 0.08, 0.15, 0.3):
        with contextlib.suppress(TimeoutError):  # an idle machine opens it within 0.3 s
            async with asyncio.timeout(seconds):
                opened = await hermetic.open("apptainer", image=apptainers.image)
            await opened.close()
        assert apptainers.left() == []


@pytest.mark.slow
async def test_a_hundred_opens_and_closes_leave_nothing(apptainers: Apptainers) -> None:
    for _ in range(100 if is_full() else 3):
        async with hermetic.open("apptainer", image=apptainers.image) as env:
            await env.run(
                "setsid sleep 600 & (sleep 600 &); touch /tmp/file; mkdir -m 0 /tmp/closed"
            )
            watchdog = watchdog_of(env)
        assert not watchdog.is_alive
        assert apptainers.left() == []


@pytest.mark.slow
async def test_callers_killed_by_sigkill_leave_nothing_after_the_lease(
    apptainers: Apptainers,
) -> None:
    options = json.dumps({"image": apptainers.image, "lease": 0.5, "unattended": 0.5})
    records = Records(runtime_root())
    for _ in range(scale(20)):
        opener = await asyncio.create_subprocess_exec(
            sys.executable, "-c", OPENER, options, stdout=asyncio.subprocess.PIPE
        )
        assert opener.stdout is not None
        async with asyncio.timeout(60):
            id = (await opener.stdout.readline()).decode().strip()
        record = records.read(id)
        assert record is not None
        opener.kill()
        await opener.wait()
        await see_ended(int(record.place["watchdog"].split(".")[0]))
        assert apptainers.left() == []
        assert not _is_there(record.spool)


def _is_there(path: str | None) -> bool:
    return path is not None and os.path.exists(path)


async def test_an_opener_killed_while_it_opens_leaves_nothing_after_the_lease(
    apptainers: Apptainers,
) -> None:
    options = json.dumps({"image": apptainers.image, "lease": 0.5, "unattended": 0.5})
    opener = await asyncio.create_subprocess_exec(
        sys.executable, "-c", OPENER, options, stdout=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(60):
        while not (  # noqa: ASYNC110
            found := [path for path in runtime_root().glob("e-*/watchdog") if path.read_text()]
        ):
            await asyncio.sleep(0.002)  # nobody tells when a watchdog begins
    watchdog = int(found[0].read_text())
    opener.kill()
    await opener.wait()
    await see_ended(watchdog)
    assert apptainers.left() == []


async def test_a_container_ended_behind_our_back_is_told_and_leaves_nothing(
    apptainers: Apptainers,
) -> None:
    async with hermetic.open("apptainer", image=apptainers.image, task="behind") as env:
        running = await begin(env, "echo up; sleep 600")
        watchdog = watchdog_of(env)
        os.kill(container_of(watchdog), signal.SIGKILL)
        async with asyncio.timeout(30):
            assert isinstance((await running).ending, hermetic.Lost)
        await see_ended(watchdog.pid)
        assert apptainers.left() == []
        async with hermetic.open("apptainer", image=apptainers.image, task="behind") as again:
            assert (await again.run("echo works")).output == "works\n"
            await again.close(remove=True)


async def test_without_its_keeper_a_container_is_taken_away_by_its_caller(
    apptainers: Apptainers,
) -> None:
    async with hermetic.open("apptainer", image=apptainers.image) as env:
        watchdog = watchdog_of(env)
        container = container_of(watchdog)
        os.kill(watchdog.pid, signal.SIGKILL)
        assert (await env.run("echo works")).output == "works\n"
    await see_ended(container)
    assert apptainers.left() == []


async def test_a_resident_that_does_not_end_is_ended(apptainers: Apptainers) -> None:
    async with hermetic.open("apptainer", image=apptainers.image, task="stuck") as env:
        watchdog = watchdog_of(env)
        os.kill(_resident(env), signal.SIGSTOP)
        async with asyncio.timeout(60):
            await watchdog.ensure_ended()
        assert apptainers.left() == []


def _resident(environment: hermetic.Environment) -> int:
    """The resident's pid on this machine, as the kernel knows it."""
    record = Records(runtime_root()).read(environment.id)
    assert record is not None
    with socket.socket(socket.AF_UNIX) as stream:
        stream.connect(record.socket)
        return int.from_bytes(
            stream.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)[:4], sys.byteorder
        )


@pytest.mark.parametrize(
    ("image", "runtime"),
    [
        ("IMAGE_SCRATCH_SIF", "portable python and bash"),
        ("IMAGE_NOPYTHON_SIF", "portable python"),
        ("IMAGE_MINIMAL_SIF", "portable python"),
        ("IMAGE_NOBASH_SIF", "portable bash"),
    ],
)
async def test_what_an_image_lacks_is_brought_along_and_leaves_nothing(
    apptainers: Apptainers, image: str, runtime: str
) -> None:
    async with hermetic.open(
        "apptainer", image=need_variable(image), env={"A": "b"}, cwd="/tmp"
    ) as env:
        info = await env.info()
        assert (info.runtime, info.weak) == (runtime, ())
        assert (await env.run("echo $A $PATH; export -p")).output.count("/.hermetic") == 0
        script = "printf '#!/bin/bash\\necho $1\\n' >s; busybox chmod +x s || chmod +x s; ./s a; bash s b"
        assert (await env.run(f"{{ {script}; }} 2>/dev/null")).output == "a\nb\n"
        has_python = image in ("IMAGE_MINIMAL_SIF", "IMAGE_NOBASH_SIF")
        assert (await env.run("command -v python3")).output == "/usr/bin/python3\n" * has_python
        is_filtered = "while read -r name value; do [ $name != Seccomp: ] || echo $value; done </proc/self/status"
        assert (await env.run(is_filtered)).output == "2\n"
    assert apptainers.left() == []


async def test_an_image_for_another_architecture_is_refused(
    apptainers: Apptainers, tmp_path: Path
) -> None:
    with open(need_variable("IMAGE_SCRATCH_SIF"), "rb") as file:  # noqa: ASYNC230
        data = file.read()
    described = 32 << 10  # bytes before the content; "02" is amd64, "04" arm64
    image = tmp_path / "foreign.sif"
    image.write_bytes(data[:described].replace(b"\x0002\0", b"\x0004\0") + data[described:])
    with pytest.raises(
        hermetic.EnvironmentUnavailable,
        match=r"is for machines of another architecture; use one for",
    ):
        await hermetic.open("apptainer", image=str(image))
    assert apptainers.left() == []


async def test_an_overlay_keeps_nothing_of_the_runtime(
    apptainers: Apptainers, tmp_path: Path
) -> None:
    image, overlay = need_variable("IMAGE_SCRATCH_SIF"), str(tmp_path / "overlay")
    for runtime in ("auto", "portable", "auto"):
        async with hermetic.open("apptainer", image=image, overlay=overlay, runtime=runtime) as env:
            assert (
                await env.run("echo one >>one; bash -c 'echo $BASH'; cat one")
            ).output.startswith("/bin/bash\none\n")
    with pytest.raises(hermetic.EnvironmentUnavailable, match=r"no python3 >= 3\.8 there"):
        await hermetic.open("apptainer", image=image, overlay=overlay, runtime="image")
    assert apptainers.left() == []
