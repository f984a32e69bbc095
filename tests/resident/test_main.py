"""How a resident starts: small, quickly, under old and minimal interpreters, without showing what
it was given.
"""

import contextlib
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from hermetic.link.archive import BOOT
from hermetic.resident.wire.frames import REQUEST, pack_frame
from tests.programs import need_variable
from tests.pythons import other_pythons
from tests.resident.running import Client, running

# What Debian's python3-minimal lacks.
MISSING = ("json", "ctypes", "_ctypes", "termios", "resource", "mmap", "secrets")
MINIMAL = f"""
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {MISSING!r}:
            raise ImportError(name)
sys.meta_path.insert(0, Missing())
"""
BLOWS = (
    "exit 3",
    "exec false",
    "set -e; false",
    "kill -9 $BASHPID",
    "set -n",
    "shopt -s extdebug; trap false DEBUG",
    "builtin() { :; }",
    "enable -n mapfile",
    "readonly __h",
    "readonly __h_t",
    "readonly LINENO",
    "ulimit -n 3",
    "break 99",
    "exec 10>&- 11>&- 12>&-",
    "unset PATH",
)
HEAVY = ("asyncio", "subprocess", "typing", "json", "threading", "traceback", "shutil")


def arguments(pid: int) -> list[bytes]:
    return [word for word in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0") if word]


def test_it_shows_its_name_and_nothing_of_what_it_was_given() -> None:
    with running() as resident:
        assert arguments(resident.pid) == [b"hermetic-resident"]
        assert arguments(resident.ready["guardian"]) == [b"hermetic-guardian"]


def test_it_stays_small_and_loads_nothing_heavy() -> None:
    boot = BOOT + "\n"
    with running(boot=boot) as resident, resident.client() as client:
        said, _ = client.ask("info")
        assert said["rss"] < 16 << 20
        maps = Path(f"/proc/{resident.pid}/maps").read_text()
        assert not any(f"/_{name}." in maps for name in ("asyncio", "json", "datetime"))


def test_its_modules_import_nothing_heavy() -> None:
    code = (
        "import sys, types; package = types.ModuleType('hermetic_resident'); package.__path__ = [sys.argv[1]]; "
        "sys.modules['hermetic_resident'] = package; import hermetic_resident.life.main; "
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    folder = Path(__file__).parents[2] / "src" / "hermetic" / "resident"
    said = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(folder)],
        stdout=subprocess.PIPE,
        check=True,
        timeout=60,
    )
    assert said.stdout == b"[]\n"


def test_a_minimal_python_starts_it_and_it_says_what_is_weaker() -> None:
    with running(boot=MINIMAL + BOOT) as resident, resident.client() as client:
        said, _ = client.ask("info")
        assert any("ctypes" in sentence for sentence in said["weak"])
        ran, output = client.run("cd /tmp; echo $PWD")
        assert (ran["ending"], output) == (["exited", 0], b"/tmp\n")
        for code in (3, 4, 5):
            ran, output = client.run(f"pwd; exit {code}")
            assert (ran["ending"], output) == (["exited", code], b"/tmp\n")
        ran, _ = client.run("sleep 100 & sleep 100", timeout=0.1)
        assert ran["ending"] == ["timed_out", 0.1]
        ran, output = client.run("pwd")
        assert (ran["ending"], output) == (["exited", 0], b"/tmp\n")


@pytest.mark.parametrize("python", other_pythons() or ["none"])
def test_other_interpreters_run_it_from_its_source(python: str) -> None:
    if python == "none":
        pytest.skip("no other Python on this machine")
    with running(python) as resident, resident.client() as client:
        ran, output = client.run("f() { echo $((6 * 7)); }; f")
        assert (ran["ending"], output) == (["exited", 0], b"42\n")
        ran, _ = client.run("sleep 100", timeout=0.1)
        assert ran["ending"] == ["timed_out", 0.1]
        assert client.run("f")[1] == b"42\n"


def test_other_versions_of_bash_keep_state_and_take_every_blow() -> None:
    # A statically linked bash cannot look up its user, which it does where one of these is missing.
    environ = {"HOME": "/root", "SHELL": "/bin/bash", "PATH": os.environ["PATH"]}
    for bash in need_variable("OTHER_BASHES").split(":"):
        with running(bash=bash, environ=environ) as resident, resident.client() as client:
            version = client.run("echo ${BASH_VERSINFO[0]}.${BASH_VERSINFO[1]}")[1].decode().strip()
            client.run(
                "cd /usr; X=1; f() { echo fn $X; }; declare -A m=([k]=v); alias ll='echo LL'"
            )
            for blow in BLOWS:
                client.run(blow)
                if blow != "unset PATH":
                    assert client.run("pwd; f; ll; echo ${m[k]}")[1] == b"/usr\nfn 1\nLL\nv\n", (
                        version,
                        blow,
                    )
            for _ in range(70):  # deep enough to move to a fresh bash
                client.run("exit 1")
            assert client.run("pwd; f; ll; echo ${m[k]}")[1] == b"/usr\nfn 1\nLL\nv\n", version


def test_a_wrong_token_a_late_or_strange_greeting_end_the_connection() -> None:
    with running() as resident:
        for first in (
            pack_frame(REQUEST, 1, {"op": "hello", "versions": [1], "token": b"wrong" * 3 + b"!"}),
            pack_frame(REQUEST, 1, {"op": "hello", "versions": [1]}),
            pack_frame(REQUEST, 1, {"op": "list"}),
            pack_frame(
                REQUEST,
                1,
                {"op": "hello", "versions": [1], "token": resident.token, "client": "x" * 5000},
            ),
            b"GET / HTTP/1.1\r\n\r\n",
        ):
            with resident.connect() as stream:
                stream.sendall(first)
                assert stream.recv(100) == b""
        with resident.client() as client:
            assert client.ask("info")[0]["clients"] == 1


def test_a_client_of_another_version_is_told_how_to_go_on() -> None:
    with running() as resident, resident.connect() as stream:
        client = Client(stream)
        with pytest.raises(AssertionError, match="open it again"):
            client.ask("hello", versions=[99], token=resident.token, client="from the future")


def test_the_socket_is_for_its_owner_alone() -> None:
    with running() as resident:
        assert Path(resident.ready["socket"]).stat().st_mode & 0o777 == 0o600


def test_a_connection_that_closes_in_the_middle_of_a_frame_costs_nobody_anything() -> None:
    with running() as resident, resident.client() as client:
        for _ in range(20):
            with resident.connect() as stream, contextlib.suppress(OSError):
                stream.sendall(b"\0\0\1\0")
                stream.shutdown(socket.SHUT_RDWR)
        assert client.run("echo fine")[1] == b"fine\n"
