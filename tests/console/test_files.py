"""Files, links to commands, and search: what a person looks up."""

import asyncio
from pathlib import Path

import pytest
from playwright.async_api import expect

from hermetic.serve import environments
from tests.console.browsing import console, opened
from tests.console.scene import make_project
from tests.serve.serving import SECONDS

pytestmark = [pytest.mark.slow, pytest.mark.full]


async def test_changes_are_shown_against_the_last_commit(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    async with opened(login=False, cwd=str(project)) as environment, console() as person:
        await environment.run(
            "sed -i 's/= 30/= 5/' app/gateway.py; echo new > notes.txt; git rm -q README.md"
        )
        await person.enter(f"files/{environment.id}")
        await expect(person.page.locator(".changes-sum")).to_contain_text(
            "3 files against the last commit"
        )
        changed = person.page.locator(".diff", has_text="app/gateway.py")
        await expect(changed.locator(".removed")).to_have_text("-    timeout = 30")
        await expect(changed.locator(".added")).to_have_text("+    timeout = 5")
        await expect(person.page.locator(".diff", has_text="notes.txt")).to_contain_text("added")
        await expect(person.page.locator(".diff", has_text="README.md")).to_contain_text("deleted")
        await environment.run(
            "git add . && git -c user.name=a -c user.email=a@example.com commit -qm done"
        )
        await expect(person.page.get_by_role("heading", name="Nothing has changed")).to_be_visible()
        assert person.problems == []


async def test_changes_without_git_are_shown_against_the_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environments, "YOUNG_SECONDS", 3600.0)
    (tmp_path / "old.txt").write_text("as it was\n")
    async with console() as person:
        await person.enter()
        async with opened(login=False, cwd=str(tmp_path)) as environment:
            known = await person.server.console.environments.get(environment.id)
            async with asyncio.timeout(SECONDS):
                while known.snapshot is None:  # noqa: ASYNC110  # it comes in the background
                    await asyncio.sleep(0.02)
            await environment.run("echo as it is > old.txt; echo more > new.txt")
            await person.visit(f"files/{environment.id}")
            await expect(person.page.locator(".changes-sum")).to_contain_text(
                "2 files against the state at opening"
            )
            old = person.page.locator(".diff", has_text="old.txt")
            await expect(old.locator(".removed")).to_have_text("-as it was")
            await expect(old.locator(".added")).to_have_text("+as it is")
            assert person.problems == []


async def test_a_link_to_a_command_survives_a_reload_however_old_the_command_is() -> None:
    async with opened() as environment, console() as person:
        await environment.run("echo the-linked-one")
        await person.enter()  # all environments
        block = person.page.locator(".block", has_text="the-linked-one")
        await block.get_by_role("button").click()
        await block.get_by_role("link", name="Link to this command").click()
        link = person.page.url
        await person.page.reload()
        await expect(block.locator(".output")).to_have_text("the-linked-one\n")
        assert person.page.url == link
        for number in range(60):  # more than one page of the timeline
            await environment.run(f"true {number}")
        await person.page.reload()
        await expect(person.page.get_by_label("Linked command").locator(".output")).to_have_text(
            "the-linked-one\n"
        )
        await person.visit(f"timeline/{environment.id}/p-gone")
        await expect(
            person.page.get_by_text("The linked command is not kept any more.")
        ).to_be_visible()


async def test_the_search_finds_commands_and_output_and_leads_to_the_block() -> None:
    async with opened() as environment, console() as person:
        await environment.run("seq 3 | sed 's/^/needle-/'")
        await environment.run("echo other")
        await person.enter()
        await person.page.keyboard.press("/")
        await person.page.keyboard.type("NEEDLE-2\n")
        hit = person.page.locator(".hits li")
        await expect(hit).to_have_count(1)
        await expect(hit.locator("pre mark")).to_have_text("needle-2")
        await hit.get_by_role("link").click()
        await expect(person.page.locator(".unfolded .output")).to_have_text(
            "needle-1\nneedle-2\nneedle-3\n"
        )
        assert person.problems == []
