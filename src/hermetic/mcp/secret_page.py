"""A page on this machine on which the user types a secret: past the client, the conversation and
the model.
"""

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
HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'"
    ),
}
# A request that cannot be read gets no answer.
UNREADABLE = (
    TimeoutError,
    OSError,
    ValueError,
    asyncio.IncompleteReadError,
    asyncio.LimitOverrunError,
)
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


class Answer(NamedTuple):
    """What a browser gets."""

    status: str  # code and phrase
    body: bytes


class SecretPages:
    """Pages with an address that only their reader knows. Each takes one secret and is gone.

    With `url` another server of this process hands requests for pages below it to `respond`; else
    they have a server of their own, which this machine alone reaches.
    """

    def __init__(self, url: str | None = None) -> None:
        self._url = url
        # path → what for, the secret
        self._open: dict[str, tuple[Purpose, asyncio.Future[str]]] = {}
        self._server: asyncio.Server | None = None
        self._starting = asyncio.Lock()
        self._serving: set[asyncio.Task[None]] = set()  # one per connection

    @contextlib.asynccontextmanager
    async def page(self, purpose: Purpose) -> AsyncIterator[Page]:
        """A page for the length of the block."""
        if self._url is None:
            async with self._starting:
                if self._server is None:
                    self._server = await asyncio.start_server(self._accept, HOST, 0, limit=MOST)
        path = f"/{secrets.token_urlsafe(24)}"
        typed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._open[path] = (purpose, typed)
        try:
            yield Page(f"{self._url or f'http://{self._address}'}{path}", typed)
        finally:
            self._open.pop(path, None)
            typed.cancel()

    def respond(self, method: str, path: str, body: bytes) -> Answer:
        """The answer to a request whose Host and Origin were checked.

        `body` has at most MOST bytes.
        """
        found = self._open.get(path)
        if found is None:
            return _answer("404 Not Found", "<p>This page is not open any more.</p>")
        purpose, typed = found
        if method == "GET":
            return _answer("200 OK", _form(purpose))
        if method != "POST":
            return _answer("403 Forbidden", "<p>Type it on the page itself.</p>")
        secret = parse_qs(body.decode(errors="replace"), keep_blank_values=True).get(FIELD, [""])[0]
        if not secret:
            return _answer("200 OK", _form(purpose, "It is empty."))
        self._open.pop(path, None)
        if not typed.done():
            typed.set_result(secret)
        return _answer("200 OK", "<p>Thank you. You can close this page.</p>")

    async def close(self) -> None:
        """Serves no page any more.

        Open connections end: a browser may keep one without a request.
        """
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
        # also of a task that was cancelled before it began
        task.add_done_callback(lambda _: writer.close())

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(*UNREADABLE):
            async with asyncio.timeout(READ_SECONDS):
                answer = await self._read_request(reader)
            headers = {**HEADERS, "Content-Length": str(len(answer.body)), "Connection": "close"}
            head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            writer.write(f"HTTP/1.1 {answer.status}\r\n{head}\r\n".encode() + answer.body)
            await writer.drain()

    async def _read_request(self, reader: asyncio.StreamReader) -> Answer:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        request, *lines = head.split("\r\n")
        method, path, _ = request.split(" ", 2)
        fields = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines)
        }
        # another name for this machine: a foreign page may have chosen it
        if fields.get("host") != self._address:
            return _answer("421 Misdirected Request", "<p>Open the address as it was given.</p>")
        own = f"http://{self._address}"
        if method != "GET" and fields.get("origin", own) != own:
            return _answer("403 Forbidden", "<p>Type it on the page itself.</p>")
        body = (
            await reader.readexactly(min(int(fields.get("content-length", "0")), MOST))
            if method == "POST"
            else b""
        )
        return self.respond(method, path, body)


def _answer(status: str, body: str) -> Answer:
    page = f"<!doctype html><meta charset=utf-8><title>Hermetic</title><style>{STYLE}</style>{body}"
    return Answer(status, page.encode())


def _form(purpose: Purpose, problem: str = "") -> str:
    return (
        f"<h1>A secret is needed</h1><p>This command gets it:</p><pre>{html.escape(escaped(purpose.command))}</pre>"
        f"<p>{html.escape(purpose.note)}</p><p><strong>{html.escape(problem)}</strong></p>"
        f"<form method=post><input type=password name={FIELD} autofocus autocomplete=off aria-label=Secret> "
        "<button>Send</button></form><p>It goes to the program that waits for it, and to no model.</p>"
    )
