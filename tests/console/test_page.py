"""The page as a whole: what it loads, what it shows of environments that other programs opened, who
gets in.
"""

import asyncio
from pathlib import Path

import pytest
from playwright.async_api import Response, Route, expect

from hermetic.serve import static_files
from tests.console.browsing import PATIENCE, beside, console, opened, unanswering
from tests.serve.serving import Client, serving

FIRST_LOAD = 250_000  # bytes


async def test_the_page_shows_environments_and_their_commands_as_text() -> None:
    async with opened() as environment, console() as person:
        await environment.run("echo '<b>bold</b>'; false # <img src=x onerror=alert(1)>")
        await person.enter()
        await expect(person.page.locator(".side .environment").nth(1)).to_contain_text("web")
        block = person.page.locator(".block.failed")
        await expect(block).to_contain_text("<img src=x onerror=alert(1)>")
        await expect(block).to_contain_text("exit 1")
        await expect(block.locator(".tail")).to_have_text("<b>bold</b>")
        await block.get_by_role("button").click()
        await expect(block.locator(".output")).to_have_text("<b>bold</b>\n")
        assert await block.locator("img, b").count() == 0
        assert "token" not in person.page.url


async def test_commands_of_an_environment_that_answers_late_appear() -> None:
    async with opened() as environment, opened(task="other") as other:
        await environment.run("echo late; false")
        await other.run("echo early; false")
        async with unanswering(environment) as answer, console() as person:
            await person.enter()
            failed = person.page.locator(".block.failed")
            # one that does not answer hides no other
            await expect(failed).to_contain_text("echo early")
            await expect(person.page.locator(".unanswered")).to_contain_text("web does not answer")
            answer()
            await expect(failed.nth(1)).to_contain_text("echo late")
            await expect(person.page.locator(".unanswered")).to_have_count(0)


@pytest.mark.slow
@pytest.mark.full
async def test_commands_of_an_environment_that_stops_answering_come_back() -> None:
    async with opened() as environment, console() as person:
        await person.enter()
        await expect(person.page.locator(".side .environment .dot")).to_have_class("dot alive")
        async with unanswering(environment):
            await expect(person.page.locator(".side .environment .dot")).to_have_class(
                "dot stalled"
            )
        await environment.run("echo again; false")
        await expect(person.page.locator(".side .environment .dot")).to_have_class("dot alive")
        await expect(person.page.locator(".block.failed")).to_contain_text("echo again")


@pytest.mark.slow
@pytest.mark.full
async def test_the_timeline_stays_live_when_another_environment_is_chosen_at_once() -> None:
    async with opened() as environment, opened(task="other") as other, console() as person:
        await environment.run("echo first")
        await person.enter()
        await expect(person.page.locator(".block")).to_contain_text("echo first")
        for turn in range(4):  # a choice right after a change, before the list is read again
            await other.run(f"echo turn {turn}")
            await person.visit(f"timeline/{(environment, other)[turn % 2].id}")
        await other.run("echo last")
        await expect(person.page.locator(".block").first).to_contain_text("echo last")
        # and nothing of the first environment
        await expect(person.page.locator(".block")).to_have_count(5)


@pytest.mark.slow
@pytest.mark.full
async def test_a_command_that_succeeds_again_and_again_is_one_row_until_it_is_unfolded() -> None:
    async with opened() as environment, console() as person:
        for command in ("echo first", *["echo same"] * 5, "echo last", "false", "false", "false"):
            await environment.run(command)
        await person.enter()
        blocks = person.page.locator(".block")
        await expect(blocks).to_have_count(6)  # three failures are three
        await person.page.get_by_role("button", name="4 more of the same").click()
        await expect(blocks).to_have_count(10)


@pytest.mark.slow
@pytest.mark.full
async def test_what_changes_while_the_lists_are_read_is_shown() -> None:
    """The lists reach the page late: after the events of what happened since they were made."""
    async with opened(), console() as person:
        held: list[Route] = []

        async def hold_first(route: Route) -> None:
            if held:
                await route.continue_()
            held.append(route)

        await person.page.route("**/api/v1/environments", hold_first)
        await person.page.goto(person.server.access.start_url())
        async with asyncio.timeout(PATIENCE / 1000):
            while not held or not len(person.server.console.hub):  # noqa: ASYNC110  # neither has an event
                await asyncio.sleep(0.01)
        old = await held[0].fetch()
        async with opened(task="new") as new:
            process = await new.start("sleep 600")
            await held[0].fulfill(response=old)
            await expect(person.page.locator(".side .environment").nth(1)).to_contain_text("new")
            await expect(person.page.locator(".now ul.running")).to_contain_text("sleep 600")
            await process.kill(0)
            await expect(person.page.locator(".now ul.running a")).to_have_count(0)
        await expect(person.page.locator(".side .environment")).to_have_count(2)


async def test_the_first_load_is_small_and_without_a_link_it_says_how_to_get_one() -> None:
    async with console() as person:
        answers: list[Response] = []
        person.page.on("response", lambda answer: answers.append(answer))
        # the terminal's code comes last
        async with person.page.expect_response("**/assets/screen-*.js"):
            await person.enter()
        await person.page.wait_for_load_state("networkidle")
        sizes = {
            answer.url: (await answer.request.sizes())["responseBodySize"] for answer in answers
        }
        assert [url for url in sizes if not url.startswith(person.base)] == []
        assert sum(sizes.values()) < FIRST_LOAD, sizes
        async with beside(person) as visitor:
            await visitor.page.goto(visitor.base)
            heading = visitor.page.get_by_role("heading")
            await expect(heading).to_have_text("Open the console with its link")
            link = visitor.page.get_by_label("Or paste the link")
            await link.fill(visitor.server.access.start_url())
            await visitor.page.get_by_role("button", name="Open").click()
            began = visitor.page.get_by_role("heading", name="No commands yet")
            await expect(began).to_be_visible()


async def test_without_a_page_the_server_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(static_files, "PAGE", tmp_path)
    async with serving() as server:
        client = Client(server, "view")
        answer = await client.send("GET", "/")
        assert (answer.status, b"scripts/build-console" in answer.body) == (503, True)
        assert (await client.get("/me")).status == 200
