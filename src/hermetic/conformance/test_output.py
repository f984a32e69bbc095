"""Output: kept by offset, bounded, counted exactly, live, and readable after the call."""

import asyncio
import time

import pytest

from hermetic import Environment, InvalidArgument, Session, UnknownProcess
from hermetic.conformance.observing import eventually

RETURNED_BYTES = 1 << 20


async def read_all(
    env: Environment, log: str, offset: int = 0
) -> tuple[bytes, list[tuple[int, int]]]:
    """A log from an offset to its end now, and the ranges that fell out."""
    pieces: list[bytes] = []
    holes: list[tuple[int, int]] = []
    while True:
        chunk = await env.read_log(log, offset)
        if chunk.start > offset:
            holes.append((offset, chunk.start))
        if not chunk.data:
            return b"".join(pieces), holes
        pieces.append(chunk.data)
        offset = chunk.end


async def test_output_within_the_limit_is_whole(shell: Session) -> None:
    result = await shell.run("head -c 900000 /dev/zero | tr '\\0' x")
    assert result.data == b"x" * 900_000
    assert not result.truncated
    assert result.total_bytes == 900_000


async def test_more_is_cut_to_head_and_tail_and_the_rest_can_be_read(
    env: Environment, shell: Session
) -> None:
    result = await shell.run("seq 1 1000000")
    whole = "".join(f"{n}\n" for n in range(1, 1_000_001)).encode()
    assert result.total_bytes == len(whole)
    assert result.truncated
    assert len(result.data) <= RETURNED_BYTES
    assert result.omitted is not None
    start, end = result.omitted
    assert result.data == whole[:start] + whole[end:]
    assert start > 0.3 * RETURNED_BYTES
    assert len(whole) - end > 0.5 * RETURNED_BYTES
    chunk = await env.read_log(result.log, start, limit=1000)
    assert (chunk.start, chunk.end, chunk.data) == (
        start,
        start + 1000,
        whole[start : start + 1000],
    )
    assert await read_all(env, result.log) == (whole, [])


@pytest.mark.parametrize("limit", [0, 1, 2, 100, 5000, 300_000])
async def test_the_limit_is_the_most_that_is_returned(shell: Session, limit: int) -> None:
    result = await shell.run("seq 1 100000", limit=limit)
    assert len(result.data) <= limit
    assert result.total_bytes == 588_895
    assert result.truncated


async def test_no_character_is_cut_in_two(shell: Session) -> None:
    for limit in range(20, 32):
        result = await shell.run("for i in {1..50}; do printf 'ß€𝄞'; done", limit=limit)
        assert "\ufffd" not in result.output, limit


async def test_what_falls_out_of_the_cap_is_counted_exactly(
    env: Environment, shell: Session
) -> None:
    result = await shell.run("echo start; head -c 80000000 /dev/zero | tr '\\0' x; echo; echo end")
    total = 6 + 80_000_000 + 1 + 4
    assert result.total_bytes == total
    assert result.output.startswith("start\nxxx")
    assert result.output.endswith("xxx\nend\n")
    kept, holes = await read_all(env, result.log)
    assert len(holes) == 1
    assert len(kept) + holes[0][1] - holes[0][0] == total
    assert len(kept) >= 64 << 20
    inside = sum(holes[0]) // 2
    chunk = await env.read_log(result.log, inside, limit=10)
    assert (chunk.start, chunk.data) == (holes[0][1], b"x" * 10)


async def test_reading_beyond_the_end_gives_nothing(env: Environment, shell: Session) -> None:
    result = await shell.run("echo hi")
    chunk = await env.read_log(result.log, 3)
    assert (chunk.data, chunk.ended) == (b"", True)


async def test_a_separate_stderr_has_a_log_of_its_own(env: Environment, shell: Session) -> None:
    result = await shell.run("echo o; echo e >&2", separate=True)
    assert (await env.read_log(result.log)).data == b"o\n"
    assert (await env.read_log(f"{result.log}/err")).data == b"e\n"


async def test_output_is_seen_live(shell: Session, directory: str) -> None:
    seen: asyncio.Queue[bytes] = asyncio.Queue()
    command = f"echo one; until [ -e '{directory}/seen' ]; do sleep 0.05; done; echo two"
    running = asyncio.create_task(shell.run(command, on_output=seen.put_nowait))
    first = await seen.get()
    assert first == b"one\n"
    await shell.write_file(f"{directory}/seen", "")
    result = await running
    rest = b"".join(seen.get_nowait() for _ in range(seen.qsize()))
    assert (rest, result.output) == (b"two\n", "one\ntwo\n")


async def test_live_output_is_complete(shell: Session) -> None:
    pieces: list[bytes] = []
    result = await shell.run("seq 1 300000", on_output=pieces.append)
    assert b"".join(pieces) == "".join(f"{n}\n" for n in range(1, 300_001)).encode()
    assert result.total_bytes == sum(map(len, pieces))


async def test_live_output_has_both_streams(shell: Session) -> None:
    pieces: list[bytes] = []
    await shell.run("echo o; echo e >&2", on_output=pieces.append, separate=True)
    assert sorted(b"".join(pieces).split()) == [b"e", b"o"]


async def test_an_error_in_the_listener_ends_the_command_and_reaches_the_caller(
    shell: Session,
) -> None:
    def fail(_data: bytes) -> None:
        raise LookupError("mine")

    began = time.perf_counter()
    with pytest.raises(LookupError, match="mine"):
        await shell.run("echo x; sleep 60", on_output=fail)
    assert time.perf_counter() - began < 10
    assert (await shell.run("echo fine")).output == "fine\n"


async def test_a_background_child_does_not_hold_the_call(shell: Session) -> None:
    await shell.run("true")
    began = time.perf_counter()
    result = await shell.run("sleep 5 & echo now")
    assert time.perf_counter() - began < 2
    assert result.output == "now\n"
    await shell.run("kill %1")


async def test_what_a_child_prints_after_the_call_is_kept_and_it_gets_no_sigpipe(
    env: Environment, shell: Session, directory: str
) -> None:
    result = await shell.run(
        f"(sleep 0.3; echo late; echo later; echo alive >'{directory}/f') & echo now"
    )
    assert result.output == "now\n"
    await eventually(lambda: read_all(env, result.log), lambda log: log[0] == b"now\nlate\nlater\n")
    assert await env.read_file(f"{directory}/f") == "alive\n"


async def test_a_log_that_nobody_has_is_told(env: Environment) -> None:
    with pytest.raises(UnknownProcess):
        await env.read_log("no-such-log")


@pytest.mark.parametrize(
    ("offset", "limit", "wait"), [(-1, None, None), (0, 0, None), (0, None, -1)]
)
async def test_a_read_that_cannot_be_is_refused(
    env: Environment, shell: Session, offset: int, limit: int | None, wait: float | None
) -> None:
    log = (await shell.run("echo x")).log
    with pytest.raises(InvalidArgument):
        await env.read_log(log, offset, limit=limit, wait=wait)


async def test_a_flood_in_one_command_does_not_hold_up_another(
    env: Environment, shell: Session
) -> None:
    await shell.start("yes")
    began = time.perf_counter()
    for _ in range(10):
        assert (await shell.run("echo x")).output == "x\n"
    assert time.perf_counter() - began < 5
