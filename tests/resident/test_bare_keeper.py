"""The bash that stays in a place without Python: it ends what is ours there, and touches nobody else."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hermetic.resident.bare.scripts import KEEP, order

SECONDS = 20
HIGH = os.getpid()  # of the second marks: another run of the tests has another


class Keeper:
    """The script itself, run here."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.bash = subprocess.Popen(
            ["bash", "--norc", "--noprofile"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        self._send(order(KEEP, id.encode(), b"%d" % HIGH, b""))
        self.greeting = [self._word() for _ in range(6)]

    def ask(self, verb: str, subject: str, argument: str = "-") -> str:
        """Its answer."""
        self._send(f"9 {verb} {argument} {subject}\0".encode())
        number, _, text = self._word().partition(" ")
        assert number == "9"
        return text

    def close(self) -> None:
        """Returns when it has ended, because its input did."""
        assert self.bash.stdin is not None
        assert self.bash.stdout is not None
        self.bash.stdin.close()
        self.bash.wait(SECONDS)
        self.bash.stdout.close()

    def _send(self, data: bytes) -> None:
        assert self.bash.stdin is not None
        self.bash.stdin.write(data)

    def _word(self) -> str:
        assert self.bash.stdout is not None
        word = b""
        while (byte := self.bash.stdout.read(1)) != b"\0":
            assert byte, "the keeper ended"
            word += byte
        return os.fsdecode(word)


@pytest.fixture
def keeper() -> Iterator[Keeper]:
    found = Keeper("e-keeper.test")
    yield found
    if found.bash.poll() is None:
        found.close()


Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts `sleep`, alone or behind the words given, and takes it away at the end."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(*words: str, mark: str | None = None) -> "subprocess.Popen[bytes]":
        environ = {"PATH": os.environ["PATH"], **({} if mark is None else {"HERMETIC_COMMAND": mark})}
        started.append(subprocess.Popen([*words, "sleep", "300"], env=environ, stdin=subprocess.DEVNULL))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.wait()


def state(pid: int) -> str:
    """S sleeps, T is stopped, Z has ended."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]


def test_what_carries_the_mark_is_ended(keeper: Keeper, start: Start) -> None:
    ours = start(mark=f"{keeper.id}.7")
    assert keeper.ask("list", "7") == str(ours.pid)
    assert keeper.ask("end", "7") == ""
    assert ours.wait(SECONDS) == -9


def test_a_number_that_is_the_pid_of_a_stranger_does_not_touch_him(keeper: Keeper, start: Start) -> None:
    stranger = start()
    assert keeper.ask("list", str(stranger.pid)) == ""
    assert keeper.ask("ask", str(stranger.pid)) == ""
    assert keeper.ask("end", str(stranger.pid)) == ""
    assert stranger.poll() is None
    assert state(stranger.pid) == "S"


def test_the_first_process_of_a_command_is_ours_before_it_carries_the_mark(keeper: Keeper, start: Start) -> None:
    unmarked = start()
    assert keeper.ask("list", f"7+{unmarked.pid}") == str(unmarked.pid)


def test_another_number_and_another_residents_mark_are_not_ours(keeper: Keeper, start: Start) -> None:
    marks = (f"{keeper.id}.77", f"{keeper.id}.6", "e-other.life.7", f"x{keeper.id}.7x")
    others = [start(mark=mark) for mark in marks]
    assert keeper.ask("end", "7") == ""
    assert [state(other.pid) for other in others] == ["S"] * len(others)


@pytest.mark.parametrize("pid", [1, os.getpid(), os.getppid()], ids=["the first", "its parent", "one above"])
def test_whoever_the_keeper_hangs_below_is_never_ours(keeper: Keeper, pid: int) -> None:
    # Only looked at: what would be ended otherwise is this very test.
    assert keeper.ask("list", f"7+{pid}") == ""
    assert keeper.ask("list", f"7+{keeper.bash.pid}") == ""
    assert keeper.ask("list", "1") == ""


def test_the_second_mark_outlives_an_emptied_environment(keeper: Keeper, start: Start) -> None:
    if keeper.greeting[5] != "unlimited":
        pytest.skip("the limit on file locks is not free here")
    value = HIGH << 28 | 7
    ours = start("bash", "-c", f'ulimit -S -x {value}; exec env -i "$(type -P "$0")" "$@"', mark=None)
    other = start("bash", "-c", f'ulimit -S -x {value + 1}; exec "$0" "$@"', mark=None)
    while Path(f"/proc/{ours.pid}/comm").read_text() != "sleep\n":
        os.sched_yield()
    assert keeper.ask("end", "7") == ""
    assert ours.wait(SECONDS) == -9
    assert other.poll() is None


def test_when_its_line_is_cut_it_ends_all_that_is_ours_and_itself(keeper: Keeper, start: Start) -> None:
    ours = [start(mark=f"{keeper.id}.{number}") for number in (1, 2)]
    stranger = start()
    keeper.close()
    assert [process.wait(SECONDS) for process in ours] == [-9, -9]
    assert state(stranger.pid) == "S"
