"""The file tools in every place: one environment each, put to all of it."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.boxes import Box, opened_in
from tests.environments.engines import need_engine
from tests.programs import need_variable

PLACES = ("local", "docker", "ssh", "scratch")


@asynccontextmanager
async def place(kind: str) -> AsyncIterator[tuple[Box, str]]:
    """A toolbox there, and an empty directory of the place."""
    options: dict[str, Any] = {"login": False}
    if kind in ("docker", "scratch"):
        need_engine("docker")
        options = {"image": need_variable("IMAGE_BASE" if kind == "docker" else "IMAGE_SCRATCH")}
    elif kind == "ssh":
        names = {"host": "SSH_HOST", "port": "SSH_PORT", "user": "SSH_USER", "key": "SSH_KEY"}
        options = {option: need_variable(variable) for option, variable in names.items()}
        known = {"UserKnownHostsFile": need_variable("SSH_KNOWN_HOSTS"), "ControlPersist": "1"}
        options |= {"port": int(options["port"]), "settings": known}
    async with opened_in("docker" if kind == "scratch" else kind, options) as box:
        made = await box.terminal('cd "$(mktemp -d)" && pwd -P')
        yield box, made["output"].strip()
        await box.terminal('cd /; rm -rf "$OLDPWD"')


@pytest.mark.parametrize("kind", PLACES)
async def test_files_are_written_read_searched_and_kept_from_harm(kind: str) -> None:
    async with place(kind) as (box, at):
        written = await box.call("write_file", path="a/b.txt", content="grün\nneedle\nthree\n")
        assert (written["bytes_written"], written["resolved_path"], written["dirs_created"]) == (
            19,
            f"{at}/a/b.txt",
            True,
        )
        assert (await box.terminal("cat a/b.txt"))["output"] == "grün\nneedle\nthree\n"
        page = await box.call("read_file", path="a/b.txt", offset=2, limit=1)
        assert (page["content"], page["total_lines"], page["next_offset"]) == ("2|needle", 3, 3)
        await binary_and_missing(box)
        await endings_and_modes(box)
        await searches(box, at)
        await refusals(box, at)


async def binary_and_missing(box: Box) -> None:
    await box.terminal("printf 'a\\0b' >data; : >empty; printf 'no newline' >last")
    assert (await box.call("read_file", path="data"))["is_binary"]
    assert (await box.call("read_file", path="empty"))["total_lines"] == 0
    assert (await box.call("read_file", path="last"))["content"] == "1|no newline"
    assert (await box.call("read_file", path="lost"))["similar_files"] == ["last"]
    assert "directory" in (await box.call("read_file", path="a"))["error"]


async def endings_and_modes(box: Box) -> None:
    await box.terminal(
        "printf '\\xef\\xbb\\xbfone\\r\\ntwo\\r\\n' >dos; chmod 751 dos; ln -s dos link; seq 1 300000 >long"
    )
    assert (await box.call("read_file", path="dos"))["content"] == "1|one\n2|two"
    assert "error" not in await box.call("write_file", path="link", content="x\n")
    seen = await box.terminal(
        "od -An -c dos | tr -d ' \\n'; stat -c ' %a' dos; [[ -L link ]] && echo link"
    )
    assert seen["output"].split() == ["357273277x\\r\\n", "751", "link"]
    long = await box.call("read_file", path="long", offset=299999)
    assert (long["content"], long["total_lines"]) == ("299999|299999\n300000|300000", 300000)


async def searches(box: Box, at: str) -> None:
    await box.terminal(
        "mkdir -p sub/ignored; echo 'ignored/' >.gitignore; echo needle | tee sub/x.py sub/ignored/y.py >.h"
    )
    found = await box.call("search_files", pattern="^need", context=1)
    assert [
        (line["path"], line["line"]) for line in found["matches"] if "is_context" not in line
    ] == [
        ("a/b.txt", 2),
        ("sub/x.py", 1),
    ]
    assert found["total_count"] == 2
    named = await box.call("search_files", pattern="*.py", target="files", path=at)
    assert named["files"] == [f"{at}/sub/x.py"]
    counted = await box.call("search_files", pattern="\\d", output_mode="count")
    assert counted["counts"] == {"long": 300000}


async def refusals(box: Box, at: str) -> None:
    await box.terminal("mkdir .ssh; ln -s .ssh way")
    for path in (".ssh/config", "way/new/config"):
        refused = await box.call("write_file", path=path, content="x")
        assert (refused["status"], "protected" in refused["error"]) == ("blocked", True)
    assert (await box.terminal("ls -A .ssh"))["output"] == ""
    environment = await box.toolbox.fleet.get("t")
    seen = await environment.write_file("f", "one")
    await box.terminal("echo other >f")
    tried = json.loads(
        await box.toolbox.call("write_file", {"path": "f", "content": "two"}, task_id="t")
    )
    assert tried["resolved_path"] == f"{at}/f"
    with pytest.raises(ValueError, match="read it again"):
        await environment.write_file("f", "three", expect=seen.signature)
    moved = await environment.move_file("f", "deep/g")
    assert moved.path == f"{at}/deep/g"
    await environment.delete_file("deep/g")
    with pytest.raises(FileNotFoundError):
        await environment.file_status("deep/g")
