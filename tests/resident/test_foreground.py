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
from hermetic.resident.wire.frames import MAX_FRAME, FrameReader
from tests.resident.running import Resident
from tests.sizes import scale


@pytest.fixture
def config(tmp_path: Path) -> dict[str, Any]:
    return {
        "id": "fore",
        "token": secrets.token_bytes(16),
        "directory": str(tmp_path),
        "spool": None,
        "login": False,
        "environ": dict(os.environ),
        "cwd": "/",
        "lease": 60.0,
        "foreground": True,
    }


def start(
    config: dict[str, Any], environ: dict[str, str] | None = None
) -> tuple["subprocess.Popen[bytes]", Any]:
    """The started process, and the fields of the frame it said."""
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", BOOT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environ,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(starting_input(build_archive(), msgspec.msgpack.encode(config)))
    process.stdin.close()
    [(_, _, said, _)] = FrameReader(MAX_FRAME).feed(process.stdout.read())
    return process, said


def test_it_is_the_process_that_was_started_and_leaves_nothing(config: dict[str, Any]) -> None:
    process, ready = start(config)
    with process:
        resident = Resident(config["directory"], config["token"], ready)
        assert (ready["pid"], ready["guardian"]) == (process.pid, None)
        with resident.client() as client:
            client.run("setsid sleep 1000 & X=1")
            assert client.run("echo $X")[1] == b"1\n"
            assert client.ask("info")[0]["guardian"] is None
            client.ask("shutdown", grace=0.0)
        assert process.wait(20) == 0
    assert not os.path.exists(config["directory"])


def test_a_shutdown_waits_for_no_grace_where_nothing_needs_it(config: dict[str, Any]) -> None:
    process, ready = start(config, dict(os.environ))
    with process:
        with Resident(config["directory"], config["token"], ready).client() as client:
            client.run("true")
            client.ask("shutdown", grace=100.0)  # the client gives up after 20 s
        assert process.wait(20) == 0


def test_commands_get_what_the_place_has_where_the_configuration_says_nothing_else(
    config: dict[str, Any],
) -> None:
    config |= {"inherit": True, "environ": {"B": "configured"}}
    process, ready = start(
        config, {"PATH": os.environ["PATH"], "A": "of the image", "B": "too", "PROMPT_COMMAND": "x"}
    )
    with process:
        with Resident(config["directory"], config["token"], ready).client() as client:
            assert (
                client.run('echo "$A, $B, [$PROMPT_COMMAND]"')[1]
                == b"of the image, configured, []\n"
            )
            client.ask("shutdown", grace=0.0)
        assert process.wait(20) == 0


def test_a_directory_that_is_not_there_is_told_before_anything_runs(config: dict[str, Any]) -> None:
    for _ in range(scale(100)):  # a holder that outlived the resident would keep the output open
        process, said = start(config | {"cwd": "/nowhere"})
        with process:
            assert "cwd '/nowhere' is not a directory" in said["message"]
            assert process.wait(20) == 1
