"""Who is let in, and who is not: every refusal is an answer with a code, and the server goes on."""

import asyncio
import contextlib
import logging
import socket
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

import hermetic
from hermetic.serve import access as rules
from hermetic.serve import protocol, routes, tokens
from hermetic.serve.peers import Peers
from hermetic.serve.refusals import Refused
from tests.environments.ordinary_user import OrdinaryUser
from tests.programs import need_root, need_variable
from tests.serve.serving import SECONDS, Client, serving

ALL = ("admin",)


async def refused(
    client: Client, headers: Mapping[str, str | None], *, method: str = "GET", path: str = "/me"
) -> str:
    """The code with which a request is refused; the server then still answers another one."""
    sent = {"Authorization": None, **headers}
    answer = await client.send(
        method, f"/api/v1{path}", {} if method == "POST" else None, headers=sent
    )
    assert answer.status in (401, 403), answer
    assert (await client.get("/me")).status == 200
    return answer.code


async def test_the_page_logs_in_and_is_let_in() -> None:
    async with serving() as server:
        client = Client(server)
        cookie = await client.log_in()
        page = {"Cookie": cookie, "Sec-Fetch-Site": "same-origin"}
        me = (await client.get("/me", headers=page)).json
        assert (me["scopes"], me["can_terminal"]) == (["admin"], True)
        assert (
            await client.post("/ticket", headers={"Cookie": cookie, "Origin": client.origin})
        ).status == 200


async def test_the_cookie_is_strict_and_named_after_the_port() -> None:
    async with serving() as server:
        client = Client(server)
        token = client.access.start_url().partition("#token=")[2]
        answer = await client.post("/login", {"token": token}, headers={"Origin": client.origin})
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith(f"hermetic-{client.port}=")
        assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))


async def test_a_foreign_origin_is_refused() -> None:
    async with serving() as server:
        client = Client(server, *ALL)
        cookie = await client.log_in()
        for origin in (
            "http://evil.example",
            "null",
            f"https://{client.host}",
            f"{client.origin}.evil.example",
        ):
            assert await refused(client, {"Cookie": cookie, "Origin": origin}) == "foreign_origin"
            assert (
                await refused(client, {"Authorization": "Bearer x", "Origin": origin})
                == "foreign_origin"
            )


async def test_another_port_of_this_machine_is_refused() -> None:
    async with serving() as server:
        client = Client(server, *ALL)
        cookie = await client.log_in()
        other = f"http://127.0.0.1:{client.port + 1}"
        assert await refused(client, {"Cookie": cookie, "Origin": other}) == "foreign_origin"
        assert (
            await refused(client, {"Cookie": cookie, "Sec-Fetch-Site": "same-site"})
            == "missing_origin"
        )


async def test_a_cookie_without_origin_is_refused() -> None:
    async with serving() as server:
        client = Client(server, *ALL)
        cookie = await client.log_in()
        assert await refused(client, {"Cookie": cookie}) == "missing_origin"
        same = {"Cookie": cookie, "Sec-Fetch-Site": "same-origin"}
        assert await refused(client, same, method="POST", path="/ticket") == "missing_origin"


async def test_a_rebinding_host_is_refused() -> None:
    async with serving() as server:
        client = Client(server, *ALL)
        for host in (
            "evil.example",
            f"evil.example:{client.port}",
            "127.0.0.1",
            f"127.0.0.1:{client.port + 1}",
            "",
        ):
            assert (await client.get("/me", headers={"Host": host})).code == "wrong_host"
            assert (await client.send("GET", "/", headers={"Host": host})).code == "wrong_host"


async def test_a_missing_or_wrong_token_is_refused() -> None:
    async with serving() as server:
        client = Client(server, *ALL)
        assert await refused(client, {}) == "no_login"
        assert await refused(client, {"Authorization": "Bearer wrong"}) == "wrong_token"
        wrong = {"Cookie": f"{client.access.cookie}=wrong", "Origin": client.origin}
        assert await refused(client, wrong) == "login_over"


async def test_a_start_token_works_once() -> None:
    async with serving() as server:
        client = Client(server)
        token = client.access.start_url().partition("#token=")[2]
        await client.log_in(token)
        again = await client.post("/login", {"token": token}, headers={"Origin": client.origin})
        assert (again.status, again.code) == (401, "wrong_token")


async def test_an_expired_token_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving() as server:
        client = Client(server, *ALL)
        start = client.access.start_url().partition("#token=")[2]
        cookie = await client.log_in()
        now = time.time()
        monkeypatch.setattr(time, "time", lambda: now + rules.START_TOKEN_SECONDS + 1)
        late = await client.post("/login", {"token": start}, headers={"Origin": client.origin})
        assert (late.status, late.code) == (401, "wrong_token")
        assert (await client.get("/me")).code == "wrong_token"
        monkeypatch.setattr(time, "time", lambda: now + rules.SESSION_SECONDS + 1)
        page = {"Cookie": cookie, "Origin": client.origin, "Authorization": None}
        assert (await client.get("/me", headers=page)).code == "login_over"


async def test_a_login_from_another_page_is_refused() -> None:
    async with serving() as server:
        client = Client(server)
        token = client.access.start_url().partition("#token=")[2]
        for origin in ("http://evil.example", None):
            answer = await client.post("/login", {"token": token}, headers={"Origin": origin})
            assert answer.status == 403
        await client.log_in(token)


async def test_each_scope_allows_what_it_says() -> None:
    needs = {"/environments": "view", "/shares": "admin"}
    async with serving() as server:
        for scope in tokens.SCOPES:
            client = Client(server, scope)
            for path, needed in needs.items():
                status = (await client.get(path)).status
                allowed = tokens.SCOPES[:4] if needed == "view" else ("admin",)
                assert status == (200 if scope in allowed else 403), (scope, path)
            run = await client.post("/environments/e-000000000000/run", {"command": "true"})
            assert run.code == (
                "unknown_environment" if scope in ("drive", "admin") else "scope_missing"
            )


async def test_a_share_lets_in_with_its_scope_until_it_is_revoked() -> None:
    async with serving() as server:
        client = Client(server, *ALL)
        share = (await client.post("/shares", {"scope": "view", "expires": 60, "name": "Ada"})).json
        assert share["url"].startswith(f"{client.origin}/#token=")
        token = share["url"].partition("#token=")[2]
        first, second = await client.log_in(token), await client.log_in(token)
        for cookie in (first, second):
            page = {"Cookie": cookie, "Origin": client.origin, "Authorization": None}
            me = (await client.get("/me", headers=page)).json
            assert (me["name"], me["scopes"], me["can_terminal"]) == ("Ada", ["view"], False)
            assert (await client.get("/shares", headers=page)).code == "scope_missing"
        (listed,) = (await client.get("/shares")).json["shares"]
        assert (listed["id"], listed["url"]) == (share["id"], None)
        assert (await client.delete(f"/shares/{share['id']}")).status == 204
        assert (await client.get("/me", headers=page)).code == "login_over"


async def test_the_name_of_a_share_holds_no_escape_sequences() -> None:
    async with serving() as server:
        made = (
            await Client(server, "admin").post(
                "/shares", {"name": "\x1b]52;c;eA==\x07\n" + 50 * "x"}
            )
        ).json
        assert made["name"].isprintable()
        assert len(made["name"]) == 40


async def test_a_revoked_token_is_refused() -> None:
    async with serving() as server:
        client = Client(server, "view")
        (token,) = client.access.store.all()
        client.access.store.revoke(token)
        assert (await client.get("/me")).code == "wrong_token"


async def test_tickets_of_one_holder_leave_those_of_others_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rules, "MOST_TICKETS", 3)
    async with serving() as server:
        greedy, other, admin = (Client(server, scope) for scope in ("view", "view", "admin"))
        link = (await admin.post("/shares", {"scope": "view"})).json["url"].partition("#token=")[2]
        guests = [
            {"Cookie": await greedy.log_in(link), "Origin": greedy.origin, "Authorization": None}
            for _ in "123"
        ]
        for _ in range(3):
            assert (await greedy.post("/ticket")).status == 200
        assert (await greedy.post("/ticket")).status == 429
        for guest in guests:  # those who came by one link count as one
            assert (await greedy.post("/ticket", headers=guest)).status == 200
        assert (await greedy.post("/ticket", headers=guests[0])).status == 429
        assert (await other.post("/ticket")).status == 200


async def test_guessing_is_slowed_down() -> None:
    async with serving() as server:
        client = Client(server)
        codes = [
            (await client.get("/me", headers={"Authorization": f"Bearer {at}"})).code
            for at in range(15)
        ]
        assert codes[0] == "wrong_token"
        assert codes[-1] == "too_many"


async def test_too_many_requests_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "CHANGES", (3, 0.001))
    async with serving() as server:
        client = Client(server, "view")
        answers = [await client.post("/ticket") for _ in range(4)]
        assert [answer.status for answer in answers] == [200, 200, 200, 429]
        assert int(answers[-1].headers["retry-after"]) > 0


async def test_every_answer_has_the_security_headers() -> None:
    async with serving() as server:
        client = Client(server, "view")
        for path in ("/", "/api/v1/me", "/api/v1/nothing", "/nothing.js", "/metrics"):
            headers = (await client.send("GET", path)).headers
            policy = headers["content-security-policy"]
            assert "default-src 'self'" in policy
            assert "script-src 'self';" in policy
            assert "frame-ancestors 'none'" in policy
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["cross-origin-opener-policy"] == "same-origin"
            assert "server" not in headers


@pytest.mark.parametrize(
    "path",
    [
        "/../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/assets/..%2f..%2fserver.py",
        "//etc/passwd",
        "/server.py",
        "/assets/%00",
        "/..\\..\\etc\\passwd",
    ],
)
async def test_a_path_out_of_the_page_is_not_served(path: str) -> None:
    async with serving() as server:
        answer = await Client(server, "view").send("GET", path)
        # no page is built
        assert answer.status in (400, 404) or (path == "/server.py" and answer.status == 503)
        assert b"root:" not in answer.body
        assert b"import" not in answer.body


async def test_a_wrong_method_is_refused_like_everything_else() -> None:
    async with serving() as server:
        client = Client(server, "view")
        for method, path, status, code in (
            ("POST", "/api/v1/me", 405, "wrong_method"),
            ("PUT", "/api/v1/ticket", 405, "wrong_method"),
            ("POST", "/", 405, "wrong_method"),
            ("POST", "/api/v1/nothing", 404, "no_such_path"),
            ("GET", "/api", 404, "no_such_path"),
            ("GET", "/api/", 404, "no_such_path"),
            ("POST", "/api", 404, "no_such_path"),
        ):
            answer = await client.send(method, path)
            assert (answer.status, answer.code) == (status, code)
            assert answer.headers["content-type"] == "application/json"
            assert ("allow" in answer.headers) == (status == 405)
            assert server.console.metrics.refused[code] > 0


async def test_a_large_body_is_refused() -> None:
    async with serving() as server:
        client = Client(server, *ALL)
        announced = await client.post("/shares", headers={"Content-Length": str(1 << 30)})
        assert (announced.status, announced.code) == (413, "too_large")
        pieces = b"".join(b"10000\r\n" + b"x" * 0x10000 + b"\r\n" for _ in range(20)) + b"0\r\n\r\n"
        chunked = {"Transfer-Encoding": "chunked", "Content-Length": None}
        sent = await client.send("POST", "/api/v1/shares", raw=pieces, headers=chunked)
        # the connection is closed, and its end may overtake the answer
        assert sent.status in (413, 0)
        assert server.console.metrics.refused["too_large"] == 2
        assert (await client.get("/me")).status == 200


async def test_a_slow_body_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "BODY_SECONDS", 0.2)
    async with serving() as server:
        client = Client(server, *ALL)
        answer = await client.send(
            "POST", "/api/v1/shares", raw=b"{", headers={"Content-Length": "100"}
        )
        assert (answer.status, answer.code) == (408, "slow_body")
        assert (await client.get("/me")).status == 200


async def test_a_body_that_is_no_json_or_has_wrong_fields_is_refused() -> None:
    async with serving() as server:
        client = Client(server, *ALL)
        for raw in (b"{", b"[]", b'{"expires": "soon"}', b"\xff"):
            answer = await client.send("POST", "/api/v1/shares", raw=raw)
            assert answer.status == 400
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        assert (
            await client.send("POST", "/api/v1/shares", raw=b"a=b", headers=form)
        ).code == "not_json"


async def test_half_open_connections_are_bounded_and_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(protocol, "MOST_CONNECTIONS", 50)
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 1.0)
    async with serving() as server:
        client = Client(server, "view")
        half_open = [await asyncio.open_connection("127.0.0.1", client.port) for _ in range(150)]
        for _, writer in half_open[::2]:
            writer.write(b"GET /api/v1/me HTTP/1.1\r\nHost: ")
        assert (await client.get("/me")).status == 200
        async with asyncio.timeout(SECONDS):
            for reader, writer in half_open:
                with contextlib.suppress(ConnectionError):
                    await reader.read()
                writer.close()
        assert (await client.get("/me")).status == 200


async def test_a_thousand_half_open_connections_do_not_stop_the_server() -> None:
    async with serving() as server:
        client = Client(server, "view")
        half_open = [await asyncio.open_connection("127.0.0.1", client.port) for _ in range(1000)]
        assert (await client.get("/me")).status == 200
        assert server.connections() <= protocol.MOST_CONNECTIONS
        for _, writer in half_open:
            writer.close()


INSIDE = """
import sys, urllib.request, urllib.error
def ask(method, path):
    headers = {"Authorization": "Bearer " + sys.argv[2], "Content-Type": "application/json"}
    request = urllib.request.Request(sys.argv[1] + path, b"{}" if method == "POST" else None, headers, method=method)
    try:
        return urllib.request.urlopen(request).status
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
print(ask("GET", "api/v1/me"), ask("POST", "api/v1/ticket"), ask("POST", "api/v1/approvals/a"))
"""


async def test_a_command_inside_an_environment_may_only_look() -> None:
    async with serving() as server, hermetic.open("local", login=False) as environment:
        client = Client(server, *ALL)
        words = [sys.executable, "-c", INSIDE, server.access.url, client.token or ""]
        for command in (words, ["setsid", "-w", "env", "-u", "HERMETIC_COMMAND", *words]):
            inside = await environment.run(command)
            assert inside.output.startswith("200 (403, "), inside.output
            assert inside.output.count("from_inside") == 2
        outside = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
        said, _ = await outside.communicate()
        assert said.startswith(b"200 200 (400, ")  # a request without an answer
        assert server.console.metrics.refused["from_inside"] == 4


@pytest.mark.parametrize("way", ["message", "thread"])
async def test_a_command_that_keeps_its_connection_in_no_table_may_only_look(
    tmp_path: Path, way: str
) -> None:
    aside = tmp_path / "aside"

    async def judge(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while not aside.exists():  # noqa: ASYNC110  # its program makes it
            await asyncio.sleep(0.01)
        ends = writer.get_extra_info("peername"), writer.get_extra_info("sockname")
        try:
            await Peers().check_outside(*ends)
            writer.write(b"outside")
        except Refused as refusal:
            writer.write(refusal.problem.code.encode())
        aside.unlink()
        writer.close()

    server = await asyncio.start_server(judge, "127.0.0.1", 0)
    port = str(server.sockets[0].getsockname()[1])
    async with server, hermetic.open("local", login=False) as environment:
        words = [sys.executable, "-c", ASIDE, port, str(aside), way]
        assert (await environment.run(words, timeout=SECONDS)).output == "from_inside\n"


async def test_who_is_not_let_in_costs_no_look_at_all_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with serving() as server:
        client, looked = Client(server, "view"), list[object]()

        async def look(*ends: object) -> str:
            looked.append(ends)
            return ""

        monkeypatch.setattr(server.console.peers, "check_outside", look)
        for headers in ({"Authorization": None}, {"Authorization": "Bearer wrong"}, {}):
            assert (
                await client.post("/ticket" if headers else "/shares", {}, headers=headers)
            ).status in (401, 403)
        foreign = {"Origin": "http://evil.example", "Authorization": None}
        assert (
            await client.post("/login", {"token": "-"}, headers=foreign)
        ).code == "foreign_origin"
        assert looked == []
        assert (await client.post("/ticket")).status == 200
        assert len(looked) == 1


async def test_a_sender_that_does_not_wait_is_refused() -> None:
    async with serving() as server:
        client = Client(server, *ALL)
        head = f"POST /api/v1/shares HTTP/1.1\r\nHost: {client.host}\r\nAuthorization: Bearer {client.token}\r\n"
        body = b'{"scope": "admin"}'
        kind = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        _, writer = await asyncio.open_connection("127.0.0.1", client.port)
        writer.write((head + kind).encode() + body)
        writer.close()
        await writer.wait_closed()
        async with asyncio.timeout(SECONDS):
            while not server.console.metrics.refused["sender_gone"]:  # noqa: ASYNC110  # no answer can be read
                await asyncio.sleep(0.01)
        assert (await client.get("/shares")).json["shares"] == []


async def test_a_client_that_does_not_read_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "READ_SECONDS", 0.5)
    async with serving() as server, hermetic.open("local") as environment:
        client = Client(server, "view")
        process = await environment.start("head -c 60000000 /dev/zero")
        await process.wait(60)
        path = (
            f"/api/v1/environments/{environment.id}/processes/{process.id}/output?limit={4 << 20}"
        )
        sender = socket.socket()
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sender.setblocking(False)
        loop = asyncio.get_running_loop()
        with sender:
            await loop.sock_connect(sender, ("127.0.0.1", client.port))
            head = f"GET {path} HTTP/1.1\r\nHost: {client.host}\r\nAuthorization: Bearer {client.token}\r\n\r\n"
            await loop.sock_sendall(sender, head.encode())
            connections = server.connections
            async with asyncio.timeout(SECONDS):
                while not connections():  # noqa: ASYNC110  # uvicorn has no event for it
                    await asyncio.sleep(0.01)
                while connections():  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
        assert (await client.get("/me")).status == 200


async def test_refusals_are_logged_without_secrets(caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as server:
        client = Client(server)
        with caplog.at_level(logging.INFO, "hermetic"):
            await client.get(
                "/me?token=hush-query", headers={"Authorization": "Bearer hush-bearer"}
            )
            await client.post("/login", {"token": "hush-body"}, headers={"Origin": client.origin})
            await client.send(
                "GET", "/api/v1/\x1b[31mred", headers={"Host": "evil\x1b]0;title\x07"}
            )
        assert "wrong_token" in caplog.text
        assert "hush" not in caplog.text
        assert "\x1b" not in caplog.text


async def test_wrong_tokens_of_one_program_lock_no_other_out() -> None:
    async with serving() as server:
        page, program = Client(server), Client(server, "view")
        cookie = await page.log_in()
        wrong = {"Authorization": "Bearer wrong"}
        codes = [(await Client(server).get("/me", headers=wrong)).code for _ in range(15)]
        assert codes[-1] == "too_many"
        assert (await program.get("/me")).status == 200
        assert (
            await page.get("/me", headers={"Cookie": cookie, "Origin": page.origin})
        ).status == 200
        await Client(server).log_in()


# As an ordinary user: connections of commands that hide their descriptors, and of a program outside
# that does.
CONNECT = """
import ctypes, socket, sys
library = ctypes.CDLL(None)
library.prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE
if len(sys.argv) > 2:
    library.prctl(15, sys.argv[2].encode(), 0, 0, 0)  # PR_SET_NAME
connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
print(connection.recv(100).decode())
"""
ASIDE = """
import ctypes, os, socket, sys, threading, time

def connected():
    return socket.create_connection(("127.0.0.1", int(sys.argv[1])))

def wait_until_judged():
    open(sys.argv[2], "w").close()
    while os.path.exists(sys.argv[2]):
        time.sleep(0.01)

def in_a_message():
    near, far = socket.socketpair()
    connection = connected()
    socket.send_fds(near, [b"-"], [connection.fileno()])
    connection.close()
    wait_until_judged()
    return socket.socket(fileno=socket.recv_fds(far, 1, 1)[1][0])

def of_a_thread():
    ctypes.CDLL(None).unshare(0x400)  # CLONE_FILES
    connection = connected()
    wait_until_judged()
    return connection

def main():
    print({"message": in_a_message, "thread": of_a_thread}[sys.argv[3]]().recv(100).decode())

thread = threading.Thread(target=main)
thread.start()
thread.join()
"""
HIDDEN = """
import asyncio, sys
import hermetic
from hermetic.serve.peers import Peers
from hermetic.serve.refusals import Refused

async def judge(_, writer):
    try:
        await Peers().check_outside(writer.get_extra_info("peername"), writer.get_extra_info("sockname"))
        writer.write(b"outside")
    except Refused as refusal:
        writer.write(refusal.problem.code.encode())
    writer.close()

async def main():
    server = await asyncio.start_server(judge, "127.0.0.1", 0)
    words = [sys.executable, "-c", sys.argv[1], str(server.sockets[0].getsockname()[1])]
    async with server, hermetic.open("local", login=False) as environment:
        print((await environment.run(words)).output.strip())
        print((await environment.run([*words, "hermetic-reside"])).output.strip(), flush=True)
        await (await asyncio.create_subprocess_exec(*words)).wait()

asyncio.run(main())
"""


def test_a_command_inside_that_hides_its_descriptors_may_only_look() -> None:
    need_root("only root can run something as another user")
    with tempfile.TemporaryDirectory(prefix="hm-", dir="/tmp") as home:
        user = OrdinaryUser(need_variable("APPTAINER_USER"), Path(home))
        said = user.run(HIDDEN, CONNECT, XDG_RUNTIME_DIR=home)
    assert said.split() == ["from_inside", "from_inside", "outside"]
