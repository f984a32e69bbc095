"""Headless Chromium for a test, and a person in front of it."""

import asyncio
import functools
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from playwright.async_api import (
    Browser,
    BrowserContext,
    Page,
    WebSocketRoute,
    async_playwright,
    expect,
)

import hermetic
from hermetic.serve.server import ConsoleServer
from hermetic.session.environment import Environment
from tests.programs import need, unavailable
from tests.serve.serving import serving

ROOT = Path(__file__).parents[2]
CONSOLE = ROOT / "console"
PATIENCE = 30_000  # ms; tenfold slack on a loaded machine
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-crash-reporter",
    "--no-zygote",
)

WINDOW = {"width": 1440, "height": 900}
# options of a visitor on a phone
PHONE: dict[str, Any] = {
    "viewport": {"width": 390, "height": 844},
    "has_touch": True,
    "is_mobile": True,
}

expect.set_options(timeout=PATIENCE)


@functools.cache
def built() -> str:
    """Builds the page if its sources have changed; the reason if that failed."""
    done = subprocess.run(
        [sys.executable, CONSOLE / "build.py", "--tests"], capture_output=True, text=True
    )
    return "" if done.returncode == 0 else done.stderr.strip()


async def need_page() -> None:
    """Ends the calling test where the page cannot be built.

    Building takes a while, and the event loop goes on.
    """
    if problem := await asyncio.to_thread(built):
        unavailable(problem)


@asynccontextmanager
async def browser() -> AsyncIterator[Browser]:
    """A Chromium of this machine."""
    await need_page()
    path = need("chromium", hint="no chromium; scripts/engines/up chromium installs it on Debian")
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        try:
            yield chromium
        finally:
            await chromium.close()


class Visitor:
    """One browser tab on the console, logged in."""

    def __init__(self, page: Page, server: ConsoleServer) -> None:
        self.page = page
        self.server = server
        self.problems: list[str] = []  # what the page's own code reported
        self.is_cut = False
        self.is_mute = False  # the network drops what the server sends, and says nothing
        self._sockets: list[WebSocketRoute] = []
        page.set_default_timeout(PATIENCE)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on(
            "console",
            lambda message: self.problems.append(message.text) if message.type == "error" else None,
        )

    @property
    def base(self) -> str:
        """The address of the page."""
        return self.server.access.url

    async def enter(self, path: str = "") -> None:
        """Opens the start URL, then a view by its path after `#/`."""
        await self.page.goto(self.server.access.start_url())
        await expect(self.page.locator(".frame")).to_be_visible()
        if path:
            await self.visit(path)

    async def visit(self, path: str) -> None:
        """Goes to another view."""
        await self.page.evaluate("path => { location.hash = '#/' + path }", path)

    async def open_terminal(self, environment: str) -> None:
        """Opens a shell by the button, and waits until it is this tab's."""
        await self.visit(f"terminal/{environment}")
        await self.page.get_by_role("button", name="New terminal").first.click()
        await expect(self.page.locator(".badge.you")).to_be_visible()

    async def type(self, text: str) -> None:
        """Types into the terminal."""
        await self.page.locator(".xterm-helper-textarea").focus()
        await self.page.keyboard.type(text)

    async def run(self, command: str) -> None:
        """Types a command and Enter."""
        await self.type(f"{command}\n")

    async def sees(self, text: str) -> None:
        """Waits until the terminal shows a text."""
        await expect(self.page.locator(".xterm-rows")).to_contain_text(text)

    async def screen(self) -> list[str]:
        """The rows of the terminal, without the empty ones at the end."""
        rows: list[str] = await self.page.locator(".xterm-rows > div").all_text_contents()
        return "\n".join(row.replace("\xa0", " ").rstrip() for row in rows).rstrip("\n").split("\n")

    async def can_be_cut(self) -> None:
        """From the next load on, `cut` and `mend` act on the connection."""

        async def connect(socket: WebSocketRoute) -> None:
            if self.is_cut:
                await socket.close()
                return
            server = socket.connect_to_server()
            server.on_message(lambda message: None if self.is_mute else socket.send(message))
            self._sockets.append(socket)

        await self.page.route_web_socket("**/api/v1/tab", connect)

    async def cut(self) -> None:
        """The network is gone."""
        self.is_cut = True
        for socket in self._sockets:
            await socket.close()
        self._sockets.clear()
        await expect(
            self.page.locator(".connection.lost, .connection.connecting").first
        ).to_be_visible()

    async def mend(self) -> None:
        """The network is back."""
        self.is_cut = False
        await expect(self.page.locator(".connection.open")).to_be_visible()


@asynccontextmanager
async def visiting(
    chromium: Browser, server: ConsoleServer, **options: Any
) -> AsyncIterator[Visitor]:
    """A tab in a browser profile of its own."""
    context: BrowserContext = await chromium.new_context(**{"viewport": WINDOW, **options})
    try:
        yield Visitor(await context.new_page(), server)
    finally:
        await context.close()


@asynccontextmanager
async def console(**options: Any) -> AsyncIterator[Visitor]:
    """A tab of a new browser on a new server."""
    await need_page()
    async with (
        serving() as server,
        browser() as chromium,
        visiting(chromium, server, **options) as person,
    ):
        yield person


@asynccontextmanager
async def beside(person: Visitor, **options: Any) -> AsyncIterator[Visitor]:
    """Another person's tab on the same server."""
    assert person.page.context.browser is not None
    async with visiting(person.page.context.browser, person.server, **options) as other:
        yield other


@asynccontextmanager
async def opened(
    kind: str = "local", *, task: str = "web", **options: Any
) -> AsyncIterator[Environment]:
    """An environment with a task, which ends with the test."""
    given = options or {"login": False}
    async with hermetic.open(kind, task=task, **given) as environment:
        try:
            yield environment
        finally:
            await environment.close(remove=True)


@asynccontextmanager
async def unanswering(environment: Environment) -> AsyncIterator[Callable[[], None]]:
    """An environment whose resident is stopped, until the function is called or the block ends."""
    pid = (await environment.info()).pid
    os.kill(pid, signal.SIGSTOP)
    try:
        yield lambda: os.kill(pid, signal.SIGCONT)
    finally:
        os.kill(pid, signal.SIGCONT)
