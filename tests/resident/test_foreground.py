"""A resident that is the process its starter started, as the main process of a container is."""

import os
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermetic.link.archive import BOOT, build_archive, starting_input
from hermetic.resident.frames import MAX_FRAME, FrameReader
from tests.resident.running import Resident


@pytest.fixture
def config(tmp_path: Path) -> dict[str, Any]:
    return {
        "id": "fore", "token": secrets.token_bytes(16), "directory": str(tmp_path), "spool": None, "login": False,
        "environ": dict(os.environ), "cwd": "/", "lease": 60.0, "foreground": True,
    }  # fmt: skip


def test_it_is_the_process_that_was_started_and_leaves_nothing(config: dict[str, Any]) -> None:
    given = starting_input(build_archive(), msgspec.msgpack.encode(config))
    argv = [sys.executable, "-I", "-S", "-c", BOOT]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(given)
        process.stdin.close()
        [(_, _, ready, _)] = FrameReader(MAX_FRAME).feed(process.stdout.read())
        resident = Resident(config["directory"], config["token"], ready)
        assert (ready["pid"], ready["guardian"]) == (process.pid, None)
        with resident.client() as client:
            client.run("setsid sleep 1000 & X=1")
            assert client.run("echo $X")[1] == b"1\n"
            assert client.ask("info")[0]["guardian"] is None
            client.ask("shutdown", grace=0.0)
        assert process.wait(20) == 0
    assert not os.path.exists(config["directory"])
