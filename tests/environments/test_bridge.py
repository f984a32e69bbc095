"""A resident behind a bridge answers as one that is reached directly."""

import asyncio
import os
import socket
import sys
from pathlib import Path

import pytest

import hermetic
from hermetic.contract.environment import EnvironmentRecord
from hermetic.contract.errors import EnvironmentUnavailable
from hermetic.environments.bridge import BRIDGE, bridged
from hermetic.environments.local import Local
from hermetic.registry.host_process import ended
from hermetic.registry.records import Records, runtime_root


def command(path: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", BRIDGE, path]


INTO_A_PIPE = ["sh", "-c", '"$@" | cat', "sh"]


@pytest.mark.parametrize(
    "around", [[], INTO_A_PIPE], ids=["hands its stream over", "carries every byte"]
)
async def test_a_resident_is_reached_through_a_program(
    monkeypatch: pytest.MonkeyPatch, around: list[str]
) -> None:
    async def reach(self: Local, record: EnvironmentRecord) -> socket.socket:
        return await bridged([*around, *command(record.socket)], seconds=20)

    monkeypatch.setattr(Local, "reach", reach)
    async with hermetic.open("local", login=False) as env:
        assert (await env.run("cat", stdin=b"x" * 3_000_000)).total_bytes == 3_000_000
        assert (await env.run("cd /usr; pwd")).output == "/usr\n"


async def test_a_stream_that_was_handed_over_outlives_its_bridge_only_until_the_resident_sees_it_end() -> (
    None
):
    async with hermetic.open("local", login=False) as env:
        record = Records(runtime_root()).read(env.id)
        assert record is not None
        stream = await bridged([*command(record.socket), "marked-as-ours"], seconds=20)
        [pid] = bridges()
        assert (await env.info()).clients == 1  # who has not greeted does not count
        stream.close()
        async with asyncio.timeout(20):
            await ended(pid)


async def test_the_bridge_ends_with_the_stream(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))
        listening.listen()
        listening.setblocking(False)
        stream = await bridged([*command(str(tmp_path / "s")), "marked-as-ours"], seconds=20)
        [pid] = bridges()
        stream.close()
        async with asyncio.timeout(20):
            await ended(pid)


def bridges() -> list[int]:
    return [
        int(name)
        for name in os.listdir("/proc")
        if name.isdigit() and b"marked-as-ours" in arguments(name)
    ]


def arguments(pid: str) -> bytes:
    try:
        return Path("/proc", pid, "cmdline").read_bytes()
    except OSError:
        return b""


async def test_nobody_who_listens_is_told_from_a_way_that_does_not_open(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await bridged(command(str(tmp_path / "nothing")), seconds=20)
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "left"))
    with pytest.raises(ConnectionRefusedError):
        await bridged(command(str(tmp_path / "left")), seconds=20)
    with pytest.raises(EnvironmentUnavailable, match="no such engine"):
        await bridged(["sh", "-c", "echo no such engine >&2; exit 1"], seconds=20)


async def test_a_program_that_never_answers_is_ended(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    with pytest.raises(EnvironmentUnavailable, match="no answer within"):
        await bridged(["sh", "-c", f"echo $$ > {pid_file}; exec sleep 1000"], seconds=1)
    async with asyncio.timeout(20):
        await ended(int(pid_file.read_text()))
