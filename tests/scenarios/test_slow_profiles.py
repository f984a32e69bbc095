"""A login profile: what it defines lasts, and one that hangs costs its time limit and not the
session.
"""

import os
from pathlib import Path

import hermetic
from tests.resident.running import running


async def test_what_it_defines_lasts_for_every_later_command(tmp_path: Path) -> None:
    (tmp_path / ".bash_profile").write_text(
        "_f() { echo f; }; g() { echo g; }; alias hi='echo hello'\n"
    )
    async with hermetic.open("local", env={"HOME": str(tmp_path)}) as env:
        for command in ("true", "X=1", "exit 3", "(exit 4)", "export Y=2"):
            await env.run(command)
            assert (await env.run("_f; g; hi")).output == "f\ng\nhello\n"


def test_one_that_hangs_is_left_out_after_its_time(tmp_path: Path) -> None:
    (tmp_path / ".bash_profile").write_text("export EARLY=1; sleep 600\n")
    environ = {**os.environ, "HOME": str(tmp_path)}
    with (
        running(login=True, login_timeout=0.3, environ=environ) as resident,
        resident.client() as client,
    ):
        said, output = client.run('echo "works[$EARLY]"')
        assert output == b"works[]\n"
        assert said["notes"] == [
            "the login profile did not finish within 0.3 s: the session was started without it"
        ]
        assert client.run("echo $((6 * 7))")[1] == b"42\n"
