"""An agent in twenty lines:

`python openai_loop.py "Which tests fail, and why?"` works on the current directory.
"""

import asyncio
import json
import sys

from openai import AsyncOpenAI

import hermetic


async def main(task: str) -> None:
    model, messages = AsyncOpenAI(), [{"role": "user", "content": task}]
    async with hermetic.Toolbox(environment="sandbox") as toolbox:
        tools = toolbox.schemas("openai")
        while True:
            answer = await model.chat.completions.create(
                model="gpt-5", messages=messages, tools=tools
            )
            message = answer.choices[0].message
            messages.append(message)
            for call in message.tool_calls or []:
                output = await toolbox.call(call.function.name, json.loads(call.function.arguments))
                messages.append({"role": "tool", "tool_call_id": call.id, "content": output})
            if not message.tool_calls:
                return print(message.content)


asyncio.run(main(sys.argv[1]))
