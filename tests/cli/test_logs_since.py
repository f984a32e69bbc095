"""`hermetic logs --since`: output by its age."""

import asyncio
import datetime
import time

import pytest

import hermetic
from hermetic.cli.times import seconds_since
from hermetic.contract.errors import InvalidArgument
from hermetic.resident.limits import LOG_MARK_SECONDS
from tests.cli.program import hermetic as program
from tests.cli.program import running
from tests.cli.test_looking import call, opened


async def test_output_since_a_time_is_shown() -> None:
    async with opened() as environment:
        process = await environment.start(
            "echo old; read -r line; echo new; read -r line; echo end", id="aged"
        )
        await process.wait_for("old", timeout=20)
        between = datetime.datetime.now().isoformat()
        await asyncio.sleep(LOG_MARK_SECONDS + 0.1)  # the age of output is known to this
        await process.submit("")
        await process.wait_for("new", timeout=20)
        assert (
            await asyncio.to_thread(program, "logs", "aged", "--since", between)
        ).stdout == b"new\n"
        assert (
            await asyncio.to_thread(program, "logs", "aged", "--since", "1h")
        ).stdout == b"old\nnew\n"
        with running("logs", "-f", "--since", between, "aged") as following:
            assert following.stdout is not None
            assert await asyncio.to_thread(following.stdout.readline) == b"new\n"
            await process.submit("")
            assert await asyncio.to_thread(following.stdout.read) == b"end\n"
            assert following.wait(20) == 0


async def test_a_separate_stderr_has_times_of_its_own() -> None:
    async with opened() as environment:
        process = await environment.start("echo out; echo err >&2", separate=True, id="both")
        assert await process.wait(20) == hermetic.Exited(0)
        assert (
            await asyncio.to_thread(program, "logs", "both", "--stderr", "--since", "1d")
        ).stdout == b"err\n"
        later = (datetime.datetime.now()).isoformat()
        assert (
            await asyncio.to_thread(program, "logs", "both", "--stderr", "--since", later)
        ).stdout == b""


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("30m", 1800), ("12h", 43200), ("7d", 604800)]
)
def test_a_duration_is_read(text: str, seconds: float) -> None:
    assert seconds_since(text) == seconds


@pytest.mark.parametrize("zone", ["", "Z", "+05:30"])
def test_a_time_is_of_this_zone_if_it_names_none(zone: str) -> None:
    offset = {
        "": None,
        "Z": datetime.UTC,
        "+05:30": datetime.timezone(datetime.timedelta(hours=5, minutes=30)),
    }[zone]
    moment = datetime.datetime.fromtimestamp(time.time() - 7200, offset).replace(
        microsecond=0, tzinfo=None
    )
    assert 7200 <= seconds_since(moment.isoformat() + zone) < 7260


@pytest.mark.parametrize(
    "text", ["", "0s", "-5m", "yesterday", "5", "2026-13-40", "9999-12-31", "9" * 400 + "d"]
)
def test_what_is_no_past_time_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match=r"write|past"):
        seconds_since(text)


async def test_one_start_is_chosen() -> None:
    code, _, said = await call("logs", "any", "--since", "1h", "--tail", "3")
    assert code == 2
    assert "not allowed with argument" in said
