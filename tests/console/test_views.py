"""Every view and dialog: names, contrast and order by axe-core, and a picture of each in dark,
light and on a phone.
"""

import json
import os
import re
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from playwright.async_api import expect

from hermetic.serve import sampling
from tests.console.browsing import CONSOLE, PHONE, ROOT, Visitor, console
from tests.console.scene import scene
from tests.programs import need

pytestmark = [pytest.mark.slow, pytest.mark.full]

PICTURES = ROOT / "build" / "console"
SIZES: dict[str, dict[str, Any]] = {
    "dark": {"color_scheme": "dark"},
    "light": {"color_scheme": "light"},
    "phone": {"color_scheme": "dark", **PHONE},
}
# read when the packages are there
AXE = (CONSOLE / "node_modules" / "axe-core" / "axe.min.js").read_text
FIND = "axe.run(document, {resultTypes: ['violations']}).then(found => found.violations.map(each =>\
 [each.id, each.nodes.map(node => node.target.join(' ') + ': ' + node.failureSummary)]))"
MANY_POINTS = re.compile(r"(\S+ ){55}")  # of a sparkline


class View(NamedTuple):
    """A view by its path after `#/`, what is there once it is complete, and what a person does
    there.
    """

    path: str
    complete: str
    act: Callable[[Visitor], Awaitable[object]] | None = None


async def views_of(person: Visitor) -> dict[str, View]:
    """Every view by its name."""
    answer = await api(person, "GET", "/timeline")
    server = next(block for block in answer["blocks"] if "http.server" in block["command"])
    failed = next(
        block
        for block in answer["blocks"]
        if "unittest" in block["command"] and block["ending"] != ["exited", 0]
    )
    agent = server["environment"]
    return {
        "timeline": View("timeline", ".block"),
        "block": View(f"timeline/{agent}/{failed['id']}", ".unfolded .output"),
        "processes": View("processes", "tbody tr"),
        "process": View(f"processes/{agent}/{server['id']}", ".xterm-rows >> text=Serving"),
        "approvals": View("approvals", ".approval.settled mark"),
        "changes": View(f"files/{agent}", ".diff-text"),
        "files": View(f"files/{agent}?show=files&file=app/gateway.py", ".file-text .output"),
        "search": View("search?q=timeout", ".hits li"),
        "environments": View("environments", "main .environment"),
        "no-terminal": View(f"terminal/{agent}", ".empty"),
        "terminal": View(f"terminal/{agent}", ".empty", work_in_a_shell),
        "recordings": View("recordings", ".recording-list li", play),
        "share": View("timeline", ".block", share),
        "help": View("timeline", ".block", show_keys),
        "stop": View("timeline", ".block", stop),
    }


@pytest.fixture
def workshop() -> Iterator[Path]:
    """A directory for the scene. SCENE names a new one whose path looks well in pictures."""
    with tempfile.TemporaryDirectory(prefix="dev-") as folder:
        chosen = Path(os.environ.get("SCENE") or folder)
        chosen.mkdir(parents=True, exist_ok=True)
        yield chosen
        shutil.rmtree(chosen / "shop", ignore_errors=True)


@pytest.mark.parametrize("size", SIZES)
async def test_every_view_has_no_violation_of_axe_and_a_picture(
    size: str, workshop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need("bwrap")
    PICTURES.mkdir(parents=True, exist_ok=True)
    monkeypatch.setattr(sampling, "SAMPLE_SECONDS", 0.2)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    found: dict[str, Any] = {}
    async with console(**SIZES[size]) as person:
        await person.page.goto(person.base)
        await expect(person.page.get_by_role("heading")).to_be_visible()
        await person.page.evaluate(AXE())
        found["welcome"] = await look(person, f"welcome-{size}")
        async with scene(workshop):
            await person.enter("approvals")
            await expect(person.page.locator(".approval mark").first).to_be_visible()
            await expect(person.page.locator(".sparkline polyline").first).to_have_attribute(
                "points", MANY_POINTS
            )
            await person.page.evaluate(AXE())
            for name, view in (await views_of(person)).items():
                await person.visit(view.path)
                await expect(person.page.locator(view.complete).first).to_be_visible()
                if view.act:
                    await view.act(person)
                found[name] = await look(person, f"{name}-{size}")
                if await person.page.get_by_role("dialog").count():
                    await person.page.keyboard.press("Escape")
                    await expect(person.page.get_by_role("dialog")).to_have_count(0)
            await person.visit("terminal")
            await person.page.locator(".tabstrip nav a").first.click()
            await person.page.get_by_role("button", name="Close the terminal").click()
            await expect(
                person.page.get_by_role("heading", name="No terminal is open here")
            ).to_be_visible()
    assert {name: violations for name, violations in found.items() if violations} == {}, json.dumps(
        found, indent=1
    )
    # before the login
    assert [problem for problem in person.problems if "401" not in problem] == []


async def look(person: Visitor, name: str) -> Any:
    """Takes a picture; what axe finds."""
    await person.page.screenshot(path=PICTURES / f"{name}.png", animations="disabled")
    return await person.page.evaluate(FIND)


async def api(person: Visitor, method: str, path: str, body: object = None) -> Any:
    """An answer of the server to the page."""
    send = """([method, path, body]) => fetch("/api/v1" + path, {
        method, ...(body ? { body: JSON.stringify(body), headers: { "Content-Type": "application/json" } } : {}),
    }).then(answer => answer.status === 204 ? null : answer.json())"""
    return await person.page.evaluate(send, [method, path, body])


async def work_in_a_shell(person: Visitor) -> None:
    """A terminal with something on it, recorded."""
    await person.page.locator(".empty").get_by_role("button", name="New terminal").click()
    await expect(person.page.locator(".badge.you")).to_be_visible()
    environment, process = person.page.url.split("/")[-2:]
    await person.run(r"PS1='\[\e[1;32m\]dev@checkout\[\e[0m\]:\[\e[1;34m\]\W\[\e[0m\]$ '; clear")
    recording = await api(
        person, "POST", "/recordings", {"environment": environment, "process": process}
    )
    await person.run("git log --stat --color -1; git -c color.ui=always diff; python3 -m unittest")
    await person.sees("Ran 2 tests")
    assert "id" in recording, recording
    await api(person, "POST", f"/recordings/{recording['id']}/stop", {})


async def play(person: Visitor) -> None:
    """The recording, at its end."""
    await person.page.locator(".recording-list a").first.click()
    await person.sees("Ran 2 tests")
    await expect(person.page.get_by_role("button", name="Play", exact=True)).to_be_visible()


async def share(person: Visitor) -> None:
    """Two links, one of them new."""
    await api(
        person, "POST", "/shares", {"scope": "approve", "expires": 28800, "name": "Vic's phone"}
    )
    await person.page.get_by_role("button", name="Share").click()
    await expect(person.page.locator(".links li").first).to_be_visible()


async def show_keys(person: Visitor) -> None:
    """The list of keys."""
    await person.page.keyboard.press("?")
    await expect(person.page.get_by_role("dialog")).to_be_visible()


async def stop(person: Visitor) -> None:
    """What would be stopped."""
    await person.page.get_by_role("button", name="Stop…").click()
    await expect(person.page.get_by_role("dialog")).to_be_visible()
