"""Services that search the web, and those that also read pages. Each is configured by variables of
this machine.

Keys stay here: they are sent to their own service, in a header.
"""

import html
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, Protocol
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from selectolax.lexbor import LexborHTMLParser

from hermetic.tools.web.errors import FetchError

JSON = {"Content-Type": "application/json", "Accept": "application/json"}
SHOWN_ERROR = 200  # characters of a service's own message


class Replied(Protocol):
    """The part of an answer that providers read."""

    @property
    def status(self) -> int: ...
    @property
    def body(self) -> bytes: ...


# (method, address, headers, body)
Call = Callable[[str, str, Mapping[str, str], bytes | None], Awaitable[Replied]]


class Found(NamedTuple):
    """One result of a search."""

    title: str
    url: str
    description: str


class Page(NamedTuple):
    """The text of a page as markdown."""

    title: str
    text: str
    problem: str = ""  # what is wrong with it, though there is a text
    url: str = ""  # after redirects, where that is known


class Provider:
    """A service that searches. One that can also read pages has `reads_pages` and `read`."""

    name = ""
    variable = ""  # that configures it; "" where none is needed
    endpoint = ""
    endpoint_variable = ""  # that names another address of the same service
    most = 20  # results of one search
    reads_pages = False

    def __init__(self, environ: Mapping[str, str], endpoint: str = "") -> None:
        self.key = environ.get(self.variable, "").strip()
        self._endpoint = (
            endpoint or environ.get(self.endpoint_variable, "").strip() or self.endpoint
        ).rstrip("/")

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"  # without the key

    async def search(self, call: Call, query: str, limit: int) -> list[Found]:
        """At most `limit` results, best first. Raises FetchError."""
        raise NotImplementedError

    async def read(self, call: Call, url: str) -> Page:
        """The text of a page. Raises FetchError."""
        raise NotImplementedError

    def headers(self) -> dict[str, str]:
        """The header that carries the key."""
        return {"Authorization": f"Bearer {self.key}"} if self.key else {}

    async def _get(self, call: Call, path: str, **query: str | int) -> Any:
        return self._answer(
            await call(
                "GET", f"{self._address(path)}?{urlencode(query)}", JSON | self.headers(), None
            )
        )

    async def _post(self, call: Call, path: str, **fields: Any) -> Any:
        body = json.dumps(fields).encode()
        return self._answer(await call("POST", self._address(path), JSON | self.headers(), body))

    def _address(self, path: str) -> str:
        if not self._endpoint.startswith(("http://", "https://")):
            raise FetchError(f"{self.endpoint_variable} has to begin with http:// or https://")
        return f"{self._endpoint}{path}"

    def _answer(self, reply: Replied) -> Any:
        if reply.status in (401, 403):
            raise FetchError(
                f"{self.name} refuses the request (status {reply.status}); {self._advice()}"
            )
        if reply.status == 429:
            raise FetchError(
                f"{self.name} has answered too many requests; wait a while, or use fewer"
            )
        if not 200 <= reply.status < 300:
            said = " ".join(reply.body[: 4 * SHOWN_ERROR].decode("utf-8", "replace").split())[
                :SHOWN_ERROR
            ]
            raise FetchError(f"{self.name} failed with status {reply.status}: {said}")
        try:
            answer = json.loads(reply.body)
        except (ValueError, RecursionError):
            raise FetchError(f"{self.name} did not answer JSON") from None
        if not isinstance(answer, dict):
            raise FetchError(f"{self.name} answered {type(answer).__name__} instead of an object")
        return answer

    def _advice(self) -> str:
        return f"check the key in {self.variable}"


class SearXNG(Provider):
    """A SearXNG instance, often one of the user's own."""

    name, variable, endpoint_variable = "searxng", "SEARXNG_URL", "SEARXNG_URL"
    most = 100

    def headers(self) -> dict[str, str]:
        """None: the variable holds its address."""
        return {}

    async def search(self, call: Call, query: str, limit: int) -> list[Found]:
        """One page of results, in the instance's order."""
        answer = await self._get(call, "/search", q=query, format="json", pageno=1)
        return _found(answer.get("results"), "content")

    def _advice(self) -> str:
        return "its settings have to list json in search.formats"


class Brave(Provider):
    """The API of Brave Search."""

    name, variable = "brave", "BRAVE_SEARCH_API_KEY"
    endpoint = "https://api.search.brave.com/res/v1"

    def headers(self) -> dict[str, str]:
        """The subscription's token."""
        return {"X-Subscription-Token": self.key}

    async def search(self, call: Call, query: str, limit: int) -> list[Found]:
        """Results of the web alone."""
        answer = await self._get(call, "/web/search", q=query, count=limit)
        return _found(_object(answer.get("web")).get("results"), "description")


class Tavily(Provider):
    """Tavily searches, and reads pages."""

    name, variable, endpoint_variable = "tavily", "TAVILY_API_KEY", "TAVILY_BASE_URL"
    endpoint = "https://api.tavily.com"
    reads_pages = True

    async def search(self, call: Call, query: str, limit: int) -> list[Found]:
        """Results with a passage of each page."""
        answer = await self._post(call, "/search", query=query, max_results=limit)
        return _found(answer.get("results"), "content")

    async def read(self, call: Call, url: str) -> Page:
        """The page as Tavily extracts it."""
        answer = await self._post(call, "/extract", urls=[url], format="markdown")
        failed = [str(one.get("error") or "") for one in _objects(answer.get("failed_results"))]
        return _page(self.name, answer.get("results"), "raw_content", *failed)


class Exa(Provider):
    """Exa searches, and reads pages."""

    name, variable, endpoint = "exa", "EXA_API_KEY", "https://api.exa.ai"
    most, reads_pages = 100, True

    def headers(self) -> dict[str, str]:
        """The key in Exa's own header."""
        return {"x-api-key": self.key}

    async def search(self, call: Call, query: str, limit: int) -> list[Found]:
        """Results with highlights of each page."""
        answer = await self._post(
            call, "/search", query=query, numResults=limit, contents={"highlights": True}
        )
        return _found(answer.get("results"), "highlights")

    async def read(self, call: Call, url: str) -> Page:
        """The page as Exa has it."""
        answer = await self._post(call, "/contents", urls=[url], text=True)
        failed = [
            str(_object(one.get("error")).get("tag") or "")
            for one in _objects(answer.get("statuses"))
        ]
        return _page(self.name, answer.get("results"), "text", *failed)


class Firecrawl(Provider):
    """Firecrawl searches, and reads pages with a browser.

    An instance of the user's own needs no key.
    """

    name, variable, endpoint_variable = "firecrawl", "FIRECRAWL_API_KEY", "FIRECRAWL_API_URL"
    endpoint = "https://api.firecrawl.dev"
    most, reads_pages = 100, True

    async def search(self, call: Call, query: str, limit: int) -> list[Found]:
        """Results of the web alone."""
        answer = await self._post(call, "/v2/search", query=query, limit=limit)
        return _found(_object(answer.get("data")).get("web"), "description")

    async def read(self, call: Call, url: str) -> Page:
        """The page after its scripts have run."""
        answer = await self._post(
            call, "/v2/scrape", url=url, formats=["markdown"], onlyMainContent=True
        )
        data = _object(answer.get("data"))
        about = _object(data.get("metadata"))
        return _page(
            self.name,
            [{**data, "title": about.get("title")}],
            "markdown",
            str(about.get("error") or ""),
        )


class DuckDuckGo(Provider):
    """The page of DuckDuckGo for browsers without scripts: no key, and no promise."""

    name, endpoint = "duckduckgo", "https://html.duckduckgo.com/html"

    async def search(self, call: Call, query: str, limit: int) -> list[Found]:
        """The results of its first page."""
        form = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "text/html"}
        body = urlencode({"q": query, "b": "", "l": ""}, quote_via=quote).encode()
        reply = await call("POST", f"{self._endpoint}/", form, body)
        page = reply.body.decode("utf-8", "replace")
        if reply.status != 200 or "anomaly-modal" in page:
            raise FetchError(
                "duckduckgo wants a person to answer (too many requests); wait, or configure another provider"
            )
        found: list[Found] = []
        for node in LexborHTMLParser(page).css(".result__a, .result__snippet"):
            text = " ".join(node.text().split())
            if "result__a" in (node.attributes.get("class") or "").split():
                found.append(Found(text, node.attributes.get("href") or "", ""))
            elif found:
                found[-1] = found[-1]._replace(description=text)
        return [
            one._replace(url=_unwrapped(one.url))
            for one in found
            if "duckduckgo.com/y.js" not in one.url
        ]


def _unwrapped(url: str) -> str:
    """The address behind a redirect of DuckDuckGo's."""
    parts = urlsplit(url)
    if (parts.hostname or "").endswith("duckduckgo.com") and parts.path == "/l/":
        return next(iter(parse_qs(parts.query).get("uddg", [])), url)
    return url


def _object(value: object) -> dict[str, Any]:
    """An object of a JSON answer; an empty one where the service has sent something else."""
    return value if isinstance(value, dict) else {}


def _objects(value: object) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _found(results: object, described: str) -> list[Found]:
    """The results of a JSON answer; `described` is the field with the passage."""
    return [
        Found(_text(one.get("title")), _text(one.get("url")), _text(one.get(described)))
        for one in _objects(results)
    ]


def _text(value: object) -> str:
    """One line of plain text: entities read, highlights joined."""
    whole = " … ".join(map(str, value)) if isinstance(value, list) else str(value or "")
    return " ".join(html.unescape(whole).replace("<strong>", "").replace("</strong>", "").split())


def _page(name: str, results: object, field: str, *failed: str) -> Page:
    for one in _objects(results):
        if isinstance(text := one.get(field), str) and text.strip():
            return Page(_text(one.get("title")), text)
    raise FetchError(
        f"{name} could not read the page: {next(filter(None, failed), 'it gave no text')}"
    )


PROVIDERS: tuple[type[Provider], ...] = (Tavily, Exa, Firecrawl, SearXNG, Brave, DuckDuckGo)
