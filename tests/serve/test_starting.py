"""`hermetic serve` as a program: its port, its address, its tokens and its password."""

import asyncio
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from hermetic.contract.errors import ConfigError
from hermetic.serve.password import read_password, write_password
from hermetic.serve.server import ConsoleServer, ServerOptions
from tests.serve.serving import SECONDS, Client, program, serving


def hermetic(*words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hermetic", *words], capture_output=True, text=True, input=stdin
    )


def busy(port: int) -> socket.socket:
    holder = socket.socket()
    holder.bind(("127.0.0.1", port))
    holder.listen()
    return holder


async def test_another_port_is_used_where_the_usual_one_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with busy(0) as holder:
        usual = holder.getsockname()[1]
        monkeypatch.setattr("hermetic.serve.server.PORT", usual)
        server = ConsoleServer(ServerOptions())
        port = int(server.access.hosts[0].rpartition(":")[2])
        server.close()
    assert port not in (0, usual)


def test_a_port_that_was_asked_for_and_is_taken_is_an_error() -> None:
    with busy(0) as holder, pytest.raises(ConfigError, match="choose another --port"):
        ConsoleServer(ServerOptions(port=holder.getsockname()[1]))


def test_another_address_needs_a_login_and_tls(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"needs TLS: .* and a login"):
        ConsoleServer(ServerOptions(host="0.0.0.0", port=0))
    certificate, key = make_certificate(tmp_path)
    with pytest.raises(ConfigError, match="needs a login: hermetic serve password"):
        ConsoleServer(ServerOptions(host="0.0.0.0", port=0, certificate=certificate, key=key))
    path = write_password("correct horse battery")
    try:
        with pytest.raises(ConfigError, match="--name"):
            ConsoleServer(ServerOptions(host="0.0.0.0", port=0, certificate=certificate, key=key))
        server = ConsoleServer(
            ServerOptions(host="0.0.0.0", port=0, names=("box",), certificate=certificate, key=key)
        )
        assert server.access.url.startswith("https://box:")
        server.close()
    finally:
        path.unlink()


def make_certificate(at: Path) -> tuple[Path, Path]:
    certificate, key = at / "c.pem", at / "k.pem"
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-subj",
            "/CN=box",
            "-days",
            "1",
            "-keyout",
            key,
            "-out",
            certificate,
        ],
        check=True,
        capture_output=True,
    )
    return certificate, key


async def test_another_address_is_served_by_tls_with_the_password(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    path = write_password("correct horse battery")
    try:
        async with serving(
            host="0.0.0.0", names=("box",), certificate=certificate, key=key
        ) as server:
            client = Client(server)
            client.tls = ssl.create_default_context(cafile=str(certificate))
            client.tls.check_hostname = False
            assert client.origin == f"https://box:{client.port}"
            page = {"Origin": client.origin}
            answer = await client.post(
                "/login", {"password": "correct horse battery"}, headers=page
            )
            assert answer.status == 204
            assert "Secure" in answer.headers["set-cookie"].split("; ")
            cookie = {"Cookie": answer.headers["set-cookie"].partition(";")[0], **page}
            assert (await client.get("/me", headers=cookie)).json["scopes"] == ["admin"]
            address = {**cookie, "Host": f"127.0.0.1:{client.port}"}
            assert (await client.get("/me", headers=address)).code == "wrong_host"
    finally:
        path.unlink()


async def test_the_password_logs_in_where_it_is_offered() -> None:
    path = write_password("correct horse battery")
    try:
        async with serving() as server:
            client = Client(server)
            page = {"Origin": client.origin}
            assert (
                await client.post("/login", {"password": "correct horse battery"}, headers=page)
            ).status == 401
            server.access.password = read_password()
            assert (
                await client.post("/login", {"password": "wrong"}, headers=page)
            ).code == "wrong_token"
            assert (
                await client.post("/login", {"password": "correct horse battery"}, headers=page)
            ).status == 204
    finally:
        path.unlink()


async def test_a_token_of_the_command_line_is_let_in_until_it_is_revoked() -> None:
    made = hermetic("serve", "token", "--scope", "view,drive", "--expires", "1h", "--as", "ci")
    assert made.returncode == 0, made.stderr
    async with serving() as server:
        client = Client(server)
        client.token = made.stdout.strip()
        me = (await client.get("/me")).json
        assert (me["name"], me["scopes"]) == ("ci", ["view", "drive"])
        listed = hermetic("serve", "tokens").stdout
        assert "ci" in listed
        assert client.token not in listed
        id = listed.splitlines()[1].split()[0]
        assert hermetic("serve", "revoke", id).returncode == 0
        assert (await client.get("/me")).status == 401
    made = json.loads(hermetic("serve", "token", "--scope", "mcp", "--json").stdout)
    [listed] = json.loads(hermetic("serve", "tokens", "--json").stdout)
    assert made.pop("token")
    assert made == listed
    revoked = hermetic("serve", "revoke", listed["id"], "--json").stdout
    assert json.loads(revoked) == {"revoked": listed["id"]}
    unnamed = hermetic("serve", "revoke")
    assert (unnamed.returncode, "name the token" in unnamed.stderr) == (2, True)
    for words in (("--scope", "root"), ("--expires", "soon"), ("--expires", "9" * 400 + "d")):
        assert hermetic("serve", "token", *words).returncode == 2


async def test_another_start_url_is_that_of_the_server_that_runs(tmp_path: Path) -> None:
    assert "no console of yours runs" in hermetic("serve", "url").stderr
    certificate, key = make_certificate(tmp_path)
    async with serving(certificate=certificate, key=key) as secure:
        printed = await asyncio.to_thread(hermetic, "serve", "url")
        assert printed.stdout.startswith(f"https://127.0.0.1:{Client(secure).port}/#token=")
        async with program("--port", "0") as (server, url):
            several = await asyncio.to_thread(hermetic, "serve", "url")
            assert several.returncode != 0
            assert "choose one with --port" in several.stderr
            port = url.partition("/#")[0].rpartition(":")[2]
            chosen = await asyncio.to_thread(hermetic, "serve", "url", "--port", port)
            assert chosen.stdout.startswith(f"http://127.0.0.1:{port}/#token=")
            server.kill()
            await server.wait()
        last = await asyncio.to_thread(hermetic, "serve", "url", "--json")
        assert json.loads(last.stdout)["url"].startswith("https:")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
async def test_the_server_prints_a_url_and_ends_by_a_signal(number: signal.Signals) -> None:
    async with program("--port", "0") as (server, url):
        assert url.startswith("http://127.0.0.1:")
        assert "#token=" in url
        server.send_signal(number)
        async with asyncio.timeout(SECONDS):
            assert await server.wait() == -signal.SIGTERM


async def test_the_token_is_no_argument_and_no_variable_of_any_process() -> None:
    async with program("--port", "0") as (server, url):
        token = url.partition("#token=")[2].encode()
        check_unseen(token, server.pid)


def check_unseen(token: bytes, pid: int) -> None:
    for name in ("cmdline", "environ"):
        assert token not in Path(f"/proc/{pid}/{name}").read_bytes()
    files = list(Path(os.environ["HERMETIC_RUNTIME_DIR"], "console").iterdir())
    assert files
    assert all(
        token not in file.read_bytes() and file.stat().st_mode & 0o077 == 0 for file in files
    )
