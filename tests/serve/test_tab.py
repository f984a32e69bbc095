"""A tab's protocol against real shells: windows, replay, several viewers, and who drives."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import hermetic
from hermetic.contract.errors import Driven, InvalidArgument, UnknownProcess
from hermetic.contract.limits import FOLLOW_PACE
from hermetic.contract.process import ProcessInfo
from hermetic.serve import frames
from hermetic.serve.control import Channel
from hermetic.serve.outgoing import EVENTS, LEAST_SHARE, MOST_WAITING, Outgoing
from hermetic.serve.tab import CHANNELS
from hermetic.serve.terminals import Terminals, TooManyTerminals
from hermetic.session.environment import Environment
from tests.scenarios.living import name_of, with_argument
from tests.serve.tabs import VIEWER, WINDOW, Socket, serving, tab


@asynccontextmanager
async def opened(**limits: float) -> AsyncIterator[tuple[Environment, Terminals]]:
    """A local environment called "e", and the terminals of a server."""
    async with hermetic.open("local", login=False) as environment:

        async def find(_: str) -> Environment:
            return environment

        async with serving(find, **limits) as terminals:
            yield environment, terminals


async def shell(terminals: Terminals) -> str:
    """A plain bash with a known prompt."""
    info = await terminals.start("e", command="PS1='$ ' exec bash --norc --noprofile -i")
    return info.id


async def test_a_person_types_into_a_shell_and_sees_its_output() -> None:
    async with opened() as (_, terminals), tab(terminals) as client:
        attached = await client.attach(await shell(terminals))
        assert (attached["rows"], attached["cols"], attached["live"], attached["pty"]) == (
            30,
            100,
            True,
            True,
        )
        assert attached["driver"]["you"] is True
        id = client.type(1, b"stty size; echo $TERM-$HERMETIC_TERMINAL; exit 7\r")
        await client.shows(b"30 100\r\nxterm-256color-1\r\n")
        await client.until(
            lambda: any(one.type == frames.INPUT_ACK and one.offset == id for one in client.frames)
        )
        ended = await client.event("ended")
        assert (ended["exit_code"], ended["left"], ended["cleared"]) == (7, 0, [])


async def test_watching_is_confirmed_each_time_it_is_asked_for() -> None:
    async with opened() as (_, terminals), tab(terminals) as client:
        for _ in range(2):  # a list that is read after the answer misses nothing
            client.op("watch")
            await client.event("watching")


async def test_the_last_output_comes_before_the_end_every_time() -> None:
    async with opened() as (_, terminals), tab(terminals) as client:
        for channel in range(1, 21):
            info = await terminals.start("e", command=f"echo last-{channel}")
            await client.attach(info.id, channel)
            await client.event("ended", channel=channel)
            assert client.output[channel] == f"last-{channel}\r\n".encode()


async def test_a_reload_replays_from_any_offset_without_a_missing_or_repeated_byte() -> None:
    async with opened() as (environment, terminals):
        process = await environment.start("seq 1 200000; read line", pty=True)
        whole = "".join(f"{number}\r\n" for number in range(1, 200001)).encode()
        async with tab(terminals) as client:
            await client.attach(process.id, **{"from": 0})
            await client.until(lambda: len(client.output[1]) >= 500_000)
            half = bytes(client.output[1])
        async with tab(terminals) as client:
            attached = await client.attach(process.id, **{"from": len(half)})
            assert attached["start"] == len(half)
            await client.until(lambda: len(half) + len(client.output[1]) >= len(whole))
            assert half + client.output[1] == whole
            begin, end = (
                one for one in client.frames if one.type in (frames.REPLAY_BEGIN, frames.REPLAY_END)
            )
            assert (begin.offset, end.offset) == (attached["start"], attached["end"])
        await process.kill()


async def test_a_first_view_of_a_long_past_starts_at_a_line_in_its_modes() -> None:
    async with opened() as (environment, terminals), tab(terminals) as client:
        process = await environment.start(
            "printf '\\033[?1049h\\033[?2004h'; seq 1 400000; read line", pty=True
        )
        await process.wait_for("400000\r\n", timeout=60)
        attached = await client.attach(process.id)
        assert 0 < attached["start"] < attached["end"]
        begin = next(one for one in client.frames if one.type == frames.REPLAY_BEGIN)
        assert begin.payload == b"\x1b[?1049h\x1b[?2004h"
        await client.shows(b"400000\r\n")
        first = int(client.output[1].split(b"\r\n")[0])
        assert (
            client.output[1] == "".join(f"{number}\r\n" for number in range(first, 400001)).encode()
        )
        await process.kill()


async def test_nothing_beyond_the_window_is_sent_before_it_is_parsed() -> None:
    async with opened() as (environment, terminals), tab(terminals) as client:
        client.acks = False
        id = await shell(terminals)
        await client.attach(id)
        client.type(1, b"yes\r")
        await client.until(lambda: len(client.output[1]) == WINDOW)
        process = await environment.process(id)
        held = 0
        while held <= WINDOW + FOLLOW_PACE:
            held = (await environment.process(id)).info.out
        await environment.run("sleep 0.2")
        await process.status()
        assert process.info.out == held < WINDOW + (1 << 18)  # the program waits
        assert len(client.output[1]) == WINDOW
        client.ack(1, 1 << 60)  # clamped to what was sent
        await client.until(lambda: len(client.output[1]) == 2 * WINDOW)
        await terminals.end("e", id)


async def test_a_stalled_viewer_slows_nobody_and_misses_nothing_that_is_kept() -> None:
    async with (
        opened() as (_, terminals),
        tab(terminals) as client,
        tab(terminals, VIEWER) as stalled,
    ):
        id = await shell(terminals)
        await client.attach(id)
        stalled.acks = False
        await stalled.attach(id)
        client.type(1, b"seq 1 300000; echo d''one\r")
        await client.shows(b"done\r\n")
        assert len(stalled.output[1]) <= WINDOW
        stalled.acks = True
        stalled.ack(1)
        await stalled.shows(b"done\r\n")
        assert stalled.output[1] == client.output[1][: len(stalled.output[1])]
        await terminals.end("e", id)


async def test_an_agents_run_never_waits_and_a_viewer_that_lags_gets_a_gap() -> None:
    async with opened() as (environment, terminals), tab(terminals) as client:
        process = await environment.start(
            "read line; head -c 70000000 /dev/zero; echo end", stdin="pipe"
        )
        client.acks = False
        await client.attach(process.id)
        await process.write("go\n")
        await process.wait()
        client.acks = True
        client.position.setdefault(1, 0)
        client.ack(1)
        await client.event("ended")
        gap = next(one for one in client.frames if one.type == frames.GAP)
        assert gap.offset > 1 << 16
        assert client.position[1] == 70_000_004
        assert client.output[1].endswith(b"end\n")


async def test_a_paste_of_a_megabyte_arrives_whole(tmp_path: Path) -> None:
    target, paste = tmp_path / "pasted", b"0123456789abcdef" * 65536
    async with opened() as (_, terminals), tab(terminals) as client:
        info = await terminals.start(
            "e", command=f"stty raw -echo; echo ready; head -c {len(paste)} > {target}"
        )
        await client.attach(info.id)
        await client.shows(b"ready")
        for at in range(0, len(paste), 65536):
            client.type(1, paste[at : at + 65536])
        await client.event("ended")
    assert hashlib.sha256(target.read_bytes()).digest() == hashlib.sha256(paste).digest()


async def test_a_read_only_viewer_sees_and_cannot_type() -> None:
    async with (
        opened() as (_, terminals),
        tab(terminals) as client,
        tab(terminals, VIEWER) as viewer,
    ):
        id = await shell(terminals)
        await client.attach(id)
        attached = await viewer.attach(id, rows=9, cols=33)
        assert (attached["rows"], attached["cols"]) == (30, 100)
        assert attached["driver"] == {**attached["driver"], "name": "ann", "you": False}
        viewer.type(1, b"echo intruder\r")
        assert (await viewer.event("error"))["code"] == "forbidden"
        viewer.op("take", channel=1)
        assert (await viewer.event("error"))["code"] == "not_permitted"
        viewer.op("secret", channel=1, text="x")
        assert (await viewer.event("error"))["code"] == "forbidden"
        viewer.resize(1, 9, 33)
        client.type(1, b"stty size; echo o''k\r")
        await viewer.shows(b"30 100\r\nok\r\n")
        assert b"intruder" not in viewer.output[1]
        await terminals.end("e", id)


async def test_a_person_takes_over_from_the_agent_and_gives_back_with_a_note() -> None:
    async with (
        opened() as (environment, terminals),
        tab(terminals) as client,
        tab(terminals, VIEWER) as viewer,
    ):
        process = await environment.start(
            'stty -echo; while read line; do echo "got $line"; done', pty=True
        )
        assert (await client.attach(process.id))["driver"] is None
        await viewer.attach(process.id)
        client.type(1, b"not yet\r")
        assert (await client.event("error"))["code"] == "not_driving"
        await process.submit("by agent")
        await client.shows(b"got by agent")
        client.op("take", channel=1)
        assert (await client.event("control"))["driver"]["you"] is True
        assert (await viewer.event("control"))["driver"]["name"] == "ann"
        with pytest.raises(Driven) as refused:
            await process.submit("meanwhile")
        assert (refused.value.driver, refused.value.process_id) == ("ann", process.id)
        client.type(1, b"by person\r")
        await client.shows(b"got by person")
        client.op("give", channel=1, note="it is unlocked")
        given = await client.event("control", driver=None)
        assert given["note"] == "it is unlocked"
        assert (await environment.run("true")).notes == (
            f"ann drove process {process.id} and has given it back: it is unlocked",
        )
        await process.submit("again")
        await client.shows(b"got again")
        assert b"meanwhile" not in client.output[1]
        assert [(one.by, one.is_person) for one in await process.inputs()] == [
            ("agent", False),
            ("ann", True),
            ("agent", False),
        ]
        await process.kill()


async def test_a_second_person_takes_over_and_the_terminal_gets_their_size() -> None:
    async with opened() as (_, terminals), tab(terminals) as first, tab(terminals) as second:
        id = await shell(terminals)
        await first.attach(id)
        await second.attach(id, rows=40, cols=90)
        second.op("take", channel=1)
        await first.until(
            lambda: any(one["event"] == "control" and one["rows"] == 40 for one in first.events)
        )
        first.type(1, b"echo lost\r")
        assert (await first.event("error"))["code"] == "not_driving"
        second.type(1, b"stty size\r")
        await second.shows(b"40 90")
        await terminals.end("e", id)


async def test_a_secret_is_in_no_output() -> None:
    async with opened() as (environment, terminals), tab(terminals) as client:
        id = await shell(terminals)
        await client.attach(id)
        client.type(1, b"read -p 'pa''ss: ' word; echo \"<$word>\"\r")
        await client.shows(b"pass: ")
        client.op("secret", channel=1, text="hunter2-secret")
        await client.shows(b"<**************>")
        assert b"hunter2" not in client.output[1]
        assert b"hunter2" not in (await environment.read_log(id)).data
        process = await environment.process(id)
        assert sum(one.secret for one in await process.inputs()) == len("hunter2-secret\r")
        await terminals.end("e", id)


async def test_a_tab_that_disconnects_and_comes_back_drives_again() -> None:
    async with opened() as (environment, terminals):
        id = await shell(terminals)
        async with tab(terminals) as client:
            await client.attach(id)
        driver = (await environment.process(id)).info.driver
        assert driver is not None
        assert not driver.present
        async with tab(terminals) as client:
            assert (await client.attach(id))["driver"]["you"] is True
            client.type(1, b"echo ba''ck\r")
            await client.shows(b"back\r\n")
        await terminals.end("e", id)


async def test_one_terminal_per_session_in_a_directory(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    async with opened() as (environment, terminals):
        first = await terminals.start("e", session=" work ", cwd=str(tmp_path), rows=1000, cols=1)
        assert (first.rows, first.cols) == (80, 20)
        again = await terminals.start("e", session="work", cwd=str(tmp_path), rows=30)
        assert (again.id, again.rows, again.cols) == (first.id, 30, 20)
        moved = await terminals.start("e", session="work", cwd=str(tmp_path / "other"))
        assert moved.id != first.id
        assert (await environment.process(first.id)).info.ending is not None
        fresh = await terminals.start(
            "e", session="work", cwd=str(tmp_path / "other"), restart=True
        )
        assert fresh.id != moved.id
        restarted = await terminals.restart("e", fresh.id)
        assert (restarted.id != fresh.id, restarted.cwd, restarted.tag) == (
            True,
            fresh.cwd,
            fresh.tag,
        )
        with pytest.raises(InvalidArgument, match="session"):
            await terminals.start("e", session="  ")
        with pytest.raises(InvalidArgument, match="cwd"):
            await terminals.start("e", cwd=str(tmp_path / "missing"))
        assert await terminals.end("e", restarted.id) == []
        with pytest.raises(UnknownProcess):
            await terminals.end("e", "p-unknown")


async def test_closing_a_terminal_ends_and_names_all_its_processes() -> None:
    async with opened() as (_, terminals), tab(terminals) as client:
        id = await shell(terminals)
        await client.attach(id)
        words = ("9651", "9652", "9653")
        client.type(1, b"nohup sleep 9651 >/dev/null 2>&1 & setsid sleep 9652 & sleep 9653 &\r")
        async with asyncio.timeout(60):
            # No event tells of an exec; setsid forks, and its first process ends a little later.
            while any([name_of(one) for one in with_argument(word)] != ["sleep"] for word in words):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert sorted(await terminals.end("e", id)) == [f"sleep {word}" for word in words]
        assert sorted((await client.event("ended"))["cleared"]) == [
            f"sleep {word}" for word in words
        ]


async def test_the_limit_refuses_and_closes_nothing() -> None:
    async with opened(count=2) as (_, terminals):
        ids = [(await terminals.start("e", command="read line")).id for _ in range(2)]
        with pytest.raises(TooManyTerminals, match="close one"):
            await terminals.start("e")
        await terminals.end("e", ids.pop())
        ids.append((await terminals.start("e", command="read line")).id)
        for id in ids:
            await terminals.end("e", id)


async def test_an_idle_terminal_is_closed_and_a_busy_one_is_not() -> None:
    async with opened(idle=0.5) as (environment, terminals), tab(terminals) as client:
        idle, seen = await shell(terminals), await shell(terminals)
        busy = (await terminals.start("e", command="sleep 9654 & read line")).id
        await client.attach(seen)
        async with asyncio.timeout(60):
            await (await environment.process(idle)).wait()
        assert (await environment.process(busy)).info.ending is None
        assert (await environment.process(seen)).info.ending is None
        for id in (seen, busy):
            await terminals.end("e", id)


@pytest.mark.parametrize(
    "frame", [b"", b"\x02", b"\x01" + bytes(12), bytes(13), b"\x02" + bytes(12 + 65537)]
)
async def test_a_malformed_frame_ends_the_tab_alone(frame: bytes) -> None:
    async with opened() as (_, terminals), tab(terminals) as other:
        async with tab(terminals) as client:
            client.socket.take(frame)
            assert await client.socket.closed == 4400
        id = await shell(terminals)
        await other.attach(id)
        await terminals.end("e", id)
        await other.event("ended")


async def test_errors_of_operations_are_events() -> None:
    async with opened() as (_, terminals), tab(terminals) as client:
        client.op("attach", channel=1, environment="e", process="p-unknown")
        assert (await client.event("error"))["code"] == "unknown_process"
        client.op("attach", channel=1, environment="e", process=7)
        assert (await client.event("error"))["code"] == "invalid"
        client.op("take", channel=9)
        assert (await client.event("error"))["code"] == "no_channel"


async def test_of_many_starts_at_once_no_more_than_the_limit_succeed() -> None:
    async with opened(count=2) as (_, terminals):
        starts = (terminals.start("e", command="read line") for _ in range(6))
        made = await asyncio.gather(*starts, return_exceptions=True)
        ids = [one.id for one in made if isinstance(one, ProcessInfo)]
        assert len(ids) == 2
        assert sum(isinstance(one, TooManyTerminals) for one in made) == 4
        for id in ids:
            await terminals.end("e", id)


async def unread(
    terminals: Terminals, out: Outgoing, number: int, process: str, least: int
) -> Channel:
    """A viewer for which that many bytes wait in the server."""
    channel = await terminals.attach(
        number, out, VIEWER, environment="e", process=process, offset=0, size=(None, None)
    )
    async with asyncio.timeout(60):
        while channel.position < least:  # noqa: ASYNC110  # a viewer has no event for it
            await asyncio.sleep(0.001)
    return channel


async def test_a_tab_that_reads_nothing_gets_no_further_operation_done() -> None:
    async with opened() as (environment, terminals):
        process = await environment.start("head -c 300000 /dev/zero")
        await process.wait()
        socket = Socket(is_read=False)
        out, rounds = Outgoing(socket), 0
        while socket.is_reading and rounds < 100:  # attached and detached, over and over
            (await unread(terminals, out, 1, process.id, WINDOW)).close()
            rounds += 1
        assert rounds <= MOST_WAITING // WINDOW + 1
        socket.is_writable = True
        out.flush()
        assert socket.is_reading


async def test_a_tab_that_reads_nothing_with_all_its_channels_costs_less_than_4_mib() -> None:
    async with opened() as (environment, terminals):
        process = await environment.start("head -c 300000 /dev/zero")
        await process.wait()
        socket = Socket(is_read=False)
        out = Outgoing(socket)
        channels = [
            await unread(terminals, out, number, process.id, LEAST_SHARE)
            for number in range(CHANNELS)
        ]
        assert sum(channel.position for channel in channels) + EVENTS < 4 << 20
        socket.is_writable = True
        out.flush()
        async with asyncio.timeout(60):  # and each gets its window once the tab reads
            while min(channel.position for channel in channels) < WINDOW - LEAST_SHARE:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        for channel in channels:
            channel.close()


async def test_events_for_a_tab_that_reads_nothing_are_bounded_by_their_size() -> None:
    socket = Socket(is_read=False)
    out = Outgoing(socket)
    for _ in range(100):
        out.publish({"event": "process", "command": "x" * 100_000})
    assert socket.to_client.empty()
    socket.is_writable = True
    out.flush()
    events = [str(socket.to_client.get_nowait()) for _ in range(socket.to_client.qsize())]
    assert "missed" in events[-1]
    assert sum(map(len, events)) < EVENTS + 200_000
