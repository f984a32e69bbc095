"""The user's deny rules hold for what a person types into a terminal of the page."""

import os
from pathlib import Path

import pytest
from playwright.async_api import expect

from hermetic.approvals.settings import ApprovalSettings
from hermetic.cli.opening import DenyRules
from hermetic.config.settings import Settings
from tests.console.browsing import browser, opened, visiting
from tests.serve.serving import Client, serving

pytestmark = [pytest.mark.slow, pytest.mark.full]

RULES = Settings(approvals=ApprovalSettings(deny=("touch denied*",)))


async def test_a_denied_command_is_not_typed_and_the_page_says_why(tmp_path: Path) -> None:
    guard = DenyRules(RULES).guard_environment
    async with (
        opened(login=False, cwd=str(tmp_path)) as environment,
        serving(guard=guard) as server,
        browser() as chromium,
        visiting(chromium, server) as person,
    ):
        await person.enter()
        await person.open_terminal(environment.id)
        await person.run("touch allowed && echo made''-it")
        await person.sees("made-it")
        await person.run("touch denied-file")
        await expect(person.page.locator(".toast.bad")).to_contain_text("touch denied*")
        await person.page.keyboard.press("Control+c")
        await person.run("echo aft''er")
        await person.sees("after")
        assert os.listdir(tmp_path) == ["allowed"]
        run = await Client(server, "drive").post(
            f"/environments/{environment.id}/run", {"command": "touch denied-2"}
        )
        assert run.status == 403
        assert person.problems == []
