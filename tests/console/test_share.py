"""Links for others: made, shown once, copied, used, revoked."""

import pytest
from playwright.async_api import expect

from tests.console.browsing import beside, console, opened

pytestmark = [pytest.mark.slow, pytest.mark.full]


async def test_a_link_is_made_with_a_scope_shown_once_used_and_revoked() -> None:
    async with opened() as environment, console() as person, beside(person) as guest:
        await person.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        await person.enter()
        await person.page.get_by_role("button", name="Share").click()
        dialog = person.page.get_by_role("dialog", name="Share this console")
        await expect(dialog.get_by_label("Watch", exact=False).first).to_be_checked()
        await dialog.get_by_label("For whom").fill("Vic")
        await dialog.get_by_label("Valid for").select_option("1 hour")
        await dialog.get_by_role("button", name="Make a link").click()
        link = await dialog.get_by_label("Link", exact=True).input_value()
        await dialog.get_by_role("button", name="Copy").click()
        await expect(dialog.get_by_role("button", name="Copied")).to_be_visible()
        assert await person.page.evaluate("navigator.clipboard.readText()") == link
        await expect(dialog.locator(".links")).to_contain_text("Vic")
        await expect(dialog.locator(".links")).to_contain_text("1 h left")
        await dialog.get_by_role("button", name="Close").click()

        await guest.page.goto(link)
        await expect(guest.page.locator(".side .environment").nth(1)).to_contain_text("web")
        await expect(guest.page.get_by_role("button", name="Stop…")).to_have_count(0)
        await expect(guest.page.get_by_role("button", name="Share")).to_have_count(0)
        await guest.visit(f"terminal/{environment.id}")
        await expect(guest.page.get_by_text("This link may watch only.")).to_be_visible()

        await person.page.get_by_role("button", name="Share").click()
        assert link.partition("#token=")[2] not in await person.page.content()
        await dialog.get_by_role("button", name="Revoke the link of Vic").click()
        await expect(dialog.locator(".links")).to_have_count(0)
        await expect(
            guest.page.get_by_role("heading", name="Open the console with its link")
        ).to_be_visible()
        assert person.problems == []


async def test_a_link_to_approve_answers_questions_and_cannot_type() -> None:
    async with opened() as environment, console() as person, beside(person) as guest:
        await person.enter()
        await person.page.get_by_role("button", name="Share").click()
        dialog = person.page.get_by_role("dialog", name="Share this console")
        await dialog.get_by_text("watch, and answer the agents' questions").click()
        await dialog.get_by_role("button", name="Make a link").click()
        await guest.page.goto(await dialog.get_by_label("Link", exact=True).input_value())
        await guest.page.wait_for_selector(".frame")
        scopes = await guest.page.evaluate(
            "fetch('/api/v1/me').then(answer => answer.json()).then(me => me.scopes)"
        )
        assert scopes == ["approve"]
        await guest.visit(f"terminal/{environment.id}")
        await expect(guest.page.get_by_text("This link may watch only.")).to_be_visible()
        assert person.problems == []
