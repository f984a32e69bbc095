"""Sandboxes of an ordinary user: no rights are needed, the limits that can be had hold, and nothing
is left.
"""

import asyncio
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from hermetic.environments.sandbox import SandboxFiles
from tests.environments.ordinary_user import OrdinaryUser
from tests.environments.sandboxes import nothing_left
from tests.environments.test_sandbox import OPEN_AND_WAIT
from tests.programs import need, need_root, need_variable

JOURNEY = """
import asyncio, json, os, sys
import hermetic

FORK = '''
import os, time
n = 0
for _ in range(400):
    try: pid = os.fork()
    except OSError as error: print(error.errno); break
    if not pid: time.sleep(60); os._exit(0)
    n += 1
print(n < 64)
'''
BOMB = "x = bytearray(512 << 20)"

async def main():
    said = {}
    options = dict(workspace=sys.argv[1], memory_bytes=256 << 20, pids=64)
    async with hermetic.open("sandbox", **options) as env:
        said["user"] = (await env.run("id -u; touch mine; ls -A ~")).output
        said["status"] = (await env.run("grep -E 'CapEff|NoNewPrivs|^Seccomp:' /proc/self/status")).output
        said["protected"] = (await env.run("unshare -U true")).exit_code
        said["fork"] = (await env.run(["python3", "-c", FORK])).output
        bomb = await env.run(["python3", "-c", BOMB])
        said["bomb"] = [type(bomb.ending).__name__, "MemoryError" in bomb.output]
        said["slow"] = str((await env.run("setsid sleep 600 & sleep 600", timeout=0.3)).ending)
        said["left"] = (await env.run("pgrep -c sleep")).output
        said["alive"] = (await env.run("echo alive")).output
        said["notes"] = env.isolation.notes
    said["after"] = os.listdir(sys.argv[1])
    said["run"] = os.listdir(os.environ["HERMETIC_RUNTIME_DIR"])
    print(json.dumps(said))

asyncio.run(main())
"""


SHOWN = """
import asyncio, os, sys
import hermetic

async def main():
    settings = os.path.expanduser("~/.config/hermetic")
    os.makedirs(f"{settings}/skills")
    with open(os.open(f"{settings}/mail.json", os.O_CREAT | os.O_WRONLY, 0o600), "w") as file:
        file.write("token")
    os.symlink("/etc/passwd", f"{settings}/skills/out")
    async with hermetic.open("sandbox", workspace=sys.argv[1], credential_files=["mail.json"]) as env:
        print((await env.run("cd ~/.hermetic; cat mail.json; ls -A skills; echo x >mail.json")).output)

asyncio.run(main())
"""


@pytest.fixture
def user() -> Iterator[OrdinaryUser]:
    """The user that the engines script makes, with short directories of his own."""
    need("bwrap")
    need_root("only root can run something as another user")
    with tempfile.TemporaryDirectory(prefix="hm-", dir="/tmp") as home:
        user = OrdinaryUser(need_variable("APPTAINER_USER"), Path(home))
        for name in ("ws", "run"):
            (user.home / name).mkdir(mode=0o700)
            os.chown(user.home / name, user.uid, user.gid)
        user.environ["HERMETIC_RUNTIME_DIR"] = str(user.home / "run")
        yield user


def test_it_works_and_leaves_nothing(user: OrdinaryUser) -> None:
    said = json.loads(user.run(JOURNEY, str(user.home / "ws")))
    assert said["user"] == f"{user.uid}\nws\n"
    assert said["status"].split() == ["CapEff:", "0" * 16, "NoNewPrivs:", "1", "Seccomp:", "2"]
    assert said["protected"] != 0
    assert said["fork"] == "11\nTrue\n"
    assert said["slow"] == "timed out after 0.3 s"
    assert said["left"] == "0\n"
    assert said["alive"] == "alive\n"
    assert (said["after"], said["run"]) == (["mine"], [])
    assert (user.home / "ws" / "mine").stat().st_uid == user.uid
    # Where no cgroup is to be had, each process has a limit of its own, and the notes say so.
    is_told = any("for each process, not for all together" in note for note in said["notes"])
    assert said["bomb"] == (["Exited", True] if is_told else ["OutOfMemory", False])


async def test_a_killed_caller_leaves_nothing(user: OrdinaryUser) -> None:
    with user.start(OPEN_AND_WAIT, str(user.home / "ws")) as caller:
        assert caller.stdout is not None
        id = (await asyncio.to_thread(caller.stdout.readline)).strip()
        record = json.loads((user.home / "run" / id / "env.json").read_text())
        caller.kill()
    await nothing_left(msgspec.json.decode(record["place"]["kept"], type=SandboxFiles))
    assert os.listdir(user.home / "ws") == []
    assert os.listdir(user.home / "run") == []


def test_files_of_a_profile_are_seen_read_only(user: OrdinaryUser) -> None:
    said = user.run(SHOWN, str(user.home / "ws"))
    assert said.startswith("token")
    assert "Read-only file system" in said
    assert "out" not in said
