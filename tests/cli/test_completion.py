"""`hermetic completion`: the printed scripts work in the shells they are for."""

import asyncio
import os
import shlex
import subprocess
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import hermetic as library
from tests.cli.program import hermetic
from tests.programs import need


def completed(line: str, before: str = "") -> list[str]:
    """What bash offers for the last word of a line."""
    script = hermetic("completion", "bash").stdout.decode()
    call = f"COMP_WORDS=({line}) COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 )); _hermetic; echo ${{COMPREPLY[@]}}"
    done = subprocess.run(
        ["bash", "--norc", "-c", f"{before}{script}\n{call}"], capture_output=True, check=True
    )
    return done.stdout.decode().split()


def test_bash_completes_commands_and_options() -> None:
    assert completed("hermetic wai") == ["wait"]
    assert completed("hermetic logs --f") == ["--follow"]
    assert "--image" in completed("hermetic run --")


async def test_bash_completes_kinds_actions_tasks_and_ids(tmp_path: Path) -> None:
    (tmp_path / "hermetic").write_text(f'#!/bin/sh\nexec {sys.executable} -m hermetic "$@"\n')
    (tmp_path / "hermetic").chmod(0o755)
    path = f"PATH={tmp_path}:$PATH; "
    async with library.open("local", task="web-shop", login=False) as environment:
        try:
            process = await environment.start("sleep 600")

            async def offered(line: str) -> list[str]:
                return await asyncio.to_thread(completed, line, path)

            assert await offered("hermetic run --env dock") == ["docker"]
            assert await offered("hermetic serve tok") == ["token", "tokens"]
            assert await offered("hermetic run --task we") == ["web-shop"]
            assert await offered("hermetic shell ''") == ["web-shop"]
            assert await offered("hermetic logs ''") == [process.id]
            assert sorted(await offered("hermetic inspect ''")) == sorted([process.id, "web-shop"])
        finally:
            await environment.close(remove=True)


# What is typed, and what the shell makes of it.
TYPED = {
    "hermetic wai": "hermetic wait",
    "hermetic logs --f": "hermetic logs --follow",
    "hermetic run --env dock": "hermetic run --env docker",
    "hermetic run --task we": "hermetic run --task web-shop",
    "hermetic shell ": "hermetic shell web-shop",
}


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A directory with the command, for PATH."""
    (tmp_path / "hermetic").write_text(f'#!/bin/sh\nexec {sys.executable} -m hermetic "$@"\n')
    (tmp_path / "hermetic").chmod(0o755)
    return tmp_path


@asynccontextmanager
async def task() -> AsyncIterator[library.Environment]:
    """The task that is completed."""
    async with library.open("local", task="web-shop", login=False) as environment:
        try:
            yield environment
        finally:
            await environment.close(remove=True)


async def test_fish_completes_commands_options_kinds_and_tasks(programs: Path) -> None:
    fish, path = need("fish"), f"{programs}:{os.environ['PATH']}"
    script = "hermetic completion fish | source; complete -C "
    async with task():
        for typed, completed in TYPED.items():
            words = [fish, "--no-config", "-c", script + shlex.quote(typed)]
            done = await asyncio.create_subprocess_exec(
                *words, stdout=PIPE, env={**os.environ, "PATH": path}
            )
            shown, _ = await done.communicate()
            assert shown.decode().split("\t")[0].strip() == completed.split()[-1]


async def test_zsh_completes_commands_options_kinds_and_tasks_without_any_set_up(
    programs: Path,
) -> None:
    zsh, path = need("zsh"), f"{programs}:{os.environ['PATH']}"
    async with task() as environment:
        shell = await environment.start(
            [zsh, "-f", "-i"],
            pty=True,
            cols=120,
            env={"PATH": path, "TERM": "xterm", "ZDOTDIR": str(programs)},
        )
        await shell.submit("source <(hermetic completion zsh); PS1='rea''dy> '; clear")
        await shell.wait_for("ready>", on="screen", timeout=60)
        for typed, completed in TYPED.items():
            await shell.write(f"{typed}\t")
            await shell.wait_for(f"ready> {completed}", on="screen", timeout=60)
            await shell.keys("ctrl-u ctrl-l")
            await shell.wait_for(r"^ready>\s*$", pattern=True, on="screen", timeout=60)
