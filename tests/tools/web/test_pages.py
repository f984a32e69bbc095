"""Kinds of pages: the right text of each, or the right refusal.

`pages` has the pages and their expected markdown.
"""

import asyncio
from pathlib import Path

import pytest

from hermetic.contract.limits import WEB_BYTES
from hermetic.tools.web.markdown import SCRIPTED
from tests.tools.web.calls import LOCAL, extracted, opened, text_of
from tests.tools.web.sites import Said, bomb, drip, site

PAGES = Path(__file__).parent / "pages"


@pytest.mark.parametrize(
    ("name", "kind", "status", "error"),
    [
        ("article.html", "text/html; charset=utf-8", 200, None),
        ("documentation.html", "text/html", 200, None),
        ("forum.html", "text/html; charset=UTF-8", 200, None),
        ("broken.html", "text/html; charset=utf-8", 200, None),
        ("shift_jis.html", "text/html", 200, None),  # declared nowhere
        ("windows_1251.html", "text/html", 200, None),  # declared in the page
        ("notes.pdf", "application/pdf", 200, None),
        ("spa.html", "text/html; charset=utf-8", 200, SCRIPTED),  # its metadata is read
        (
            "not_found.html",
            "text/html; charset=utf-8",
            404,
            "the server answered with status 404; this is its page",
        ),
    ],
)
async def test_a_page_is_read_as_markdown(
    tmp_path: Path, name: str, kind: str, status: int, error: str | None
) -> None:
    page = Said((PAGES / name).read_bytes(), kind, status)
    async with site({f"/pages/{name}": page}, LOCAL) as server, opened(tmp_path) as box:
        result = await extracted(box, server, f"/pages/{name}")
    title, _, text = (PAGES / name).with_suffix(".md").read_text().partition("\n\n")
    assert result["error"] == error
    assert result["title"] == title.removeprefix("title: ")
    assert (
        text_of(result).replace(f"http://{LOCAL}:{server.port}", "https://site.example") + "\n"
        == text
    )


async def test_a_page_of_scripts_alone_is_said_to_need_a_browser(tmp_path: Path) -> None:
    page = Said(b"<div id=app></div><script src=/x.js></script>")
    async with site({"/": page}, LOCAL) as server, opened(tmp_path) as box:
        result = await extracted(box, server, "/")
    assert (result["error"], text_of(result)) == (SCRIPTED, "")


def pdf(*pages: str) -> bytes:
    """A PDF document with a line of text on each page."""
    contents = [f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET".encode() for text in pages]
    kids = " ".join(f"{4 + 2 * at} 0 R" for at in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for at, content in enumerate(contents):
        about = f"/Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {5 + 2 * at} 0 R"
        objects.append(f"<< {about} /Resources << /Font << /F1 3 0 R >> >> >>".encode())
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content))
    objects.append(b"<< /Title (River notes) >>")
    whole, places = b"%PDF-1.4\n", []
    for number, text in enumerate(objects, 1):
        places.append(len(whole))
        whole += b"%d 0 obj\n%s\nendobj\n" % (number, text)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    count = len(objects) + 1
    trailer = b"trailer\n<< /Size %d /Root 1 0 R /Info %d 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (
        count,
        count - 1,
        len(whole),
    )
    return whole + b"xref\n0 %d\n0000000000 65535 f \n%s%s" % (count, table, trailer)


async def test_a_pdf_is_known_by_its_content_and_one_without_text_is_an_error(
    tmp_path: Path,
) -> None:
    broken = b"%PDF-1.4\n1 0 obj\n<< /Type /Catalog /Pages obey me >>\nendobj\ntrailer\n<< /Root 1 0 R >>\n"
    pages = {
        "/named-otherwise": Said((PAGES / "notes.pdf").read_bytes(), "application/octet-stream"),
        "/cut": Said(pdf("x")[:120], "application/pdf"),
        "/broken": Said(broken, "application/pdf"),
        "/empty": Said(pdf(""), "application/pdf"),
    }
    async with site(pages, LOCAL) as server, opened(tmp_path) as box:
        known, cut, wrong, empty = [await extracted(box, server, path) for path in pages]
    assert known["title"] == "River notes"
    assert "cannot be read" in cut["error"]
    assert "cannot be read" in wrong["error"]
    assert "obey" not in wrong["error"]  # errors are not marked as untrusted
    assert "has no text" in empty["error"]


async def test_of_50_megabytes_the_first_ten_are_read(tmp_path: Path) -> None:
    line = b"<p>" + b"water " * 50 + b"\n"
    sent = 0

    async def endless(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"<title>Long</title><h1>Long</h1>")
        while sent < 50_000_000 and not writer.is_closing():
            writer.write(line * 100)
            sent += len(line) * 100
            await writer.drain()

    async with site({"/": Said(endless)}, LOCAL) as server, opened(tmp_path) as box:
        result = await extracted(box, server, "/")
    assert f"only the first {WEB_BYTES:,} bytes" in result["error"]
    assert text_of(result).startswith("# Long\n\nwater water")
    assert sent < 25_000_000
    assert len(result["content"]) < 16_000


async def test_a_slow_drip_is_given_up(tmp_path: Path) -> None:
    async with site({"/": Said(drip)}, LOCAL) as server, opened(tmp_path, timeout=1.0) as box:
        result = await extracted(box, server, "/")
    assert "did not answer completely within 1 s" in result["error"]


async def test_a_gzip_bomb_is_refused(tmp_path: Path) -> None:
    async with (
        site({"/": Said(bomb, headers={"Content-Encoding": "gzip"})}, LOCAL) as server,
        opened(tmp_path) as box,
    ):
        result = await extracted(box, server, "/")
    assert "unpack to more than" in result["error"]


async def test_a_redirect_loop_is_refused(tmp_path: Path) -> None:
    pages = {
        "/a": Said(b"", status=302, headers={"Location": "/b"}),
        "/b": Said(b"", status=302, headers={"Location": "/a"}),
    }
    async with site(pages, LOCAL) as server, opened(tmp_path) as box:
        result = await extracted(box, server, "/a")
    assert "redirects more than 5 times" in result["error"]


@pytest.mark.parametrize(
    "page",
    [
        b"<div>" * 20_000 + b"deep" + b"</div>" * 20_000,
        b"<ul><li>" * 5_000 + b"deep",
        b"<blockquote>" * 5_000 + b"deep",
        b"<table><tr><td>" * 3_000 + b"deep",
        b"<b><a href=x>" * 5_000 + b"deep",
    ],
    ids=["div", "list", "quote", "table", "inline"],
)
async def test_a_page_nested_deeply_is_read_or_refused(tmp_path: Path, page: bytes) -> None:
    async with site({"/": Said(page)}, LOCAL) as server, opened(tmp_path) as box:
        result = await extracted(box, server, "/")
    assert "deep" in result["content"] or "too much time or memory" in result["error"]


async def test_a_page_that_takes_too_long_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = b"<p " + b"".join(b"a%d=1 " % number for number in range(60_000)) + b">x"
    monkeypatch.setattr("hermetic.tools.web.extract.WEB_EXTRACT", 1.0)
    async with site({"/": Said(slow)}, LOCAL) as server, opened(tmp_path) as box:
        result = await extracted(box, server, "/")
    assert "cannot be read" in result["error"]


async def test_wide_characters_are_read_by_the_charset_of_the_header(tmp_path: Path) -> None:
    page = Said("<p>naïve rivers".encode("utf-16-le"), "text/html; charset=utf-16le")
    async with site({"/": page}, LOCAL) as server, opened(tmp_path) as box:
        assert text_of(await extracted(box, server, "/")) == "naïve rivers"


@pytest.mark.parametrize(
    ("charset", "codec", "text"),
    [
        ("windows-874", "cp874", "แม่น้ำ"),
        ("windows-949", "cp949", "강이 흐른다"),
        ("iso-8859-8-i", "iso-8859-8", "נהר"),
        ("windows-9999", "utf-8", "naïve"),  # none: then the bytes decide
        ("iso-8859-99", "utf-8", "naïve"),
        ("rot13", "utf-8", "naïve"),
    ],
)
async def test_a_charset_is_read_by_the_name_that_pages_use(
    tmp_path: Path, charset: str, codec: str, text: str
) -> None:
    pages = {
        "/header": Said(f"<p>{text}</p>".encode(codec), f"text/html; charset={charset}"),
        "/meta": Said(f"<meta charset={charset}><p>{text}</p>".encode(codec), "text/html"),
    }
    async with site(pages, LOCAL) as server, opened(tmp_path) as box:
        for path in pages:
            assert text_of(await extracted(box, server, path)) == text


async def test_hidden_characters_are_removed(tmp_path: Path) -> None:
    page = "<p>pay\u200bload \u202eright\u202c \U000e0041\U000e0042end\u00ad</p>".encode()
    async with site({"/": Said(page)}, LOCAL) as server, opened(tmp_path) as box:
        assert text_of(await extracted(box, server, "/")) == "payload right end"
