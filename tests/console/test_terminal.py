"""Terminals as a person uses them: full-screen programs, reloads, lost connections, several
viewers, taking over.
"""

import hashlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import expect

from tests.boxes import everywhere, place
from tests.console.browsing import Visitor, beside, console, opened

pytestmark = [pytest.mark.slow, pytest.mark.full]


@asynccontextmanager
async def at_a_terminal(kind: str = "local", **options: Any) -> AsyncIterator[Visitor]:
    """A person with an open terminal."""
    async with opened(kind, **options) as environment, console() as person:
        await person.can_be_cut()
        await person.enter()
        await person.open_terminal(environment.id)
        yield person
        assert [problem for problem in person.problems if "WebSocket" not in problem] == []


@everywhere
async def test_vim_edits_a_file_and_leaves_the_screen_as_it_was(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "note.txt"
    async with at_a_terminal(kind, **place(kind, tmp_path)) as person:
        await person.run("echo before; command -v vim vi")
        await person.sees("/vi")
        await person.run(f"vi -u NONE {file}")
        await person.sees("~")
        await person.type("ihello from the page")
        await person.page.keyboard.press("Escape")
        await person.type(":wq\n")
        await person.run("echo after")
        await person.sees("after")
        assert any(row.startswith("before") for row in await person.screen())
        assert file.read_text() == "hello from the page\n"


async def test_a_reload_shows_the_same_screen_and_types_nothing() -> None:
    async with at_a_terminal() as person:
        await person.run(
            r"printf '\033[31m%s\033[0m\n' re''d; printf '\033[c\033[6n'; cat > /dev/null"
        )
        await person.sees("red")
        await person.sees(";1R")  # what the terminal replied, echoed
        await person.page.keyboard.press("Enter")
        await person.page.keyboard.press("Control+d")
        await person.run("echo line $((1 + 1))")
        await person.sees("line 2")
        before = await person.screen()
        await person.page.reload()
        await person.sees("line 2")
        await expect(person.page.locator(".badge.you")).to_be_visible()
        await person.run("echo later")
        await person.sees("later")
        after = await person.screen()
        assert after[: len(before) - 1] == before[:-1]
        assert not any("[?" in row or ";1R" in row for row in after[len(before) - 1 :])


async def test_a_cut_connection_recovers_without_losing_or_repeating_a_line(tmp_path: Path) -> None:
    os.mkfifo(steps := tmp_path / "steps")  # a line lets the terminal print one
    with os.fdopen(os.open(steps, os.O_RDWR), "w", buffering=1) as step:
        async with at_a_terminal() as person:
            await person.run(
                f"for i in {{1..30}}; do read; echo row-$i; done <{steps}; echo fin''ished"
            )
            step.write("\n" * 3)
            await person.sees("row-3")
            await person.cut()
            await expect(person.page.get_by_text("Reconnecting")).to_be_visible()
            step.write("\n" * 10)
            await person.mend()
            step.write("\n" * 17)
            await person.sees("finished")
            rows = [row for row in await person.screen() if row.startswith("row-")]
            assert rows == [f"row-{number}" for number in range(1, 31)]


async def test_a_network_that_drops_everything_is_noticed_and_recovered_from() -> None:
    async with at_a_terminal() as person:
        await person.run("echo before")
        await person.sees("before")
        person.is_mute = True
        await person.run("echo un''seen")
        await expect(
            person.page.locator(".connection.lost, .connection.connecting").first
        ).to_be_visible()
        person.is_mute = False
        await expect(person.page.locator(".connection.open")).to_be_visible()
        await person.sees("unseen")
        await person.run("echo af''ter")
        await person.sees("after")


async def test_a_viewer_follows_and_takes_over_and_gives_back() -> None:
    async with at_a_terminal() as person:
        await person.run("echo shared")
        async with beside(person) as other:
            await other.enter(person.page.url.partition("#/")[2])
            await other.sees("shared")
            await expect(other.page.locator(".badge").first).to_contain_text("drives")
            await other.type("echo not-typed\n")  # a viewer's keys go nowhere
            await other.page.keyboard.press("Shift+Enter")
            await expect(other.page.locator(".badge.you")).to_be_visible()
            await expect(person.page.locator(".badge.you")).to_have_count(0)
            await other.run("echo from-other")
            await person.sees("from-other")
            assert not any("not-typed" in row for row in await person.screen())
            await other.page.keyboard.press("Control+Shift+Enter")
            await other.page.get_by_label("Note for the agent").fill("done")
            await other.page.keyboard.press("Enter")
            await expect(other.page.locator(".badge.you")).to_have_count(0)
            assert other.problems == []


async def test_a_paste_of_a_megabyte_arrives_whole() -> None:
    async with at_a_terminal() as person:
        await person.run("stty -echo -icanon; echo re''ady; head -c 1000000 | sha256sum; stty sane")
        await person.sees("ready")
        text = "".join(f"{number:09d}\n" for number in range(100_000))
        await person.page.evaluate(
            """text => {
                const data = new DataTransfer();
                data.setData("text/plain", text);
                const options = { clipboardData: data, bubbles: true, cancelable: true };
                document.querySelector(".xterm-helper-textarea").dispatchEvent(new ClipboardEvent("paste", options));
            }""",
            text,
        )
        await person.sees(hashlib.sha256(text.encode()).hexdigest())


async def test_programs_cannot_reach_the_clipboard_the_page_or_its_title() -> None:
    async with at_a_terminal() as person:
        await person.run(
            r"printf '\033]0;<img src=x onerror=document.title=1>\007\033]52;c;c2VjcmV0\007\033]52;c;?\007'; echo done"
        )
        await person.sees("done")
        await expect(person.page.locator(".pane-title strong")).to_contain_text("<img")
        assert await person.page.locator(".pane-title img").count() == 0
        assert await person.page.title() in ("Hermetic", "(0) Hermetic")
        await expect(person.page.get_by_role("button", name="Copy")).to_be_visible()
        await person.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        assert await person.page.evaluate("navigator.clipboard.readText()") == ""
        await person.page.get_by_role("button", name="Copy").click()
        assert await person.page.evaluate("navigator.clipboard.readText()") == "secret"


async def test_find_shows_how_many_matches_there_are() -> None:
    async with at_a_terminal() as person:
        await person.run("seq -f 'item %g' 12")
        await person.sees("item 12")
        await person.page.keyboard.press("Control+Shift+F")
        await person.page.get_by_label("Find in output").fill("item 1")
        await expect(person.page.locator(".find [role=status]")).to_contain_text("of 4")
