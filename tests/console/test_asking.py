"""Questions reach a person who looks elsewhere, who listens, and who has only a keyboard."""

import re
from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.approvals.asking import BAD, asking
from tests.console.browsing import console, opened

pytestmark = [pytest.mark.slow, pytest.mark.full]

# Notifications of the browser itself, kept for the test; the page is hidden while `away` is set.
WATCH_NOTIFICATIONS = """
window.notices = [];
window.Notification = class extends Notification {
    constructor(...given) { super(...given); window.notices.push(this); }
};
Object.defineProperty(document, "visibilityState", { get: () => (window.away ? "hidden" : "visible") });
"""

# A click on "Allow once" at the moment when it appears.
CLICK_AT_ONCE = """() => {
    window.clicking = new Promise(clicked => {
        const observer = new MutationObserver(() => {
            const button = document.querySelector(".choice.primary");
            if (!button) return;
            observer.disconnect();
            button.click();
            clicked(true);
        });
        observer.observe(document.body, { childList: true, subtree: true });
    });
}"""

NAME_OF_FOCUS = "document.activeElement.ariaLabel ?? document.activeElement.innerText.trim()"


async def test_a_question_raises_a_notification_that_leads_to_it(tmp_path: Path) -> None:
    async with console() as person:
        await person.page.context.grant_permissions(
            ["notifications"], origin=person.base.rstrip("/")
        )
        await person.page.add_init_script(WATCH_NOTIFICATIONS)
        await person.enter()
        await person.page.evaluate("window.away = true")
        async with asking(tmp_path, f"{BAD} first", f"{BAD} second", timeout=60) as agent:
            await expect(person.page.get_by_role("alert")).to_contain_text("first")
            notices = await person.page.evaluate(
                "notices.map(notice => [notice.title, notice.body])"
            )
            assert notices == [["An agent asks for approval", f"{BAD} first"]]
            await person.page.evaluate(
                "window.away = false; notices[0].dispatchEvent(new Event('click'))"
            )
            await expect(
                person.page.locator(".approval.selected.settled", has_text="first")
            ).to_be_focused()
            assert await person.page.title() == "(1) Hermetic"
            await person.page.keyboard.press("n")
            assert (await agent.result())["status"] == "blocked"
            await expect(person.page.locator(".approval:not(.done)")).to_contain_text("second")
            assert await person.page.evaluate("notices.length") == 1  # the person was looking
            await person.page.locator(".approval:not(.done) .deny").first.click()
            await agent.result()
        assert person.problems == []


async def test_a_question_is_announced_and_answered_by_keys_from_any_view(tmp_path: Path) -> None:
    async with console() as person:
        await person.enter("timeline")
        announced = person.page.get_by_role("alert")
        await expect(announced).to_have_text("")
        async with asking(tmp_path) as agent:
            await expect(announced).to_contain_text(f"asks for approval: {BAD}")
            await person.page.keyboard.press("g")
            await person.page.keyboard.press("a")
            await expect(person.page.locator(".approval.settled.selected")).to_be_visible()
            await person.page.keyboard.press("y")
            assert "it ran" in (await agent.result())["output"]
        assert person.problems == []


async def test_keys_to_another_view_answer_nothing(tmp_path: Path) -> None:
    async with console() as person:
        await person.enter("approvals")
        async with asking(tmp_path) as agent:
            question = person.page.locator(".approval.settled:not(.done)")
            for letter, name in (("a", "Approvals"), ("s", "Terminals"), ("a", "Approvals")):
                if name != "Approvals":
                    await expect(question).to_be_visible()
                await person.page.keyboard.press("g")
                await person.page.keyboard.press(letter)
                heading = person.page.get_by_role("heading", level=1)
                await expect(heading).to_have_text(name)
            await expect(question).to_be_visible()
            await person.page.keyboard.press("g")
            await person.page.keyboard.press("y")  # leads nowhere
            await person.page.keyboard.press("n")
            assert (await agent.result())["status"] == "blocked"
        assert person.problems == []


async def test_a_key_answers_the_question_it_was_pressed_for(tmp_path: Path) -> None:
    async with console() as person:
        page = person.page
        await person.enter("approvals")
        taking = page.locator(".approval.settled.selected")  # the question that takes keys
        async with asking(tmp_path, f"{BAD} 1") as one:
            await expect(taking).to_contain_text("ran 1")
            async with asking(tmp_path, f"{BAD} 2", f"{BAD} 3") as two:
                await expect(page.locator(".approval")).to_have_count(2)
                await page.keyboard.press("j")
                await expect(taking).to_contain_text("ran 2")
                await page.keyboard.press("k")
                await expect(taking).to_contain_text("ran 1")
                # answered another way at the moment when a key is pressed for it
                await taking.locator(".deny").first.click()
                await expect(page.get_by_text("Denied by you")).to_be_visible()
                await page.keyboard.press("y")
                assert (await one.result())["status"] == "blocked"
                await expect(taking).to_contain_text("ran 2")
                await page.keyboard.down("y")
                assert "it ran 2" in (await two.result())["output"]
                await expect(taking).to_contain_text("ran 3")
                await page.keyboard.down("y")  # still held: it repeats
                await page.keyboard.up("y")
                await page.keyboard.press("n")
                assert (await two.result())["status"] == "blocked"
        assert person.problems == []


async def test_keys_answer_nothing_behind_a_dialog(tmp_path: Path) -> None:
    async with console() as person:
        await person.enter("approvals")
        async with asking(tmp_path) as agent:
            taking = person.page.locator(".approval.settled.selected")
            await expect(taking).to_be_visible()
            await person.page.get_by_role("button", name="Share").click()
            dialog = person.page.get_by_role("dialog", name="Share this console")
            await dialog.get_by_role("button", name="Make a link").click()
            await dialog.get_by_role("button", name="Revoke").click()
            await expect(dialog.locator(".links")).to_have_count(0)  # nor what had the focus
            for key in ("y", "g", "t"):
                await person.page.keyboard.press(key)
            await person.page.keyboard.press("Escape")
            await expect(dialog).to_have_count(0)
            await expect(taking).to_be_visible()
            await person.page.keyboard.press("n")
            assert (await agent.result())["status"] == "blocked"
        assert person.problems == []


async def test_a_question_that_appears_under_a_click_takes_none(tmp_path: Path) -> None:
    async with console() as person:
        page = person.page
        for view in ("timeline", "approvals"):  # its card is beside the one, and in the other
            await person.enter(view)
            await expect(page.get_by_role("heading", level=1)).to_be_visible()
            await page.evaluate(CLICK_AT_ONCE)
            async with asking(tmp_path) as agent:
                assert await page.evaluate("window.clicking")
                card = page.locator(".approval")
                await expect(card.get_by_role("button", name="Deny").first).to_be_enabled()
                await expect(card).not_to_have_class(re.compile("done"))
                await card.locator(".deny").first.click()
                assert (await agent.result())["status"] == "blocked"
        assert person.problems == []


async def test_j_and_k_walk_through_the_timeline() -> None:
    async with opened() as environment, console() as person:
        for name in ("one", "two", "three"):
            await environment.run(f"echo {name}; false")
        await person.enter()
        await expect(person.page.locator(".block")).to_have_count(3)
        for key, name in (("j", "three"), ("j", "two"), ("ArrowDown", "one"), ("k", "two")):
            await person.page.keyboard.press(key)
            await expect(person.page.locator(".block-head:focus")).to_contain_text(f"echo {name}")
        await person.page.keyboard.press("Enter")
        await expect(person.page.locator(".unfolded .output")).to_have_text("two\n")
        assert person.problems == []


async def test_the_keyboard_reaches_everything_in_order_and_its_keys_are_listed() -> None:
    async with console() as person:
        await person.enter()
        page = person.page
        await expect(page.locator(".connection.open")).to_be_visible()
        await page.keyboard.press("Tab")
        await expect(page.get_by_text("Skip to the view")).to_be_focused()
        reached: list[str] = []
        while len(reached) < 20 and (not reached or reached[-1] != "Stop…"):
            await page.keyboard.press("Tab")
            reached.append(await page.evaluate(NAME_OF_FOCUS))
        assert reached == [
            "Hermetic",
            "Timeline",
            "Terminals",
            "Processes",
            "Files",
            "Recordings",
            "Approvals",
            "Search commands and output",
            "Live",
            "Share",
            "Keyboard shortcuts",
            "Use the dark theme",
            "Stop…",
        ]
        await page.get_by_text("Skip to the view").focus()
        await page.keyboard.press("Enter")
        await expect(page.locator("main")).to_be_focused()
        await page.keyboard.press("?")
        keys = page.get_by_role("dialog", name="Keyboard")
        for text in ("search", "take over", "deny with a reason"):
            await expect(keys).to_contain_text(text)
        await page.keyboard.press("Escape")
        await expect(keys).to_have_count(0)
        await expect(page.locator("main")).to_be_focused()
        await page.keyboard.press("/")
        await expect(page.get_by_label("Search commands and output")).to_be_focused()
        assert person.problems == []
