"""Directories with spaces, quotes, newlines and other characters in their names serve like any other."""

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

import hermetic
from tests.resident.running import running

NAMES = ("a b", "new\nline", "'", '"', "%s%d", "é\u4e16", "$(touch x)`y`", "a\\b", "*?[x]", "-n", ";&|<>", "\x01\x7f")


@pytest.mark.parametrize("name", NAMES)
def test_every_directory_of_a_resident_may_have_any_name(name: str) -> None:
    with tempfile.TemporaryDirectory(prefix="p-", dir="/tmp") as top:
        places = {what: Path(top, what[0] + name) for what in ("runtime", "spool", "cwd", "home", "other")}
        for place in places.values():
            place.mkdir()
        (places["home"] / ".bash_profile").write_text("from_profile=1\n")
        environ = {"HOME": str(places["home"]), "PATH": "/usr/bin:/bin"}
        given: dict[str, Any] = {"directory": str(places["runtime"]), "spool": str(places["spool"])}
        with (
            running(environ=environ, login=True, cwd=str(places["cwd"]), **given) as resident,
            resident.client() as client,
        ):
            assert client.run('echo "$from_profile"; pwd')[1] == f"1\n{places['cwd']}\n".encode()
            client.run("x=1")
            assert client.run("exit 3")[0]["ending"] == ["exited", 3]
            assert client.run('echo "$x$HOME"')[1] == f"1{places['home']}\n".encode()
            assert client.run("pwd", cwd=str(places["other"]))[1] == f"{places['other']}\n".encode()
            places["other"].rmdir()
            assert client.run("seq 300000 | tail -1")[1] == b"300000\n"


@pytest.mark.parametrize("name", ["a b", "new\nline", "it's", "%s", "é"])
async def test_the_runtime_directory_of_the_api_may_have_any_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(prefix="p-", dir="/tmp") as top:
        place = Path(top, name)
        os.mkdir(place, 0o700)
        monkeypatch.setenv("HERMETIC_RUNTIME_DIR", str(place))
        async with hermetic.open("local", cwd=str(place), login=False) as env:
            assert (await env.run("x=1; pwd", timeout=60)).output == f"{place}\n"
            assert (await env.run("exit 3", timeout=60)).exit_code == 3
            assert (await env.run("echo $x", timeout=60)).output == "1\n"
            process = await env.start("cat")
            await process.kill()
            await env.write_file(str(place / "file"), "text")
            assert await env.read_file(str(place / "file")) == "text"
