"""A morning's work for pictures and checks of every view: three environments, commands, a server, a
question.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from hermetic.session.environment import Environment
from tests.console.browsing import opened

AGENT = """
import asyncio, json, sys
import hermetic
from hermetic.approvals.settings import ApprovalSettings
from hermetic.config.settings import Settings

async def main():
    settings = Settings(approvals=ApprovalSettings(answers="queue", timeout=600))
    options = {"workspace": sys.argv[1]}
    toolbox = hermetic.Toolbox(environment="sandbox", settings=settings, options=options)
    try:
        *calls, question = json.loads(sys.argv[2])
        for call in calls:
            await toolbox.call("terminal", call, task_id="checkout-service")
        asking = asyncio.create_task(toolbox.call("terminal", question, task_id="checkout-service"))
        await asyncio.to_thread(input)
        asking.cancel()
        await asyncio.wait([asking])
    finally:
        await toolbox.close(remove=True)

asyncio.run(main())
"""
FILES = {
    "app/gateway.py": "class Gateway:\n    timeout = 30\n\n    def charge(self, order):\n        self.post(order)\n",
    "app/__init__.py": "",
    "tests/__init__.py": "",
    "tests/test_gateway.py": """
import unittest

from app.gateway import Gateway


class GatewayTest(unittest.TestCase):
    def test_a_slow_bank_is_given_up(self):
        self.assertLessEqual(Gateway.timeout, 5)

    def test_a_retry_is_counted(self):
        self.assertEqual(Gateway.attempts, 3)
""",
    "README.md": "# Checkout\n\nTakes orders and charges them.\n",
    ".gitignore": "__pycache__/\n",
}
CALLS = [
    {"command": "git log --oneline -5"},
    {"command": "grep -rn timeout app"},
    {"command": "python3 -m unittest 2>&1 | tail -n 12; exit ${PIPESTATUS[0]}"},
    {"command": "sed -i 's/timeout = 30/timeout = 5\\n    attempts = 3/' app/gateway.py"},
    {"command": "python3 -m unittest"},
    {"command": "python3 -u -m http.server 8000", "background": True},
    {"command": "sleep 1; curl -sI localhost:8000 | head -n 1"},
    {"command": "git commit -qam 'Give up a slow bank' && git diff --stat HEAD~1"},
    {
        "command": "sed -i 's/them/them, three times at most/' README.md; echo 'retries = 3' > app/settings.toml"
    },
    {
        "command": "git fetch origin; git push --force origin main && rm -rf ~/.cache/pip /var/lib/shop/uploads"
    },
]


def make_project(folder: Path) -> Path:
    """A small repository."""
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    for words in (
        ["init", "-q", "-b", "main"],
        ["config", "user.name", "dev"],
        ["config", "user.email", "dev@example.com"],
        ["add", "."],
        ["commit", "-qm", "Take orders and charge them"],
    ):
        subprocess.run(["git", *words], cwd=folder, check=True)
    return folder


@asynccontextmanager
async def scene(folder: Path) -> AsyncIterator[Environment]:
    """Agents at work; the environment of another person's task."""
    (folder / "shop").mkdir()
    project = make_project(folder / "shop")
    script = folder / "agent.py"
    script.write_text(AGENT)
    async with AsyncExitStack() as stack:
        docs = await stack.enter_async_context(
            opened("local", task="docs-site", login=False, cwd=str(project))
        )
        await docs.run(
            "printf 'Checking 12 pages\\nREADME.md:3: broken link to install.md\\n' >&2; exit 2"
        )
        await docs.run("ls -l")
        await docs.start("while sleep 0.7; do seq 1 60000 | sort -R | md5sum > /dev/null; done")
        words = [sys.executable, str(script), str(project), json.dumps(CALLS)]
        pipe = asyncio.subprocess.PIPE
        agent = await asyncio.create_subprocess_exec(*words, stdin=pipe, stdout=pipe)
        stack.push_async_callback(agent.communicate, b"\n")
        yield docs
