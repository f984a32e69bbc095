"""Background processes, terminals and shells:

`run -d`, `run -t`, `shell`, and the commands that look at them.
"""

import asyncio
import json
import os
import secrets
import select
from collections.abc import Iterator

import pytest

from tests.cli.program import as_json, hermetic, running
from tests.cli.test_attach import terminal


@pytest.fixture
def task() -> Iterator[str]:
    """A name of its own; what lives under it is ended."""
    name = f"task-{secrets.token_hex(4)}"
    yield name
    hermetic("rm", name)


def test_a_background_process_outlives_the_call(task: str) -> None:
    id = (
        hermetic("run", "-d", "--task", task, "--", "read -r line; echo got $line; exit 7")
        .stdout.decode()
        .strip()
    )
    assert [one["id"] for one in as_json("ps", "--in", task)] == [id]
    assert hermetic("wait", "--timeout", "0.1", id).returncode == 124
    assert hermetic("attach", id, stdin=b"word\n").returncode == 7
    done = hermetic("wait", id)
    assert (done.returncode, done.stdout.decode()) == (7, f"{id}: exited with code 7\n")
    assert hermetic("logs", id).stdout == b"got word\n"


def test_without_a_task_it_gets_one() -> None:
    done = hermetic("run", "-d", "--json", "--", "sleep 300")
    started = json.loads(done.stdout)
    assert started["task"].startswith("run-")
    assert hermetic("rm", started["task"]).returncode == 0
    assert started["id"] not in [one["id"] for one in as_json("ps", "-a")]


def test_variables_are_for_the_command_alone(task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FROM_HERE", "mine")
    words = ("run", "--task", task, "-e", "A=1=2", "-e", "FROM_HERE")
    assert hermetic(*words, "--", "echo $A $FROM_HERE").stdout == b"1=2 mine\n"
    assert hermetic("run", "--task", task, "--", "echo ${A-unset}").stdout == b"unset\n"
    done = hermetic("run", "-e", "NOT_SET_HERE", "--", "true")
    assert done.returncode == 2
    assert b"no such variable is set here" in done.stderr


async def test_a_program_on_a_terminal_of_its_own() -> None:
    with terminal(
        "run",
        "-t",
        "--",
        "test -t 0 && stty size; read -r line; echo got $line; exit 5",
        rows=31,
        cols=90,
    ) as shown:
        await shown.until(b"31 90")
        shown.type(b"wo\x1drd\r")  # there is no task to come back to: every key is the program's
        await shown.until(b"got wo")
        assert await shown.left() == 5


def test_piped_input_ends_as_typed_input_does() -> None:
    assert hermetic(
        "run", "-t", "--", "cat > /dev/null; echo read", stdin=b"one\ntwo"
    ).stdout.endswith(b"read\r\n")


def test_piped_input_ends_for_a_shell_that_is_slow_to_read() -> None:
    slow = "sleep 0.5; PS1='$ ' bash --norc -i; exec bash --norc -i"
    assert hermetic("run", "-t", "--", slow, stdin=b"").returncode == 0


def test_a_background_process_that_cannot_start_leaves_no_environment() -> None:
    before = as_json("envs")
    assert hermetic("run", "-d", "--cwd", "/nonexistent", "--", "true").returncode != 0
    assert as_json("envs") == before


def test_its_time_ends_it() -> None:
    done = hermetic("run", "-t", "--timeout", "0.5", "--", "sleep 300")
    assert done.returncode == 124
    assert b"timed out" in done.stderr


async def test_a_shell_of_a_task_has_its_state_and_can_be_left(task: str) -> None:
    hermetic("run", "--task", task, "--", "cd /usr; export WORD=kept")
    with terminal("shell", task) as shown:
        shown.type(b"echo $WORD in $PWD\r")
        await shown.until(b"kept in /usr")
        shown.type(b"\x1d")
        await shown.until(b"comes back")
        assert await shown.left() == 0
    assert len(as_json("ps", "--in", task)) == 1


async def test_a_shell_without_a_task_ends_with_its_environment() -> None:
    with terminal("shell") as shown:
        shown.type(b"sleep 300 &\rexit 3\r")
        assert await asyncio.to_thread(shown.rest)
        assert await shown.left() == 3


@pytest.mark.parametrize(
    "words", [("-d", "-t"), ("-d", "--timeout", "3"), ("-t", "--separate"), ("-t", "--json")]
)
def test_options_that_exclude_each_other(words: tuple[str, ...]) -> None:
    done = hermetic("run", *words, "--", "true")
    assert done.returncode == 2
    assert b"exclude each other" in done.stderr


def test_an_environment_and_a_process_are_described(task: str) -> None:
    id = hermetic("run", "-d", "--task", task, "--", "cat").stdout.decode().strip()
    environment = json.loads(hermetic("inspect", task).stdout)
    assert (environment["state"], environment["kind"], environment["info"]["task"]) == (
        "alive",
        "local",
        task,
    )
    assert "token" not in environment
    assert [process["id"] for process in environment["processes"]] == [id]
    process = json.loads(hermetic("inspect", id).stdout)
    assert (process["environment"], process["state"]) == (environment["id"], "running")
    assert hermetic("inspect", "").returncode != 0
    done = hermetic("inspect", "no-such-name")
    assert done.returncode == 1
    assert b"hermetic envs" in done.stderr


def test_events_end_with_their_reader(task: str) -> None:
    hermetic("run", "--task", task, "--", "true")
    with running("events", "--json", "--in", task) as events:
        assert events.stdout is not None
        assert events.stderr is not None
        while not select.select([events.stdout], [], [], 1)[0]:
            hermetic("run", "--task", task, "--", "true")  # the first may come before it listens
        events.stdout.close()
        hermetic("run", "--task", task, "--", "true")
        assert (events.wait(20), events.stderr.read()) == (141, b"")


def test_events_are_printed_as_they_happen(task: str) -> None:
    hermetic("run", "--task", task, "--", "true")
    printed = b""
    with running("events", "--json", "--in", task) as events:
        assert events.stdout is not None
        while b'"event":"ended"' not in printed:  # the first commands may come before it listens
            hermetic("run", "--task", task, "--", "exit 4")
            while select.select([events.stdout], [], [], 1)[0]:
                piece = os.read(events.stdout.fileno(), 1 << 16)
                assert piece, events.returncode
                printed += piece
    seen = [json.loads(line) for line in printed.splitlines()]
    assert next(event["process"]["ending"] for event in seen if event["event"] == "ended") == [
        "exited",
        4,
    ]


@pytest.mark.parametrize(
    ("text", "lines", "shown"),
    [
        ("seq 100000", 3, b"99998\n99999\n100000\n"),
        ("printf 'a\\nb\\nc'", 2, b"b\nc"),
        ("printf 'a\\nb\\n'", 10, b"a\nb\n"),
        ("printf 'a\\nb'", 0, b""),
        ("printf '\\n\\n\\n'", 2, b"\n\n"),
        ("yes 12345678 | head -c 300000", 20000, b"12345678\n" * 19999 + b"123"),
    ],
)
def test_the_last_lines_of_a_log(task: str, text: str, lines: int, shown: bytes) -> None:
    id = hermetic("run", "-d", "--task", task, "--", text).stdout.decode().strip()
    hermetic("wait", id)
    assert hermetic("logs", "--tail", str(lines), id).stdout == shown


def test_help_is_a_command_too() -> None:
    assert hermetic("help").stdout == hermetic("help", "help").stdout == hermetic("--help").stdout
    assert hermetic("help", "run").stdout == hermetic("run", "--help").stdout


def test_wait_kill_and_rm_answer_in_json(task: str) -> None:
    id = hermetic("run", "-d", "--task", task, "--", "sleep 300").stdout.decode().strip()
    late = hermetic("wait", "--json", "--timeout", "0.1", id)
    assert (late.returncode, json.loads(late.stdout)) == (
        124,
        {"id": id, "ending": None, "exit_code": None},
    )
    killed = hermetic("kill", "--json", id, "no-such-id")
    assert killed.returncode == 1
    first, second = json.loads(killed.stdout)
    assert first == {"name": id, "id": id, "ending": ["signalled", 15]}
    assert "no process" in second["error"]
    ended = hermetic("wait", "--json", id)
    assert (ended.returncode, json.loads(ended.stdout)["exit_code"]) == (143, 143)
    assert as_json("rm", task) == [{"name": task, "removed": task}]
