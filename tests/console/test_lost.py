"""A connection that breaks: what was on its way, and what a person types meanwhile."""

import asyncio
import os
from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.console.browsing import console, opened

pytestmark = [pytest.mark.slow, pytest.mark.full]

# The terminal's parser waits in timers without a delay; `stuck` keeps them back.
HOLD_THE_PARSER = """
const timer = window.setTimeout, kept = [];
window.setTimeout = (run, delay, ...rest) => (window.stuck && !delay ? kept.push(run) : timer(run, delay, ...rest));
window.goOn = () => { window.stuck = false; for (const run of kept.splice(0)) run(); };
"""


async def test_output_that_was_not_parsed_when_the_connection_broke_is_shown_once(
    tmp_path: Path,
) -> None:
    os.mkfifo(start := tmp_path / "start")
    async with opened() as environment, console() as person:
        await person.can_be_cut()
        await person.page.add_init_script(HOLD_THE_PARSER)
        await person.enter()
        await person.open_terminal(environment.id)
        await person.run(f"echo re''ady; cat {start}; seq -f 'row-%g' 20; echo fin''ished")
        await person.sees("ready")
        await person.page.evaluate("window.stuck = true")
        await asyncio.to_thread(start.write_text, "")
        await person.page.wait_for_timeout(500)  # its output is in the page and not on the screen
        assert "row-1" not in "\n".join(await person.screen())
        await person.cut()
        await person.mend()
        await expect(person.page.locator(".screen-room")).to_have_attribute("aria-busy", "true")
        await person.run("echo ty''ped")  # while the past is replayed
        await person.page.evaluate("window.goOn()")
        await person.sees("typed")
        rows = [row for row in await person.screen() if row.startswith("row-")]
        assert rows == [f"row-{number}" for number in range(1, 21)]


async def test_a_secret_that_cannot_be_sent_is_reported() -> None:
    async with opened() as environment, console() as person:
        await person.can_be_cut()
        await person.enter()
        await person.open_terminal(environment.id)
        await person.page.get_by_role("button", name="Type a secret").click()
        await person.cut()
        await person.page.locator("dialog input").fill("hunter2")
        await person.page.keyboard.press("Enter")
        await expect(person.page.locator(".toast.bad")).to_contain_text("was not typed")
        await person.mend()
        assert "hunter2" not in await person.page.content()
