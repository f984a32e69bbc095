"""What a command in a container must not be able to do.

The numbers are those of the table in docs/environments.md.
"""

import asyncio
import contextlib
import errno
import json
import os
import platform
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hermetic
from hermetic.environments.isolation.seccomp import REFUSED
from hermetic.registry.records import Records, runtime_root
from tests.environments.engines import ask, both_engines, need_engine
from tests.environments.ordinary_user import OrdinaryUser
from tests.environments.syscalls import PLAIN, PROBE
from tests.programs import need_root, need_variable

CANARY = "canary-51c0"
NUMBERS = [
    f"{name}={number}"
    for name, kinds in REFUSED.items()
    if (number := getattr(kinds, platform.machine(), None))
]


def place(engine: str, **options: Any) -> Any:
    """A container of the test image, without network unless asked for."""
    return hermetic.open(
        engine, **{"image": need_variable("IMAGE_BASE"), "network": False, **options}
    )


async def say(environment: hermetic.Environment, code: str, *words: str) -> str:
    """What a Python program prints inside."""
    return (await environment.run(["python3", "-c", code, *words], timeout=60)).output.strip()


def shadow_of_the_host() -> str:
    """Root's line in the file of passwords, where it may be read."""
    return Path("/etc/shadow").read_text().splitlines()[0] if os.geteuid() == 0 else CANARY


def owners(directory: Path) -> set[int]:
    """Who owns what lies there."""
    return {path.stat().st_uid for path in directory.iterdir()}


@both_engines
async def test_probes_1_to_4_files_of_the_host_are_neither_seen_nor_written(
    engine: str, tmp_path: Path
) -> None:
    secret = Path.home() / ".netrc"
    secret.write_text(CANARY)
    shadow = shadow_of_the_host()
    (tmp_path / "target").write_text("untouched")
    (tmp_path / "ws").mkdir()
    async with place(engine, host_cwd=str(tmp_path / "ws")) as env:
        whole = (
            await env.run(f"cat /etc/shadow {secret} ~/.netrc; ls {secret.parent} {tmp_path}")
        ).output
        assert CANARY not in whole
        assert shadow not in whole
        await env.run(
            f"ln -s {tmp_path}/target l; echo x >l; ln -s ../target f; echo x >f; ln -sfn /etc d"
        )
        # Files are served from inside, so that a link means there what it means to a command.
        assert await env.read_file("d/hostname") == (await env.run("cat /etc/hostname")).output
        with contextlib.suppress(OSError):  # it may be written there, where its name means nothing
            await env.write_file("l", "x")
    assert (tmp_path / "target").read_text() == "untouched"


@both_engines
async def test_probes_8_to_11_files_on_the_host_stay_the_callers(
    engine: str, tmp_path: Path
) -> None:
    (tmp_path / "hidden").write_text(CANARY)
    if os.geteuid() == 0:  # else it cannot be given to somebody else
        (tmp_path / "hidden").chmod(0)
        os.chown(tmp_path / "hidden", 12345, 12345)
    async with place(engine, host_cwd=str(tmp_path)) as env:
        whole = await env.run(
            "cp /bin/true s; chmod 755 s; chmod 4755 s; touch c; chown 12345 c; cat hidden"
        )
        assert whole.output.count("not permitted") == 2
        assert whole.output.count("Permission denied") == (os.geteuid() == 0)
        made = "os.close(os.open('o', os.O_CREAT | os.O_WRONLY, 0o4755))"
        code = f"import os\ntry: {made}\nexcept OSError as error: print(error.errno)"
        assert await say(env, code) == "1"
    assert (tmp_path / "s").stat().st_mode & 0o7777 == 0o755
    assert owners(tmp_path) <= {os.geteuid(), 12345}
    assert not (tmp_path / "o").exists()


async def test_probe_12_what_this_side_runs_is_reported_or_refused(
    engine: str, tmp_path: Path
) -> None:
    (tmp_path / ".git" / "hooks").mkdir(parents=True)
    write = "echo x > /there/.git/hooks/pre-commit"
    async with place(engine, volumes=[f"{tmp_path}:/there"]) as env:
        [reported] = [note for note in env.isolation.notes if str(tmp_path) in note]
        assert all(word in reported for word in (".git/hooks", ".git/config", ".envrc", ".vscode"))
        assert (await env.run(write)).exit_code == 0
    async with place(engine, volumes=[f"{tmp_path}:/there:ro"]) as env:
        assert (await env.run(write)).exit_code != 0
        assert not any(str(tmp_path) in note for note in env.isolation.notes)


@both_engines
async def test_probes_15_to_22_no_secret_of_the_caller_or_of_ours_is_inside(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVICE_TOKEN", CANARY)
    with tempfile.TemporaryFile() as inherited:
        inherited.write(CANARY.encode())
        os.set_inheritable(inherited.fileno(), True)
        async with place(engine) as env:
            whole = await env.run(
                "env; cat /proc/*/environ; cat <&9; ls -l /proc/1/fd /proc/self/fd"
            )
            assert CANARY not in whole.output
            assert inherited.name not in ("", None)
            record = Records(runtime_root()).read(env.id)
            assert record is not None
            code = """
import glob, os
t = bytes.fromhex(__import__("sys").argv[1])
for d in ("/proc/[0-9]*/environ", "/proc/[0-9]*/cmdline", "/run/**", "/tmp/**", "/root/**", "/var/tmp/**"):
    for f in filter(os.path.isfile, glob.glob(d, recursive=True)):  # a channel of a shell would never end
        try: print(f) if t in open(f, "rb").read(1 << 20) else None
        except OSError: pass
print("looked")
"""
            assert await say(env, code, record.token.hex()) == "looked"


@both_engines
async def test_probes_23_to_41_the_kernels_surface_is_small(engine: str) -> None:
    async with place(engine) as env:
        lines = (await say(env, PROBE, *NUMBERS)).splitlines()
        said = dict(line.split() for line in lines)
        # An engine's library of calls may be older than the youngest of the table: they do not
        # exist there.
        refused = {name.partition("=")[0]: said[name.partition("=")[0]] for name in NUMBERS}
        assert set(refused.values()) <= {"EPERM", "ENOSYS"}, refused
        assert {name: said[name] for name in PLAIN} == PLAIN


@both_engines
async def test_probes_24_to_38_nothing_of_the_machine_can_be_changed(engine: str) -> None:
    async with place(engine) as env:
        for command in (
            "mount -t tmpfs t /mnt",
            "unshare -Urm true",
            "mknod x b 8 0",
            "mknod x c 1 1",
            "hostname x",
            ": >>/proc/sys/kernel/core_pattern",
            ": >>/proc/sysrq-trigger",
            ": >>/sys/fs/cgroup/memory/release_agent",
            ": >>/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "mkdir /sys/fs/cgroup/memory/x",
            "dmesg",
        ):
            assert (await env.run(command)).exit_code != 0, command
        devices = set((await env.run("ls /dev")).output.split())
        assert not devices & {"kvm", "mem", "kmem", "fuse", "vsock", "kmsg", "sda", "vda"}
        status = (await env.run("cat /proc/self/status")).output
        assert "NoNewPrivs:\t1" in status
        assert "CapEff:\t00000000000000cb" in status
        assert (
            await env.run(
                "find / -xdev -type s -not -path '/run/hermetic/*'; ls /var/run/docker.sock"
            )
        ).exit_code != 0


@both_engines
async def test_probe_39_nobody_becomes_another_user_where_files_reach_the_host(
    engine: str, tmp_path: Path
) -> None:
    async with place(engine, host_cwd=str(tmp_path)) as env:
        assert "CapEff:\t0000000000000000" in (await env.run("cat /proc/self/status")).output
        code = "import os\ntry: os.setuid(12345); print('became')\nexcept OSError: print('refused')"
        assert await say(env, code) == "refused"


@both_engines
async def test_probes_45_and_46_bombs_meet_their_limits(engine: str) -> None:
    fork = (
        "import os, time\nn = 0\nfor _ in range(400):\n"
        " try: pid = os.fork()\n except OSError as error: print(error.errno); break\n"
        " if not pid: time.sleep(60); os._exit(0)\n n += 1\nprint(n)"
    )
    memory = "data = []\nwhile len(data) < 40: data.append(bytearray(16 << 20)); print(len(data), flush=True)"
    async with place(engine, pids=64, memory_bytes=128 << 20) as env:
        error, count = (await say(env, fork)).split()
        assert error == "11"
        assert int(count) < 64
        result = await env.run(["python3", "-c", memory], timeout=60)
        assert result.ending == hermetic.OutOfMemory()
        assert int(result.output.split()[-1]) < 8
        assert (await env.run("echo alive")).output == "alive\n"


async def test_probes_47_to_54_disks_and_memory_file_systems(engine: str) -> None:
    async with place(engine, memory_bytes=128 << 20) as env:
        assert any("no limit on disk" in note for note in env.isolation.notes)  # 47, 48
        for path in ("/tmp/fill", "/dev/shm/fill", "/run/fill"):
            result = await env.run(
                f"head -c 200M /dev/zero >{path}; echo alive; rm {path}", timeout=60
            )
            assert "No space left on device" in result.output
            assert result.output.endswith("alive\n")
        assert (await env.run("cp /bin/true /tmp/t && /tmp/t")).exit_code == 0  # 54
        assert (await env.run("cp /bin/true /run/t && /run/t")).exit_code != 0
        # 50: on disk
        assert (
            await env.run("head -c 300M /dev/zero >/var/tmp/big && rm /var/tmp/big")
        ).exit_code == 0


@both_engines
async def test_probes_55_to_58_there_is_no_network_unless_asked_for(engine: str) -> None:
    code = """
import socket, sys
for address in (("1.1.1.1", 443), ("127.0.0.1", int(sys.argv[1]))):
    for kind in (1, 2):
        try:
            s = socket.socket(2, kind); s.settimeout(2); s.connect(address); print(kind, "sent", s.send(b"x"))
        except OSError as error: print(type(error).__name__ if address[0] == "127.0.0.1" else error.errno in (101, 1))
"""
    with socket.create_server(("127.0.0.1", 0)) as server:
        async with place(engine) as env:
            said = (await say(env, code, str(server.getsockname()[1]))).splitlines()
            assert said[:3] == ["True", "True", "ConnectionRefusedError"]
            result = await env.run("getent hosts example.com", timeout=20)
            assert result.exit_code not in (0, 124)
            assert env.isolation.separate_network


CONNECT = """
import socket, sys
for address in sys.argv[2:]:
    try:
        s = socket.create_connection((address, int(sys.argv[1])), 2); s.close(); print("answered")
    except TimeoutError: print("silent")
    except OSError: print("refused")
"""
METADATA = ("169.254.169.254", "fd00:ec2::254", "2852039166", "metadata.google.internal")
UNDO = """
import socket, struct
kernel = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
route = struct.pack("=BBBBBBBBI", 2, 32, 0, 0, 254, 4, 0, 7, 0) + struct.pack("=HH", 8, 1) + bytes((169, 254, 169, 254))
kernel.send(struct.pack("=IHHII", 16 + len(route), 25, 5, 1, 0) + route)
print(struct.unpack_from("=i", kernel.recv(4096), 16)[0])
"""


@both_engines
async def test_probes_59_and_60_metadata_gateway_and_neighbours_are_refused_with_the_network_on(
    engine: str,
) -> None:
    gateway = gateway_of(engine)
    with socket.create_server(("", 0)) as server:
        port = str(server.getsockname()[1])
        async with place(engine, network=True) as neighbour, place(engine, network=True) as env:
            where = "import socket; print(socket.gethostbyname(socket.gethostname()))"
            address = await say(neighbour, where)
            listening = await neighbour.start(["python3", "-u", "-m", "http.server", port])
            await listening.wait_for("Serving", timeout=20)
            said = await say(env, CONNECT, port, gateway, address, *METADATA)
            assert set(said.splitlines()) == {"refused"}
            if own := own_address():
                assert await say(env, CONNECT, port, own) == "answered"  # there is a network
            assert await say(env, UNDO) == str(-errno.EPERM)
            assert not any("gateway" in note or "metadata" in note for note in env.isolation.notes)


async def test_who_cannot_be_fenced_in_is_told_so(engine: str) -> None:
    gateway = gateway_of(engine)
    async with place(engine, network=True, user="1000:1000", cwd="/tmp") as env:
        [noted] = [note for note in env.isolation.notes if "answer" in note]
        assert all(word in noted for word in ("other containers", "gateway", "metadata"))
        with socket.create_server(("", 0)) as server:
            port = str(server.getsockname()[1])
            # The engine itself may keep containers from its gateway: a plain one shows what this
            # one reaches.
            words = [
                "run",
                "--rm",
                "--user",
                "1000:1000",
                need_variable("IMAGE_BASE"),
                "python3",
                "-c",
                CONNECT,
            ]
            plain = await asyncio.to_thread(ask, engine, [*words, port, gateway])
            assert await say(env, CONNECT, port, gateway) == plain


async def test_no_route_of_this_machine_is_changed(engine: str) -> None:
    before = routes()
    async with place(engine, network=True, extra_args=["--network=host"]) as env:
        assert (await env.run("cat /proc/net/route")).output == before
        assert any("gateway answer" in note for note in env.isolation.notes)
    assert routes() == before


def routes() -> str:
    return Path("/proc/net/route").read_text()


def own_address() -> str:
    """Of this machine where a packet for elsewhere would come from; empty where it has no other
    network.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as anywhere, contextlib.suppress(OSError):
        anywhere.connect(("198.51.100.1", 9))
        return str(anywhere.getsockname()[0])
    return ""


def gateway_of(engine: str) -> str:
    """The address of this machine on the engine's bridge; ends the calling test where there is
    none.
    """
    form = (
        "{{(index .IPAM.Config 0).Gateway}}"
        if engine == "docker"
        else "{{(index .Subnets 0).Gateway}}"
    )
    try:
        return ask(
            engine,
            ["network", "inspect", "--format", form, "bridge" if engine == "docker" else "podman"],
        )
    except subprocess.CalledProcessError:
        pytest.skip(f"{engine} has no bridge here: its containers have no neighbours")


async def test_probes_62_to_65_nothing_outlives_a_timeout_and_no_zombie_stays(engine: str) -> None:
    escape = "(trap '' TERM HUP; setsid sh -c 'trap \"\" TERM HUP; sleep 654.321 & sleep 654.321' &) ; sleep 654.321"
    async with place(engine) as env:
        result = await env.run(escape, timeout=0.5)
        assert isinstance(result.ending, hermetic.TimedOut)
        assert (await env.run("pgrep -fc '[6]54.321'")).output == "0\n"
        await env.run("for i in {1..500}; do (setsid true &); done")
        left = """
import glob, time
def is_zombie(path):
    try:
        return open(path).read().rpartition(")")[2].split()[0] == "Z"
    except OSError:  # gone meanwhile
        return False
for _ in range(600):  # one that has just ended is collected a moment later; none stays
    count = sum(map(is_zombie, glob.glob("/proc/[0-9]*/stat")))
    if not count: break
    time.sleep(0.1)
print(count)
"""
        assert await say(env, left) == "0"


async def test_probe_85_another_user_inside_does_not_reach_the_resident(engine: str) -> None:
    code = """
import os, socket
os.setgid(12345); os.setuid(12345)
s = socket.socket(socket.AF_UNIX); s.settimeout(5)
try: s.connect("/run/hermetic/s"); print(s.recv(1) or "closed")
except OSError as error: print(type(error).__name__)
"""
    async with place(engine) as env:
        assert await say(env, code) in ("PermissionError", "b''", "closed")
        assert (await env.run("stat -c %a /run/hermetic/s")).output == "600\n"


JOURNEY = """
import asyncio, json, sys
import hermetic

async def main():
    image, shared = sys.argv[1:]
    said = {}
    async with hermetic.open("docker", image=image, network=False) as env:
        said["root"] = (await env.run("id -u; pwd; stat -c %a /run/hermetic/s")).output
    async with hermetic.open("docker", image=image, network=False, volumes=[shared + ":/shared"]) as env:
        text = "id -u; pwd; touch ~/home /shared/made; cp /bin/true /shared/s; chmod 4755 /shared/s; chown 0 /shared/s"
        said["user"] = (await env.run(text)).output
    print(json.dumps(said))

asyncio.run(main())
"""


@pytest.fixture
def user() -> Iterator[OrdinaryUser]:
    """Somebody who may use the engine and is not root."""
    need_root("another user can only be had by root")
    with tempfile.TemporaryDirectory(prefix="hd-", dir="/tmp") as home:
        Path(home).chmod(0o755)
        group = Path(need_variable("DOCKER_HOST").removeprefix("unix://")).stat().st_gid
        yield OrdinaryUser("nobody", Path(home), groups=[group])


async def test_an_ordinary_user_owns_what_his_containers_leave(user: OrdinaryUser) -> None:
    need_engine("docker")
    shared = user.home / "shared"
    shared.mkdir()
    os.chown(shared, user.uid, user.gid)
    text = user.run(
        JOURNEY, need_variable("IMAGE_BASE"), str(shared), DOCKER_HOST=need_variable("DOCKER_HOST")
    )
    said = json.loads(text)
    assert said["root"].split() == ["0", "/root", "666"]
    assert said["user"].splitlines()[:2] == [str(user.uid), "/root"]
    assert said["user"].count("not permitted") == 2
    assert owners(shared) == {user.uid}
    assert (shared / "s").stat().st_mode & 0o4000 == 0
