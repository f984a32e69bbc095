"""Answers of tools that are too long for a model: kept in the task's place, and read on in pieces."""

import secrets

from hermetic.contract.limits import RESULT_PREVIEW
from hermetic.contract.tool import Fields
from hermetic.tools.base.task import Task


async def keep(task: Task, text: str) -> Fields:
    """The start of the text, and the id by which the process tool reads all of it; it lives as long as its place."""
    async with task.place() as environment:
        # The output of a process is bounded, on disk, private, and gone with the environment, in every kind of place.
        process = await environment.start(["cat"], id=f"result_{secrets.token_hex(6)}", stdin=text)
        await process.wait()
    return {
        "preview": text[: RESULT_PREVIEW], "total_characters": len(text), "session_id": process.id,
        "hint": f"the answer is too long; process(action='poll', session_id={process.id!r}, cursor=0) reads all of it, "
        "from cursor to cursor",
    }  # fmt: skip
