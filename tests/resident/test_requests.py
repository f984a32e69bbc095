"""Requests at awkward moments: each is answered, once, and nobody else waits for it."""

import os
import signal
import statistics
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermetic.resident.limits import PENDING_INPUT
from hermetic.resident.wire.frames import (
    CANCEL,
    CREDIT,
    ERROR,
    EVENT,
    REPLY,
    REQUEST,
    pack_frame,
)
from tests.resident.running import Client, running
from tests.resident.test_dying_shells import patched
from tests.scenarios.living import with_argument
from tests.sizes import scale

MARK = f"9{os.getpid()}.5"  # an argument of `sleep`: others may run the same tests at the same time


def send(client: Client, op: str, body: bytes = b"", **fields: Any) -> int:
    """Sends a request without waiting for its answer."""
    client.number += 1
    client.stream.sendall(pack_frame(REQUEST, client.number, {"op": op, **fields}, body))
    return client.number


def answers(client: Client, *numbers: int) -> dict[int, Any]:
    """The last answers to these requests, in whatever order they come."""
    found: dict[int, Any] = {}
    while set(found) != set(numbers):
        kind, number, fields, _ = client.next_frame()
        if kind in (REPLY, ERROR):
            found[number] = fields
    return found


def slow_home(home: Path) -> dict[str, str]:
    """An environment whose login profile takes its time."""
    (home / ".bash_profile").write_text("sleep 3\nexport FROM_PROFILE=yes\n")
    return {**os.environ, "HOME": str(home)}


@pytest.fixture
def slow_profile(tmp_path: Path) -> dict[str, str]:
    return slow_home(tmp_path)


def test_a_command_that_waits_for_a_shell_can_be_killed(slow_profile: dict[str, str]) -> None:
    with running(login=True, environ=slow_profile) as resident, resident.client() as client:
        run = send(client, "run", b"echo hi", id="r", text=7)
        kill = send(client, "kill", process="r")
        said = answers(client, run, kill)
        assert said[run]["ending"] == said[kill]["process"]["ending"] == ["cancelled"]


def test_ending_a_session_answers_the_commands_that_wait_in_it(
    slow_profile: dict[str, str],
) -> None:
    with running(login=True, environ=slow_profile) as resident, resident.client() as client:
        run = send(client, "run", b"echo hi", id="r", text=7)
        end = send(client, "end_session", session="")
        assert answers(client, run, end)[run]["ending"] == ["cancelled"]


def test_a_process_started_before_the_profile_is_through_gets_what_it_exports(
    slow_profile: dict[str, str],
) -> None:
    with running(login=True, environ=slow_profile) as resident, resident.client() as client:
        client.ask("start", b"echo $FROM_PROFILE", id="p", text=18)
        client.ask("wait", process="p")
        assert client.ask("read", log="p")[1] == b"yes\n"


@pytest.mark.parametrize("head_start", [0, 0.001, 0.003, 0.01, 0.05])
def test_ending_a_session_ends_the_tree_of_its_running_command(head_start: float) -> None:
    """Also when its shell has not read the command yet, or has just begun."""
    with running() as resident, resident.client() as client:
        client.run("true")
        text = f"sleep {MARK} & sleep {MARK}".encode()
        run = send(client, "run", text, id="r", text=len(text), timeout=20.0)
        time.sleep(head_start)
        end = send(client, "end_session", session="")
        said = answers(client, run, end)
        assert said[run]["ending"] == ["cancelled"]
        assert with_argument(MARK) == []


def test_a_shell_that_dies_while_it_is_asked_costs_nobody_an_answer() -> None:
    with running() as resident, resident.client() as client:
        pid = int(client.run("echo $$; A=1")[1])
        os.kill(pid, signal.SIGSTOP)
        start = send(client, "start", b"echo $A", id="p", text=7)
        client_2 = resident.connect()
        client_2.close()
        os.kill(pid, signal.SIGKILL)
        assert "process" in answers(client, start)[start]


def test_a_follower_of_a_forgotten_log_is_told() -> None:
    with running(spool="/var/tmp") as resident, resident.client() as client:
        client.ask("run", b"head -c 300000 /dev/zero", id="r", text=24)
        follow = send(client, "follow", log="r", offset=0, credit=10)
        forget = send(client, "forget", process="r")
        client.stream.sendall(pack_frame(CREDIT, follow, {"n": 1_000_000}))
        said = answers(client, follow, forget)
        assert said[follow]["error"] == "UnknownProcess"
        assert client.run("echo fine")[1] == b"fine\n"


def test_a_repeated_run_of_an_argv_starts_one_process() -> None:
    with running() as resident, resident.client() as client:
        marker = Path(resident.directory) / "once"
        words = f"bash\0-c\0echo x >> {marker}".encode()
        first = send(client, "run", words, id="a", text=len(words), argv=True)
        second = send(client, "run", words, id="a", text=len(words), argv=True)
        said = answers(client, first, second)
        assert said[first]["ending"] == said[second]["ending"] == ["exited", 0]
        assert marker.read_text() == "x\n"


def test_a_list_of_many_processes_fits_its_answer() -> None:
    with running() as resident, resident.client() as client:
        for i in range(300):
            client.ask("start", b"true " + b"x" * 3000, id=f"p{i}", text=3005, stdin="null")
        said, body = client.ask("list")
        assert said["processes"] == 300
        assert body.count(b"true x") == 300


def test_a_session_with_huge_exports_tells_them() -> None:
    with running() as resident, resident.client() as client:
        client.run("export BIG=$(head -c 90000 /dev/zero | tr '\\0' b)")
        _, body = client.ask("state", session="")
        assert b"b" * 90000 in body


def test_a_process_that_is_being_started_can_be_asked_about(slow_profile: dict[str, str]) -> None:
    with running(login=True, environ=slow_profile) as resident, resident.client() as client:
        start = send(client, "start", b"echo out", id="p", text=8)
        wait = send(client, "wait", process="p")
        follow = send(client, "follow", log="p", offset=0, credit=1000)
        said = answers(client, start, wait, follow)
        assert said[follow] == {"end": 4, "ending": ["exited", 0]}
        assert said[wait]["process"]["ending"] == ["exited", 0]


def test_a_list_that_does_not_fit_tells_of_the_newest(tmp_path: Path) -> None:
    deep = tmp_path
    while len(str(deep)) < 1500:
        deep = deep / ("d" * 100)
    deep.mkdir(parents=True)
    with running() as resident, resident.client() as client:
        for i in range(900):
            client.ask("start", b"true", id=f"p{i}", text=4, stdin="null", cwd=str(deep))
        said, body = client.ask("list")
        assert said["processes"] == 900
        assert b"p899" in body
        assert len(body) <= 1 << 20


def test_an_answer_that_does_not_fit_is_an_error_and_not_silence() -> None:
    with running() as resident, resident.client() as client:
        client.run(
            "for i in {1..12}; do export BIG$i=$(head -c 100000 /dev/zero | tr '\\0' b); done"
        )
        state = send(client, "state", session="")
        assert "does not fit" in answers(client, state)[state]["message"]
        assert client.run("echo fine")[1] == b"fine\n"


def test_a_listener_that_does_not_read_costs_nothing_and_learns_that_it_missed_something() -> None:
    with running() as resident, resident.client() as listener, resident.client() as client:
        send(listener, "events")
        before, _ = client.ask("info")
        for i in range(1500):
            client.ask("run", b"true " + b"x" * 3000, id=f"c{i}", text=3005)
        after, _ = client.ask("info")
        assert after["rss"] - before["rss"] < 6 << 20
        heard = [listener.next_frame()[2]["event"] for _ in range(300)]
        assert "started" in heard
        while heard[-1] != "missed":
            heard.append(listener.next_frame()[2]["event"])


def test_what_the_starter_had_open_is_not_held() -> None:
    read_end, write_end = os.pipe()
    os.set_inheritable(write_end, True)
    try:
        with running(pass_fds=(write_end,)) as resident, resident.client() as client:
            os.close(write_end)
            assert os.read(read_end, 1) == b"", "somebody still holds the other end"
            assert client.run("echo fine")[1] == b"fine\n"
    finally:
        os.close(read_end)


def test_exits_in_a_row_do_not_nest_without_end() -> None:
    with running() as resident, resident.client() as client:
        client.run("X=kept; f() { echo $X; }")
        deepest = 0
        for _ in range(400):
            said, output = client.run("echo $BASH_SUBSHELL; exit 3")
            assert said["ending"] == ["exited", 3]
            deepest = max(deepest, int(output))
        assert 200 < deepest < 300
        assert client.run("f")[1] == b"kept\n"


def test_a_directory_that_is_gone_is_left_for_its_ancestor_by_everything(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    with running() as resident, resident.client() as client:
        client.run(f"cd {tmp_path}/a/b; rm -r {tmp_path}/a/b")
        client.ask("write_file", b"content", path="x")
        assert (tmp_path / "a" / "x").read_text() == "content"
        said, _ = client.ask("start", b"pwd", id="p", text=3, stdin="null")
        assert said["process"]["cwd"] == str(tmp_path / "a")
        said, output = client.run("pwd")
        assert output.decode().strip() == str(tmp_path / "a")
        assert any("no longer exists" in note for note in said["notes"])


def test_a_tree_that_takes_its_mark_away_is_still_ended() -> None:
    with running() as resident, resident.client() as client:
        text = (
            f"env -i setsid bash -c 'ulimit -S -q 5000; sleep {MARK} & sleep {MARK}' & sleep {MARK}"
        )
        said, _ = client.run(text, timeout=0.3)
        assert said["ending"] == ["timed_out", 0.3]
        client.run("ulimit -q 5000")
        client.run(f"sleep {MARK}1 &")
        said, _ = client.run(f"env -i setsid sleep {MARK} & sleep {MARK}", timeout=0.3)
        assert said["ending"] == ["timed_out", 0.3]
        assert with_argument(MARK) == []
        assert with_argument(f"{MARK}1"), "an earlier job was touched"


def test_a_large_file_is_written_while_others_are_served(tmp_path: Path) -> None:
    with running(spool="/var/tmp") as resident, resident.client() as client:
        for _ in range(20):
            client.ask("blob", b"z" * (1 << 20), blob="b")
        write = send(client, "write_file", path=str(tmp_path / "large"), blob="b", mode=0o640)
        assert answers(client, write)[write]["size"] == 20 << 20
        assert (tmp_path / "large").stat().st_size == 20 << 20
        assert (tmp_path / "large").stat().st_mode & 0o777 == 0o640
        write = send(client, "write_file", path=str(tmp_path), blob="none")
        assert answers(client, write)[write]["error"] == "InvalidArgument"


def test_a_cancelled_start_never_begins(slow_profile: dict[str, str], tmp_path: Path) -> None:
    with running(login=True, environ=slow_profile) as resident, resident.client() as client:
        text = f"touch {tmp_path}/begun".encode()
        words = f"touch\0{tmp_path}/begun".encode()
        start = send(client, "start", text, id="s", text=len(text))
        run = send(client, "run", words, id="r", text=len(words), argv=True)
        for number in (start, run):
            client.stream.sendall(pack_frame(CANCEL, number, {}))
        said = answers(client, start, run)
        assert said[start]["error"] == "Cancelled"
        assert said[run]["ending"] == ["cancelled"]
        client.run("true")
        assert not (tmp_path / "begun").exists()
        assert client.ask("info")[0]["processes"] == 0


def test_the_time_of_an_argv_counts_from_the_call(slow_profile: dict[str, str]) -> None:
    with running(login=True, environ=slow_profile) as resident, resident.client() as client:
        began = time.monotonic()
        said, _ = client.ask("run", b"true", id="r", text=4, argv=True, timeout=0.2)
        assert said["ending"] == ["timed_out", 0.2]
        assert time.monotonic() - began < 2.9, "it did not wait for the profile"


@pytest.mark.parametrize("head_start", [0, 0.0005, 0.001, 0.002])
def test_a_command_that_is_ended_at_once_is_ended_and_runs_no_second_time(
    head_start: float, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    with running() as resident, resident.client() as client:
        for turn in range(scale(300)):
            client.run("V=1")
            text = f"echo {turn} >> {ran}; sleep 100".encode()
            began = time.monotonic()
            said, _ = client.ask(
                "run", text, id=f"r{turn}", text=len(text), timeout=head_start or 0.0002
            )
            assert said["ending"][0] == "timed_out"
            assert time.monotonic() - began < 50
            assert client.run("echo $V")[1] == b"1\n"
        lines = ran.read_text().split() if ran.exists() else []
        assert len(lines) == len(set(lines))


def test_a_child_that_prints_outlives_the_log_of_its_command() -> None:
    with running() as resident, resident.client() as client:
        _, output = client.run("(while sleep 0.02; do echo x; done) & echo $!")
        for _ in range(200):
            client.run("true")
        client.ask("read", log="c1")  # it stays as long as the child runs
        client.ask("forget", process="c1")
        with pytest.raises(AssertionError, match="no process"):
            client.ask("read", log="c1")
        time.sleep(0.2)
        assert client.run(f"kill -0 {int(output.split()[0])} && echo alive")[1] == b"alive\n"


def test_a_kill_of_the_whole_group_costs_one_command(tmp_path: Path) -> None:
    with running() as resident, resident.client() as client:
        client.run("X=1")
        client.run("bash -c 'trap \"kill 0\" EXIT; echo work'")
        assert client.run("echo $X")[1] == b"1\n"
        client.run("kill -9 0")
        assert client.run("echo $X")[1] == b"1\n"


def test_a_directory_that_cannot_be_entered_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with running() as resident, resident.client() as client:
        for place in (tmp_path / "file", tmp_path / "none"):
            with pytest.raises(AssertionError, match="cwd"):
                client.run("pwd", cwd=str(place))
        before = client.ask("info")[0]["descriptors"]
        for turn in range(30):
            run = send(
                client,
                "run",
                b"catabc",
                id=f"x{turn}",
                text=3,
                stdin="inline",
                cwd=str(tmp_path / "no"),
            )
            start = send(
                client,
                "start",
                b"catabc",
                id=f"y{turn}",
                text=3,
                stdin="inline",
                cwd=str(tmp_path / "no"),
            )
            answers(client, run, start)
        assert client.ask("info")[0]["descriptors"] <= before + 2


def test_the_first_process_of_a_session_starts_where_the_session_does(tmp_path: Path) -> None:
    with running(cwd=str(tmp_path)) as resident, resident.client() as client:
        for name in ("a", "b", "c", "d"):
            client.ask("start", b"pwd", id=name, text=3, session=name)
            client.ask("wait", process=name)
            assert client.ask("read", log=name)[1].decode().strip() == str(tmp_path)


def test_a_process_beside_a_busy_lane_gets_the_newest_exports() -> None:
    with running() as resident, resident.client() as client:
        for turn in range(20):
            client.run(f"export X={turn}")
            run = send(client, "run", b"sleep 0.02", id=f"s{turn}", text=10)
            start = send(client, "start", b"echo $X", id=f"p{turn}", text=7)
            answers(client, run, start)
            client.ask("wait", process=f"p{turn}")
            assert client.ask("read", log=f"p{turn}")[1] == b"%d\n" % turn


def test_a_client_that_asks_and_does_not_read_costs_little(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"z" * 1_000_000)
    with running() as resident, resident.client() as client, resident.client() as silent:
        before = client.ask("info")[0]["rss"]
        asked = {"op": "read_file", "path": str(tmp_path / "large")}
        silent.stream.sendall(
            b"".join(pack_frame(REQUEST, number, asked) for number in range(100, 400))
        )
        assert client.run("echo fine")[1] == b"fine\n"
        assert client.ask("info")[0]["rss"] - before < 16 << 20
        assert len(answers(silent, *range(100, 400))) == 300


def test_names_and_limits_that_a_user_changes_do_no_harm() -> None:
    with running() as resident, resident.client() as client:
        client.run("command() { echo fake; }")
        assert client.run("echo A=$A", env={"A": "1"})[1] == b"A=1\n"
        assert client.run("trap 'echo bye' EXIT; echo hi")[1] == b"hi\n"
        client.run("set -e; ulimit -q 1000")
        assert client.run("echo on")[1] == b"on\n"
    with running() as resident, resident.client() as client:
        client.run("readonly HERMETIC_COMMAND")
        said, _ = client.run(f"setsid bash -c 'sleep {MARK} & disown' & sleep {MARK}", timeout=0.3)
        assert said["ending"] == ["timed_out", 0.3]
        assert with_argument(MARK) == []


def test_a_directory_removed_by_a_command_from_elsewhere_is_left_with_a_note(
    tmp_path: Path,
) -> None:
    (tmp_path / "d").mkdir()
    with running() as resident, resident.client() as client:
        client.run(f"cd {tmp_path}/d")
        client.run(f"rmdir {tmp_path}/d", cwd="/")
        said, output = client.run("pwd")
        assert output.decode().strip() == str(tmp_path)
        assert any("no longer exists" in note for note in said["notes"])


def test_a_terminal_is_typed_what_it_is_given_and_reads_its_end() -> None:
    with running() as resident, resident.client() as client:
        client.ask("start", b"catabc\n", id="p", text=3, pty=True, stdin="inline")
        client.ask("wait", process="p")
        assert client.ask("read", log="p")[1] == b"abc\r\nabc\r\n"


def test_a_terminal_is_typed_more_than_is_queued_at_once() -> None:
    lines = (b"x" * 99 + b"\n") * (5 * PENDING_INPUT // 2 // 100)
    with running() as resident, resident.client() as client:
        client.ask("blob", lines[:PENDING_INPUT], blob="b")
        client.ask("blob", lines[PENDING_INPUT : 2 * PENDING_INPUT], blob="b")
        client.ask("blob", lines[2 * PENDING_INPUT :], blob="b")
        text = b"stty -echo; wc -c"
        asked = {"text": len(text), "pty": True, "stdin": "blob", "blob": "b"}
        client.ask("start", text, id="p", **asked)
        assert client.ask("wait", process="p")[0]["process"]["ending"] == ["exited", 0]
        total = client.ask("read", log="p")[0]["total"]
        said = client.ask("read", log="p", offset=total - 20)[1]
        assert said.endswith(b"%d\r\n" % len(lines))


def test_a_job_whose_output_is_dropped_stays_as_long_as_it_has_left_something_running() -> None:
    patch = "import hermetic_resident.limits\nhermetic_resident.limits.KEPT_MEMORY = 1 << 17"
    with running(boot=patched(patch)) as resident, resident.client() as client:
        loud = "head -c 50000 /dev/zero"
        left = f"{loud}; (while sleep {MARK}; do echo; done) &"
        client.run(left)  # c1
        follow = send(client, "follow", log="c1", credit=100)
        while client.next_frame()[0] != EVENT:
            pass
        client.run(loud)
        client.run(loud)
        client.run(loud)
        listed = client.ask("list")
        known = {info["id"]: info["left"] for info in msgspec.msgpack.decode(listed[1])}
        assert (known.pop("c1"), len(known)) == (2, 2)
        client.stream.sendall(pack_frame(CREDIT, follow, {"n": 1 << 17}))
        assert answers(client, follow)[follow]["end"] == 50000
        said, data = client.ask("read", log="c1", wait=5.0)
        assert ((said["start"], said["end"]), said["ended"], data) == ((50000, 50000), True, b"")
        assert client.ask("kill", process="c1", grace=0.0)[0]["process"]["left"] == 0
        assert with_argument(MARK) == []


@pytest.mark.parametrize("argv", [False, True], ids=["a command", "an argv"])
def test_a_yield_that_nobody_heard_of_is_told_to_who_asks_again(argv: bool) -> None:
    text = b"sleep\0001234.6" if argv else b"sleep 1234.6"
    asked = {"id": "y", "text": len(text), "argv": argv, "timeout": 0.05, "on_timeout": "yield"}
    with running() as resident, resident.client() as watcher:
        send(watcher, "events")
        with resident.client() as client:
            heard = send(client, "run", text, **asked)
            assert answers(client, heard)[heard]["ending"] == ["yielded", "y"]
            send(client, "run", text, **dict(asked, id="z"))
            while watcher.next_frame()[2]["process"]["id"] != "z":
                pass
        with resident.client() as client:  # the connection broke before or after its time was over
            for job in ("y", "z"):
                assert client.ask("run", text, **dict(asked, id=job))[0]["ending"] == [
                    "yielded",
                    job,
                ]


def test_a_command_that_is_yielded_before_it_begins_leaves_the_session_to_others(
    slow_profile: dict[str, str],
) -> None:
    with running(login=True, environ=slow_profile) as resident, resident.client() as client:
        said, _ = client.ask(
            "run", b"X=2; sleep 1234.7", id="y", text=17, timeout=0.1, on_timeout="yield"
        )
        assert said["ending"] == ["yielded", "y"]
        assert said["notes"] == ["state not kept: the command was yielded and goes on as a process"]
        assert client.run("X=1")[0]["notes"] == []
        assert client.run("echo $X")[1] == b"1\n"
        ended = client.ask("kill", process="y")[0]["process"]
        assert ended["ending"] == ["signalled", 15]
        assert client.run("echo $X")[1] == b"1\n"


def test_the_time_of_a_start_that_was_cancelled_ends_with_the_answer(
    slow_profile: dict[str, str],
) -> None:
    """A clock that went on would look at a session that is gone, and so bring it back."""
    with running(login=True, environ=slow_profile) as resident, resident.client() as client:
        words = b"bash\0-c\0true"
        asked = {"text": len(words), "argv": True, "timeout": 0.3, "session": "gone"}
        runs = [send(client, "run", words, id="a", **asked) for _ in range(2)]
        for run in runs:
            client.stream.sendall(pack_frame(CANCEL, run, {}))
        said = answers(client, *runs)
        assert [said[run]["ending"] for run in runs] == [["cancelled"], ["cancelled"]]
        client.ask("end_session", session="gone")
        later, _ = client.ask("run", words, id="b", text=len(words), argv=True, timeout=0.6)
        assert later["ending"] == ["timed_out", 0.6]
        names = [session["name"] for session in client.ask("sessions")[0]["sessions"]]
        assert "gone" not in names


def test_a_shell_that_ends_is_replaced_as_soon_as_its_copy_has_come() -> None:
    """A copy that does not come is given up after 0.2 s; one that does is not waited for so long."""
    with running() as resident, resident.client() as client:
        took = []
        for _ in range(150):
            client.run("X=$((X + 1))")
            began = time.monotonic()
            assert client.run("exit 3")[0]["ending"] == ["exited", 3]
            took.append(time.monotonic() - began)
        assert client.run("echo $X")[1] == b"150\n"
        assert statistics.median(took) < 0.15, took
