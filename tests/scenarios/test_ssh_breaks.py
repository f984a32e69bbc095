"""An ssh connection that breaks: what runs there goes on, and no byte of it is lost or comes twice."""

import asyncio
import contextlib
import hashlib
import os
import re
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import hermetic
from hermetic import Exited, Unreachable
from hermetic.registry.host_process import ended
from hermetic.registry.records import runtime_root
from tests.environments.network import THERE, Network, network
from tests.environments.sshd import Sshd, running
from tests.programs import need_root

LINES = 20_000
PARTS = 4
WHOLE = "".join(f"line {number}\n" for number in range(LINES)).encode()


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with running(tmp_path_factory.mktemp("sshd")) as one:
        yield one


class Reader:
    """Takes live output, and knows when some has come."""

    def __init__(self) -> None:
        self.digest = hashlib.sha256()
        self.size = 0
        self._more = asyncio.Event()

    def take(self, data: bytes) -> None:
        self.digest.update(data)
        self.size += len(data)
        self._more.set()

    async def more(self, size: int) -> None:
        """Returns when so many bytes have come from now on."""
        wanted = self.size + size
        while self.size < wanted:
            self._more.clear()
            await self._more.wait()

    def assert_whole(self, result: hermetic.Result) -> None:
        """Every byte came once, and the command ran once."""
        assert result.ending == Exited(0), result
        assert (self.size, result.total_bytes) == (len(WHOLE), len(WHOLE))
        assert self.digest.digest() == hashlib.sha256(WHOLE).digest()


def clients() -> list[int]:
    """The ssh clients of this test's environments."""
    ours = os.fsencode(f"{runtime_root()}/c-")
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if ours in (words := path.read_bytes()) and words.startswith(b"ssh"):
                found.append(int(path.parent.name))
    return found


def kill(pids: list[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


class Printer:
    """A command that prints in parts, each once it is let on."""

    def __init__(self, directory: Path, running: "asyncio.Task[hermetic.Result]") -> None:
        self.directory, self.running = directory, running

    def let_on(self, part: int) -> None:
        (self.directory / str(part)).touch()


@asynccontextmanager
async def printing(
    options: dict[str, Any], reader: Reader, directory: Path
) -> AsyncIterator[Printer]:
    """A command whose first part has begun to come; the directory is on this machine, where the
    server is too.
    """
    text = (
        f"for ((i = 0; i < {LINES}; i++)); do ((i % {LINES // PARTS})) || "
        f"until [ -e {directory}/$((i / {LINES // PARTS})) ]; do sleep 0.02; done; echo line $i; done"
    )
    async with hermetic.open("ssh", **options) as env, asyncio.timeout(100):
        printer = Printer(directory, asyncio.create_task(env.run(text, on_output=reader.take)))
        printer.let_on(0)
        await reader.more(1)
        yield printer


async def test_the_clients_killed_while_it_prints(sshd: Sshd, tmp_path: Path) -> None:
    reader = Reader()
    async with printing(sshd.options, reader, tmp_path) as printer:
        for part in range(1, PARTS):
            async with asyncio.timeout(20):
                while not (killed := clients()):  # noqa: ASYNC110 (not our children: no event tells)
                    await asyncio.sleep(0.02)  # the next client is on its way
            kill(killed)
            printer.let_on(part)
            await reader.more(1)
        reader.assert_whole(await printer.running)


@pytest.fixture
def wire() -> Iterator[Network]:
    need_root("only root can change the machine's view")
    with network() as made:
        yield made


def far_options(sshd: Sshd) -> dict[str, Any]:
    """Those of an environment whose broken connection is seen within two seconds."""
    short = {"ServerAliveInterval": "1", "ServerAliveCountMax": "2", "ConnectTimeout": "2"}
    return {**sshd.options, "settings": {**sshd.options["settings"], **short}}


async def test_packets_dropped_while_it_prints(wire: Network, tmp_path: Path) -> None:
    reader = Reader()
    with running(tmp_path / "sshd", address=THERE, around=wire.around) as sshd:
        async with printing(far_options(sshd), reader, tmp_path) as printer:
            wire.drop()
            for part in range(1, PARTS):
                printer.let_on(part)
            await the_clients_give_up()
            before = reader.size
            wire.mend()
            await reader.more(1)
            assert reader.size > before
            reader.assert_whole(await printer.running)
            assert sshd.log.count("Accepted publickey") >= 2


async def the_clients_give_up() -> None:
    """Returns when every client that was there has seen that nobody answers."""
    for pid in clients():
        await ended(pid)


async def test_a_task_out_of_reach_is_neither_gone_nor_replaced(tmp_path: Path) -> None:
    with running(tmp_path / "sshd") as sshd:
        options = {**sshd.options, "settings": {**sshd.options["settings"], "ControlPersist": "no"}}
        async with hermetic.open("ssh", task="far", **options) as env:
            await env.run("v=kept")
            id = env.id
        sshd.stop()
        with pytest.raises(Unreachable, match="no ssh server listens there"):
            await hermetic.open("ssh", task="far", **options)
        with pytest.raises(Unreachable):
            await hermetic.attach(id)
        sshd.start()
        again = await hermetic.open("ssh", task="far", **options)
        assert (again.id, (await again.run("echo $v")).output) == (id, "kept\n")
        await again.close(remove=True)


async def test_closing_out_of_reach_says_that_the_lease_ends_it(tmp_path: Path) -> None:
    with running(tmp_path / "sshd") as sshd:
        env = await hermetic.open("ssh", task="left", lease=1, **sshd.options)
        resident = (await env.info()).pid
        sshd.stop()
        kill(clients())
        async with asyncio.timeout(60):
            with pytest.raises(Unreachable, match="ends with its lease"):
                await env.close(remove=True)
            await ended(resident)
        sshd.start()
        with pytest.raises(
            hermetic.EnvironmentUnavailable, match=re.escape("no environment 'left' lives")
        ):
            await hermetic.attach("left")
        again = await hermetic.open("ssh", task="left", **sshd.options)
        await again.close(remove=True)
