"""Questions of an MCP server's tools at the consoles of other processes."""

import asyncio
from typing import Any

import mcp_types
import pytest
from mcp_types import ElicitResult

from hermetic.approvals.watching import ApprovalWatch
from tests.approvals.asking import BAD, pending
from tests.mcp.clients import ERAS, answer, connected


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_without_forms_asks_where_a_console_attends(era: str) -> None:
    async with connected(era) as client, ApprovalWatch("console") as console:
        assert (
            "there is no user to ask"
            in (await answer(client, "terminal", {"command": BAD}))["error"]
        )
        with console.attend():
            call = asyncio.create_task(answer(client, "terminal", {"command": BAD}))
            await console.answer((await pending(console)).id, "once")
            assert (await call)["exit_code"] == 0


async def test_a_console_answers_before_the_clients_own_form() -> None:
    shown, closed = asyncio.Event(), asyncio.Event()

    async def user(_: Any, params: mcp_types.ElicitRequestParams) -> ElicitResult:
        shown.set()
        try:
            await asyncio.Event().wait()
        finally:
            closed.set()
        raise AssertionError

    async with (
        connected("legacy", elicitation_callback=user) as client,
        ApprovalWatch("console") as console,
    ):
        call = asyncio.create_task(answer(client, "terminal", {"command": BAD}))
        request = await pending(console)
        async with asyncio.timeout(60):
            await shown.wait()
            await console.answer(request.id, "once")
            assert (await call)["exit_code"] == 0
