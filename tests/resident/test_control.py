"""Who types into a process: one person who drives it, or any client."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from hermetic.link.archive import BOOT
from hermetic.resident import limits
from hermetic.resident.processes.control import MOST_TYPED
from hermetic.resident.processes.echo import KEY_BYTES
from hermetic.resident.wire.frames import CANCEL, CREDIT, ERROR, EVENT, REPLY, REQUEST, pack_frame
from tests.resident.running import Client, Resident, running
from tests.scenarios.living import with_argument

PATIENCE = 30.0
SHORT_LEASE = BOOT.replace(
    "main(stream)",
    "from hermetic_resident.processes import control; control.DRIVER_LEASE = 0.2; main(stream)",
)

NEVER_LATER = BOOT.replace(
    "main(stream)",
    "from hermetic_resident.processes import control; control.ECHO = 1000; main(stream)",
)


def send(client: Client, op: str, body: bytes = b"", **fields: Any) -> int:
    """Sends a request without waiting for its answer."""
    client.number += 1
    client.stream.sendall(pack_frame(REQUEST, client.number, {"op": op, **fields}, body))
    return client.number


def answer(client: Client, number: int) -> Any:
    """The next frame of a request: its kind, fields and body."""
    while True:
        kind, found, fields, body = client.next_frame()
        if found == number:
            return kind, fields, body


def refused(client: Client, op: str, body: bytes = b"", **fields: Any) -> dict[str, Any]:
    kind, said, _ = answer(client, send(client, op, body, **fields))
    assert kind == ERROR, said
    return dict(said)


def start_cat(client: Client, **more: Any) -> None:
    client.ask("start", b"cat", id="p", text=3, pty=True, **more)


def until(client: Client, is_there: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The status of the process once it is so."""
    deadline = time.monotonic() + PATIENCE
    while not is_there(said := client.ask("status", process="p")[0]["process"]):
        assert time.monotonic() < deadline, said
        time.sleep(0.01)
    return dict(said)


def executed(argument: str) -> None:
    """Returns when a program with this argument runs."""
    deadline = time.monotonic() + PATIENCE
    while not with_argument(argument):
        assert time.monotonic() < deadline
        time.sleep(0.01)


@contextmanager
def driven(resident: Resident, key: str = "k1", name: str = "ann") -> Iterator[tuple[Client, int]]:
    """A person who drives the process, as a client and its open request."""
    with resident.client() as person:
        number = send(person, "drive", process="p", key=key, name=name)
        kind, said, _ = answer(person, number)
        assert (kind, type(said["since"])) == (EVENT, float)
        yield person, number


def test_input_of_others_is_refused_while_a_person_drives() -> None:
    with running() as resident, resident.client() as agent:
        start_cat(agent)
        agent.ask("write", b"one\n", process="p")
        with driven(resident) as (person, _):
            said = refused(agent, "write", b"two\n", process="p")
            assert (said["error"], said["process"], said["driver"]) == ("Driven", "p", "ann")
            assert "ann drives process p" in said["message"]
            assert refused(agent, "close_input", process="p")["error"] == "Driven"
            assert refused(agent, "resize", process="p", rows=9, cols=9)["error"] == "Driven"
            person.ask("write", b"three\n", process="p", key="k1")
            assert agent.ask("status", process="p")[0]["process"]["driver"]["name"] == "ann"
            assert (
                answer(
                    person, send(person, "give", process="p", key="k1", note="the password is set")
                )[0]
                == REPLY
            )
        agent.ask("write", b"four\n", process="p")
        until(
            agent, lambda said: said["out"] >= len("one\r\n" * 2 + "three\r\n" * 2 + "four\r\n" * 2)
        )
        output = agent.ask("read", log="p")[1]
        assert b"two" not in output
        assert b"three" in output
        agent.ask("kill", process="p", grace=0.0)


def test_another_person_takes_over_and_the_first_is_notified() -> None:
    with running() as resident, resident.client() as agent:
        start_cat(agent)
        with driven(resident) as (first, number), driven(resident, "k2", "bob") as (second, _):
            assert answer(first, number)[:2] == (REPLY, {"reason": "taken"})
            assert refused(first, "write", b"x", process="p", key="k1")["driver"] == "bob"
            second.ask("write", b"x", process="p", key="k2")
        agent.ask("kill", process="p", grace=0.0)


def test_a_person_whose_connection_is_gone_can_come_back() -> None:
    with running() as resident, resident.client() as agent:
        start_cat(agent)
        with driven(resident):
            assert agent.ask("status", process="p")[0]["process"]["driver"]["present"] is True
        until(agent, lambda said: not said["driver"]["present"])
        assert refused(agent, "write", b"x", process="p")["error"] == "Driven"
        with resident.client() as again:
            number = send(again, "drive", process="p", key="k1", name="ann", again=True)
            assert answer(again, number)[0] == EVENT
            assert agent.ask("status", process="p")[0]["process"]["driver"]["present"] is True
            again.stream.sendall(pack_frame(CANCEL, number, {}))
            assert answer(again, number)[0] == ERROR
            until(agent, lambda said: not said["driver"]["present"])
            stranger = send(again, "drive", process="p", key="other", name="eve", again=True)
            assert answer(again, stranger)[:2] == (REPLY, {"reason": "taken"})
        agent.ask("kill", process="p", grace=0.0)


def test_the_end_of_a_connection_behind_a_key_is_seen() -> None:
    with running() as resident, resident.client() as agent:
        start_cat(agent)
        with driven(resident) as (person, number):
            for count, key in enumerate((b"a", b"b"), 1):  # the second has the header of the first
                person.stream.sendall(pack_frame(EVENT, number, {}, key))
                until(agent, lambda said, count=count: said["out"] == count)  # type: ignore[misc]
        until(agent, lambda said: not said["driver"]["present"])
        agent.ask("kill", process="p", grace=0.0)


def test_the_lease_of_a_person_without_a_connection_ends() -> None:
    with running(boot=SHORT_LEASE) as resident, resident.client() as agent:
        start_cat(agent)
        events = send(agent, "events", control=True)
        with driven(resident):
            assert answer(agent, events)[1]["process"]["driver"]["name"] == "ann"
        present = answer(agent, events)[1]["process"]["driver"]["present"]
        assert present is False
        over = answer(agent, events)[1]
        assert over["event"] == "control"
        assert "driver" not in over["process"]
        assert over["process"]["handed"]["by"] == "ann"
        answer(agent, send(agent, "write", b"x", process="p"))
        agent.ask("kill", process="p", grace=0.0)


def test_events_of_control_come_to_those_who_ask_for_them_alone() -> None:
    with running() as resident, resident.client() as agent, resident.client() as other:
        start_cat(agent)
        plain, with_control = send(other, "events"), send(agent, "events", control=True)
        other.ask("ping")
        with driven(resident):
            assert answer(agent, with_control)[1]["event"] == "control"
        assert answer(agent, with_control)[1]["process"]["driver"]["present"] is False
        send(agent, "kill", process="p", grace=0.0)
        assert answer(other, plain)[1]["event"] == "ended"


def test_the_note_reaches_each_client_with_its_next_result_once() -> None:
    with running() as resident, resident.client() as agent, resident.client() as other:
        start_cat(agent)
        assert agent.run("true")[0]["notes"] == []
        with driven(resident) as (person, number):
            person.ask("write", b"x", process="p", key="k1")
            give = send(person, "give", process="p", key="k1", note="logged in; go on")
            assert answer(person, number)[1] == {"reason": "given"}
            assert answer(person, give)[0] == REPLY
        note = "ann drove process p and has given it back: logged in; go on"
        for client in (agent, other):
            assert client.run("true")[0]["notes"] == [note]
            assert client.run("true")[0]["notes"] == []
        handed = agent.ask("status", process="p")[0]["process"]["handed"]
        assert (handed["by"], handed["note"]) == ("ann", "logged in; go on")
        agent.ask("kill", process="p", grace=0.0)


def test_input_is_attributed_without_its_text() -> None:
    with running() as resident, resident.client() as agent:
        start_cat(agent)
        agent.ask("write", b"12345", process="p")
        with driven(resident) as (person, _):
            person.ask("write", b"abc", process="p", key="k1")
            person.ask("write", b"hunter2\r", process="p", key="k1", secret=True)
        records = msgspec.msgpack.decode(agent.ask("inputs", process="p")[1])
        assert [one[2:6] for one in records] == [["agent", False, 5, 0], ["ann", True, 11, 8]]
        agent.ask("kill", process="p", grace=0.0)


def test_the_end_of_a_process_ends_the_control() -> None:
    with running() as resident, resident.client() as agent:
        start_cat(agent)
        with driven(resident) as (person, number):
            agent.ask("kill", process="p", grace=0.0)
            assert answer(person, number)[:2] == (REPLY, {"reason": "ended"})
            assert (
                refused(person, "drive", process="p", key="k", name="n")["error"]
                == "InvalidArgument"
            )


def test_a_personal_terminal_takes_its_processes_with_it_and_names_them() -> None:
    text = (
        b"nohup sleep 9641 >/dev/null 2>&1 & setsid sleep 9642 & disown -a; echo ready; read line"
    )
    with running() as resident, resident.client() as client:
        client.ask("start", text, id="p", text=len(text), pty=True, personal=True)
        executed("9641")
        executed("9642")
        client.ask("write", b"\r", process="p")  # the shell ends by itself
        said = client.ask("wait", process="p")[0]["process"]
        assert said["ending"] == ["exited", 0]
        assert sorted(said["cleared"]) == ["sleep 9641", "sleep 9642"]
        assert client.ask("status", process="p")[0]["process"]["left"] == 0


def test_an_interactive_shell_is_closed_within_its_grace() -> None:
    """It ignores TERM; a personal terminal is hung up first."""
    with running() as resident, resident.client() as client:
        client.ask(
            "start", b"bash\0--norc\0-i", id="p", text=14, argv=True, pty=True, personal=True
        )
        client.ask("write", b"sleep 9643 &\r", process="p")
        executed("9643")
        before = time.monotonic()
        said = client.ask("kill", process="p", grace=60.0)[0]["process"]
        assert time.monotonic() - before < 30
        assert said["cleared"] == ["sleep 9643"]


def test_a_terminal_waits_for_its_fastest_viewer_alone() -> None:
    """A viewer that takes nothing slows nobody; without the fast one the program waits."""
    text = b"head -c 3000000 /dev/zero; echo; echo done"
    with running() as resident, resident.client() as fast, resident.client() as stalled:
        fast.ask("start", b"read line; " + text, id="p", text=len(text) + 11, pty=True)
        send(stalled, "follow", log="p", credit=0, pace=True)
        stalled.ask("ping")
        following = send(fast, "follow", log="p", credit=1 << 18, pace=True)
        fast.stream.sendall(pack_frame(REQUEST, 1000, {"op": "write", "process": "p"}, b"\r"))
        got = 0
        while True:
            kind, number, _, body = fast.next_frame()
            if number == following and kind == REPLY:
                break
            if number == following:
                got += len(body)
                fast.stream.sendall(pack_frame(CREDIT, following, {"n": len(body)}))
        assert got > 3_000_000


def test_a_terminal_without_a_parsing_viewer_is_not_read_ahead() -> None:
    with running() as resident, resident.client() as viewer:
        viewer.ask("start", b"yes", id="p", text=3, pty=True)
        send(viewer, "follow", log="p", credit=1 << 17, pace=True)
        got = 0
        while got < 1 << 17:
            got += len(viewer.next_frame()[3])
        with resident.client() as other:
            most = got + limits.FOLLOW_PACE + 2 * limits.TERMINAL_PIECE
            before = until(other, lambda said: said["out"] > got + limits.FOLLOW_PACE)["out"]
            other.run("sleep 0.2")
            assert before == until(other, lambda said: True)["out"] <= most
            other.ask("kill", process="p", grace=0.0)


def test_events_of_a_person_are_input_and_are_acknowledged_in_order() -> None:
    with running() as resident, resident.client() as agent:
        start_cat(agent)
        with driven(resident) as (person, number):
            for word in (b"one\n", b"two\n", b"three\n"):
                person.stream.sendall(pack_frame(EVENT, number, {}, word))
            typed = 0
            while typed < 3:
                kind, said, _ = answer(person, number)
                assert kind == EVENT
                typed += said["typed"]
            until(agent, lambda said: said["out"] >= 2 * len("one\r\ntwo\r\nthree\r\n"))
            [record] = msgspec.msgpack.decode(agent.ask("inputs", process="p")[1])
            assert record[2:6] == ["ann", True, 14, 0]
            # cat ends, and with it the control
            person.stream.sendall(pack_frame(EVENT, number, {}, b"\x04"))
            assert answer(person, number)[1] == {"typed": 1}
            assert answer(person, number)[:2] == (REPLY, {"reason": "ended"})
            person.stream.sendall(pack_frame(EVENT, number, {}, b"late"))
            assert person.ask("status", process="p")[0]["process"]["state"] == "ended"


def test_input_of_one_who_was_relieved_is_dropped() -> None:
    with running() as resident, resident.client() as agent:
        start_cat(agent)
        with driven(resident) as (first, number), driven(resident, "k2", "bob") as (second, other):
            assert answer(first, number)[:2] == (REPLY, {"reason": "taken"})
            first.stream.sendall(pack_frame(EVENT, number, {}, b"stale\n"))
            first.ask("ping")
            second.stream.sendall(pack_frame(EVENT, other, {}, b"fresh\n"))
            until(agent, lambda said: said["out"] >= 2 * len("fresh\r\n"))
            assert b"stale" not in agent.ask("read", log="p")[1]
        agent.ask("kill", process="p", grace=0.0)


def test_keys_are_acknowledged_together_and_a_paste_at_once() -> None:
    with running(boot=NEVER_LATER) as resident, resident.client() as agent:
        start_cat(agent)
        with driven(resident) as (person, number):
            for _ in range(2 * MOST_TYPED):
                person.stream.sendall(pack_frame(EVENT, number, {}, b"k"))
            assert [answer(person, number)[1]["typed"] for _ in range(2)] == [MOST_TYPED] * 2
            person.stream.sendall(pack_frame(EVENT, number, {}, b"k"))
            person.stream.sendall(pack_frame(EVENT, number, {}, b"k" * (KEY_BYTES + 1)))
            assert answer(person, number)[1] == {"typed": 2}
        agent.ask("kill", process="p", grace=0.0)


def test_a_single_key_is_acknowledged_a_moment_later() -> None:
    with running() as resident, resident.client() as agent:
        start_cat(agent)
        with driven(resident) as (person, number):
            for _ in range(3):
                person.stream.sendall(pack_frame(EVENT, number, {}, b"k"))
                assert answer(person, number)[1] == {"typed": 1}
        agent.ask("kill", process="p", grace=0.0)


def test_keys_in_any_pieces_arrive_in_order_and_are_attributed() -> None:
    """Frames of keys come alone, together, and cut anywhere."""
    with running() as resident, resident.client() as agent:
        start_cat(agent)
        with driven(resident) as (person, number):
            keys = b"abcdefghijklmnopqrstuvwxyz"
            sent = b"".join(pack_frame(EVENT, number, {}, b"%c" % key) for key in keys)
            for size in (len(sent) // len(keys), len(sent), 5):
                for at in range(0, len(sent), size):
                    person.stream.sendall(sent[at : at + size])
            until(agent, lambda said: said["out"] >= 3 * len(keys))
            assert agent.ask("read", log="p")[1] == 3 * keys
            [record] = msgspec.msgpack.decode(agent.ask("inputs", process="p")[1])
            assert record[2:6] == ["ann", True, 3 * len(keys), 0]
        agent.ask("kill", process="p", grace=0.0)
