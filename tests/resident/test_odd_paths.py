"""Directories with spaces, quotes, newlines and other characters in their names serve like any
other.
"""

import asyncio
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest

import hermetic
from tests.environments.engines import need_engine
from tests.environments.sshd import shared_options
from tests.programs import need, need_variable
from tests.resident.running import running

NAMES = (
    "a b",
    "new\nline",
    "'",
    '"',
    "%s%d",
    "é\u4e16",
    "$(touch x)`y`",
    "a\\b",
    "*?[x]",
    "-n",
    ";&|<>",
    "\x01\x7f",
)


@pytest.mark.parametrize("name", NAMES)
def test_every_directory_of_a_resident_may_have_any_name(name: str) -> None:
    with tempfile.TemporaryDirectory(prefix="p-", dir="/tmp") as top:
        places = {
            what: Path(top, what[0] + name) for what in ("runtime", "spool", "cwd", "home", "other")
        }
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
async def test_the_runtime_directory_of_the_api_may_have_any_name(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
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


@pytest.mark.parametrize("kind", ["docker", "podman", "sandbox"])
async def test_every_directory_of_a_container_or_sandbox_may_have_any_name(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runtime directory and what is mounted; one name with every sign that an engine might read
    differently.
    """
    with tempfile.TemporaryDirectory(prefix="p-", dir="/tmp") as top:
        runtime, shared = Path(top, "r a'b\"c,d:e%s$(x)\\é*"), Path(top, "w a'b\"c,d:e%s$(x)\\é*")
        for place in (runtime, shared):
            os.mkdir(place, 0o700)
        monkeypatch.setenv("HERMETIC_RUNTIME_DIR", str(runtime))
        if kind == "sandbox":
            need("bwrap")
            options: dict[str, Any] = {"workspace": str(shared)}
        else:
            need_engine(kind)
            options = {"image": need_variable("IMAGE_BASE"), "host_cwd": str(shared)}
        async with hermetic.open(kind, login=False, **options) as env:
            assert (await env.run("x=1; echo text > file; cat file", timeout=60)).output == "text\n"
            assert (await env.run("exit 3", timeout=60)).exit_code == 3
            assert (await env.run("echo $x", timeout=60)).output == "1\n"
        assert (shared / "file").read_text() == "text\n"


@pytest.mark.parametrize("name", ["a b", "r a'b\"c,d:e%s$(x)\\é*"])
async def test_the_runtime_directory_and_the_key_of_ssh_may_have_any_name(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = shared_options()
    with tempfile.TemporaryDirectory(prefix="p-", dir="/tmp") as top:
        runtime, key = Path(top, name), Path(top, f"key {name}")
        os.mkdir(runtime, 0o700)
        shutil.copy(options["key"], key)
        monkeypatch.setenv("HERMETIC_RUNTIME_DIR", str(runtime))
        async with hermetic.open("ssh", **{**options, "key": str(key)}, login=False) as env:
            assert (await env.run("x=1; echo text", timeout=60)).output == "text\n"
            assert any(entry.startswith("c-") for entry in os.listdir(runtime)), (
                "the shared connection"
            )
        await gone(runtime)


async def gone(runtime: Path) -> None:
    """Returns when the janitor and the shared connection have ended."""
    async with asyncio.timeout(60):
        while os.listdir(runtime):  # noqa: ASYNC110 (no event tells)
            await asyncio.sleep(0.05)
