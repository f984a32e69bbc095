"""Apptainer containers of an ordinary user: no rights are needed, and nothing is left either."""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermetic.registry.host_process import ended
from tests.environments.ordinary_user import OrdinaryUser
from tests.programs import need_root, need_variable

JOURNEY = """
import asyncio, json, pathlib, sys
import hermetic

async def main():
    options = json.loads(sys.argv[1])
    pathlib.Path("~/.config/hermetic").expanduser().mkdir(parents=True)
    pathlib.Path("~/.config/hermetic/mail.json").expanduser().write_text("token")
    options["credential_files"] = ["mail.json"]
    async with hermetic.open("apptainer", **options) as env:
        shown = await env.run("cat ~/.hermetic/mail.json; echo x >~/.hermetic/mail.json")
        assert shown.output.startswith("token") and shown.exit_code == 1, shown
        await env.run("cd /tmp; export WHO=me; f() { echo f $WHO; }")
        result = await env.run("id -u; f; pwd; touch /root/x /y && echo written; mkdir -m 0 /tmp/closed")
        status = await env.run("grep -E 'CapEff|CapBnd|NoNewPrivs|^Seccomp:' /proc/self/status")
        slow = await env.run("setsid sleep 600 & (sleep 600 &) ; sleep 600", timeout=0.3)
        left = await env.run("pgrep -c sleep")
        print(json.dumps([result.output, status.output, str(slow.ending), left.output]))

asyncio.run(main())
"""

OPENER = """
import asyncio, json, sys
import hermetic
from hermetic.registry.records import Records, runtime_root

async def main():
    environment = await hermetic.open("apptainer", **json.loads(sys.argv[1]))
    await environment.run("setsid sleep 600 &")
    print(Records(runtime_root()).read(environment.id).place["watchdog"].split(".")[0], flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.fixture
def user(monkeypatch: pytest.MonkeyPatch) -> Iterator[OrdinaryUser]:
    """The user that the engines script makes, with short directories of his own."""
    need_root("only root can run something as another user")
    name = need_variable("APPTAINER_USER")
    with tempfile.TemporaryDirectory(prefix="hm-", dir="/tmp") as home:
        yield OrdinaryUser(name, Path(home))


def settings(user: OrdinaryUser) -> dict[str, str]:
    return {
        "HERMETIC_APPTAINER_BINARY": need_variable("APPTAINER"),
        "HERMETIC_RUNTIME_DIR": str(user.home / "run"),
        "HERMETIC_SCRATCH_DIR": str(user.home / "scratch"),
    }


def left(user: OrdinaryUser) -> list[str]:
    folders = (user.home / "run", user.home / "scratch" / f"hermetic-{user.uid}")
    return [str(entry) for folder in folders for entry in folder.iterdir()]


def test_a_whole_journey_needs_no_rights(user: OrdinaryUser) -> None:
    options = json.dumps({"image": need_variable("IMAGE_BASE_SIF")})
    said, status, ending, alive = json.loads(user.run(JOURNEY, options, **settings(user)))
    assert said == f"{user.uid}\nf me\n/tmp\nwritten\n"
    fields = dict(line.split(":\t") for line in status.splitlines())
    assert (
        int(fields["CapEff"], 16),
        int(fields["CapBnd"], 16),
        fields["NoNewPrivs"],
        fields["Seccomp"],
    ) == (
        0,
        0,
        "1",
        "2",
    )
    assert (ending, alive) == ("timed out after 0.3 s", "0\n")
    assert left(user) == []


async def test_a_caller_killed_by_sigkill_leaves_nothing_after_the_lease(
    user: OrdinaryUser,
) -> None:
    options = json.dumps(
        {"image": need_variable("IMAGE_BASE_SIF"), "lease": 0.5, "unattended": 0.5}
    )
    with user.start(OPENER, options, **settings(user)) as process:
        assert process.stdout is not None
        watchdog = int(process.stdout.readline())
        process.kill()
    await ended(watchdog)
    assert left(user) == []
