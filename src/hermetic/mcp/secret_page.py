"""A page on this machine on which the user types a secret: past the client, the conversation and the model."""

import asyncio
import contextlib
import html
import secrets
from collections.abc import AsyncIterator
from typing import NamedTuple
from urllib.parse import parse_qs

from hermetic.contract.printable import escaped

HOST = "127.0.0.1"
MOST = 1 << 16  # bytes of a request
READ_SECONDS = 10.0  # for a browser to send its request
FIELD = "secret"

# Under the policy no-referrer a browser sends "Origin: null" with the page's own form.
HEADERS = (
    "Content-Type: text/html; charset=utf-8\r\nCache-Control: no-store\r\nReferrer-Policy: same-origin\r\n"
    "X-Frame-Options: DENY\r\nContent-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; "
    "form-action 'self'; frame-ancestors 'none'\r\nConnection: close\r\n"
)
# A request that cannot be read gets no answer.
UNREADABLE = (TimeoutError, OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError)
STYLE = (
    "body{font:16px system-ui;max-width:36em;margin:4em auto;padding:0 1em}input,button{font:inherit;padding:.4em}"
    "pre{white-space:pre-wrap;overflow-wrap:anywhere;border:1px solid;padding:.6em}"
)


class Purpose(NamedTuple):
    """What a secret is for: the command that gets it, apart from what others say of it."""

    command: str
    note: str  # one line, with words of a model or a program


class Page(NamedTuple):
    """Where the user types, and what was typed."""

    url: str
    typed: "asyncio.Future[str]"


class SecretPages:
    """Pages with an address that only their reader knows. Each takes one secret and is gone."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[Purpose, asyncio.Future[str]]] = {}  # path → what for, the secret
        self._server: asyncio.Server | None = None
        self._starting = asyncio.Lock()
        self._serving: set[asyncio.Task[None]] = set()  # one per connection

    @contextlib.asynccontextmanager
    async def page(self, purpose: Purpose) -> AsyncIterator[Page]:
        """A page for the length of the block."""
        async with self._starting:
            if self._server is None:
                self._server = await asyncio.start_server(self._accept, HOST, 0, limit=MOST)
        path = f"/{secrets.token_urlsafe(24)}"
        typed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._open[path] = (purpose, typed)
        try:
            yield Page(f"http://{self._address}{path}", typed)
        finally:
            self._open.pop(path, None)
            typed.cancel()

    async def close(self) -> None:
        """Serves no page any more. Open connections end: a browser may keep one without a request."""
        if self._server is not None:
            self._server.close()
        for task in self._serving:
            task.cancel()
        if self._serving:
            await asyncio.wait(self._serving)

    @property
    def _address(self) -> str:
        assert self._server is not None, "it was started"
        return f"{HOST}:{self._server.sockets[0].getsockname()[1]}"

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        task.add_done_callback(lambda _: writer.close())  # also of a task that was cancelled before it began

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(*UNREADABLE):
            async with asyncio.timeout(READ_SECONDS):
                status, body = await self._answer(reader)
            page = f"<!doctype html><meta charset=utf-8><title>Hermetic</title><style>{STYLE}</style>{body}".encode()
            writer.write(f"HTTP/1.1 {status}\r\n{HEADERS}Content-Length: {len(page)}\r\n\r\n".encode() + page)
            await writer.drain()

    async def _answer(self, reader: asyncio.StreamReader) -> tuple[str, str]:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        request, *lines = head.split("\r\n")
        method, path, _ = request.split(" ", 2)
        fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        found = self._open.get(path)
        if fields.get("host") != self._address:  # another name for this machine: a foreign page may have chosen it
            return "421 Misdirected Request", "<p>Open the address as it was given.</p>"
        if found is None:
            return "404 Not Found", "<p>This page is not open any more.</p>"
        purpose, typed = found
        if method == "GET":
            return "200 OK", _form(purpose)
        if method != "POST" or fields.get("origin", f"http://{self._address}") != f"http://{self._address}":
            return "403 Forbidden", "<p>Type it on the page itself.</p>"
        body = await reader.readexactly(min(int(fields.get("content-length", "0")), MOST))
        secret = parse_qs(body.decode(), keep_blank_values=True).get(FIELD, [""])[0]
        if not secret:
            return "200 OK", _form(purpose, "It is empty.")
        self._open.pop(path, None)
        if not typed.done():
            typed.set_result(secret)
        return "200 OK", "<p>Thank you. You can close this page.</p>"


def _form(purpose: Purpose, problem: str = "") -> str:
    return (
        f"<h1>A secret is needed</h1><p>This command gets it:</p><pre>{html.escape(escaped(purpose.command))}</pre>"
        f"<p>{html.escape(purpose.note)}</p><p><strong>{html.escape(problem)}</strong></p>"
        f"<form method=post><input type=password name={FIELD} autofocus autocomplete=off aria-label=Secret> "
        "<button>Send</button></form><p>It goes to the program that waits for it, and to no model.</p>"
    )
