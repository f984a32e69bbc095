"""The fetcher reaches public pages alone, and takes no more of them than its limits say."""

import asyncio
import gzip
import ssl
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import httpcore2
import pytest

from hermetic.contract.errors import ConfigError
from hermetic.tools.web import addresses
from hermetic.tools.web.addresses import Sites, is_public
from hermetic.tools.web.errors import FetchError, Refused
from hermetic.tools.web.fetch import USER_AGENT, Fetcher
from tests.programs import need
from tests.tools.web.sites import PUBLIC, Said, bomb, drip, listening, site

LOCAL = "127.0.0.1"
ZONE = {
    "one.example.org": [PUBLIC],
    "two.example.org": [PUBLIC],
    "mixed.example.org": [PUBLIC, "127.0.0.1"],
    "inside.example.org": ["127.0.0.1"],
    "inside6.example.org": ["::1"],
    "metadata.example.org": ["169.254.169.254"],
    "tunnel.example.org": ["2002:7f00:1::1"],
}


async def find(host: str, port: int) -> Sequence[str]:
    return ZONE[host] if host in ZONE else await addresses.resolve(host, port)


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that connections were made to. One loopback address counts as public."""
    made: list[str] = []
    connect = httpcore2.AnyIOBackend.connect_tcp

    async def recorded(self: Any, host: str, *rest: Any, **more: Any) -> Any:
        made.append(host)
        return await connect(self, host, *rest, **more)

    monkeypatch.setattr(httpcore2.AnyIOBackend, "connect_tcp", recorded)
    monkeypatch.setattr(addresses, "is_public", lambda text: text == PUBLIC or is_public(text))
    return made


async def refused(address: str, fetcher: Fetcher | None = None) -> str:
    with pytest.raises(Refused) as caught:
        await (fetcher or Fetcher(find=find)).page(address)
    return str(caught.value)


async def failed(address: str, fetcher: Fetcher) -> str:
    with pytest.raises(FetchError) as caught:
        await fetcher.page(address)
    return str(caught.value)


@pytest.mark.parametrize(
    "address",
    [
        "file:///etc/passwd",
        "ftp://one.example.org/",
        "gopher://one.example.org/",
        "data:text/html,x",
        "javascript:1",
        "unix:///run/docker.sock",
        "//one.example.org/",
        "one.example.org",
        "http://",
        "http:///x",
        "",
        "http://user:pw@one.example.org/",
        "http://user@one.example.org/",
        "http://one.example.org:22/",
        "http://one.example.org:25/",
        "https://one.example.org:6379/",
        "http://one.example.org:2375/",
        "http://[::1",
        "http://a b/",
        "http://one.example.org:99999/",
        "http://\x00/",
        "http://a..example.org/",
        "http://.example.org/",
        f"http://{'a' * 64}.example.org/",
        f"http://{'9' * 400}/",
    ],
)
async def test_an_address_that_is_no_page_is_refused(attempts: list[str], address: str) -> None:
    assert await refused(address)
    assert attempts == []


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST",
        "localhost.",
        "a.localhost",
        "metadata.google.internal",
        "db",
        "printer.local",
        "nas.lan",
        "router.home.arpa",
        "api.default.svc",
        "kubernetes.default.svc.cluster.local",
        "x.onion",
        "wiki.corp",
    ],
)
async def test_a_name_of_a_private_network_is_refused(attempts: list[str], host: str) -> None:
    async with site({}, host=None) as forbidden:
        assert "private network" in await refused(f"http://{host}:{forbidden.port}/")
    assert (forbidden.connections, attempts) == (0, [])


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.1",
        "127.0.1",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0177.0.0.1",
        "00000177.1",
        "127。0。0。1",
        "１２７.0.0.1",
        "0",
        "0.0.0.0",
        "127.255.255.254",
        "[::1]",
        "[::]",
        "[0:0:0:0:0:0:0:1]",
        "[::127.0.0.1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::ffff:0:127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[64:ff9b:1::a00:1]",
        "[2002:7f00:1::]",
        "[2001:0:1:2:3:4:80ff:fffe]",
        "[2001:470::5efe:7f00:1]",
        "[2001:470::200:5efe:7f00:1]",
        "10.1.2.3",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.0.1",
        "100.64.0.1",
        "100.100.100.200",
        "169.254.169.254",
        "169.254.170.2",
        "168.63.129.16",
        "198.18.0.1",
        "192.0.0.170",
        "192.0.2.1",
        "192.88.99.1",
        "203.0.113.9",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "[fe80::1%25lo]",
        "[fe80::1]",
        "[fc00::1]",
        "[fd00:ec2::254]",
        "[fec0::1]",
        "[ff02::1]",
        "[2001:db8::1]",
        "[3fff::1]",
        "[5f00::1]",
        "[100::1]",
        "[4000::1]",
    ],
)
async def test_no_private_address_is_reached_in_any_notation(
    attempts: list[str], host: str
) -> None:
    async with site({}, host=None) as forbidden:  # on every address of this machine
        assert await refused(f"http://{host}:{forbidden.port}/")
        assert await refused(f"https://{host}/")
    assert (forbidden.connections, attempts) == (0, [])


@pytest.mark.parametrize(
    "address",
    [
        "8.8.8.8",
        "93.184.216.34",
        "2606:4700::1111",
        "2a00:1450:4001::200e",
        "64:ff9b::808:808",
        "::ffff:8.8.8.8",
    ],
)
def test_an_address_of_the_internet_is_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize("name", ["mixed", "inside", "inside6", "metadata", "tunnel"])
async def test_a_name_that_leads_inside_is_refused_when_it_is_connected_to(
    attempts: list[str], name: str
) -> None:
    async with site({}, host=None) as forbidden:
        assert "leads to" in await refused(f"http://{name}.example.org:{forbidden.port}/")
    assert (forbidden.connections, attempts) == (0, [])


async def test_the_address_that_was_checked_is_the_one_connected_to(attempts: list[str]) -> None:
    """The name's second answer leads inside; it is never asked for."""
    answers = [[PUBLIC], ["127.0.0.1"], ["127.0.0.1"]]

    async def rebinding(host: str, port: int) -> Sequence[str]:
        return answers.pop(0)

    async with site({"/": Said(b"public")}) as public:
        answer = await Fetcher(find=rebinding).page(f"http://rebind.example.org:{public.port}/")
    assert (answer.body, attempts, len(answers)) == (b"public", [PUBLIC], 2)


@pytest.mark.parametrize(
    "target",
    [
        "http://127.0.0.1:{port}/",
        "//127.0.0.1:{port}/",
        "http://localhost:{port}/",
        "http://inside.example.org:{port}/",
        "http://[::1]:{port}/",
        "http://2130706433:{port}/",
        "http://169.254.169.254/latest/meta-data/",
        "file:///etc/passwd",
        "gopher://127.0.0.1:{port}/x",
        "http://user:pw@one.example.org/",
        "http://one.example.org:22/",
    ],
)
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_no_redirect_leads_inside(attempts: list[str], target: str, status: int) -> None:
    async with site({}, host=None) as forbidden:
        moved = Said(b"", status=status, headers={"Location": target.format(port=forbidden.port)})
        async with site(
            {"/": moved, "/twice": Said(b"", status=302, headers={"Location": "/"})}
        ) as public:
            assert await refused(f"http://one.example.org:{public.port}/twice")
    assert (public.targets, forbidden.connections, attempts) == (
        ["/twice", "/"],
        0,
        [PUBLIC, PUBLIC],
    )


async def test_what_a_page_redirects_to_is_not_quoted(attempts: list[str]) -> None:
    """Errors are not marked as untrusted."""
    pages = {
        f"/{number}": Said(b"", status=302, headers={"Location": target})
        for number, target in enumerate(("http://obey me é/", "http://[obey]/", "http://x:obey/"))
    }
    async with site(pages) as public:
        for path in pages:
            assert (
                await refused(f"http://one.example.org:{public.port}{path}") == addresses.NO_TARGET
            )


async def test_redirects_end(attempts: list[str]) -> None:
    async with site({"/": Said(b"", status=302, headers={"Location": "/"})}) as public:
        assert "more than 5 times" in await refused(f"http://one.example.org:{public.port}/")
    assert public.connections == 6


async def test_a_redirect_is_followed_without_cookies(attempts: list[str]) -> None:
    moved = Said(b"", status=302, headers={"Location": "/b?x=1#part", "Set-Cookie": "a=1"})
    async with site({"/a": moved, "/b": Said(b"there")}) as public:
        answer = await Fetcher(find=find).page(f"http://one.example.org:{public.port}/a")
    assert (answer.body, answer.url) == (b"there", f"http://one.example.org:{public.port}/b?x=1")
    assert all(
        "cookie" not in request.headers and "authorization" not in request.headers
        for request in public.requests
    )


async def test_it_says_who_it_is(attempts: list[str]) -> None:
    async with site({"/": Said()}) as public:
        await Fetcher(find=find).page(f"http://one.example.org:{public.port}/")
    [request] = public.requests
    assert request.headers["user-agent"] == USER_AGENT
    assert "Hermetic/" in USER_AGENT
    assert request.headers["host"] == f"one.example.org:{public.port}"


# -- rules of the user
async def test_a_private_host_is_fetched_where_the_user_names_it(attempts: list[str]) -> None:
    sites = Sites(private=("localhost", "wiki.corp", "127.0.0.1"))
    async with site({"/": Said(b"mine")}, host="127.0.0.1") as mine:
        fetcher = Fetcher(
            sites, find=lambda host, port: find(host if host != "wiki.corp" else "127.0.0.1", port)
        )
        for host in ("127.0.0.1", "wiki.corp", "docs.wiki.corp"):
            if host != "docs.wiki.corp":
                assert (await fetcher.page(f"http://{host}:{mine.port}/")).body == b"mine"
        seen = mine.connections
        for host in ("127.0.0.2", "127.1", "[::1]", "inside.example.org", "xwiki.corp"):
            await refused(f"http://{host}:{mine.port}/", fetcher)
    assert mine.connections == seen == 2


@pytest.mark.parametrize(
    "host",
    [
        "169.254.169.254",
        "metadata.example.org",
        "[fd00:ec2::254]",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "[fd20:ce::254]",
        "[fd00:c1::a9fe:a9fe]",
    ],
)
async def test_no_setting_allows_metadata(attempts: list[str], host: str) -> None:
    assert "metadata" in await refused(f"http://{host}/", Fetcher(Sites(private=("*",)), find=find))
    assert attempts == []


@pytest.mark.parametrize(
    "rule",
    [
        "example.org",
        "one.example.org",
        "*.example.org",
        "ONE.example.org.",
        "https://one.example.org/x",
        "one.*.org",
        "*",
    ],
)
async def test_a_denied_host_is_refused(attempts: list[str], rule: str) -> None:
    async with site({"/": Said()}) as public:
        with pytest.raises(Refused, match=r"web\.deny") as caught:
            await Fetcher(Sites(deny=("other.net", rule)), find=find).page(
                f"http://one.example.org.:{public.port}/"
            )
    assert (caught.value.rule, public.connections) == (rule, 0)


async def test_a_denied_address_is_refused_in_every_notation(attempts: list[str]) -> None:
    fetcher = Fetcher(Sites(deny=("93.184.216.34",)), find=find)
    for host in ("93.184.216.34", "1572395042", "0x5db8d822", "93.12113954"):
        assert await refused(f"http://{host}/", fetcher)
    assert attempts == []


async def test_a_rule_covers_whole_labels(attempts: list[str]) -> None:
    async with site({"/": Said()}) as public:
        await Fetcher(Sites(deny=("e.example.org", "ne.example.org")), find=find).page(
            f"http://one.example.org:{public.port}/"
        )
    assert public.connections == 1


async def test_with_an_allow_list_other_hosts_are_refused(attempts: list[str]) -> None:
    fetcher = Fetcher(Sites(allow=("one.example.org",), deny=("bad.one.example.org",)), find=find)
    async with site(
        {"/": Said(), "/out": Said(b"", status=302, headers={"Location": "//two.example.org/"})}
    ) as public:
        await fetcher.page(f"http://one.example.org:{public.port}/")
        for host in ("two.example.org", "bad.one.example.org", PUBLIC):
            await refused(f"http://{host}:{public.port}/", fetcher)
        assert "web.allow" in await refused(f"http://one.example.org:{public.port}/out", fetcher)
    assert public.targets == ["/", "/out"]


# -- proxies
@pytest.fixture
def proxies(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    def use(port: int) -> None:
        for name in (
            "HTTP_PROXY",
            "HTTPS_PROXY",
            "ALL_PROXY",
            "http_proxy",
            "https_proxy",
            "all_proxy",
        ):
            monkeypatch.setenv(name, f"http://127.0.0.1:{port}")

    return use


async def test_proxies_of_the_environment_are_not_used(
    attempts: list[str], proxies: Callable[[int], None]
) -> None:
    async with site({"/": Said(b"direct")}) as public, site({}, host="127.0.0.1") as proxy:
        proxies(proxy.port)
        assert (
            await Fetcher(find=find).page(f"http://one.example.org:{public.port}/")
        ).body == b"direct"
        await refused("http://127.0.0.1/")
    assert proxy.connections == 0


async def test_a_proxy_of_the_users_is_used_and_gets_no_private_address(
    attempts: list[str],
) -> None:
    async with site({"http://one.example.org/x": Said(b"by proxy")}, host="127.0.0.1") as proxy:
        fetcher = Fetcher(proxy=f"http://me:pw@127.0.0.1:{proxy.port}")
        assert (await fetcher.page("http://one.example.org/x")).body == b"by proxy"
        for address in (
            "http://127.1/",
            "http://2130706433/",
            "http://[::1]/",
            "http://db/",
            "http://169.254.169.254/",
        ):
            await refused(address, fetcher)
    assert proxy.connections == 1
    assert proxy.requests[0].headers["proxy-authorization"] == "Basic bWU6cHc="


async def test_an_api_on_a_private_network_is_called_without_the_proxy() -> None:
    public = Said(b"by proxy")
    async with (
        site({"/": Said(b"direct")}, LOCAL) as own,
        site({"http://api.example.org/": public}, LOCAL) as proxy,
    ):
        fetcher = Fetcher(proxy=f"http://{LOCAL}:{proxy.port}")
        assert (await fetcher.call("GET", f"http://{LOCAL}:{own.port}/", {})).body == b"direct"
        assert (await fetcher.call("GET", "http://api.example.org/", {})).body == b"by proxy"
    assert proxy.targets == ["http://api.example.org/"]


# -- limits
async def test_a_long_page_is_cut(attempts: list[str]) -> None:
    async with site({"/": Said(b"x" * 50_000)}) as public:
        answer = await Fetcher(find=find, most_bytes=10_000).page(
            f"http://one.example.org:{public.port}/"
        )
    assert (len(answer.body), answer.is_cut) == (10_000, True)


async def test_a_packed_page_is_unpacked(attempts: list[str]) -> None:
    text = bytes(range(32, 127)) * 40
    packed = Said(gzip.compress(text), headers={"Content-Encoding": "gzip"})
    async with site({"/": packed}) as public:
        fetcher = Fetcher(find=find, most_bytes=len(text))
        answer = await fetcher.page(f"http://one.example.org:{public.port}/")
        shorter = await Fetcher(find=find, most_bytes=len(text) - 1).page(
            f"http://one.example.org:{public.port}/"
        )
    assert (answer.body, answer.is_cut) == (text, False)
    assert (shorter.body, shorter.is_cut) == (text[:-1], True)


@pytest.mark.parametrize("padding", [b"", bytes(100)])
async def test_all_members_of_a_packed_page_are_unpacked(
    attempts: list[str], padding: bytes
) -> None:
    packed = Said(
        gzip.compress(b"one ") + gzip.compress(b"two") + padding,
        headers={"Content-Encoding": "gzip"},
    )
    async with site({"/": packed}) as public:
        answer = await Fetcher(find=find).page(f"http://one.example.org:{public.port}/")
    assert (answer.body, answer.is_cut) == (b"one two", False)


async def test_a_packed_page_that_ends_early_counts_as_cut(attempts: list[str]) -> None:
    packed = Said(gzip.compress(bytes(range(256)) * 40)[:-20], headers={"Content-Encoding": "gzip"})
    async with site({"/": packed}) as public:
        answer = await Fetcher(find=find).page(f"http://one.example.org:{public.port}/")
    assert answer.is_cut


async def test_members_without_content_end_at_the_limit(attempts: list[str]) -> None:
    sent = 0

    async def empty(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        while not writer.is_closing():
            writer.write(gzip.compress(b"") * 1000)
            sent += 20_000
            await writer.drain()

    async with site({"/": Said(empty, headers={"Content-Encoding": "gzip"})}) as public:
        answer = await Fetcher(find=find, most_bytes=100_000).page(
            f"http://one.example.org:{public.port}/"
        )
    assert (answer.body, answer.is_cut) == (b"", True)


@pytest.mark.parametrize(
    "said",
    [
        Said(b"x", "image/png obey"),
        Said(b"\0", "obey x"),
        Said(b"x", headers={"Content-Encoding": "obey x"}),
    ],
)
async def test_headers_of_a_server_are_not_quoted_in_errors(
    attempts: list[str], said: Said
) -> None:
    async with site({"/": said}) as public:
        try:
            shown = (await Fetcher(find=find).page(f"http://one.example.org:{public.port}/")).kind
        except FetchError as error:
            shown = str(error)
    assert "obey" not in shown


@pytest.mark.parametrize("proxy", ["localhost:8080", "socks5://127.0.0.1:1", "http://[::1", ""])
def test_a_proxy_that_is_none_is_named_by_its_setting(proxy: str) -> None:
    with pytest.raises(ConfigError, match=r"web\.proxy"):
        Fetcher(proxy=proxy)


async def test_a_bomb_is_refused_without_unpacking_it(attempts: list[str]) -> None:
    async with site({"/": Said(bomb, headers={"Content-Encoding": "gzip"})}) as public:
        why = await refused(
            f"http://one.example.org:{public.port}/", Fetcher(find=find, most_bytes=1_000_000)
        )
    assert "unpack to more than 1,000,000" in why


@pytest.mark.parametrize("packing", ["br", "zstd", "gzip, gzip", "compress"])
async def test_other_packings_are_refused(attempts: list[str], packing: str) -> None:
    async with site({"/": Said(b"x", headers={"Content-Encoding": packing})}) as public:
        assert "was not requested" in await failed(
            f"http://one.example.org:{public.port}/", Fetcher(find=find)
        )


async def test_a_slow_drip_ends_at_the_deadline(attempts: list[str]) -> None:
    async with site({"/": Said(drip)}) as public:
        why = await failed(
            f"http://one.example.org:{public.port}/", Fetcher(find=find, seconds=0.5)
        )
    assert "within 0.5 s" in why


async def test_a_server_that_says_nothing_ends_at_the_deadline(attempts: list[str]) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with listening(silent) as port:
        assert "within 0.3 s" in await failed(
            f"http://one.example.org:{port}/", Fetcher(find=find, seconds=0.3)
        )


@pytest.mark.parametrize("kind", ["image/png", "video/mp4", "application/zip"])
async def test_what_has_no_text_is_not_read(attempts: list[str], kind: str) -> None:
    async with site({"/": Said(b"x", kind)}) as public:
        assert kind in await failed(f"http://one.example.org:{public.port}/", Fetcher(find=find))


async def test_what_does_not_speak_http_is_an_error(attempts: list[str]) -> None:
    async def other(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-obey\r\n")

    async with listening(other) as port:
        why = await failed(f"http://one.example.org:{port}/", Fetcher(find=find))
    assert why == "one.example.org cannot be fetched from: it does not speak HTTP as it should"


async def test_no_more_than_eight_pages_are_fetched_at_a_time(attempts: list[str]) -> None:
    running, most, go_on = 0, 0, asyncio.Event()

    async def slow(writer: asyncio.StreamWriter) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 8:
            go_on.set()
        await go_on.wait()
        running -= 1

    async with site({"/": Said(slow)}) as public:
        fetcher = Fetcher(find=find)
        await asyncio.gather(
            *(fetcher.page(f"http://one.example.org:{public.port}/") for _ in range(20))
        )
    assert most == 8


# -- TLS
def certificate(directory: Path, name: str) -> Path:
    file = directory / f"{name}.pem"
    words = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}"]
    subprocess.run(
        [
            need("openssl"),
            *words,
            "-keyout",
            file,
            "-out",
            f"{file}.crt",
            "-addext",
            f"subjectAltName=DNS:{name}",
        ],
        check=True,
        capture_output=True,
    )
    file.write_text(file.read_text() + Path(f"{file}.crt").read_text())
    return file


async def test_certificates_are_checked_by_the_name_in_the_address(
    attempts: list[str], tmp_path: Path
) -> None:
    """Two names on one address have their own certificates, and a third name has none."""
    names = {name: certificate(tmp_path, name) for name in ("one.example.org", "two.example.org")}
    trusted = ssl.create_default_context()
    contexts = {}
    for name, file in names.items():
        trusted.load_verify_locations(file)
        contexts[name] = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        contexts[name].load_cert_chain(file)
    asked: list[str | None] = []

    def choose(tls: ssl.SSLObject, name: str | None, _: object) -> None:
        asked.append(name)
        tls.context = contexts.get(name or "", contexts["one.example.org"])

    contexts["one.example.org"].sni_callback = choose
    fetcher = Fetcher(find=lambda host, port: find("one.example.org", port), certificates=trusted)
    async with site({"/": Said(b"safe")}, context=contexts["one.example.org"]) as public:
        for name in names:
            assert (await fetcher.page(f"https://{name}:{public.port}/")).body == b"safe"
        assert "ertificate" in await failed(f"https://three.example.org:{public.port}/", fetcher)
    assert asked == ["one.example.org", "two.example.org", "three.example.org"]
    assert [request.headers["host"] for request in public.requests] == [
        f"{name}:{public.port}" for name in names
    ]
