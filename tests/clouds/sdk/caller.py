"""A caller that a test kills: opens an environment, prints a line after each step, then waits.

Run as `python caller.py KIND TASK [persistent]`.
"""

import asyncio
import sys

import hermetic


async def main() -> None:
    print("begins", flush=True)
    kind, task, *more = sys.argv[1:]
    async with hermetic.open(
        kind, task=task, image="standin", lease=1, persistent=bool(more)
    ) as environment:
        print("open", flush=True)
        await environment.run("echo done")
        print("done", flush=True)
        await asyncio.sleep(600)


asyncio.run(main())
