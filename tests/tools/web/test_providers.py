"""Each provider sends what its service documents, and reads what it answers.

A local server plays the service.
"""

import json
from typing import Any, NamedTuple

import pytest

from hermetic.tools.web.errors import FetchError
from hermetic.tools.web.fetch import Fetcher
from hermetic.tools.web.providers import (
    PROVIDERS,
    Brave,
    DuckDuckGo,
    Exa,
    Firecrawl,
    Found,
    Page,
    Provider,
    SearXNG,
    Tavily,
)
from hermetic.tools.web.tool import PROVIDERS as VARIABLES
from tests.tools.web.sites import Said, site

KEY = "k-5f1c9e77a0b24d"
LOCAL = "127.0.0.1"
PASSAGE = "Rivers that were straightened wander again."
FOUND = [
    Found("How rivers remember", "https://delta.example/rivers", PASSAGE),
    Found("Cores", "https://x.example/", ""),
]


class Service(NamedTuple):
    """A service as it documents itself."""

    kind: type[Provider]
    target: str  # of a search
    sent: dict[str, Any]  # fields of its body; for GET of its query
    headers: dict[str, str]
    answer: dict[str, Any]


def results(passage: str, first: Any = PASSAGE, second: Any = "") -> list[dict[str, Any]]:
    one, two = FOUND
    return [
        {"title": one.title, "url": one.url, passage: first, "score": 0.9},
        {"title": two.title, "url": two.url, passage: second},
    ]


SERVICES = [
    Service(
        SearXNG,
        "/search?q=old+rivers&format=json&pageno=1",
        {},
        {},
        {
            "query": "old rivers",
            "number_of_results": 2,
            "results": results("content"),
            "answers": [],
            "suggestions": [],
        },
    ),
    Service(
        Brave,
        "/web/search?q=old+rivers&count=3",
        {},
        {"x-subscription-token": KEY},
        {
            "type": "search",
            "web": {
                "type": "search",
                "results": results("description", f"<strong>{PASSAGE[:6]}</strong>{PASSAGE[6:]}"),
            },
        },
    ),
    Service(
        Tavily,
        "/search",
        {"query": "old rivers", "max_results": 3},
        {"authorization": f"Bearer {KEY}"},
        {
            "query": "old rivers",
            "answer": None,
            "images": [],
            "results": results("content"),
            "response_time": 1.1,
        },
    ),
    Service(
        Exa,
        "/search",
        {"query": "old rivers", "numResults": 3, "contents": {"highlights": True}},
        {"x-api-key": KEY},
        {"requestId": "r", "results": results("highlights", [PASSAGE], [])},
    ),
    Service(
        Firecrawl,
        "/v2/search",
        {"query": "old rivers", "limit": 3},
        {"authorization": f"Bearer {KEY}"},
        {"success": True, "data": {"web": results("description")}},
    ),
]


def made(kind: type[Provider], port: int) -> Provider:
    endpoint = f"http://{LOCAL}:{port}"
    environ = {kind.variable: KEY} if kind is not SearXNG else {"SEARXNG_URL": endpoint}
    return kind(environ, "" if kind is SearXNG else endpoint)


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.kind.name)
async def test_a_search_is_sent_and_read_as_documented(service: Service) -> None:
    path = service.target.partition("?")[0]
    async with site(
        {path: Said(json.dumps(service.answer).encode(), "application/json")}, LOCAL
    ) as server:
        found = await made(service.kind, server.port).search(Fetcher().call, "old rivers", 3)
    [request] = server.requests
    assert found == FOUND
    assert request.target == service.target
    assert service.headers.items() <= request.headers.items()
    assert (json.loads(request.body) if request.body else {}) == service.sent


READS: list[tuple[type[Provider], str, dict[str, Any], dict[str, Any]]] = [
    (
        Tavily,
        "/extract",
        {"urls": ["https://delta.example/rivers"], "format": "markdown"},
        {
            "results": [{"url": "https://delta.example/rivers", "raw_content": "# Rivers\n\ntext"}],
            "failed_results": [],
        },
    ),
    (
        Exa,
        "/contents",
        {"urls": ["https://delta.example/rivers"], "text": True},
        {
            "results": [
                {
                    "url": "https://delta.example/rivers",
                    "title": "Rivers",
                    "text": "# Rivers\n\ntext",
                }
            ]
        },
    ),
    (
        Firecrawl,
        "/v2/scrape",
        {"url": "https://delta.example/rivers", "formats": ["markdown"], "onlyMainContent": True},
        {
            "success": True,
            "data": {
                "markdown": "# Rivers\n\ntext",
                "metadata": {"title": "Rivers", "statusCode": 200},
            },
        },
    ),
]


@pytest.mark.parametrize(
    ("kind", "path", "sent", "answer"), READS, ids=["tavily", "exa", "firecrawl"]
)
async def test_a_page_is_read_as_documented(
    kind: type[Provider], path: str, sent: dict[str, Any], answer: dict[str, Any]
) -> None:
    async with site({path: Said(json.dumps(answer).encode(), "application/json")}, LOCAL) as server:
        page = await made(kind, server.port).read(Fetcher().call, "https://delta.example/rivers")
    assert page == Page("" if kind is Tavily else "Rivers", "# Rivers\n\ntext")
    assert json.loads(server.requests[0].body) == sent


@pytest.mark.parametrize(
    ("kind", "path", "answer", "why"),
    [
        (
            Tavily,
            "/extract",
            {"results": [], "failed_results": [{"url": "x", "error": "too slow"}]},
            "too slow",
        ),
        (
            Exa,
            "/contents",
            {"results": [], "statuses": [{"status": "error", "error": {"tag": "CRAWL_NOT_FOUND"}}]},
            "CRAWL_NOT_FOUND",
        ),
        (
            Firecrawl,
            "/v2/scrape",
            {"success": True, "data": {"markdown": "", "metadata": {"error": "blocked"}}},
            "blocked",
        ),
        (Firecrawl, "/v2/scrape", {"success": True}, "no text"),
        (Firecrawl, "/v2/scrape", {"data": {"metadata": ["none"]}}, "no text"),
        (Exa, "/contents", {"statuses": [{"error": "none"}]}, "no text"),
    ],
)
async def test_a_page_that_the_service_cannot_read_is_an_error(
    kind: type[Provider], path: str, answer: dict[str, Any], why: str
) -> None:
    async with site({path: Said(json.dumps(answer).encode(), "application/json")}, LOCAL) as server:
        with pytest.raises(FetchError, match=f"{kind.name} could not read the page: .*{why}"):
            await made(kind, server.port).read(Fetcher().call, "https://delta.example/rivers")


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.kind.name)
@pytest.mark.parametrize(
    ("said", "why"),
    [
        (
            Said(b'{"detail": "bad key"}', "application/json", 401),
            r"refuses the request \(status 401\)",
        ),
        (Said(b"slow down", "text/plain", 429), "too many requests"),
        (Said(b"the cat stumbled", "text/plain", 500), "status 500: the cat stumbled"),
        (Said(b"", status=302, headers={"Location": "http://127.0.0.1:1/"}), "status 302"),
        (Said(b"<html>", "text/html"), "JSON"),
        (Said(b"[]", "application/json"), "list instead of an object"),
        (Said(b"[" * 100_000, "application/json"), "JSON"),
    ],
)
async def test_a_failure_of_the_service_says_what_to_do(
    service: Service, said: Said, why: str
) -> None:
    async with site({service.target.partition("?")[0]: said}, LOCAL) as server:
        with pytest.raises(FetchError, match=why) as caught:
            await made(service.kind, server.port).search(Fetcher().call, "old rivers", 3)
    assert KEY not in str(caught.value)
    assert server.connections == 1  # a redirect would take the key along
    if said.status == 401:
        assert ("search.formats" if service.kind is SearXNG else service.kind.variable) in str(
            caught.value
        )


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"results": None},
        {"results": [1, None, {}]},
        {"web": None, "data": None},
        {"results": "none", "web": [1], "data": ["none"]},
    ],
)
@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.kind.name)
async def test_an_answer_without_results_has_none(service: Service, answer: dict[str, Any]) -> None:
    path = service.target.partition("?")[0]
    async with site({path: Said(json.dumps(answer).encode(), "application/json")}, LOCAL) as server:
        found = await made(service.kind, server.port).search(Fetcher().call, "old rivers", 3)
    assert [one for one in found if one.url] == []


DUCK = """<html><body><div id="links" class="results">
<div class="result results_links web-result result--ad"><div class="links_main result__body">
 <h2 class="result__title"><a rel="nofollow" class="result__a" href="//duckduckgo.com/y.js?ad=x">Buy rivers</a></h2>
 <a class="result__snippet" href="https://duckduckgo.com/y.js?ad=x">An ad</a></div></div>
<div class="result results_links web-result"><div class="links_main result__body">
 <h2 class="result__title"><a rel="nofollow" class="result__a"
   href="//duckduckgo.com/l/?uddg=https%3A%2F%2Fdelta.example%2Frivers%3Fa%3D1%26b%3D2&amp;rut=f0">
   How <b>rivers</b> remember</a></h2>
 <div class="result__extras"><a class="result__url" href="//delta.example">delta.example/rivers</a></div>
 <a class="result__snippet" href="//duckduckgo.com/l/?uddg=x">
   Rivers that were <b>straightened</b> wander &amp; return.</a></div></div>
<div class="result web-result"><div class="result__body">
 <h2><a class="result__a" href="https://x.example/">Cores</a></h2></div></div>
</div></body></html>"""


async def test_results_of_duckduckgo_are_read_from_its_page() -> None:
    async with site({"/": Said(DUCK.encode())}, LOCAL) as server:
        found = await DuckDuckGo({}, f"http://{LOCAL}:{server.port}").search(
            Fetcher().call, "old rivers & lakes", 5
        )
    assert found == [
        Found(
            "How rivers remember",
            "https://delta.example/rivers?a=1&b=2",
            "Rivers that were straightened wander & return.",
        ),
        Found("Cores", "https://x.example/", ""),
    ]
    assert server.requests[0].body == b"q=old%20rivers%20%26%20lakes&b=&l="


@pytest.mark.parametrize(
    "said",
    [Said(b"", status=202), Said(b'<div class="anomaly-modal__title">Select all ducks</div>')],
)
async def test_a_captcha_of_duckduckgo_is_an_error(said: Said) -> None:
    async with site({"/": said}, LOCAL) as server:
        with pytest.raises(FetchError, match="configure another provider"):
            await DuckDuckGo({}, f"http://{LOCAL}:{server.port}").search(Fetcher().call, "x", 5)


def test_no_provider_shows_its_key() -> None:
    for kind in PROVIDERS:
        assert KEY not in repr(kind({kind.variable: KEY}))


def test_a_firecrawl_of_ones_own_needs_no_key() -> None:
    assert Firecrawl({"FIRECRAWL_API_URL": "http://crawl.example:3002"}).headers() == {}


def test_every_provider_is_offered_by_its_variables() -> None:
    known = {kind.name: [kind.variable, kind.endpoint_variable] for kind in PROVIDERS}
    assert list(known) == list(VARIABLES)
    assert all(set(variables) <= set(known[name]) for name, variables in VARIABLES.items())
