"""States that a person seldom sees: nothing there, lost, too narrow, too early."""

from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import expect

from tests.approvals.asking import asking
from tests.console.browsing import PHONE, console, opened, unanswering

pytestmark = [pytest.mark.slow, pytest.mark.full]

# Contrast of text and background as WCAG defines it, for the elements of a selector.
CONTRAST = """selector => {
    const parts = color => color.match(/[\\d.]+/g).slice(0, 3).map(Number);
    const light = color => parts(color).map(part => part / 255)
        .map(part => part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
        .reduce((sum, part, index) => sum + part * [0.2126, 0.7152, 0.0722][index], 0);
    return [...document.querySelectorAll(selector)].map(element => {
        const style = getComputedStyle(element);
        const [low, high] = [light(style.color), light(style.backgroundColor)].sort((a, b) => a - b);
        return (high + 0.05) / (low + 0.05);
    });
}"""


@pytest.mark.parametrize("width", [320, 390, 900])
async def test_a_process_with_a_tree_is_watched_and_taken_over_in_a_narrow_window(
    width: int,
) -> None:
    options: dict[str, Any] = {**PHONE, "viewport": {"width": width, "height": 844}}
    async with opened() as environment, console(**options) as person:
        process = await environment.start("sleep 1000 & while sleep 1; do echo tick; done")
        await person.enter(f"processes/{environment.id}/{process.id}")
        await expect(person.page.locator(".tree li").nth(1)).to_be_visible()
        main = person.page.locator("main")
        assert await main.evaluate("main => main.scrollWidth - main.clientWidth") == 0
        for name in ("Take over", "Find", "End", "Close"):
            await expect(
                person.page.get_by_role("button", name=name, exact=name != "Take over")
            ).to_be_in_viewport(ratio=1)
        await expect(person.page.get_by_role("heading", level=1)).to_have_text("Processes web")
        await person.page.get_by_role("button", name="Find").click()
        await person.page.get_by_label("Find in output").fill("tick")
        found = person.page.locator(".find [role=status]")
        await expect(found).to_contain_text("of")
        assert await found.evaluate("found => found.getClientRects().length") == 1
        await process.kill()
        assert person.problems == []


async def test_windows_of_any_width_reach_every_view_and_the_stop(tmp_path: Path) -> None:
    async with console() as person, asking(tmp_path) as agent:
        page = person.page
        await person.enter("approvals")
        await expect(page.locator(".views .count")).to_have_text("1")  # the widest bar
        for width in (360, 768, 821, 900, 941, 1024, 1081, 1200, 1321):
            await page.set_viewport_size({"width": width, "height": 700})
            await expect(page.get_by_role("button", name="Stop…")).to_be_in_viewport(ratio=1)
            bar = page.locator(".bar")
            assert await bar.evaluate("bar => bar.scrollWidth - bar.clientWidth") == 0, width
            names = await page.locator("nav:visible a, .search-link:visible").all_inner_texts()
            for name in ("Timeline", "Terminals", "Processes", "Files", "Recordings"):
                assert any(name in each for each in names), (width, name)
            search = page.get_by_role("link", name="Search").or_(
                page.get_by_role("searchbox", name="Search commands and output")
            )
            await search.click()
            await expect(search).to_be_focused()
            environments = page.get_by_role("navigation", name="Environments").or_(
                page.get_by_role("link", name="Environments")
            )
            await expect(environments.first).to_be_visible()
        await person.visit("approvals")
        await page.locator(".approval .deny").first.click()
        assert (await agent.result())["status"] == "blocked"
        assert person.problems == []


async def test_an_environment_that_does_not_answer_says_so_and_what_to_do() -> None:
    async with opened() as environment, console(**PHONE) as person:
        await person.enter("environments")
        card = person.page.locator("main .environment").nth(1)
        await expect(card).to_contain_text("idle")
        async with unanswering(environment):
            await expect(card).to_contain_text("Does not answer")
            await expect(card).to_contain_text("hermetic rm web")
        await expect(card).to_contain_text("idle")


async def test_links_to_what_is_gone_say_so_once() -> None:
    async with console() as person:
        await person.enter()
        failure = person.page.locator("main .failure")
        for view in ("timeline/e-1/7", "terminal/e-1/7", "processes/e-1/7", "files/e-1"):
            await person.visit(view)
            await expect(failure.first).to_contain_text("It has probably ended")
            await expect(failure).to_have_count(1)
        await person.visit("recordings?play=gone")
        await expect(failure).to_contain_text("It may have been removed")
        for view in ("files", "environments"):
            await person.visit(view)
            await expect(
                person.page.get_by_role("heading", name="No environment is open")
            ).to_be_visible()


async def test_what_is_found_can_be_read_in_the_light_theme() -> None:
    async with opened() as environment, console(color_scheme="light") as person:
        await person.enter()
        await person.open_terminal(environment.id)
        await person.run("seq -f 'item %g' 12")
        await person.sees("item 12")
        await person.page.keyboard.press("Control+Shift+F")
        await person.page.get_by_label("Find in output").fill("item")
        await expect(person.page.locator(".find [role=status]")).to_contain_text("of 13")
        marked = ".xterm-rows span[style*='background-color']"
        await expect(person.page.locator(marked).nth(5)).to_be_visible()
        assert min(await person.page.evaluate(CONTRAST, marked)) >= 4.5
