"""No command can lose a session: after each of these it is usable, with the state it had before."""

import asyncio
import re

import pytest

from hermetic import Environment, Exited, Lost, Session, Signalled, TimedOut
from hermetic.conformance.poisons import POISONS, Poison

SET_UP = (
    "cd '{directory}'; export kept_e='two words'; kept_v=plain; kept_a=(1 2 three); "
    "kept_f() {{ \\{say} '%s\\n' \"f $1\"; }}; umask 027"
)
LOOK = '\\{say} \'%s\\n\' "$kept_e" "$kept_v" "${{kept_a[2]}}" "$PWD"; kept_f x; \\{say} \'%s\\n\' "$(\\{umask})"'


def plain(text: str, poison: Poison, directory: str) -> str:
    """The text with the words that the poison leaves alone."""
    own = poison.text.startswith("builtin()")
    say, umask = ("printf", "umask") if own else ("builtin printf", "builtin umask")
    return text.format(directory=directory, say=say, umask=umask)


async def check(shell: Session, poison: Poison, directory: str) -> None:
    seen = await shell.run(plain(LOOK, poison, directory), separate=True, timeout=20)
    assert seen.output == f"two words\nplain\nthree\n{directory}\nf x\n0027\n", seen
    assert seen.ending == Exited(0)


@pytest.mark.parametrize("poison", POISONS.values(), ids=POISONS.keys())
async def test_the_session_is_usable_with_its_state_after(
    shell: Session, directory: str, poison: Poison
) -> None:
    await shell.run(plain(SET_UP, poison, directory))
    result = await shell.run(poison.text, timeout=20)
    assert not isinstance(result.ending, TimedOut | Lost), result
    assert poison.code is None or result.exit_code == poison.code, result
    await check(shell, poison, directory)
    await check(shell, poison, directory)


async def test_all_of_them_in_a_row_leave_the_session_usable(
    shell: Session, directory: str
) -> None:
    first = next(iter(POISONS.values()))
    await shell.run(plain(SET_UP, first, directory))
    for name, poison in POISONS.items():
        if name.startswith(
            (
                "a function",
                "PATH",
                "unset PATH",
                "changed IFS",
                "ignored signals",
                "no more",
                "TMOUT",
            )
        ):
            continue  # kept as state, they change what the next ones mean
        result = await shell.run(poison.text, timeout=20)
        assert not isinstance(result.ending, TimedOut | Lost), (name, result)
        seen = await shell.run('\\builtin printf %s "$kept_e $PWD"', separate=True, timeout=20)
        assert seen.output == f"two words {directory}", (name, seen)


async def test_twenty_exits_in_a_row_cost_nothing(shell: Session) -> None:
    await shell.run("v=1")
    for code in range(20):
        assert (await shell.run(f"v=2; exit {code}")).exit_code == code
    assert (await shell.run("echo $v")).output == "1\n"


async def test_two_poisonings_of_the_copy_in_a_row_do_not_lose_the_session(shell: Session) -> None:
    await shell.run("v=1")
    for text in (
        "ulimit -n 3",
        "ulimit -n 3",
        "enable -n mapfile",
        "enable -n mapfile",
        "exit 1",
        "exit 1",
    ):
        await shell.run(text, timeout=20)
    assert (await shell.run("echo $v", timeout=20)).output == "1\n"


async def test_an_exit_trap_runs_when_its_command_ends_and_its_output_is_seen(
    shell: Session,
) -> None:
    assert (await shell.run("trap 'echo bye' EXIT; echo hi")).output == "hi\nbye\n"
    assert (await shell.run("echo later")).output == "later\n"
    result = await shell.run("trap 'echo left' EXIT; exit 4")
    assert (result.output, result.exit_code) == ("left\n", 4)
    assert (await shell.run("trap -p EXIT")).output == ""


async def test_a_stopped_shell_is_ended_by_the_timeout(shell: Session) -> None:
    await shell.run("v=1")
    assert (await shell.run("kill -STOP $BASHPID", timeout=0.5)).exit_code == 124
    assert (await shell.run("echo $v")).output == "1\n"


async def test_an_idle_session_outlives_tmout(shell: Session) -> None:
    await shell.run("export TMOUT=1; v=1")
    await asyncio.sleep(1.5)  # the thing to be seen is that nothing happens
    assert (await shell.run("echo $v")).output == "1\n"


async def test_killing_every_shell_of_the_session_is_told_and_it_starts_afresh(
    shell: Session,
) -> None:
    await shell.run("v=1")
    result = await shell.run("kill -9 0", timeout=20)
    assert isinstance(result.ending, Signalled | Lost)
    after = await shell.run('echo "alive"', timeout=20)
    assert after.output == "alive\n"


async def test_syntax_errors_are_told_as_bash_tells_them(shell: Session) -> None:
    result = await shell.run("echo 'unbalanced")
    assert result.exit_code not in (0, None)
    assert "unexpected EOF" in result.output
    missing = await shell.run("nosuchcommand")
    assert (missing.exit_code, missing.output) == (
        127,
        "bash: line 1: nosuchcommand: command not found\n",
    )


async def test_redirecting_for_good_does_not_take_later_output_away(
    shell: Session, directory: str
) -> None:
    await shell.run(f"exec >'{directory}/out' 2>&1; echo inside")
    assert (await shell.run(f"echo seen; cat '{directory}/out'")).output == "seen\ninside\n"


async def test_tracing_shows_the_commands_and_nothing_of_ours(shell: Session) -> None:
    await shell.run("set -x")
    # bash repeats the sign once for each level of evaluation.
    assert re.fullmatch(r"\++ echo a\na\n", (await shell.run("echo a")).output)


async def test_a_deleted_cwd_falls_back_to_the_nearest_living_ancestor(
    shell: Session, directory: str
) -> None:
    await shell.run(f"mkdir -p '{directory}/a/b/c'; cd '{directory}/a/b/c'")
    await shell.run(f"rm -rf '{directory}/a/b'")
    result = await shell.run("pwd")
    assert (result.output, result.cwd) == (f"{directory}/a\n", f"{directory}/a")
    assert any("fell back" in note and f"{directory}/a" in note for note in result.notes), (
        result.notes
    )
    assert (await shell.run("pwd")).notes == ()


async def test_a_cwd_deleted_from_outside_falls_back_too(
    env: Environment, shell: Session, directory: str
) -> None:
    await shell.run(f"mkdir '{directory}/gone'; cd '{directory}/gone'")
    await env.run(["rm", "-rf", f"{directory}/gone"])
    result = await shell.run("pwd")
    assert result.output == f"{directory}\n"
    assert result.notes
