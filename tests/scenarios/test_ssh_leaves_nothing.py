"""Many environments by ssh, closed or left by callers that were killed: nothing stays on either
side.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import hermetic
from hermetic.registry.host_process import ended
from hermetic.registry.records import runtime_root
from tests.environments.sshd import Sshd, running
from tests.scenarios.living import with_argument
from tests.sizes import scale

ODD = f"6000.{os.getpid()}"  # by which what was started there is found

CALLER = """
import asyncio, json, sys
import hermetic

async def main():
    environment = await hermetic.open("ssh", **json.loads(sys.argv[1]))
    lasting = "sleep " + sys.argv[2]
    await environment.run(f"setsid {lasting} & disown; nohup {lasting} >/dev/null 2>&1 &")
    await environment.start(lasting)
    info = await environment.info()
    print(environment.id, info.pid, info.guardian, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with running(tmp_path_factory.mktemp("sshd")) as one:
        yield one


def left(ids: list[str]) -> list[Path]:
    """What these environments have on this machine, which is their host too."""
    own = f"hermetic-{os.geteuid()}"
    bases = (runtime_root(), Path("/tmp", own), Path("/var/tmp", own))
    return [
        path
        for base in bases
        if base.is_dir()
        for path in base.iterdir()
        if path.name.startswith(tuple(ids))
    ]


@pytest.mark.slow
async def test_a_hundred_opened_and_closed(sshd: Sshd) -> None:
    ids = []
    for _ in range(scale(100)):
        async with hermetic.open("ssh", **sshd.options) as env:
            await env.run(f"sleep {ODD} & setsid sleep {ODD} &")
            ids.append(env.id)
        assert with_argument(ODD) == []
    assert left(ids) == []


@pytest.mark.slow
async def test_twenty_callers_killed(sshd: Sshd) -> None:
    options = {**sshd.options, "lease": 0.5, "unattended": 0.5}
    ids = []
    for _ in range(scale(20)):
        caller = await asyncio.create_subprocess_exec(
            sys.executable, "-c", CALLER, json.dumps(options), ODD, stdout=asyncio.subprocess.PIPE
        )
        assert caller.stdout is not None
        id, *residents = (await caller.stdout.readline()).decode().split()
        ids.append(id)
        assert len(with_argument(ODD)) > 2  # the caller is one of them
        caller.send_signal(signal.SIGKILL)
        await caller.wait()
        async with asyncio.timeout(30):
            for pid in map(int, residents):
                await ended(pid)
        assert with_argument(ODD) == []
    async with asyncio.timeout(30):
        while left(ids):  # noqa: ASYNC110 - the caller's own machine looks when the lease is over, and tells nobody
            await asyncio.sleep(0.05)
