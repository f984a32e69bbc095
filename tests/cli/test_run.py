"""`hermetic run`: output as it comes, byte by byte, the command's code, and nothing left behind."""

import os
import secrets
import signal
import subprocess
import time
from pathlib import Path

import msgspec
import pytest

from tests.cli.program import COMMAND, alive, as_json, eventually, hermetic, running
from tests.sizes import at_full_size


def new_mark() -> str:
    return f"{600 + secrets.randbelow(300)}.{secrets.randbelow(10**9):09}"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("true", 0),
        ("exit 3", 3),
        ("nosuchcommand", 127),
        ("kill -9 $$", 137),
        ("kill $BASHPID", 143),
    ],
)
def test_it_exits_with_the_commands_code(text: str, code: int) -> None:
    assert hermetic("run", "--", text).returncode == code
    assert hermetic("run", "--", text, stdin=b"").returncode == code


def test_a_task_that_is_not_valid_text_is_a_usage_error() -> None:
    done = hermetic("run", "--task", os.fsdecode(b"\x9b"), "--", "true")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"not valid UTF-8" in done.stderr
    assert b"Traceback" not in done.stderr


def test_output_is_byte_exact() -> None:
    done = hermetic("run", "--", r"printf '\377\000a'; printf b >&2")
    assert (done.stdout, done.stderr) == (b"\xff\0ab", b"")


def test_several_words_are_an_argv_and_one_is_shell_text() -> None:
    assert (
        hermetic("run", "--", "printf", "%s|", "$HOME", "a b", "--json", "--", "*").stdout
        == b"$HOME|a b|--json|--|*|"
    )
    assert hermetic("run", "--", "echo $((1 + 1)) | cat").stdout == b"2\n"


def test_stderr_can_be_kept_apart() -> None:
    done = hermetic("run", "--separate", "--", "echo out; echo err >&2")
    assert (done.stdout, done.stderr) == (b"out\n", b"err\n")


def test_input_is_passed_on() -> None:
    data = os.urandom(3_000_000)
    assert hermetic("run", "--", "cat", stdin=data).stdout == data
    assert hermetic("run", "--", "wc", "-c", stdin=b"").stdout.strip() == b"0"


def test_input_from_a_file_is_passed_on(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"from a file")
    with (tmp_path / "f").open("rb") as file:
        done = subprocess.run(
            [*COMMAND, "run", "--", "cat"], stdin=file, capture_output=True, timeout=60
        )
    assert done.stdout == b"from a file"


def test_an_input_that_never_ends_does_not_hold_a_command_that_does_not_read() -> None:
    with running("run", "--", "echo done", stdin=subprocess.PIPE) as process:
        assert process.wait(20) == 0
        assert process.stdout is not None
        assert process.stdout.read() == b"done\n"


def test_input_is_live() -> None:
    with running(
        "run", "--", "while read -r line; do echo got $line; done", stdin=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for word in (b"one", b"two"):
            process.stdin.write(word + b"\n")
            process.stdin.flush()
            assert process.stdout.readline() == b"got " + word + b"\n"
        process.stdin.close()
        assert process.wait(20) == 0


@pytest.mark.parametrize("more", [(), ("--separate",)], ids=["merged", "separate"])
def test_output_is_live(more: tuple[str, ...]) -> None:
    with running("run", *more, "--", "echo first; sleep 30") as process:
        assert process.stdout is not None
        began = time.monotonic()
        assert process.stdout.readline() == b"first\n"
        assert time.monotonic() - began < 15


def test_a_slow_reader_loses_nothing() -> None:
    with running("run", "--", "head -c 150000000 /dev/zero") as process:
        assert process.stdout is not None
        process.stdout.read(10)
        time.sleep(0.5)  # the reader is slow on purpose
        count = 10
        while piece := process.stdout.read(1 << 20):
            count += len(piece)
        assert process.wait(20) == 0
        assert count == 150_000_000


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize(
    "more",
    [(), *at_full_size(("--separate",)), ("--task", "interrupted")],
    ids=["plain", "separate", "task"],
)
def test_a_signal_ends_the_whole_tree_before_it_leaves(
    number: signal.Signals, more: tuple[str, ...]
) -> None:
    mark = new_mark()
    with running("run", *more, "--", f"setsid sleep {mark} & echo up; sleep {mark}") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        eventually(lambda: len(alive(mark)) == 2)
        process.send_signal(number)
        assert process.wait(20) == 130
        assert alive(mark) == []
    hermetic("rm", "interrupted")


def test_a_signal_is_heard_while_nobody_reads_the_output() -> None:
    with running("run", "--", "yes") as process:
        assert process.stdout is not None
        process.stdout.read(1)
        time.sleep(0.5)  # until the pipe is full
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130


def test_it_leaves_when_its_output_is_closed() -> None:
    with running("run", "--", "yes") as process:
        assert process.stdout is not None
        process.stdout.read(10)
        process.stdout.close()
        assert process.wait(20) == 141


def test_nothing_is_left_when_it_is_killed() -> None:
    mark = new_mark()
    with running(
        "run", "-o", "unattended=0.2", "-o", "lease=0.2", "--", f"echo up; sleep {mark}"
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        process.kill()
        process.wait()
    eventually(lambda: alive(mark) == [])
    eventually(lambda: not any(env["alive"] for env in as_json("envs")))
    hermetic("rm", "--all")


def test_the_loss_of_the_environment_is_told_once() -> None:
    with running("run", "--task", "lost", "--", "echo up; sleep 30") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"up\n"
        (environment,) = as_json("envs")
        os.kill(environment["info"]["pid"], signal.SIGKILL)
        told = process.stderr.read()
        assert (process.wait(20), told.count(b"the connection ended")) == (125, 1)
        assert told.endswith(b"; open a new one\n")
        assert b"Errno" not in told


def test_a_timeout_ends_the_tree_and_has_its_code() -> None:
    mark = new_mark()
    for more in ((), ("--separate",)):
        done = hermetic(
            "run",
            "--timeout",
            "0.3",
            *more,
            "--",
            f"echo before; setsid sleep {mark} & sleep {mark}",
        )
        assert (done.returncode, done.stdout) == (124, b"before\n")
        assert alive(mark) == []


def test_a_task_keeps_its_state() -> None:
    try:
        assert (
            hermetic(
                "run", "--task", "t", "--", "cd /tmp; export A='b c'; f() { echo f; }"
            ).returncode
            == 0
        )
        assert hermetic("run", "--task", "t", "--", "exit 3").returncode == 3
        assert hermetic("run", "--task", "t", "--", 'pwd; echo "$A"; f').stdout == b"/tmp\nb c\nf\n"
        assert hermetic("run", "--task", "t", "--", "cat", stdin=b"in").stdout == b"in"
        apart = hermetic("run", "--task", "t", "--separate", "--", "echo o; echo e >&2")
        assert (apart.stdout, apart.stderr) == (b"o\n", b"e\n")
    finally:
        hermetic("rm", "t")


def test_notes_are_said_only_when_asked_for() -> None:
    assert hermetic("run", "--", "exit 1").stderr == b""
    assert b"state restored" in hermetic("run", "-v", "--", "exit 1").stderr


def test_cwd_is_for_the_command(tmp_path: Path) -> None:
    assert hermetic("run", "--cwd", str(tmp_path), "--", "pwd").stdout.decode() == f"{tmp_path}\n"


def test_it_runs_where_it_was_called() -> None:
    assert hermetic("run", "--", "pwd").stdout.decode() == f"{os.getcwd()}\n"


def test_the_result_as_json() -> None:
    done = hermetic("run", "--json", "--separate", "--", "echo o; echo e >&2; exit 4")
    assert done.returncode == 4
    result = msgspec.json.decode(done.stdout)
    assert (result["exit_code"], result["ending"]) == (4, ["exited", 4])
    assert (result["output"], result["stderr"], result["total_bytes"]) == ("o\n", "e\n", 2)
    assert result["notes"]


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("run", "--env", "nowhere", "--", "true"), 2, "local"),
        (("run", "-o", "leese=1", "--", "true"), 2, "lease"),
        (("run", "-o", "lease", "--", "true"), 2, "KEY=VALUE"),
        (("run", "--timeout", "0", "--", "true"), 2, "timeout"),
        (("run", "--timeout", "-1", "--separate", "--", "true"), 2, "timeout"),
        (("run", "--timeout", "soon", "--", "true"), 2, "--timeout"),
        (("run", "--cwd", "/no/such/directory", "--", "true"), 2, "/no/such/directory"),
        (("run", "--image", "x", "--", "true"), 2, "image"),
        (("run",), 2, "COMMAND"),
        (("walk",), 2, "run"),
        ((), 2, "COMMAND"),
    ],
)
def test_bad_usage_is_told_and_nothing_runs(words: tuple[str, ...], code: int, says: str) -> None:
    done = hermetic(*words)
    assert done.returncode == code
    assert done.stdout == b""
    assert says in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()


def test_an_environment_that_cannot_come_up_is_not_the_commands_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    done = hermetic("run", "--", "true")
    assert done.returncode == 125
    assert done.stderr.decode().count("\n") == 1


@pytest.mark.alone
def test_it_is_quick() -> None:
    hermetic("run", "--", "true")
    began = time.perf_counter()
    assert hermetic("run", "--", "true").returncode == 0
    assert time.perf_counter() - began < 2.5  # a quarter of a second is promised; tenfold slack
