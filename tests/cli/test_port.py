"""`hermetic port`: a server inside is reached from here."""

import secrets
import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.program import as_json, hermetic, running

SERVER = "cd {directory}; exec python3 -u -m http.server 8000 --bind 127.0.0.1"


@pytest.fixture
def task(tmp_path: Path) -> Iterator[str]:
    """A sandbox without a network, and a web server in it."""
    name = f"task-{secrets.token_hex(4)}"
    (tmp_path / "page").write_bytes(bytes(range(256)) * 4096)
    options = ("--env", "sandbox", "--workspace", str(tmp_path), "--task", name)
    listens = "until (exec 3<>/dev/tcp/127.0.0.1/8000) 2>/dev/null; do sleep 0.1; done"
    try:
        for words in (
            ("-d", "--", SERVER.format(directory=tmp_path)),
            ("--timeout", "60", "--", listens),
        ):
            done = hermetic("run", *options, *words, seconds=120)
            assert done.returncode == 0, done.stderr
        yield name
    finally:
        hermetic("rm", name)


def address(line: bytes) -> str:
    """Where it listens, from the line it prints."""
    return line.decode().partition(" ")[0]


def test_a_server_in_a_sandbox_without_network_is_reached(task: str) -> None:
    with running("port", task, "8000") as process:
        assert process.stdout is not None
        where = address(process.stdout.readline())
        for _ in range(2):
            with urllib.request.urlopen(f"http://{where}/page", timeout=60) as answer:
                assert answer.read() == bytes(range(256)) * 4096
        with socket.create_connection(where.split(":"), 60) as plain:  # type: ignore[arg-type]
            plain.sendall(b"GET /page HTTP/1.0\r\n\r\n")
            plain.shutdown(socket.SHUT_WR)
            assert plain.recv(12) == b"HTTP/1.0 200"
    commands = [one["command"] for one in as_json("ps", "--in", task)]
    assert len(commands) == 1  # the server: no connection is left


def test_a_port_here_is_chosen_and_a_taken_one_is_not_replaced(task: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        refused = hermetic("port", "--local", port, task, "8000")
    assert refused.returncode == 1
    assert f"port {port} cannot be used here".encode() in refused.stderr
    with running("port", "--local", port, task, "8000") as process:
        assert process.stdout is not None
        assert address(process.stdout.readline()) == f"127.0.0.1:{port}"
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/page", timeout=60) as answer:
            assert answer.status == 200


def test_a_closed_port_ends_the_connection_and_no_port_is_refused(task: str) -> None:
    with running("port", task, "8001") as process:
        assert process.stdout is not None
        host, port = address(process.stdout.readline()).split(":")
        with socket.create_connection((host, int(port)), 60) as plain:
            assert plain.recv(1) == b""
        assert process.stderr is not None
        assert b"port 8001: [Errno 111] Connection refused" in process.stderr.readline()
    assert hermetic("port", task, "70000").returncode == 2


def test_a_complaint_that_is_no_text_ends_one_connection_alone(task: str, tmp_path: Path) -> None:
    fake = "mkdir /tmp/b && printf '#!/bin/sh\\nprintf \"\\\\377 \\\\033[31m\\\\n\" >&2; exit 1\\n' >/tmp/b/python3"
    prepared = f"{fake}; chmod +x /tmp/b/python3; export PATH=/tmp/b:$PATH"
    workspace = str(tmp_path)
    begun = hermetic(
        *("run", "--env", "sandbox", "--workspace", workspace, "--task", task, "--", prepared)
    )
    assert begun.returncode == 0, begun.stderr
    with running("port", task, "8000") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        host, port = address(process.stdout.readline()).split(":")
        for _ in range(2):
            with socket.create_connection((host, int(port)), 60) as plain:
                assert plain.recv(1) == b""
            said = process.stderr.readline().decode()
            assert said.startswith("hermetic: port 8000: \ufffd ")
            assert "\x1b" not in said
