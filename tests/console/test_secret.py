"""The secret dialog: what is typed there reaches the program, and nothing that keeps or shows text."""

import json
import logging
from pathlib import Path

import pytest
from playwright.async_api import expect

from tests import boxes
from tests.console.browsing import console
from tests.serve.serving import Client

pytestmark = [pytest.mark.slow, pytest.mark.full]

SECRET = "hunter2-and-more"
# Text of the page, what its fields hold, and what it stores.
PAGE_STATE = """() => [
    document.documentElement.outerHTML,
    ...[...document.querySelectorAll("input, textarea")].map(field => field.value),
    JSON.stringify(localStorage), JSON.stringify(sessionStorage), JSON.stringify(history.state), location.href,
].join("\\n")"""


async def test_a_secret_typed_during_a_hand_off_reaches_no_log_recording_model_or_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    got = tmp_path / "got"
    command = f"read -p 'pass: ' word; echo \"<$word>\"; printf %s \"$word\" > {got}; read -p 'next: ' word"
    async with boxes.opened(tmp_path) as box, console() as person:
        process = (await box.terminal(command, background=True, pty=True))["session_id"]
        client = Client(person.server, "drive")
        [environment] = (await client.get("/environments")).json["environments"]
        await person.enter(f"terminal/{environment['id']}/{process}")
        await person.sees("pass: ")
        record = person.page.get_by_role("button", name="Record")
        await record.click()
        await expect(record).to_have_attribute("aria-pressed", "true")
        await person.page.get_by_role("button", name="Take over").click()
        await person.page.get_by_role("button", name="Type a secret").click()
        field = person.page.get_by_label("It is typed into the terminal")
        await expect(field).to_be_focused()
        assert await field.get_attribute("type") == "password"
        await person.page.keyboard.type(SECRET)
        await person.page.keyboard.press("Enter")
        await expect(field).to_have_count(0)
        await person.sees(f"<{'*' * len(SECRET)}>")
        await person.sees("next: ")
        assert got.read_text() == SECRET
        assert SECRET not in await person.page.evaluate(PAGE_STATE)
        await person.page.get_by_role("button", name="Give back").click()
        await person.page.get_by_label("Note for the agent").fill("logged in")
        await person.page.keyboard.press("Enter")
        await expect(person.page.locator(".badge.you")).to_have_count(0)
        await record.click()
        await expect(record).to_have_attribute("aria-pressed", "false")
        [recording] = (await client.get("/recordings")).json["recordings"]
        kept = [
            (await client.get(f"/recordings/{recording['id']}")).body,
            (
                await client.get(f"/environments/{environment['id']}/processes/{process}/output")
            ).body,
            (await client.get("/timeline")).body,
        ]
        seen = [json.dumps(await box.process(action, process)) for action in ("poll", "log")]
        assert b"next: " in kept[0]
        assert "logged in" in seen[0]
        assert [text for text in kept if SECRET.encode() in text] == []
        assert [text for text in seen if SECRET in text] == []
        await box.process("kill", process)
        assert person.problems == []
    assert SECRET not in caplog.text
