"""What a person does first: open a terminal, type, see output; allow a command of an agent in
another process.
"""

import json
from pathlib import Path

from playwright.async_api import expect

from benchmarks.page import MOST_MILLISECONDS, prompt_time
from tests.approvals.asking import BAD, asking
from tests.console.browsing import PHONE, Visitor, beside, console, opened

NARROW = {**PHONE, "viewport": {"width": 320, "height": 640}}


async def test_a_person_opens_a_terminal_types_and_sees_output_and_exit_status() -> None:
    async with opened() as environment, console() as person:
        await person.enter()
        # console.prompt has the figure
        assert await prompt_time(person.page, environment.id) < 10 * MOST_MILLISECONDS
        requests: list[str] = []
        person.page.on("request", lambda request: requests.append(request.url))
        await person.open_terminal(environment.id)
        process = person.page.url.rpartition("/")[2]
        # what the start has answered is not asked for again
        assert not [url for url in requests if url.endswith(f"/processes/{process}")]
        await person.run("echo sum=$((20 + 22))")
        await person.sees("sum=42")
        await person.run("exit 3")
        await expect(person.page.get_by_text("Ended: exit 3")).to_be_visible()
        await person.visit("timeline")
        await expect(person.page.locator(".block.failed").first).to_contain_text("exit 3")
        assert person.problems == []


async def test_on_a_phone_every_view_has_a_tab_and_nothing_is_cut_off() -> None:
    async with opened() as environment, console(**PHONE) as person:
        await environment.run("echo hello")
        await person.enter()
        tabs = person.page.get_by_role("navigation", name="Views on a phone")
        heading = person.page.get_by_role("heading", level=1)
        for name in (
            "Recordings",
            "Files",
            "Processes",
            "Search",
            "Terminals",
            "Approvals",
            "Timeline",
            "Environments",
        ):
            await tabs.get_by_role("link", name=name).tap()  # swipes to it first
            await expect(heading).to_have_text("All environments" if name == "Timeline" else name)
            chosen = tabs.locator("[aria-current]")
            await expect(chosen).to_have_text(name)
            await expect(chosen).to_be_in_viewport(ratio=0.95)
        assert person.problems == []
        async with beside(person, **NARROW) as other:
            await cuts_nothing_off(other, environment.id)


async def cuts_nothing_off(person: Visitor, environment: str) -> None:
    """On the narrowest phone."""
    await person.enter()
    await person.open_terminal(environment)
    for name in ("Stop…", "Give back", "New terminal"):
        await expect(person.page.get_by_role("button", name=name)).to_be_in_viewport(ratio=1)
    for view in ("timeline", "approvals", "processes", "files", "recordings", "environments"):
        await person.visit(view)
        await expect(person.page.get_by_role("heading", level=1)).to_be_visible()
        width = await person.page.evaluate("document.documentElement.scrollWidth")
        assert width == 320, view
    assert person.problems == []


async def test_a_person_allows_a_command_of_an_agent_in_another_process_and_denies_one_with_a_reason(
    tmp_path: Path,
) -> None:
    async with console() as person:
        await person.enter("approvals")
        async with asking(tmp_path, BAD, BAD) as agent:
            question = person.page.locator(".approval:not(.done)")
            await expect(question.locator("mark")).to_have_text(
                "rm -rf /srv/hermetic-no-such-directory"
            )
            await expect(question).to_contain_text(str(tmp_path))
            await question.get_by_role("button", name="Allow once").click()
            assert "it ran" in (await agent.result())["output"]
            await expect(question).to_have_count(1)  # the next one
            # now it takes keys
            await expect(person.page.locator(".approval.settled:not(.done)")).to_be_visible()
            await person.page.keyboard.press("d")
            await person.page.get_by_label("Reason for the agent").fill("not on a Friday")
            await person.page.keyboard.press("Enter")
            answer = await agent.result()
            assert answer["status"] == "blocked"
            assert "not on a Friday" in json.dumps(answer)
        assert person.problems == []
