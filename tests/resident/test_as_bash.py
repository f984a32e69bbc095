"""A session's command does what `bash -c` does with the same text: output, status, and what its
traps see.
"""

import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

import hermetic
from hermetic.resident.shells.orders import Orders
from tests.programs import need_variable
from tests.resident.running import Client, running

TEXTS = (
    # loops of the user's, and none of ours
    "while true; do break 2; done; echo b",
    "for i in 1 2 3; do echo $i; break 5; done; echo b",
    "for i in 1 2 3; do echo $i; continue 5; done; echo b",
    "break; echo s=$?",
    "continue; echo s=$?",
    "break 99; echo s=$?",
    "break 0; echo s=$?",
    "for i in 1 2; do for j in 1 2; do echo $i$j; break 2; done; done; echo e",
    "f() { break; echo in; }; for i in 1 2; do f; done; echo e",
    "source <(echo 'break 5; echo in'); echo e",
    "for i in 1 2; do source <(echo 'break 5'); echo no; done; echo e",
    "for i in 1 2; do eval 'continue 3'; echo no; done; echo e",
    "until false; do echo once; break 3; done && echo t",
    "return 3; echo s=$?",
    # traps
    "trap 'echo D:$BASH_COMMAND' DEBUG; echo one; x=2; echo $x",
    "trap 'echo E:$?' ERR; false; (exit 3); true; false",
    "set -E; trap 'echo E:$?' ERR; f() { false; }; f; echo x",
    "set -T; trap 'echo R' RETURN; f() { :; }; f; echo x",
    "set -T; trap 'echo D' DEBUG; f() { :; echo f; }; f",
    "trap 'echo bye:$?' EXIT; echo hi; (exit 4)",
    "trap 'echo bye' EXIT; exit 5",
    "trap 'echo bye; exit 7' EXIT; true",
    "trap 'echo C' CHLD; set -m; /bin/true; echo x",
    "trap 'echo u' USR1; kill -USR1 $$; echo x",
    "trap 'echo D' DEBUG; trap - DEBUG; echo x",
    "trap 'echo D' DEBUG; trap -p DEBUG",
    "set -e; trap 'echo E' ERR; false; echo no",
    "set -v; echo a\necho b",
    "set -o verbose\necho b",
    # bash takes no reserved word for one on the line after such an `eval`
    "eval 'echo \"'; echo s=$?",
    "eval 'echo \"'; trap : USR1",
    "eval 'echo \"'; exec 5>/dev/null; BASH_XTRACEFD=5",
    # descriptors, statuses, special parameters
    "exec {fd}>/dev/null; echo $fd; exec {fd}>&-",
    "exec 5>&1; echo x >&5",
    "exec 5>/dev/null; BASH_XTRACEFD=5; set -x; echo a; (exit 4)",
    "false | true | false; echo ${PIPESTATUS[@]}",
    "echo a b; echo $_",
    "echo $LINENO\necho $LINENO\nnosuch_program\necho $?",
    "f() {\n echo $LINENO\n}\n\nf; echo $LINENO",
    'echo \'a\nb\'; echo "${#FUNCNAME[@]}" "$BASH_SUBSHELL"',
    "cat <<END\na\nEND\necho $?",
    "echo a \\",
    "# nothing",
    "",
    "(exit 9)",
    "! true",
    "grep Sig /proc/self/status | grep -v SigQ",
    "declare -p x; local x; echo $?",
    "set -u; echo ${none-d}; echo $none; echo no",
    "echo a &&",
    "echo a ||",
    "true |",
    "for x",
    "select x",
    "f()",
    "function f",
    "f() # c",
    "echo a && # c",
    "!",
    "if true; then",
    "echo 'a",
    "case x in",
    "{ echo",
    "echo $(echo",
    "x=(1",
    "((1",
    "echo a # c",
    "sleep 0 &",
    "cat <<END\na",
)


def bash(text: str, program: str = "bash") -> tuple[bytes, int]:
    environ = {**os.environ, "PWD": "/", "SHELL": program}
    ran = subprocess.run(
        ["bash", "-c", text],
        executable=program if program != "bash" else None,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd="/",
        env=environ,
        check=False,
    )
    return plain(ran.stdout), ran.returncode


def plain(said: bytes) -> bytes:
    """Without what tells where a text came from, and where its unclosed ends were noticed."""
    return re.sub(
        rb"bash: (-c: |eval: )?line \d+: (?=syntax error|unexpected EOF|warning)", b"bash: ", said
    )


def status_of(said: dict[str, Any]) -> int:
    kind, number = said["ending"][0], int(said["ending"][1])
    return number if kind == "exited" else -number


def in_session(client: Client, text: str, session: str = "default") -> tuple[bytes, int]:
    said, output = client.run(text, session=session)
    return plain(output), status_of(said)


def test_a_text_does_what_it_does_in_bash() -> None:
    with running() as resident, resident.client() as client:
        for number, text in enumerate(TEXTS):
            client.run("x=; unset x", session=f"s{number}")
            assert in_session(client, text, f"s{number}") == bash(text), text
            client.run("true", session=f"s{number}")


@pytest.mark.full
@pytest.mark.parametrize("text", TEXTS)
def test_a_text_does_so_in_the_first_session_of_a_resident(text: str) -> None:
    with running() as resident, resident.client() as client:
        client.run("x=; unset x")
        assert in_session(client, text) == bash(text)
        client.run("true")


def test_other_bashes_do_the_same() -> None:
    for program in need_variable("OTHER_BASHES").split(":"):
        # Linked statically, it cannot look the user's shell up.
        with (
            running(bash=program, environ={**os.environ, "SHELL": program}) as resident,
            resident.client() as client,
        ):
            for text in TEXTS:
                client.run("true", session="s" + str(TEXTS.index(text)))
                said, output = client.run(text, session="s" + str(TEXTS.index(text)))
                assert (plain(output), status_of(said)) == bash(text, program), (program, text)


def test_traps_of_earlier_commands_see_the_commands_of_later_ones_alone() -> None:
    with running() as resident, resident.client() as client:
        assert client.run("trap 'echo D:$BASH_COMMAND' DEBUG")[1] == b""
        for text in ("echo one", "x=1; echo two", "echo 'a b' | cat"):
            expected = bash("trap 'echo D:$BASH_COMMAND' DEBUG\n" + text)[0]
            assert client.run(text)[1] == expected
        assert client.run("trap - DEBUG; trap 'echo E' ERR")[1] == b"D:trap - DEBUG\n"
        assert client.run("false")[1] == b"E\n"
        assert client.run("true")[1] == b""
        assert client.run("exit 3")[1] == b""
        assert client.run("false")[1] == b"E\n", "a copy has it too"
        assert client.run("trap -p")[1] == b"trap -- 'echo E' ERR\n"


@pytest.mark.parametrize(
    "texts",
    [
        ["set -T; tr''ap 'echo D:$BASH_COMMAND' DEBUG"],
        ["f() { trap 'echo D:$BASH_COMMAND' DEBUG; set -T; }", "true; f"],
        ["tr''ap 'echo D:$BASH_COMMAND' DEBUG", "set -T"],
    ],
)
def test_a_debug_trap_that_a_standby_inherits_sees_no_command_of_ours(texts: list[str]) -> None:
    with running() as resident, resident.client() as client:
        for text in [*texts, "exit 3"]:
            client.run(text)
        for number in range(3):
            said = client.run(f"echo {number}")[1].decode()
            assert said == f"D:echo {number}\n{number}\n"


def test_a_chld_trap_fires_for_the_users_children_alone() -> None:
    with running() as resident, resident.client() as client:
        client.run("n=0; trap 'n=$((n+1))' CHLD; set -m")
        client.run("n=0")
        assert client.run("/bin/true; /bin/true; echo $n")[1] == b"2\n"
        assert client.run("echo $n")[1] == b"2\n"


def test_a_trace_shows_the_users_commands_alone() -> None:
    with running() as resident, resident.client() as client:
        for text in (
            "set -x; echo a",
            "echo b",
            "trap : USR1; echo c",
            "exec 7>&-; echo d",
            "x=1; echo e | cat",
        ):
            lines = client.run(text)[1].decode().splitlines()
            traced = [line.lstrip("+").strip() for line in lines if line.startswith("+")]
            wanted = bash("set -x\n" + text.replace("set -x; ", ""))[0].decode().splitlines()
            assert sorted(traced) == sorted(
                line.lstrip("+").strip() for line in wanted if line.startswith("+")
            ), text


def test_a_trace_to_a_descriptor_of_the_users_shows_the_users_commands_alone(
    tmp_path: Path,
) -> None:
    trace = tmp_path / "trace"
    texts = (
        f"exec 7>{trace}; BASH_XTRACEFD=7; set -x; echo a",
        "echo b",
        "(exit 3) | true",
        "exec {fd}>/dev/null; echo $fd",
        "exec {fd}>&-",
        "exit 3",
        "echo c >&7",
        "set +x; unset BASH_XTRACEFD",
    )
    with running() as resident, resident.client() as client:
        printed = [client.run(text)[1] for text in texts]
        assert printed == [b"a\n", b"b\n", b"", b"10\n", b"", b"", b"", b""]
        assert client.run("set -x; echo e")[1].endswith(b"+ echo e\ne\n"), (
            "to the command's output again"
        )
    lines = [line.lstrip("+").strip() for line in trace.read_text().splitlines()]
    traced = [
        "echo a",
        "echo b",
        "exit 3",
        "true",
        "exec",
        "echo 10",
        "exec",
        "exit 3",
        "echo c",
        "c",
        "set +x",
    ]
    assert sorted(lines) == sorted(traced)


def test_a_descriptor_for_traces_that_is_none_costs_no_shell() -> None:
    with running() as resident, resident.client() as client:
        for value in ("99", "x y", "-1", ""):
            client.run(f"kept=1; BASH_XTRACEFD='{value}'; set -x -e -u")
            for _ in range(2):
                said, output = client.run("echo $kept")
                assert (output.splitlines()[-1], said["notes"]) == (b"1", []), value
            client.run("exec 8>/dev/null; BASH_XTRACEFD=8; exec 8>&-; set +e +x")
            assert client.run("echo $kept")[1].splitlines()[-1] == b"1"
        client.run("exec 8>/dev/null; readonly BASH_XTRACEFD=8; set -x")
        for _ in range(3):
            assert client.run("echo $kept")[1].splitlines()[-1] == b"1"


def test_the_last_argument_and_the_statuses_of_a_pipeline_live_on() -> None:
    with running() as resident, resident.client() as client:
        for _ in range(2):
            client.run("false | (exit 3) | true")
            assert client.run("echo ${PIPESTATUS[@]}")[1] == b"1 3 0\n"
            client.run("true one 'two three'")
            assert client.run("echo $_")[1] == b"two three\n"
            client.run("exit 1")  # the next ones are a copy's


def test_one_name_of_ours_is_seen() -> None:
    with running() as resident, resident.client() as client:
        client.run("true")
        assert client.run("compgen -v __h; compgen -A function; compgen -a")[1] == b"__h\n"


async def test_children_ignore_no_signals() -> None:
    async with hermetic.open("local", login=False) as env:
        for _ in range(2):
            told = (await env.run("grep SigIgn /proc/self/status")).output.split()
            assert int(told[1], 16) == 0
            await env.run("exit 3")


@pytest.mark.parametrize("pty", [False, True])
@pytest.mark.parametrize(
    "command", ["grep SigIgn /proc/self/status", ["grep", "SigIgn", "/proc/self/status"]]
)
async def test_processes_ignore_no_signals(command: str | list[str], pty: bool) -> None:
    """Also not 32 and 33, which posix_spawn of glibc leaves ignored."""
    async with hermetic.open("local", login=False) as env:
        process = await env.start(command, pty=pty)
        await process.wait()
        told = (await process.read()).data.split()
        assert int(told[1], 16) == 0, told


@pytest.mark.parametrize(
    "option",
    [
        "set -e",
        "set -u",
        "set -eu",
        "set -f",
        "set -k",
        "set -m",
        "set -a",
        "set -C",
        "set -TE",
        "set -o posix",
        "set -x",
        "set -v",
        "set -o pipefail",
        "shopt -s nullglob failglob dotglob extglob lastpipe",
        "shopt -s inherit_errexit",
        "shopt -u expand_aliases",
        "trap : ERR",
        "trap : DEBUG; set -T",
        "shopt -s extdebug; trap : DEBUG",
        "IFS=",
        "IFS=0123456789_h",
    ],
)
def test_an_option_costs_no_shell(option: str) -> None:
    with running() as resident, resident.client() as client:
        client.run("x=1")
        for text in (
            option,
            "true",
            "y=2",
            "cd /usr",
            "source /dev/null",
            'echo "$x $y $PWD $BASH_SUBSHELL"',
        ):
            said, output = client.run(text)
            assert not said.get("notes"), text
            # a moment for a copy
            client.ask("start", b"true", id=f"wait{client.number}", text=4, stdin="null")
            client.ask("wait", process=f"wait{client.number - 1}")
        assert b"1 2 /usr 0\n" in output


@pytest.mark.parametrize("selector", ["", "0", "3", "7", "8", "9"])
def test_a_shell_without_an_order_runs_out_of_lines(selector: str) -> None:
    with tempfile.TemporaryFile() as events:
        orders = Orders(f"/proc/{os.getpid()}/fd/", events.fileno(), "r", 0)
        try:
            lines = f"/proc/{os.getpid()}/fd/{orders.program_fd}"
            script = f"__h=('{selector}' 1 '' '' 0 0 '' '' '' ''); eval \"$(<{lines})\"; echo over"
            done = subprocess.run(
                ["bash", "-c", script], capture_output=True, text=True, timeout=60, check=False
            )
            assert done.stdout == "over\n", done.stderr
        finally:
            os.close(orders.inner_fd)
            os.close(orders.program_fd)


def test_traps_stay_through_texts_that_cannot_change_them() -> None:
    with running() as resident, resident.client() as client:
        client.run("trap 'echo T' TERM; t() { trap - TERM; }")
        for text in ("X=1", "cd / && Y=2", "ls", "Z=3"):
            client.run(text)
            client.run("exit 3")
            assert client.run("trap -p")[1] == b"trap -- 'echo T' SIGTERM\n", text
        client.run("t")
        client.run("X=2")
        client.run("exit 3")
        assert client.run("trap -p")[1] == b""


def test_the_last_word_of_a_plain_program_is_the_next_commands() -> None:
    with running() as resident, resident.client() as client:
        for text in ("true", "echo one two", "echo 'a b'", 'ls "/tmp"', "false"):
            client.run("true")
            client.run(text)
            expected = bash(text + '\necho "$_ ${PIPESTATUS[@]}"')[0].splitlines()[-1]
            client.run("true")
            client.run(text)
            assert client.run('echo "$_ ${PIPESTATUS[@]}"')[1].splitlines() == [expected], text
