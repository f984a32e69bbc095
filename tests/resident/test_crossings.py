"""Requests that cross a start, an end or one another: a cancel, a signal, a lost connection."""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from hermetic.resident.wire.frames import CANCEL, pack_frame
from tests.resident.running import Client, running
from tests.resident.test_dying_shells import SLOW_PARENT, patched
from tests.resident.test_requests import MARK, answers, send, slow_home


@pytest.fixture
def slow_profile(tmp_path: Path) -> dict[str, str]:
    return slow_home(tmp_path)


def test_a_cancelled_start_never_begins_though_others_wait_for_its_output(
    slow_profile: dict[str, str], tmp_path: Path
) -> None:
    with running(login=True, environ=slow_profile) as resident, resident.client() as client:
        words = f"touch\0{tmp_path}/begun".encode()
        asked = {"id": "r", "text": len(words), "argv": True}
        run = send(client, "run", words, **asked)
        follow = send(client, "follow", log="r", credit=1, hold=True)
        client.stream.sendall(pack_frame(CANCEL, run, {}))
        said = answers(client, run, follow)
        assert (said[run]["ending"], said[run]["notes"]) == (["cancelled"], ["it never began"])
        assert said[follow]["error"] == "UnknownProcess"
        late = send(client, "run", words, **dict(asked, timeout=0.1))
        follow = send(client, "follow", log="r", credit=1, hold=True)
        said = answers(client, late, follow)
        assert (said[late]["ending"][0], said[follow]["error"]) == ("timed_out", "UnknownProcess")
        client.ask("state")  # which waits for the profile, as the start does
        assert not (tmp_path / "begun").exists()


@pytest.mark.parametrize("argv", [False, True], ids=["a command", "an argv"])
@pytest.mark.parametrize("crossing", ["its time", "a freeze"])
def test_a_command_that_is_being_ended_is_not_yielded(crossing: str, argv: bool) -> None:
    text = b"trap '' TERM; echo up; while :; do sleep 0.05; done"
    text = b"bash\0-c\0" + text if argv else text
    asked = {"text": len(text), "argv": argv, "on_timeout": "yield", "grace": 1.0}
    with running() as resident, resident.client() as client:
        timeout = 0.8 if crossing == "its time" else 20.0
        run = send(client, "run", text, id="r", timeout=timeout, **asked)
        answers(client, send(client, "read", log="r", wait=20.0))
        client.stream.sendall(pack_frame(CANCEL, run, {}))
        freeze = [send(client, "freeze")] if crossing == "a freeze" else []
        assert answers(client, run, *freeze)[run]["ending"] == ["cancelled"]


def test_a_process_that_has_ended_keeps_its_ending_while_the_rest_is_ended() -> None:
    text = f"(trap '' TERM; echo up; exec sleep {MARK}) & read; exec sleep {MARK}"
    words = f"bash\0-c\0{text}".encode()
    with running() as resident, resident.client() as client:
        run = send(client, "run", words, id="r", text=len(words), argv=True, timeout=1.5)
        answers(client, send(client, "read", log="r", wait=20.0))
        kill = send(client, "kill", process="r", grace=2.0)
        time.sleep(0.1)
        client.stream.sendall(pack_frame(CANCEL, run, {}))
        said = answers(client, run, kill)
        assert said[run]["ending"] == said[kill]["process"]["ending"] == ["signalled", 15]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_right_after_the_start_reaches_the_process_alone(number: int) -> None:
    """Before the program runs, its process is a copy of the resident, with the resident's handlers."""
    words = f"sleep\0{MARK}".encode()
    with running() as resident, resident.client() as client:
        for turn in range(3):
            start = send(client, "start", words, id=f"p{turn}", text=len(words), argv=True)
            answers(client, start, send(client, "signal", process=f"p{turn}", signal=int(number)))
            ended = client.ask("wait", process=f"p{turn}")[0]["process"]
            assert ended["ending"] == ["signalled", int(number)]
            assert Path(resident.ready["socket"]).exists(), "others can still connect"


def test_clients_that_leave_together_are_all_counted_out() -> None:
    """One waited to report on what the other reported on, and is told on a broken connection."""
    with running() as resident, resident.client() as watcher:
        with resident.client() as next_one, resident.client() as reporter:
            for name in ("one", "two"):
                reporter.ask("start", b"sleep 1234.8", id=name, text=12)
                send(next_one, "claim", process=name)
            next_one.ask("ping")
            assert watcher.ask("info")[0]["clients"] == 3
            os.kill(resident.pid, signal.SIGSTOP)
        os.kill(resident.pid, signal.SIGCONT)
        late = time.monotonic() + 5
        while watcher.ask("info")[0]["clients"] > 1 and time.monotonic() < late:
            time.sleep(0.01)
        assert watcher.ask("info")[0]["clients"] == 1
        assert not Path(resident.directory, "log").exists(), "no failure of the resident's own"


def test_a_release_that_overtakes_a_freeze_ends_it(tmp_path: Path) -> None:
    """The freeze waits for a shell that is being forked; the release does not."""
    with running(boot=patched(SLOW_PARENT)) as resident, resident.client() as client:
        client.run("true")
        client.ask("start", b"while sleep 0.01; do echo; done", id="p", text=31)
        set_ = send(client, "run", b"X=1", id="x", text=3)  # a standby is forked after it
        freeze = send(client, "freeze")
        thaw = send(client, "thaw")
        answers(client, set_, freeze, thaw)
        total = client.ask("read", log="p")[0]["total"]
        said, _ = client.ask("read", log="p", offset=total + 10, wait=5.0)
        assert said["total"] > total + 10, "it goes on"


def test_a_start_that_is_refused_leaves_no_input_behind() -> None:
    patch = "import hermetic_resident.limits\nhermetic_resident.limits.SESSIONS = 1"
    with running(boot=patched(patch)) as resident, resident.client() as client:

        def refused() -> set[str]:
            asked = {"id": "s", "session": "two", "stdin": "inline", "text": 3}
            start = send(client, "start", b"cat" + b"x" * 1000, **asked)
            assert "sessions are open here" in answers(client, start)[start]["message"]
            links = Path(f"/proc/{resident.pid}/fd").iterdir()
            return {f"{link}: {os.readlink(link)}" for link in links if link.is_symlink()}

        client.run("true")
        before = refused()
        assert refused() == before


def test_who_comes_while_the_resident_ends_is_not_greeted() -> None:
    """Else an opener would take an environment that its lease has just ended."""
    with suppress(FileNotFoundError), running() as resident, resident.client() as client:
        stubborn = b"trap '' TERM; echo up; while :; do sleep 0.1; done"
        client.ask("start", stubborn, id="p", text=len(stubborn))
        client.ask("read", log="p", wait=20.0)
        with resident.connect() as stream:
            shutdown = send(client, "shutdown", grace=1.0)
            send(Client(stream), "hello", versions=[1], token=resident.token)
            said = stream.recv(1000)
            answers(client, shutdown)
    assert said == b""


@pytest.mark.parametrize("op", ["run", "start"])
def test_a_start_that_is_cancelled_on_the_next_connection_never_begins(
    op: str, slow_profile: dict[str, str], tmp_path: Path
) -> None:
    with running(login=True, environ=slow_profile) as resident, resident.client() as client:
        words = f"touch\0{tmp_path}/begun".encode()
        asked = {"id": "r", "text": len(words), "argv": True}
        with resident.client() as broken:
            send(broken, op, words, **asked)
            broken.ask("ping")
        again = send(client, op, words, **asked)
        client.stream.sendall(pack_frame(CANCEL, again, {}))
        answers(client, again)
        with pytest.raises(AssertionError, match="no process r"):
            client.ask("wait", process="r")
        assert not (tmp_path / "begun").exists()


NOTED_SIGNALS = """
import os
kill = os.kill
def noted(pid, number):
    if number == 12:
        with open("%s", "a") as file:
            print(pid, file=file)
    kill(pid, number)
os.kill = noted
"""


def test_a_signal_goes_to_no_process_that_was_waited_for(tmp_path: Path) -> None:
    """While the rest of a tree is being ended, the number of its first process is free."""
    noted = tmp_path / "noted"
    with running(boot=patched(NOTED_SIGNALS % noted)) as resident, resident.client() as client:
        text = f"(trap '' TERM; echo up; exec sleep {MARK}) & read; exec sleep {MARK}".encode()
        client.ask("start", text, id="p", text=len(text))
        client.ask("read", log="p", wait=20.0)
        client.ask("signal", process="p", signal=12, tree=False)
        kill = send(client, "kill", process="p", grace=0.5)
        time.sleep(0.2)
        late = send(client, "signal", process="p", signal=12, tree=False)
        answers(client, kill, late)
    assert len(noted.read_text().split()) == 1


TERM_AMID_A_REQUEST = """
import os, signal
from hermetic_resident.life.resident import Resident
add = Resident.add
def interrupted(self, job):
    os.kill(os.getpid(), signal.SIGTERM)
    with open("%s", "w") as file:
        print(self.is_ending, file=file)
    add(self, job)
Resident.add = interrupted
"""


def test_a_signal_ends_the_resident_between_two_requests_and_not_amid_one(tmp_path: Path) -> None:
    noted = tmp_path / "noted"
    patch = TERM_AMID_A_REQUEST % noted
    with (
        suppress(FileNotFoundError),
        running(boot=patched(patch)) as resident,
        resident.client() as client,
    ):
        send(client, "start", b"sleep 1000", id="p", text=10)
        while client.stream.recv(1000):
            pass
    assert noted.read_text() == "False\n"


COUNTED_LISTENERS = """
from hermetic_resident.processes.job import Job
describe = Job.describe
Job.describe = lambda self: dict(describe(self), tag=str(len(self.end_listeners)))
"""


def test_who_has_stopped_waiting_for_an_end_is_forgotten() -> None:
    """A caller that looks again and again would cost more and more as long as the process runs."""
    with running(boot=patched(COUNTED_LISTENERS)) as resident, resident.client() as client:
        client.ask("start", b"cat", id="p", text=3)
        for turn in range(3):
            client.ask("read", log="p", offset=turn, wait=0.01)
            read = send(client, "read", log="p", offset=turn, wait=20.0)
            for op in ("wait", "follow"):
                waits = send(client, op, process="p", log="p", credit=1)
                client.stream.sendall(pack_frame(CANCEL, waits, {}))
                answers(client, waits)
            answers(client, read, send(client, "write", b"x", process="p"))
        assert client.ask("status", process="p")[0]["process"]["tag"] == "0"


def test_a_start_in_which_the_resident_fails_is_answered() -> None:
    patch = (
        "from hermetic_resident.processes.process import Process\nProcess._begin = lambda *_: 1 / 0"
    )
    with running(boot=patched(patch)) as resident, resident.client() as client:
        for _ in range(2):
            start = send(client, "start", b"true", id="p", text=4)
            assert "ZeroDivisionError" in answers(client, start)[start]["message"]
        assert "ZeroDivisionError" in Path(resident.directory, "log").read_text()


def test_an_id_that_is_used_again_after_a_cancel_starts_the_second_command(
    slow_profile: dict[str, str],
) -> None:
    with running(login=True, environ=slow_profile) as resident, resident.client() as client:
        first = send(client, "start", b"echo first", id="s", text=10)
        client.stream.sendall(pack_frame(CANCEL, first, {}))
        second = send(client, "start", b"echo second", id="s", text=11)
        said = answers(client, first, second)
        assert (said[first]["error"], said[second]["existing"]) == ("Cancelled", False)
        client.ask("wait", process="s")
        assert client.ask("read", log="s")[1] == b"second\n"


@pytest.mark.parametrize("leaves", ["cancel", "close"])
def test_who_stops_waiting_for_a_start_neither_holds_nor_drives_the_process(
    leaves: str, slow_profile: dict[str, str]
) -> None:
    flood = f"head -c {8 << 20} /dev/zero".encode()
    with running(login=True, environ=slow_profile) as resident, resident.client() as client:
        starts = [
            send(client, "start", text, id=name, text=len(text))
            for name, text in {"prints": flood, "reads": b"read line"}.items()
        ]
        with resident.client() as other:
            waiting = [
                send(other, "follow", log="prints", credit=1, hold=True),
                send(other, "drive", process="reads", key="k", name="Ann"),
            ]
            if leaves == "cancel":
                for number in waiting:
                    other.stream.sendall(pack_frame(CANCEL, number, {}))
                said = answers(other, *waiting)
                assert [said[number]["error"] for number in waiting] == ["Cancelled"] * 2
        answers(client, *starts)
        assert client.ask("wait", process="prints")[0]["process"]["ending"] == ["exited", 0]
        driver = client.ask("status", process="reads")[0]["process"].get("driver")
        assert driver is None if leaves == "cancel" else not driver["present"]
