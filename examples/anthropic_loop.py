"""An agent in twenty lines:

`python anthropic_loop.py "Which tests fail, and why?"` works on the current directory.
"""

import asyncio
import sys

from anthropic import AsyncAnthropic

import hermetic


async def main(task: str) -> None:
    model, messages = AsyncAnthropic(), [{"role": "user", "content": task}]
    async with hermetic.Toolbox(environment="sandbox") as toolbox:
        tools = toolbox.schemas("anthropic")
        while True:
            answer = await model.messages.create(
                model="claude-sonnet-4-5", max_tokens=8192, messages=messages, tools=tools
            )
            messages.append({"role": "assistant", "content": answer.content})
            calls = [block for block in answer.content if block.type == "tool_use"]
            if not calls:
                return print(answer.content[-1].text)
            results = []
            for call in calls:
                output = await toolbox.call(call.name, call.input)
                results.append({"type": "tool_result", "tool_use_id": call.id, "content": output})
            messages.append({"role": "user", "content": results})


asyncio.run(main(sys.argv[1]))
