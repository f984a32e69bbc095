"""The page on which a secret is typed: one address, one secret, no foreign page."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

import httpx2
import pytest

from hermetic.mcp.secret_page import READ_SECONDS, Page, Purpose, SecretPages
from tests.mcp.clients import send_form

PURPOSE = Purpose("cat <b>x</b>\n\u202ey", "For <i>x</i>")


@contextlib.asynccontextmanager
async def page() -> AsyncIterator[tuple[Page, httpx2.AsyncClient]]:
    pages = SecretPages()
    try:
        async with pages.page(PURPOSE) as opened, httpx2.AsyncClient(trust_env=False) as browser:
            yield opened, browser
    finally:
        await pages.close()


async def test_what_is_typed_arrives_and_the_page_is_gone() -> None:
    async with page() as (opened, browser):
        shown = await browser.get(opened.url)
        assert (
            "<pre>cat &lt;b&gt;x&lt;/b&gt;\n\\u202ey</pre><p>For &lt;i&gt;x&lt;/i&gt;</p>"
            in shown.text
        )
        assert shown.headers["cache-control"] == "no-store"
        assert "default-src 'none'" in shown.headers["content-security-policy"]
        assert "It is empty" in (await send_form(browser, shown, "")).text
        assert (await send_form(browser, shown, "pä ss&=+%")).status_code == 200
        assert await opened.typed == "pä ss&=+%"
        assert (await browser.get(opened.url)).status_code == 404
        assert (await send_form(browser, shown, "other")).status_code == 404


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "localhost"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
async def test_a_foreign_page_cannot_send_a_secret(headers: dict[str, str], status: int) -> None:
    async with page() as (opened, browser):
        assert (
            await browser.post(opened.url, data={"secret": "x"}, headers=headers)
        ).status_code == status
        assert not opened.typed.done()


async def test_another_address_shows_nothing() -> None:
    async with page() as (opened, browser):
        base = opened.url.rpartition("/")[0]
        for path in ("/", "/x", opened.url.removeprefix(base)[:-1]):
            assert (await browser.get(base + path)).status_code == 404
        assert (await browser.request("DELETE", opened.url)).status_code == 403


async def test_rubbish_is_answered_by_closing() -> None:
    async with page() as (opened, _):
        port = int(opened.url.split(":")[2].split("/")[0])
        for rubbish in (
            b"\r\n\r\n",
            b"GET\r\n\r\n",
            b"x" * 200_000,
            b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(rubbish)
            with contextlib.suppress(ConnectionError):
                writer.write_eof()
                await asyncio.wait_for(reader.read(), 60)
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
        assert not opened.typed.done()


async def test_a_page_that_was_given_up_is_gone() -> None:
    pages = SecretPages()
    async with pages.page(Purpose("x", "")) as opened:
        pass
    async with httpx2.AsyncClient(trust_env=False) as browser:
        assert (await browser.get(opened.url)).status_code == 404
    await pages.close()


async def test_pages_that_open_at_once_share_one_address() -> None:
    pages = SecretPages()
    try:
        async with (
            contextlib.AsyncExitStack() as stack,
            httpx2.AsyncClient(trust_env=False) as browser,
        ):
            opened = await asyncio.gather(
                *(stack.enter_async_context(pages.page(Purpose(name, ""))) for name in ("x", "y"))
            )
            assert len({one.url.rpartition("/")[0] for one in opened}) == 1
            assert [(await browser.get(one.url)).status_code for one in opened] == [200, 200]
    finally:
        await pages.close()


async def test_closing_waits_for_no_idle_connection() -> None:
    pages = SecretPages()
    async with pages.page(Purpose("x", "")) as opened:
        port = int(opened.url.split(":")[2].split("/")[0])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\n")
        started = time.monotonic()
        await pages.close()
        assert await reader.read() == b""
        assert time.monotonic() - started < READ_SECONDS / 2
        writer.close()
        await writer.wait_closed()
