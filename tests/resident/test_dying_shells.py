"""Shells that die at every step between two orders: each command is answered, and the session goes
on.

The resident runs with changed shell texts, so that a chosen step is slow or fatal.
"""

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from hermetic.link.archive import BOOT
from tests.resident.running import Client, Resident, running
from tests.sizes import scale

# The subshell between a shell and its fork lives on for a while, as on a machine with no processor
# to spare.
SLOW_PARENT = """
import hermetic_resident.limits
hermetic_resident.limits.FORK_READY = 20
from hermetic_resident.shells.orders import Orders
fork = Orders._fork
Orders._fork = lambda *given: fork(*given)[:-1] + b";/bin/sleep 0.5;: )"
"""

# A fork blocks before its report while the first file exists. The clock jumps once the second
# exists, as it does for everything in a container that was paused.
PAUSED = """
import os, time
import hermetic_resident.limits
hermetic_resident.limits.FORK_READY = 20
from hermetic_resident.shells.orders import Orders
turns, clock = Orders._turns, time.monotonic
Orders._turns = lambda self: b"test -p %s&&read < %s;" + turns(self)
time.monotonic = lambda: clock() + (100 if os.path.exists("%s") else 0)
"""

# Each fork stops itself before its report, once it is the resident's child, while the file exists.
STOPPING = """
import os
import hermetic_resident.limits
hermetic_resident.limits.FORK_READY = 20
from hermetic_resident.shells.orders import Orders
turns = Orders._turns
stop = b"test -e %s&&{ until read -r _ _ _ __h[12] _ </proc/$BASHPID/stat;((__h[12]==%%d))"
stop += b";do :;done;kill -STOP $BASHPID; };"
Orders._turns = lambda self: stop %% os.getpid() + turns(self)
"""

# A shell forks its standby late, as on a machine with no processor to spare.
SLOW_FORK = """
from hermetic_resident.shells.orders import Orders
fork = Orders._fork
Orders._fork = lambda *given: b"/bin/sleep 0.5;" + fork(*given)
"""

NO_DESCRIPTOR = """
from hermetic_resident.shells.command import Command
long_order = Command._long_order
def without_exit_trap(self, code, verb):
    if verb == b"X":
        raise OSError(24, "Too many open files")
    return long_order(self, code, verb)
Command._long_order = without_exit_trap
"""

# Where a shell dies, if the file exists that it removes: as Python that changes the texts by `die`.
STEPS = {
    "before its report": "Orders._end = property(lambda self: keep + die + end(self))",
    "after its report": "Orders._end = property(lambda self: end(self).replace(b'&&', b'&&{ %s; }&&' % die[:-1], 1))",
    "with an order": "Orders._codes = lambda self: tuple(die + code for code in coded(self))",
    "with the text of an order": "Orders.whole = lambda self, code: die + whole(self, code)",
    "forking, before the fork": "Orders._fork = lambda *given: b'( ' + die + fork(*given)[1:]",
    "forking, after the fork": "Orders._fork = lambda *given: fork(*given)[:-1] + b'\\n' + die + b')'",
    "as a fork, before its report": "Orders._turns = lambda self: die + turns(self)",
}
DYING = """
from hermetic_resident.shells.orders import Orders
end, coded, whole, fork, turns = Orders._end.fget, Orders._codes, Orders.whole, Orders._fork, Orders._turns
keep = b"__h[5]=${__h[5]:-$?}\\n"
die = b"\\\\builtin test -e %s&&/bin/rm %s 2>/dev/null&&\\\\builtin kill -9 $BASHPID||\\\\builtin :\\n"
"""

CALLERS = 3
TURNS = 30  # each waits for a fork that does not come
TEXTS = (
    "echo one",
    "X=$((X + 1)); echo $X",
    "sleep 0.02; echo two",
    "exit 3",
    "echo three | cat",
    "echo four",
)


def patched(patch: str) -> str:
    """The program that starts a resident, with a patch of its modules."""
    before, from_, after = BOOT.partition("from hermetic_resident")
    return f"{before}{patch}\n{from_}{after}"


@contextmanager
def clients(resident: Resident, count: int) -> Iterator[list[Client]]:
    with ExitStack() as stack:
        yield [stack.enter_context(resident.client()) for _ in range(count)]


def run(client: Client, name: str, text: str, **fields: Any) -> tuple[dict[str, Any], bytes]:
    """The answer to a command; a command without one is a TimeoutError after 20 s."""
    return client.ask("run", text.encode(), id=name, text=len(text.encode()), **fields)


def test_a_parallel_command_is_answered_though_the_parent_of_its_shell_lives_longer(
    tmp_path: Path,
) -> None:
    begun, over = tmp_path / "begun", tmp_path / "over"
    os.mkfifo(begun)
    os.mkfifo(over)
    with running(boot=patched(SLOW_PARENT)) as resident, clients(resident, 2) as (busy, other):
        run(busy, "first", "X=1")
        with ThreadPoolExecutor() as pool:
            long = pool.submit(run, busy, "long", f"echo > {begun}; read < {over}")
            begun.read_bytes()
            answers = [run(other, f"exit-{code}", f"echo $X; exit {code}") for code in (3, 4)]
            over.write_bytes(b"\n")
            long.result()
    assert [(said["ending"], output) for said, output in answers] == [
        (["exited", code], b"1\n") for code in (3, 4)
    ]


def test_a_standby_that_was_paused_with_the_resident_is_waited_for(tmp_path: Path) -> None:
    gate, jumped = tmp_path / "gate", tmp_path / "jumped"
    patch = PAUSED % (gate, gate, jumped)
    with running(boot=patched(patch)) as resident, clients(resident, 2) as (client, other):
        run(client, "first", "true")
        os.mkfifo(gate)
        run(client, "set", "X=1")
        shells = other.ask("sessions")[0]["sessions"][0]["shells"]
        with ThreadPoolExecutor() as pool:
            exiting = pool.submit(run, client, "exit", "exit 3")
            while other.ask("sessions")[0]["sessions"][0]["shells"] == shells:
                time.sleep(0.01)
            jumped.touch()
            other.ask("sessions")
            gate.write_text("\n")
            assert exiting.result()[0]["ending"] == ["exited", 3]
        gate.unlink()
        assert run(client, "get", "echo $X")[1] == b"1\n"


def test_a_fork_that_is_stopped_before_its_report_goes_on(tmp_path: Path) -> None:
    flag = tmp_path / "stop"
    with (
        running(boot=patched(STOPPING % flag)) as resident,
        clients(resident, 1) as (client,),
    ):
        run(client, "first", "true")
        flag.touch()
        for turn in range(20):
            run(client, f"set{turn}", f"X={turn}")
            run(client, f"exit{turn}", "exit 3")
            assert run(client, f"get{turn}", "echo $X")[1] == b"%d\n" % turn


def test_a_timeout_during_a_slow_fork_keeps_the_state() -> None:
    with running(boot=patched(SLOW_FORK)) as resident, clients(resident, 1) as (client,):
        run(client, "set", "f() { echo $X; }; X=1")
        said, _ = run(client, "late", "X=2; sleep 100", timeout=0.05)
        assert said["ending"][0] == "timed_out"
        assert run(client, "get", "f")[1] == b"1\n"


def test_a_command_is_answered_though_its_exit_trap_cannot_run() -> None:
    with running(boot=patched(NO_DESCRIPTOR)) as resident, clients(resident, 1) as (client,):
        said, output = run(client, "trap", "trap 'echo bye' EXIT; echo hello; (exit 3)")
        assert (said["ending"], output) == (["exited", 3], b"hello\n")
        assert any("EXIT trap did not run" in note for note in said["notes"])


@pytest.mark.parametrize("step", STEPS)
def test_each_command_is_answered_wherever_shells_die(step: str, tmp_path: Path) -> None:
    flag = tmp_path / "die"
    die = f"die = die % ({str(flag).encode()!r}, {str(flag).encode()!r})\n"
    boot = patched(DYING + die + STEPS[step])
    with running(boot=boot) as resident, clients(resident, CALLERS + 1) as (last, *callers):
        run(last, "first", "X=1")
        deaths: list[bool] = []

        def call(number: int, client: Client) -> list[Any]:
            answers = []
            for turn in range(max(5, scale(TURNS))):
                deaths.append(not flag.exists())
                flag.touch()
                text = TEXTS[(turn + number) % len(TEXTS)]
                answers.append(run(client, f"{number}-{turn}", text)[0]["ending"])
            return answers

        with ThreadPoolExecutor() as pool:
            endings = [
                ending for found in pool.map(call, range(CALLERS), callers) for ending in found
            ]
        assert sum(deaths) > CALLERS
        assert {name for name, *_ in endings} <= {"exited", "signalled"}, endings
        flag.unlink(missing_ok=True)
        run(last, "settle", "true")
        run(last, "set", "Y=2")
        assert run(last, "get", "echo $Y")[1] == b"2\n"
