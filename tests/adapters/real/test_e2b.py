"""E2B's SDK uses `hermetic serve`. Run in an environment that has `e2b` and the extra `serve`."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

import httpx
import pytest
from e2b import (
    AsyncSandbox,
    CommandExitException,
    InvalidArgumentException,
    NotFoundException,
    PtySize,
    Sandbox,
    SandboxQuery,
    TimeoutException,
)
from e2b.sandbox.filesystem.filesystem import FileType

from tests.adapters.examples import run_example

KINDS = {"docker": ["--image", os.environ.get("IMAGE_BASE", "")], "sandbox": []}
SECONDS = 60.0


def eventually(check: Callable[[], bool]) -> None:
    """Returns when the check holds."""
    until = time.monotonic() + SECONDS
    while not check():
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.fixture(params=KINDS, scope="module")
def server(request: pytest.FixtureRequest) -> Iterator[None]:
    """A server for the SDK, of each kind."""
    run, directory = [sys.executable, "-m", "hermetic", "serve"], tempfile.mkdtemp()
    environ = {**os.environ, "HERMETIC_RUNTIME_DIR": directory}
    key = subprocess.check_output([*run, "token", "--scope", "e2b"], env=environ, text=True).strip()
    words = [*run, "--port", "0", "--env", request.param, *KINDS[request.param]]
    process = subprocess.Popen(words, env=environ, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    url = process.stdout.readline().split()[-1].partition("#")[0] + "e2b"
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"E2B_API_KEY": key, "E2B_API_URL": url, "E2B_SANDBOX_URL": url}.items():
            patch.setenv(name, value)
        yield
    process.terminate()
    assert process.wait(SECONDS) in (0, -signal.SIGTERM)
    process.stdout.close()
    assert not [name for name in os.listdir(directory) if name.startswith(("t-", "e-"))]
    shutil.rmtree(directory)


@pytest.fixture
def sandbox(server: None) -> Iterator[Sandbox]:
    """A sandbox that ends with the test."""
    made = Sandbox.create(timeout=300, envs={"OF": "all"}, metadata={"test": "yes"})
    yield made
    made.kill()


@pytest.mark.usefixtures("server")
def test_the_example_of_the_docs_runs() -> None:
    run_example("E2B")


def test_commands(sandbox: Sandbox) -> None:
    pieces: list[str] = []
    command = "echo $OF $ONE; echo err >&2; pwd"
    done = sandbox.commands.run(command, envs={"ONE": "1"}, on_stdout=pieces.append, cwd="/tmp")
    assert (done.stdout, done.stderr, done.exit_code) == ("all 1\n/tmp\n", "err\n", 0)
    assert "".join(pieces) == done.stdout
    with pytest.raises(CommandExitException) as failed:
        sandbox.commands.run("echo no; exit 7")
    assert (failed.value.exit_code, failed.value.stdout) == (7, "no\n")
    big = sandbox.commands.run("head -c 3000000 /dev/zero | tr '\\0' x")
    assert len(big.stdout) == 3_000_000


def test_users(sandbox: Sandbox, request: pytest.FixtureRequest) -> None:
    own = sandbox.commands.run("id -un").stdout.strip()
    assert sandbox.commands.run("id -un", user=own).stdout.strip() == own
    sandbox.files.write("mine", "1", user=own)
    with pytest.raises(InvalidArgumentException, match="leave user out"):
        sandbox.files.read("mine", user="nobody")
    with pytest.raises(InvalidArgumentException, match="leave user out"):
        sandbox.pty.create(PtySize(rows=30, cols=100), user="nobody")
    if request.node.callspec.params["server"] == "sandbox":
        with pytest.raises(InvalidArgumentException, match=f"run as {own}, not as nobody"):
            sandbox.commands.run("id -un", user="nobody")
    else:
        assert sandbox.commands.run("id -un", user="nobody", cwd="/tmp").stdout == "nobody\n"


def test_a_background_command_streams_and_is_left_found_typed_into_and_killed(
    sandbox: Sandbox,
) -> None:
    handle = sandbox.commands.run(
        "echo up; while read line; do echo got $line; done", background=True, stdin=True
    )
    assert next(iter(handle))[0] == "up\n"
    handle.disconnect()
    [listed] = sandbox.commands.list()
    assert (listed.pid, listed.cmd) == (handle.pid, "/bin/bash")
    again = sandbox.commands.connect(handle.pid)
    sandbox.commands.send_stdin(handle.pid, "one\n")
    assert next(iter(again))[0] == "got one\n"
    sandbox.commands.close_stdin(handle.pid)
    assert again.wait().exit_code == 0
    endless = sandbox.commands.run("sleep 1000", background=True)
    assert endless.kill() is True
    assert endless.kill() is False
    assert sandbox.commands.list() == []


def test_a_command_ends_at_its_timeout(sandbox: Sandbox) -> None:
    with pytest.raises(TimeoutException):
        sandbox.commands.run("sleep 1000", timeout=1)
    eventually(lambda: sandbox.commands.list() == [])


def test_files(sandbox: Sandbox) -> None:
    written = sandbox.files.write("folder/one.txt", "eins\r\n")
    assert written.path.endswith("/folder/one.txt")
    assert sandbox.files.read(written.path) == "eins\r\n"
    data = bytes(range(256)) * 4096
    sandbox.files.write("binary", data, gzip=True)
    assert bytes(sandbox.files.read("binary", format="bytes")) == data
    assert b"".join(sandbox.files.read("binary", format="stream")) == data
    sandbox.files.write_files([{"path": "m/1", "data": "1"}, {"path": "m/2", "data": b"2"}])
    assert [entry.name for entry in sandbox.files.list("m")] == ["1", "2"]
    info = sandbox.files.get_info("binary")
    assert (info.type, info.size, info.permissions[0]) == (FileType.FILE, len(data), "-")
    assert sandbox.files.make_dir("m/3/4") is True
    assert sandbox.files.make_dir("m/3/4") is False
    assert sandbox.files.rename("m/1", "m/one").path.endswith("/m/one")
    sandbox.files.remove("m")
    assert sandbox.files.exists("m") is False
    with pytest.raises(NotFoundException):
        sandbox.files.read("m/2")
    assert httpx.get(sandbox.download_url("folder/one.txt"), trust_env=False).text == "eins\r\n"
    assert (
        httpx.get(
            sandbox.download_url("folder/one.txt").replace("one", "two"), trust_env=False
        ).status_code
        == 401
    )
    httpx.post(
        sandbox.upload_url("up"), files={"file": ("up", b"signed")}, trust_env=False
    ).raise_for_status()
    assert sandbox.files.read("up") == "signed"


def test_a_directory_is_watched(sandbox: Sandbox) -> None:
    sandbox.files.make_dir("watched")
    handle = sandbox.files.watch_dir("watched")
    sandbox.files.write("watched/new", "x")
    assert [(event.name, event.type.value) for event in handle.get_new_events()] == [
        ("new", "create")
    ]
    handle.stop()


def test_a_terminal(sandbox: Sandbox) -> None:
    handle = sandbox.pty.create(PtySize(rows=30, cols=100), timeout=SECONDS)
    sandbox.pty.resize(handle.pid, PtySize(rows=31, cols=101))
    sandbox.pty.send_stdin(handle.pid, b"stty size; tty; exit 3\n")
    shown = bytearray()
    with pytest.raises(CommandExitException) as ended:
        handle.wait(on_pty=shown.extend)
    assert ended.value.exit_code == 3
    assert b"31 101" in shown
    assert b"/dev/pts/" in shown


def test_a_sandbox_is_paused_and_resumed_with_its_processes(sandbox: Sandbox) -> None:
    handle = sandbox.commands.run(
        "while :; do date +%s%N > tick; sleep 0.05; done", background=True
    )
    sandbox.commands.run("until [ -e tick ]; do sleep 0.05; done")
    sandbox.pause()
    assert sandbox.is_running() is False
    paused = Sandbox.list(query=SandboxQuery(metadata={"test": "yes"})).next_items()
    assert [(one.sandbox_id, one.state.value) for one in paused] == [(sandbox.sandbox_id, "paused")]
    resumed = Sandbox.connect(sandbox.sandbox_id, timeout=300)
    assert [process.pid for process in resumed.commands.list()] == [handle.pid]
    before = resumed.files.read("tick")
    eventually(lambda: resumed.files.read("tick") not in ("", before))


def test_a_sandbox_ends_at_its_timeout_and_by_kill(sandbox: Sandbox) -> None:
    assert sandbox.get_info().metadata == {"test": "yes"}
    short = Sandbox.create(timeout=300)
    short.set_timeout(1)
    eventually(lambda: not short.is_running())
    assert short.kill() is False
    assert sandbox.kill() is True
    assert sandbox.is_running() is False


@pytest.mark.usefixtures("server")
def test_the_asynchronous_sdk() -> None:
    async def main() -> None:
        sandbox = await AsyncSandbox.create(timeout=300)
        events: list[str] = []
        handle = await sandbox.files.watch_dir(
            ".", on_event=lambda event: events.append(event.name)
        )
        done = await asyncio.gather(
            *(sandbox.commands.run(f"echo {n} > f{n}; echo {n}") for n in range(5))
        )
        assert [one.stdout for one in done] == [f"{n}\n" for n in range(5)]
        async with asyncio.timeout(SECONDS):
            while len(set(events)) < 5:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        await handle.stop()
        assert await sandbox.kill()

    asyncio.run(main())
