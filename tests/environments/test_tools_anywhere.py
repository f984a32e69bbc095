"""Every tool in places without Python and bash, on each engine and over each transport."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.boxes import Box, opened_in
from tests.docs.pages import blocks
from tests.environments.engines import need_engine
from tests.environments.plugins import install, install_jail
from tests.environments.sshd import with_programs
from tests.programs import need_variable
from tests.sizes import is_full

pytestmark = pytest.mark.slow
SECONDS = 60.0
Place = tuple[str, Mapping[str, Any]]


class Setup(ExitStack):
    """What a place needs while a test runs."""

    def __init__(self, at: Path, patch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.at, self.patch = at, patch


def container(kind: str) -> Callable[[Setup], Place]:
    """A container of one busybox."""

    def prepare(setup: Setup) -> Place:
        need_engine(kind)
        return kind, {"image": need_variable("IMAGE_SCRATCH"), "cwd": "/tmp"}

    return prepare


def apptainer(setup: Setup) -> Place:
    setup.patch.setenv("HERMETIC_APPTAINER_BINARY", need_variable("APPTAINER"))
    setup.patch.setenv("HERMETIC_SCRATCH_DIR", str(setup.at))
    return "apptainer", {"image": need_variable("IMAGE_SCRATCH_SIF"), "cwd": "/tmp"}


def ssh(setup: Setup) -> Place:
    """An account without Python and bash on its PATH."""
    sshd = setup.enter_context(with_programs(setup.at, "sleep touch"))
    return "ssh", sshd.options


def command(setup: Setup) -> Place:
    """A kind by one program."""
    return "jail", {"root": str(install_jail(setup.at, setup.patch)), "login": False}


def calls(setup: Setup) -> Place:
    """A kind by one blocking call."""
    root = install_jail(setup.at, setup.patch)
    (root / "tmp").mkdir()
    return "called jail", {"root": str(root), "cwd": "/tmp", "login": False}


def calls_of_a_client(setup: Setup) -> Place:
    """The same of the page, whose every call is the start of a client and of a process of docker's."""
    need_engine("docker")
    _, code = blocks("docs/how-to/add-a-backend.md", "python")
    install(setup.at, "cloud_kind", code.text, {"cloud": "Cloud"}, setup.patch)
    return "cloud", {"image": need_variable("IMAGE_MUSL"), "cwd": "/tmp"}


PLACES = {
    "docker": container("docker"),
    "podman": container("podman"),
    "apptainer": apptainer,
    "ssh": ssh,
    "command": command,
    "calls": calls,
    "calls of a client": calls_of_a_client,
}
AT_FULL_SIZE = ("calls of a client",)


@pytest.mark.parametrize(
    "place", [place for place in PLACES if is_full() or place not in AT_FULL_SIZE]
)
async def test_every_tool_works_there(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = tmp_path / "place"
    at.mkdir()
    with Setup(at, monkeypatch) as setup:
        kind, options = PLACES[place](setup)
        async with opened_in(kind, options) as box:
            async with box.toolbox.fleet.use("t") as environment:
                info = await environment.info()
                assert (info.runtime, info.weak) == ("portable python and bash", ())
            await box.terminal(
                "mkdir -p work 2>/dev/null || busybox mkdir -p work; cd work; kept='two words'"
            )
            assert (await box.terminal('echo "$kept"; command -v python3'))[
                "output"
            ] == "two words\n"
            await files(box)
            await scripts(box)
            await notices(box)
            await terminals(box)


async def notices(box: Box) -> None:
    watched = await box.terminal(
        "echo is ready; read -r line", background=True, watch_patterns=["ready"]
    )
    async with asyncio.timeout(SECONDS):
        seen = await box.next_notice()
        assert (seen.kind, seen.session_id) == ("matched", watched["session_id"])
        await box.process("kill", watched["session_id"])
        started = await box.terminal(
            "read -r line; exit 3", background=True, notify_on_complete=True
        )
        await box.process("submit", started["session_id"], data="on")
        ended = await box.next_notice()
        assert (ended.kind, ended.session_id, ended.exit_code) == (
            "completed",
            started["session_id"],
            3,
        )


async def terminals(box: Box) -> None:
    started = await box.terminal(
        "[ -t 0 ] && read -r -p 'Name: ' name; echo got $name", background=True, pty=True
    )
    id = started["session_id"]
    async with asyncio.timeout(SECONDS):
        await box.process("submit", id, data="typed")
        ended = await box.process("wait", id, timeout=SECONDS)
    assert (ended["exit_code"], "got typed" in ended["output"]) == (0, True)


async def files(box: Box) -> None:
    written = await box.call("write_file", path="a/b.txt", content="grün\nneedle\nthree\n")
    assert written["bytes_written"] == 19
    page = await box.call("read_file", path="a/b.txt", offset=2, limit=1)
    assert (page["content"], page["total_lines"]) == ("2|needle", 3)
    patched = await box.call("patch", path="a/b.txt", old_string="needle", new_string="thread")
    assert "error" not in patched, patched
    assert "b.txt" in str(await box.call("search_files", pattern="thr(ead|oat)", path="."))
    assert "b.txt" in str(await box.call("search_files", pattern="*.txt", target="files", path="."))


async def scripts(box: Box) -> None:
    code = (
        "import json, subprocess, sys\n"
        "from hermetic_tools import patch, read_file, search_files, terminal, write_file\n"
        "print(sys.executable.endswith('/python/bin/python3'), terminal('echo $kept')['output'].strip())\n"
        "write_file('c.txt', 'one\\ntwo\\n')\n"
        "patch('c.txt', 'two', 'zwei')\n"
        "print(json.dumps(open('c.txt').read()), read_file('c.txt')['total_lines'])\n"
        "print('c.txt' in str(search_files('zw', 'content', '.')))\n"
        "print(subprocess.run(['bash', '-c', 'echo ${BASH_VERSION%%.*}'], capture_output=True).stdout)"
    )
    answer = await box.call("execute_code", code=code)
    expected = "True two words\n\"one\\nzwei\\n\" 2\nTrue\nb'5\\n'\n"
    assert (answer["status"], answer["output"]) == ("success", expected), answer
