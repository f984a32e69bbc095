"""A person records a terminal and plays it; stops everything and releases it."""

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import expect

from hermetic.fleet.stopping import release, stop
from hermetic.registry.records import Records, runtime_root
from tests.console.browsing import PHONE, console, opened

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
        shell = person.page.url.partition("#/")[2]
        await person.visit("recordings")
        await expect(person.page.locator(".recording-list .on-air")).to_have_text("recording")
        await person.visit(shell)
        await expect(record).to_have_attribute("aria-pressed", "true")
        await record.click()
        await person.page.get_by_role("button", name="Play").click()
        await expect(person.page.locator(".player")).to_be_visible()
        await expect(person.page.locator(".recording-list .on-air")).to_have_count(0)
        await person.sees("played-42")
        assert person.problems == []


async def test_a_recording_is_played_in_the_sizes_it_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    kept = tmp_path / "hermetic" / "recordings"
    kept.mkdir(parents=True, mode=0o700)
    events = [[0.1, "o", "small\r\n"], [0.2, "r", "60x20"], [0.3, "o", "large\r\n"]]
    header = {"version": 2, "width": 40, "height": 10, "timestamp": 1, "title": "sizes"}
    id = "rec-20260101-000000-00000000"
    (kept / f"{id}.cast").write_text("\n".join(map(json.dumps, [header, *events])))
    async with console() as person:
        await person.enter(f"recordings?play={id}")
        rows = person.page.locator(".player .xterm-rows > div")
        await person.sees("large")
        await expect(rows).to_have_count(20)
        await person.page.get_by_label("Position").fill("0.15")
        await expect(rows).to_have_count(10)
        await expect(rows.first).to_contain_text("small")
        assert "large" not in "\n".join(await person.screen())
        async with person.page.expect_download() as saving:
            await person.page.get_by_role("link", name="Save").click()
        saved = await (await saving.value).path()
        assert json.loads(saved.read_text().splitlines()[0]) == header
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
        hold = person.page.locator("main .hold")
        await expect(hold).to_contain_text("web is stopped")
        await hold.get_by_role("button", name="Release").click()
        await expect(hold).to_have_count(0)
        await process.kill()
        assert person.problems == []


@pytest.mark.parametrize("options", [{}, PHONE], ids=["wide", "phone"])
async def test_a_stop_at_the_command_line_is_seen_and_released_in_every_view(
    options: dict[str, Any],
) -> None:
    async with console(**options) as person:
        await person.enter("environments")
        hold = person.page.locator("main .hold")
        records = Records(runtime_root())
        await stop(records, None, "freeze")  # before there is any environment
        await expect(hold).to_contain_text("Every agent is stopped, also those that start later")
        async with opened() as environment:
            await expect(
                person.page.get_by_role("img", name="Stopped by a person").first
            ).to_be_attached()
            for view in ("approvals", "search", f"terminal/{environment.id}", "files"):
                await person.visit(view)
                await expect(hold.get_by_role("button", name="Release all")).to_be_in_viewport()
            await release(records, None)
            await expect(hold).to_have_count(0)
            await stop(records, [environment.id], "freeze")
            await expect(hold).to_contain_text("web is stopped")
            await hold.get_by_role("button", name="Release").click()
            await expect(hold).to_have_count(0)
        assert person.problems == []
