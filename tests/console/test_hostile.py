"""Text from environments is shown as text, and nothing inline is let in."""

import re
from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.approvals.asking import BAD, asking
from tests.console.browsing import Visitor, console, opened

pytestmark = [pytest.mark.slow, pytest.mark.full]

MARKUP = "<img src=x onerror=window.hit=1><script>window.hit=2</script>"
ESCAPES = "\x1b[2J\x1b]0;owned\x07\x1b]52;c;b3duZWQ=\x07\x9b31m\u202egnp.exe"
HOSTILE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

TEXT = """() => {
    const page = document.body.cloneNode(true);
    for (const screen of page.querySelectorAll(".xterm")) screen.remove();
    return page.textContent;
}"""


async def harmless(person: Visitor) -> str:
    """The text of the view outside terminals, in which nothing has acted."""
    text: str = await person.page.evaluate(TEXT)
    assert HOSTILE.findall(text) == []
    assert await person.page.locator("img, script:not([src])").count() == 0
    assert await person.page.evaluate("window.hit") is None
    assert await person.page.title() in ("Hermetic", "(1) Hermetic")
    return text


async def test_markup_and_escape_sequences_act_in_no_view(tmp_path: Path) -> None:
    named = f"{MARKUP.replace('/', ':')}{ESCAPES}"
    (folder := tmp_path / named).mkdir()
    async with (
        opened(task=f"task {MARKUP[:32]} {ESCAPES}", login=False, cwd=str(folder)) as environment,
        console() as person,
    ):
        failed = await environment.start(
            f"printf '%s\\n' '{MARKUP}{ESCAPES}'; false # {MARKUP} {ESCAPES}"
        )
        await failed.wait(30)
        (folder / named).write_text(f"{MARKUP}\n{ESCAPES}\n")
        running = await environment.start(
            f"echo '{ESCAPES}{MARKUP}'; exec sleep 600 # {MARKUP}{ESCAPES}", pty=True
        )
        await person.enter()
        for path, part in {
            "timeline": ".block.failed .tail",
            f"timeline/{environment.id}/{failed.id}": ".unfolded .output",
            "processes": "tbody tr",
            f"processes/{environment.id}/{running.id}": ".xterm-rows",
            f"terminal/{environment.id}/{running.id}": ".xterm-rows >> text=img",
            f"files/{environment.id}": ".diff",
            f"files/{environment.id}?show=files": ".entries a",
            "search?q=onerror": ".hits li",
            "environments": "main .environment",
        }.items():
            await person.visit(path)
            await expect(person.page.locator(part).first).to_be_visible()
            assert "<img src=x" in await harmless(person)
        await person.visit(f"files/{environment.id}?show=files")
        await person.page.locator(".entries a").first.click()
        await expect(person.page.locator(".file-text .output")).to_contain_text("<script>")
        await harmless(person)
        await running.kill()
        assert person.problems == []


async def test_a_question_with_hostile_text_shows_every_hidden_character(tmp_path: Path) -> None:
    async with console() as person:
        await person.enter("approvals")
        async with asking(tmp_path, f"{BAD} # {MARKUP}\u202e\x1b[2J\u200b") as agent:
            await expect(person.page.locator(".approval .command")).to_contain_text(
                "⟨U+202E⟩⟨U+001B⟩[2J⟨U+200B⟩"
            )
            assert MARKUP in await harmless(person)
            await person.page.locator(".approval .deny").first.click()
            assert (await agent.result())["status"] == "blocked"
        assert person.problems == []


async def test_links_of_programs_open_nothing_but_web_pages() -> None:
    async with opened() as environment, console() as person:
        await person.enter()
        await person.open_terminal(environment.id)
        link = r"\033]8;;javascript:window.hit=3\033\\click here\033]8;;\033\\"
        await person.run(f"clear; printf '{link}\\n'; echo re''ady")
        await person.sees("ready")
        opened_pages = []
        person.page.context.on("page", lambda page: opened_pages.append(page.url))
        await person.page.locator(".xterm-screen").hover(position={"x": 20, "y": 8})
        await person.page.locator(".xterm-screen").click(position={"x": 20, "y": 8})
        await person.run("echo cli''cked")
        await person.sees("clicked")
        assert opened_pages == []
        assert await person.page.evaluate("window.hit") is None


async def test_the_policy_of_the_page_allows_nothing_inline_and_terminals_keep_their_colours() -> (
    None
):
    async with opened() as environment, console(color_scheme="dark") as person:
        answer = await person.page.goto(person.base)
        assert answer is not None
        assert "unsafe" not in answer.headers["content-security-policy"]
        await person.enter()
        await person.open_terminal(environment.id)
        await person.run(
            r"printf '\033[38;2;250;120;60mtrue\033[0m \033[1;31mred\033[0m\n'; echo re''ady"
        )
        await person.sees("ready")
        colours = {name: await colour_of(person, name) for name in ("true", "red")}
        assert colours["true"] == "rgb(250, 120, 60)"
        assert colours["red"] not in (colours["true"], await colour_of(person, "ready"))
        rows = person.page.locator(".xterm-rows > div")
        heights = [
            box["height"]
            for box in [await rows.nth(number).bounding_box() for number in (0, 1)]
            if box
        ]
        assert len(set(heights)) == 1
        refused = await person.page.evaluate(
            """() => new Promise(resolve => {
                addEventListener("securitypolicyviolation", event => resolve(event.effectiveDirective));
                document.body.insertAdjacentHTML("beforeend", "<p style='color: red'>inline</p>");
            })"""
        )
        assert refused == "style-src-attr"


async def colour_of(person: Visitor, text: str) -> str:
    """The colour of a word on the screen."""
    found: str = await person.page.locator(
        ".xterm-rows span", has_text=re.compile(f"^{text}$")
    ).last.evaluate("element => getComputedStyle(element).color")
    return found
