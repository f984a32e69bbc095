"""Long texts for a model, stored in the task's environment: bounded, on disk, private, and removed
with it.
"""

import secrets

from hermetic.tools.base.task import Task


async def keep(task: Task, text: str, name: str) -> str:
    """Stores a text; returns the id by which the process tool reads it.

    Raises Interrupted, ExecutionError.
    """
    async with task.environment() as environment:
        # A process's output has all that is needed, in every kind.
        process = await environment.start(["cat"], id=f"{name}_{secrets.token_hex(6)}", stdin=text)
        await process.wait()
    return process.id
