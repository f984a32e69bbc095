"""The short way of a short text to a settled shell: seen from inside, and no different from the
long one.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import hermetic
from hermetic.resident.shells.command import Redefinitions
from hermetic.resident.shells.reports import read_names

WAY = 'echo "${__h[4]}"'  # of the order that brought this text: 0 for a short one, else its letter


@asynccontextmanager
async def settled() -> AsyncIterator[hermetic.Environment]:
    """An environment where texts go the short way."""
    async with hermetic.open("local", login=False) as env:
        await settle(env)
        yield env


async def settle(env: hermetic.Environment) -> None:
    """After each of these texts a copy is made, and the shell's input looked at: only then the
    short way is open.
    """
    async with asyncio.timeout(60):
        while (await env.run(WAY)).output != "0\n":  # noqa: ASYNC110 (no event tells)
            await asyncio.sleep(0.05)
    await asyncio.sleep(0.05)


async def test_the_first_text_of_a_shell_goes_the_long_way() -> None:
    async with hermetic.open("local", login=False) as env:
        assert (await env.run(WAY)).output == "Q\n"
        await settle(env)
        assert (await env.run("exit 3")).exit_code == 3
        assert (await env.run(WAY)).output == "Q\n", "a copy has traps to put back"


async def test_while_a_copy_is_still_to_come_a_text_goes_the_long_way() -> None:
    """The copy would carry the mark of that text, and be ended with it."""
    async with settled() as env:
        await env.run("PS4='$(sleep 0.03)'; set -x")  # a copy takes its time, a multiple of this
        await env.run("x=1")
        await asyncio.sleep(0.05)
        assert (await env.run(WAY)).output.endswith("\nQ\n")


@pytest.mark.parametrize(
    "given",
    [{"env": {"A": "1"}}, {"cwd": "/"}, {"stdin": "x"}, {"separate": True}],
    ids=["variables", "a directory", "input", "errors apart"],
)
async def test_what_goes_with_a_text_takes_the_long_way(given: dict[str, Any]) -> None:
    async with settled() as env:
        assert (await env.run(WAY, **given)).output == "Q\n"


async def test_a_long_text_and_one_with_traps_take_other_ways() -> None:
    async with settled() as env:
        assert (await env.run(f"{WAY} #{'x' * 600}")).output == "Q\n"
        assert (await env.run(f"{WAY} # trap")).output == "T\n"


@pytest.mark.parametrize(
    "text",
    [
        "echo $?",
        "echo $LINENO",
        "nosuchprogram",
        "echo 'a",
        "@x",
        " echo a",
        "\n\necho $LINENO",
        "false",
        "f() {\n g\n}; f",
        "echo a; return 4",
        "break; echo b",
        "echo $HERMETIC_X ${#@}",
        "(exit 9)",
        "echo é",
        "cat; echo a >&2",
    ],
)
async def test_a_text_does_the_same_by_both(text: str) -> None:
    async with settled() as env:
        short = await env.run(text)
        long = await env.run(text, env={"OTHER": "1"})
        assert (short.output, short.ending, short.notes) == (long.output, long.ending, long.notes)


async def test_what_it_starts_carries_its_own_number() -> None:
    async with settled() as env:
        limits = set()
        for _ in range(4):
            told = await env.run("cat /proc/self/limits")
            limits.add(
                next(
                    line.split()[3]
                    for line in told.output.splitlines()
                    if line.startswith("Max msgqueue")
                )
            )
        assert len(limits) == 4


async def test_a_job_that_left_its_tree_is_ended_with_its_own_command_alone() -> None:
    async with settled() as env:
        earlier = (await env.run("env -i setsid sleep 300 & echo $!")).output.strip()
        await settle(env)
        over = await env.run(
            "env -i setsid bash -c 'env -i setsid sleep 301 & echo $!'; sleep 300", timeout=0.5
        )
        later = over.output.split()[-1]
        assert (await env.run(f"kill -0 {earlier} && ! kill -0 {later}")).exit_code == 0


@pytest.mark.parametrize("switch", ["-m", "+m"])
async def test_a_copy_of_a_shell_whose_traps_are_known_is_the_same_shell(switch: str) -> None:
    async with settled() as env:
        await env.run("trap 'echo asked' USR1")
        await env.run(f"set {switch}")
        for number in range(3):  # none of them can have changed a trap
            await env.run(f"X={number}")
        assert (await env.run("exit 3")).exit_code == 3
        result = await env.run("kill -USR1 $BASHPID; echo $X ${-//[!m]/}")
        assert result.output == f"asked\n2{' m' if switch == '-m' else ''}\n"


@pytest.mark.parametrize(
    ("text", "keeps"),
    [
        ("X=1", True),
        ("X=1 Y=a/b; Z=", True),
        ("\nX=1\nY=2\n", True),
        ("X=1 f", False),
        ("X=1; f", False),
        ("f", False),
        ("X=$(f)", False),
        ("X=`f`", False),
        ("1X=1", False),
        ("X=1 >out", False),
        ("X=1 &", False),
        ("", False),
    ],
)
def test_where_any_name_may_be_redefined_only_assignments_keep_traps(
    text: str, keeps: bool
) -> None:
    redefinitions = Redefinitions()
    redefinitions.learn(b"source ./functions")
    assert redefinitions.keeps_traps(text.encode()) is keeps


async def test_traps_are_kept_after_assignments_in_a_session_with_sourced_functions(
    tmp_path: Path,
) -> None:
    (tmp_path / "functions").write_text("f() { trap 'echo caught' USR1; }\n")
    async with hermetic.open("local", cwd=str(tmp_path), login=False) as env:
        await env.run("source ./functions; f")
        for number in range(3):
            await env.run(f"X={number}")
        await env.run("exit 3")
        assert (await env.run("echo $X; kill -USR1 $BASHPID")).output == "2\ncaught\n"


async def test_after_sourcing_a_file_a_plain_program_needs_no_new_standby(tmp_path: Path) -> None:
    (tmp_path / "activate").write_text(
        "deactivate() { :; }\nls() { SEEN=yes; }\nalias ll='ls\n-l'\n"
    )
    async with hermetic.open("local", cwd=str(tmp_path), login=False) as env:
        resident = (await env.info()).pid

        async def shells_around(text: str) -> tuple[list[str], list[str]]:
            await asyncio.sleep(0.2)  # the shell is settled
            before = children(resident)
            await env.run(text)
            await asyncio.sleep(0.2)
            return before, children(resident)

        await env.run("source ./activate")
        before, after = await shells_around("true")
        assert before == after
        before, after = await shells_around("ls")
        assert before != after, "its own function may change anything"
        await env.run("exit 3")
        assert (await env.run("echo $SEEN")).output == "yes\n"


def children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def test_reported_names_replace_guesses_until_an_own_function_runs() -> None:
    redefinitions = Redefinitions()
    redefinitions.learn(b"source ./functions")
    assert redefinitions.last_word(b"ls") is None
    redefinitions.reported({b"ls", b"mine"})
    assert (redefinitions.last_word(b"ls"), redefinitions.last_word(b"cat a")) == (None, b"a")
    redefinitions.learn(b"cd x && mine")
    assert redefinitions.last_word(b"cat a") is None


def test_names_are_read_from_what_bash_prints() -> None:
    assert read_names(
        b"declare -f a.b\ndeclare -fx c\n\0alias d='x\nalias e='\\''1'\\'''\nalias -- -f=''\n"
    ) == {
        b"a.b",
        b"c",
        b"d",
        b"-f",
    }
    with pytest.raises(ValueError, match="not what bash prints"):
        read_names(b"\0alias d='x'; rm -rf /\n")
