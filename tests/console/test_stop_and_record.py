"""A person records a terminal and plays it; stops everything and releases it."""

import pytest
from playwright.async_api import expect

from tests.console.browsing import console, opened

pytestmark = [pytest.mark.slow, pytest.mark.full]


async def test_a_recording_of_a_terminal_plays_what_was_shown() -> None:
    async with opened() as environment, console() as person:
        await person.enter()
        await person.open_terminal(environment.id)
        record = person.page.get_by_role("button", name="Record")
        await record.click()
        await expect(record).to_have_attribute("aria-pressed", "true")
        await person.run("echo played-$((6 * 7))")
        await person.sees("played-42")
        await record.click()
        await person.page.get_by_role("button", name="Play").click()
        await expect(person.page.locator(".player")).to_be_visible()
        await person.sees("played-42")
        assert person.problems == []


async def test_a_person_freezes_an_agent_and_releases_it() -> None:
    async with opened() as environment, console() as person:
        process = await environment.start("while sleep 0.1; do echo tick; done")
        await person.enter()
        await person.open_terminal(environment.id)  # a person's own: it is not stopped
        await person.visit(f"timeline/{environment.id}")
        await person.page.get_by_role("button", name="Stop…").click()
        await expect(person.page.locator(".stop-list li")).to_have_text(
            "while sleep 0.1; do echo tick; done"
        )
        await person.page.get_by_role("button", name="Freeze").click()
        await expect(person.page.locator(".now .held")).to_contain_text("web is stopped")
        await person.page.locator(".now .held").get_by_role("button", name="Release").click()
        await expect(person.page.locator(".now .held")).to_have_count(0)
        await process.kill()
        assert person.problems == []
