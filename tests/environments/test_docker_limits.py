"""Limits of containers: memory, disks in memory, processes, and engines that cannot set one."""

from pathlib import Path

import pytest

import hermetic
from hermetic.environments.catalog import find
from tests.environments.engines import both_engines, inspect, need_engine, ours


@both_engines
async def test_memory_that_ran_out_is_told_and_the_place_lives(engine: str, image: str) -> None:
    bomb = "python3 -c 'x = bytearray(400 << 20)'"
    async with hermetic.open(engine, image=image, memory_bytes=256 << 20) as env:
        await env.run("kept=1")
        for command in (bomb, ["python3", "-c", "x = bytearray(400 << 20)"]):
            result = await env.run(command)
            assert (result.ending, result.exit_code) == (hermetic.OutOfMemory(), 137)
        process = await env.start(bomb)
        assert await process.wait(20) == hermetic.OutOfMemory()
        assert (await env.run("kill -9 $$")).ending == hermetic.Signalled(9)
        assert (await env.run("echo $kept")).output == "1\n"


async def test_a_full_tmpfs_costs_only_who_fills_it(engine: str, image: str) -> None:
    async with hermetic.open(engine, image=image, memory_bytes=256 << 20) as env:
        full = await env.run("head -c 999M /dev/zero >/tmp/full")
        assert full.exit_code != 0
        assert "No space left" in full.output
        with pytest.raises(OSError, match="No space left"):
            await env.write_file("/tmp/more", "x" * 100_000)
        head = await env.run("seq 1000000")
        assert (head.exit_code, head.total_bytes) == (0, 6888896)
        await env.run("head -c 999M /dev/zero >/run/full; head -c 999M /dev/zero >/dev/shm/full")
        assert (await env.run("cd /; echo usable")).output == "usable\n"


async def test_a_kill_of_everything_leaves_the_place(engine: str, image: str) -> None:
    async with hermetic.open(engine, image=image) as env:
        await env.run("kept=1")
        process = await env.start("sleep 600")
        await env.run("exec env kill -9 -1")
        assert await process.wait(20) == hermetic.Signalled(9)
        assert (await env.run("echo alive")).output == "alive\n"
        zombies = await env.run(
            "for i in {1..200}; do (setsid true &); done; sleep 0.5; grep -l 'State:.Z' /proc/[0-9]*/status | wc -l"
        )
        assert zombies.output == "0\n"


# An engine without the cgroup for processes: it refuses that limit, and says in `info` that it has
# none.
WITHOUT_PIDS = """\
#!/bin/sh
case " $* " in
*" --pids-limit "*) echo "runtime error: no cgroup for pids" >&2; exit 125 ;;
" info "*) echo '{"PidsLimit": false, "MemoryLimit": true, "CpuCfsQuota": true}'; exit ;;
esac
exec "$REAL_DOCKER" "$@"
"""


async def test_a_limit_that_cannot_be_set_is_left_out_and_named(
    image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = tmp_path / "docker"
    client.write_text(WITHOUT_PIDS.replace("$REAL_DOCKER", need_engine("docker")))
    client.chmod(0o755)
    monkeypatch.setenv("HERMETIC_DOCKER_BINARY", str(client))
    async with hermetic.open("docker", image=image, network=False) as env:
        assert inspect("docker", env)["HostConfig"]["PidsLimit"] in (None, 0)
        assert any("no limit on pids" in note for note in env.isolation.notes)
        assert any("no limit on pids" in note for note in (await env.info()).weak)
        async with hermetic.attach(env.id) as again:
            assert again.isolation == env.isolation
    assert (await find("docker").doctor()).state == "weak"  # type: ignore[attr-defined]


@both_engines
async def test_a_limit_on_disk_holds_or_is_named_as_missing(engine: str, image: str) -> None:
    async with hermetic.open(engine, image=image, disk_bytes=64 << 20, login=False) as env:
        missing = [
            note for note in env.isolation.notes if note.startswith("no limit on disk_bytes")
        ]
        filled = await env.run("head -c 100000000 /dev/zero > /fill")
        assert (filled.exit_code == 0) == bool(missing)
        assert not any(note.startswith("no limit on disk:") for note in env.isolation.notes)
    assert ours(engine) == []


async def test_files_in_memory_have_a_limit_of_inodes(image: str) -> None:
    need_engine("docker")
    async with hermetic.open("docker", image=image, memory_bytes=64 << 20, login=False) as env:
        counts = (await env.run("df --output=itotal /tmp /run | tail -n +2")).output.split()
        assert [0 < int(count) <= 4096 for count in counts] == [True, True]
