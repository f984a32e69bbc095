"""A command: its text, its cwd, its variables, its exit code, and what is refused before anything
starts.
"""

import asyncio
import re
import time

import pytest

from hermetic import Environment, Exited, InvalidArgument, Session
from hermetic.contract.limits import COMMAND

CODES = [
    *[
        ("true", 0),
        ("false", 1),
        ("(exit 42)", 42),
        ("sh -c 'exit 255'", 255),
        ("nosuchprogram", 127),
        ("-x", 127),
        ("-- ; exit 4", 4),
        ("/", 126),
    ],
    *[
        ("sh -c 'kill -9 $$'", 137),
        ("sh -c 'kill -15 $$'", 143),
        ("", 0),
        ("   ", 0),
        ("# only a comment", 0),
    ],
]


@pytest.mark.parametrize(("text", "code"), CODES)
async def test_the_exit_code_is_the_shells(shell: Session, text: str, code: int) -> None:
    result = await shell.run(text)
    assert (result.ending, result.exit_code) == (Exited(code), code)


TEXTS = {
    "several lines": ("echo a\necho b\n", "a\nb\n"),
    "a here-document": ("cat <<'END'\n$HOME `x`\nEND\n", "$HOME `x`\n"),
    "a trailing comment": ("echo a # b", "a\n"),
    "a trailing ampersand": ("true & wait", ""),
    "quotes of every kind": ("echo 'a\"b' \"c'd\" $'e\\'f' \\g", "a\"b c'd e'f g\n"),
    "no expansion of history": ("echo !! !$", "!! !$\n"),
    "unicode": ("echo 'ß€𝄞'", "ß€𝄞\n"),
    "control characters": ("printf %s '\x01\x1b\x7f'", "\x01\x1b\x7f"),
    "carriage return": ("printf %s 'a\rb'", "a\rb"),
    "a loop": ("for i in 1 2 3; do echo $i; done", "1\n2\n3\n"),
    "a pipeline": ("printf 'b\\na\\n' | sort", "a\nb\n"),
    "process substitution": ("cat <(echo x) <(echo y)", "x\ny\n"),
    "no trailing newline": ("printf abc", "abc"),
    "nothing": ("true", ""),
    "only newlines": ("printf '\\n\\n'", "\n\n"),
}


@pytest.mark.parametrize(("text", "output"), TEXTS.values(), ids=TEXTS.keys())
async def test_the_text_means_what_it_means_in_bash(shell: Session, text: str, output: str) -> None:
    result = await shell.run(text)
    assert (result.output, result.exit_code) == (output, 0)


async def test_bytes_that_are_no_text_pass_unchanged(shell: Session) -> None:
    result = await shell.run(r"printf '\377\000\200a\303'")
    assert result.data == b"\xff\x00\x80a\xc3"
    assert result.output == "\ufffd\0\ufffda\ufffd"
    assert result.total_bytes == 5


@pytest.mark.parametrize("size", [500, 600, 70_000, 300_000, 1 << 20, 3_000_000])
async def test_a_long_command_runs(shell: Session, size: int) -> None:
    frame = "v='{}'; echo ${{#v}}"
    text = frame.format("x" * (size - len(frame.format(""))))
    assert len(text) == size
    result = await shell.run(text)
    assert result.output == f"{size - len(frame.format(''))}\n"
    assert (await shell.run("echo still here")).output == "still here\n"


async def test_many_lines_run(shell: Session) -> None:
    result = await shell.run("echo ok\n" * 50_000)
    assert result.total_bytes == 150_000
    assert result.exit_code == 0


async def test_an_argv_runs_without_a_shell(shell: Session) -> None:
    result = await shell.run(["printf", "%s|", "$HOME", "a b", "*", "'", "", "ß", "\n"])
    assert result.output == "$HOME|a b|*|'||ß|\n|"


async def test_an_argv_runs_in_the_sessions_cwd_with_its_exports(shell: Session) -> None:
    await shell.run("cd /tmp; export SEEN=1; f() { echo no; }")
    assert (await shell.run(["sh", "-c", "pwd; echo $SEEN"])).output == "/tmp\n1\n"
    assert (await shell.run(["f"])).exit_code == 127


@pytest.mark.parametrize(
    ("argv", "code"), [(["no-such"], 127), (["/tmp"], 126), (["sh", "-c", "cd /; exit 3"], 3)]
)
async def test_an_argv_has_a_shells_code_and_changes_no_state(
    shell: Session, argv: list[str], code: int
) -> None:
    await shell.run("v=1; cd /tmp")
    assert (await shell.run(argv)).exit_code == code
    assert (await shell.run("echo $v $PWD")).output == "1 /tmp\n"


async def test_cwd_holds_for_one_command(shell: Session, directory: str) -> None:
    await shell.run("cd /")
    assert (await shell.run("pwd", cwd=directory)).output == f"{directory}\n"
    after = await shell.run("pwd")
    assert (after.output, after.cwd) == ("/\n", "/")


async def test_a_relative_cwd_starts_at_the_sessions(shell: Session, directory: str) -> None:
    await shell.run(f"cd '{directory}'; mkdir sub")
    assert (await shell.run("pwd", cwd="sub")).output == f"{directory}/sub\n"


async def test_env_holds_for_one_command(shell: Session) -> None:
    await shell.run("export A=1")
    value = 'it\'s "x" $HOME `y`\nß'
    result = await shell.run('bash -c \'echo "$A"; echo "$B"\'', env={"A": "2", "B": value})
    assert result.output == f"2\n{value}\n"
    assert (await shell.run('echo "$A[$B]"')).output == "1[]\n"


async def test_env_is_seen_by_the_commands_own_text(shell: Session) -> None:
    result = await shell.run('echo "$A [$B]"; f() { echo "f $B"; }; f', env={"A": "2", "B": "x y"})
    assert result.output == "2 [x y]\nf x y\n"


async def test_state_made_in_a_command_with_env_and_cwd_is_kept(
    shell: Session, directory: str
) -> None:
    await shell.run("made=1; export E=2; f() { echo f; }", cwd=directory, env={"X": "1"})
    assert (await shell.run("echo $made $E; f")).output == "1 2\nf\n"


async def test_there_is_no_terminal_to_hang_on(shell: Session) -> None:
    assert (await shell.run("tty")).output == "not a tty\n"
    assert (await shell.run("read x </dev/tty", timeout=10)).exit_code == 1


async def test_stderr_can_be_kept_apart(shell: Session) -> None:
    result = await shell.run("echo out; echo err >&2; printf more", separate=True)
    assert (result.output, result.stderr) == ("out\nmore", "err\n")
    assert (result.total_bytes, result.stderr_bytes) == (8, 4)


async def test_both_streams_are_merged_in_order_by_default(shell: Session) -> None:
    text = "for i in 1 2 3 4 5; do echo o$i; echo e$i >&2; done"
    result = await shell.run(text)
    assert result.output.split() == [f"{stream}{i}" for i in range(1, 6) for stream in "oe"]
    assert result.stderr is None


async def test_the_result_tells_how_long_it_took(shell: Session) -> None:
    assert 0.2 <= (await shell.run("sleep 0.2")).duration < 2


async def test_a_trivial_command_returns_at_once(shell: Session) -> None:
    await shell.run("true")
    began = time.perf_counter()
    for _ in range(20):
        await shell.run("true")
    assert (time.perf_counter() - began) / 20 < 0.2  # as long as polling takes


async def test_commands_of_one_session_run_side_by_side(shell: Session) -> None:
    await shell.run("v=1; cd /tmp")
    began = time.perf_counter()
    results = await asyncio.gather(
        *(shell.run(f'sleep 0.5; echo "$v $PWD {n}"; v={n}; cd /') for n in range(5))
    )
    assert time.perf_counter() - began < 2.4
    assert [result.output for result in results] == [f"1 /tmp {n}\n" for n in range(5)]
    told = [result for result in results if any("state not kept" in note for note in result.notes)]
    assert len(told) == 4
    primary = next(n for n, result in enumerate(results) if result not in told)
    assert (await shell.run("echo $v $PWD")).output == f"{primary} /\n"


async def test_a_command_beside_another_can_end_its_shell(shell: Session) -> None:
    await shell.run("v=1; go=$(mktemp -u)")
    slow = asyncio.create_task(
        shell.run('until [ -e "$go" ]; do sleep 0.05; done; rm "$go"; v=2; echo slow')
    )
    beside = await asyncio.gather(
        shell.run("exit 3"), shell.run("kill -9 $BASHPID"), shell.run("v=9")
    )
    assert [result.exit_code for result in beside] == [3, 137, 0]
    await shell.run('touch "$go"')
    assert (await slow).output == "slow\n"
    assert (await shell.run("echo $v")).output == "2\n"


async def test_the_primary_shell_may_end_while_others_run(shell: Session) -> None:
    await shell.run("v=1")
    primary = asyncio.create_task(shell.run("sleep 0.2; exit 5"))
    await asyncio.sleep(0)
    others = await asyncio.gather(*(shell.run(f"sleep 0.3; echo {n}") for n in range(3)))
    assert [result.output for result in others] == ["0\n", "1\n", "2\n"]
    assert (await primary).exit_code == 5
    assert (await shell.run("echo $v")).output == "1\n"


async def test_sessions_run_side_by_side(env: Environment, shell: Session) -> None:
    others = [env.session(f"{shell.name}-{n}") for n in range(4)]
    await asyncio.gather(*(other.run(f"v={n}") for n, other in enumerate(others)))
    began = time.perf_counter()
    results = await asyncio.gather(*(other.run("sleep 0.4; echo $v") for other in others))
    assert time.perf_counter() - began < 1.6
    assert [result.output for result in results] == ["0\n", "1\n", "2\n", "3\n"]
    assert all(result.notes == () for result in results)
    await asyncio.gather(*(other.close() for other in others))


WRONG: dict[str, tuple[object, dict[str, object], str]] = {
    "a NUL in the command": ("echo \0", {}, "command"),
    "a NUL in an argv": (["echo", "a\0b"], {}, "command"),
    "an empty argv": ([], {}, "command"),
    "bytes as a command": (b"true", {}, "command"),
    "a command that is too long": ("#" * (COMMAND + 1), {}, "command"),
    "no time": ("touch {made}", {"timeout": 0}, "timeout"),
    "less than no time": ("touch {made}", {"timeout": -1}, "timeout"),
    "time without end": ("touch {made}", {"timeout": float("nan")}, "timeout"),
    "an unknown way to time out": (
        "touch {made}",
        {"timeout": 1, "on_timeout": "panic"},
        "on_timeout",
    ),
    "a cwd that is missing": ("touch {made}", {"cwd": "/no/such/directory"}, "cwd"),
    "a cwd that is a file": ("touch {made}", {"cwd": "/etc/passwd"}, "cwd"),
    "a negative limit": ("touch {made}", {"limit": -1}, "limit"),
    "a variable's name with an equals sign": ("touch {made}", {"env": {"A=B": "1"}}, "env"),
    "a variable with a NUL": ("touch {made}", {"env": {"A": "\0"}}, "env"),
}


# A message says what to do, or what would fit.
WAY_OUT = r"remove it|its first word is the program|\bgive |\buse |put it into a file|\bmust be "


@pytest.mark.parametrize(("command", "options", "argument"), WRONG.values(), ids=WRONG.keys())
async def test_it_is_refused_and_nothing_was_started(
    shell: Session, directory: str, command: object, options: dict[str, object], argument: str
) -> None:
    made = f"{directory}/made"
    text = (
        command.format(made=made) if isinstance(command, str) and "{made}" in command else command
    )
    with pytest.raises(InvalidArgument) as caught:
        await shell.run(text, **options)  # type: ignore[arg-type]
    assert caught.value.argument == argument
    assert re.search(WAY_OUT, str(caught.value)), str(caught.value)
    assert (await shell.run(["test", "-e", made])).exit_code == 1
