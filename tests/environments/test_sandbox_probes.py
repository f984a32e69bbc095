"""What a command in a sandbox must not be able to do.

The numbers are those of the table in docs/environments.md.
"""

import os
import socket
import sys
from pathlib import Path

import pytest

import hermetic
from hermetic.registry.records import Records, runtime_root
from tests.environments.sandboxes import kept_of, run_program, sandbox
from tests.programs import need, need_root

CANARY = "canary-7f3a"


async def said(environment: hermetic.Environment, command: str) -> str:
    """All output of a command, whatever came of it."""
    return (await environment.run(command, timeout=30)).output


async def say(environment: hermetic.Environment, code: str) -> str:
    """What a Python program prints inside."""
    result = await environment.run(["python3", "-c", code], timeout=30)
    return result.output.strip()


# -- 1. files and secrets


@pytest.mark.parametrize(
    ("number", "path"),
    [
        (1, "/etc/shadow"),
        (1, "/etc/gshadow"),
        (1, "/etc/sudoers"),
        (1, "/etc/ssh/ssh_host_ed25519_key"),
        (1, "/root"),
    ],
)
async def test_probe_1_secrets_of_the_machine_are_not_there(
    tmp_path: Path, number: int, path: str
) -> None:
    async with sandbox(tmp_path) as environment:
        assert "No such file" in await said(environment, f"ls {path}")


async def test_probe_2_secrets_of_the_user_are_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    names = (".ssh/id_rsa", ".aws/credentials", ".netrc", ".config/gh/hosts.yml", ".bash_history")
    for name in names:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(CANARY)
    (home / "project").mkdir()
    monkeypatch.setenv("HOME", str(home))
    async with sandbox(home / "project") as environment:
        whole = await said(environment, f"cd; pwd; cat {' '.join(names)}; ls -A ~")
        assert CANARY not in whole
        assert whole.startswith(f"{home}\n")
        assert whole.endswith("project\n")


async def test_probe_3_nothing_outside_of_the_workspace_can_be_written(tmp_path: Path) -> None:
    async with sandbox(tmp_path) as environment:
        for path in ("/etc/p", "/usr/p", "/p", "/opt/p", "/dev/p", "/run/p", "/var/p", "/home/p"):
            result = await environment.run(f"echo x > {path}")
            assert result.exit_code != 0, path
        name = f"probe-{tmp_path.name}"
        private = await environment.run(
            f"echo x > /tmp/{name} && echo x > ~/{name} && cat /var/tmp/{name} ~/{name}"
        )
        assert private.output == "x\nx\n"
        await environment.run(f"echo x > {tmp_path}/../{name}")
    assert not any(
        name in os.listdir(place) for place in ("/tmp", os.environ["HOME"], tmp_path.parent)
    )


async def test_probe_4_and_5_a_link_in_the_workspace_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "ws").mkdir()
    (tmp_path / "target").write_text("untouched")
    async with sandbox(tmp_path / "ws") as environment:
        await said(environment, f"ln -s {tmp_path}/target l; ln -sfn /etc d; ln -s ../target f")
        # Files are served from inside, so that a link means there what it means to a command.
        for path in ("l", "f", "d/shadow"):
            with pytest.raises(FileNotFoundError):
                await environment.read_file(path)
        await environment.write_file("f", "x")
        await said(environment, "echo x > l; echo x > f")
    assert (tmp_path / "target").read_text() == "untouched"


async def test_probe_8_to_11_files_on_this_side_stay_the_callers(tmp_path: Path) -> None:
    (tmp_path / "hidden").write_text(CANARY)
    if os.geteuid() == 0:  # else it cannot be given to somebody else
        (tmp_path / "hidden").chmod(0)
        os.chown(tmp_path / "hidden", 12345, 12345)
        async with sandbox(tmp_path) as environment:
            assert CANARY not in await said(environment, "cat hidden; chmod 644 hidden; cat hidden")
    async with sandbox(tmp_path) as environment:
        await said(environment, "cp /bin/true s; chmod 755 s; chmod 4755 s; touch c; chown 12345 c")
    assert (tmp_path / "s").stat().st_mode & 0o7777 == 0o755
    assert (tmp_path / "c").stat().st_uid == os.geteuid()


async def test_probe_12_what_this_side_runs_is_refused_or_reported(tmp_path: Path) -> None:
    await run_program(need("git"), "init", "-q", tmp_path)
    (tmp_path / "hermetic.toml").touch()
    (tmp_path / ".hermetic").mkdir()
    async with sandbox(tmp_path) as environment:
        for path in (".git/hooks/pre-commit", ".git/config", "hermetic.toml", ".hermetic/settings"):
            assert (
                await environment.run(f"mkdir -p $(dirname {path}); echo x > {path}")
            ).exit_code != 0
        reported = next(note for note in environment.isolation.notes if ".envrc" in note)
        assert ".vscode" in reported
    async with sandbox(tmp_path, protect=[".envrc", ".vscode/"]) as environment:
        assert (await environment.run("echo x > .envrc")).exit_code != 0
        assert (
            await environment.run("mkdir -p .vscode; echo x > .vscode/tasks.json")
        ).exit_code != 0


# -- 2. secrets in the environment


async def test_probe_17_to_20_no_variable_of_the_caller_is_to_be_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVICE_TOKEN", CANARY)
    async with sandbox(tmp_path) as environment:
        whole = await said(
            environment, "env; cat /proc/*/environ | tr '\\0' '\\n'; tr '\\0' ' ' </proc/1/environ"
        )
        assert CANARY not in whole
        assert "Permission denied" in await said(environment, "cat /proc/1/environ")


LOOK = """
for f in [f for d in ("/proc/[0-9]*/environ", "/proc/[0-9]*/cmdline", "/run/**", "/tmp/**") for f in glob.glob(d)]:
    try:
        print(f) if t in open(f, "rb").read(1 << 20) else None
    except OSError:
        pass
"""


async def test_probe_22_the_token_is_nowhere_inside(tmp_path: Path) -> None:
    async with sandbox(tmp_path) as environment:
        record = Records(runtime_root()).read(environment.id)
        assert record is not None
        code = f"import glob; t = bytes.fromhex({record.token.hex()!r})" + LOOK
        # The program that looks has it among its own arguments, as text; the bytes themselves are
        # nowhere.
        assert await say(environment, code) == ""


# -- 3. the kernel

CALL = (
    "import ctypes, errno; l = ctypes.CDLL(None, use_errno=True); "
    "print(l.syscall({}), errno.errorcode.get(ctypes.get_errno()))"
)

needs_x86 = pytest.mark.skipif(
    os.uname().machine != "x86_64", reason="the numbers are those of x86_64"
)


# By the probe's number.
REFUSED = [
    (23, "165, b't', b'/mnt', b'tmpfs', 0, None"),
    (24, "272, 0x10000000"),
    (27, "425, 4, ctypes.create_string_buffer(120)"),
    (28, "250, 0, -4, 1"),
    (28, "248, b'user', b'k', b'v', 1, -3"),
    (28, "249, b'user', b'k', None, -3"),
    (29, "321, 5, None, 0"),
    (29, "298, ctypes.create_string_buffer(128), 0, -1, -1, 0"),
    (30, "323, 1"),
    (37, "175, None, 0, b''"),
    (37, "246, 0, 0, None, 0"),
    (37, "227, 0, ctypes.create_string_buffer(16)"),
    (37, "170, b'x', 1"),
    (37, "167, b'/x', 0"),
    (37, "304, -1, None, 0"),
    (37, "161, b'/tmp'"),
    (37, "308, 0, 0"),
]


@needs_x86
async def test_probe_23_to_37_calls_that_reach_the_machine_are_refused(tmp_path: Path) -> None:
    async with sandbox(tmp_path) as environment:
        for number, call in REFUSED:
            assert await say(environment, CALL.format(call)) == "-1 EPERM", (number, call)


async def test_probe_24_no_namespace_of_its_own(tmp_path: Path) -> None:
    async with sandbox(tmp_path) as environment:
        result = await environment.run("unshare -Urm sh -c 'mount -t tmpfs t /tmp && echo mounted'")
        assert result.exit_code != 0
        assert "mounted" not in result.output


# The probe's number, then family, type and protocol.
SOCKETS = [
    (31, 2, 3, 1),
    (31, 17, 3, 0),
    (32, 40, 1, 0),
    (33, 38, 5, 0),
    (33, 29, 3, 1),
    (33, 44, 3, 0),
]


@pytest.mark.parametrize("network", [False, True])
async def test_probe_31_to_33_sockets_that_lead_past_the_network_are_refused(
    tmp_path: Path, network: bool
) -> None:
    async with sandbox(tmp_path, network=network) as environment:
        for probe in SOCKETS:
            make = f"socket.socket{probe[1:]}"
            code = f"import socket\ntry: {make}; print('made')\nexcept PermissionError: print('refused')"
            assert await say(environment, code) == "refused", probe


async def test_probe_34_no_devices_but_the_harmless(tmp_path: Path) -> None:
    async with sandbox(tmp_path) as environment:
        assert (await environment.run("mknod x b 8 0 || mknod y c 1 1")).exit_code != 0
        devices = (await said(environment, "ls /dev")).split()
        assert set(devices) <= {
            "console",
            "core",
            "fd",
            "full",
            "null",
            "ptmx",
            "pts",
            "random",
            "shm",
            "stderr",
            "stdin",
            "stdout",
            "tty",
            "urandom",
            "zero",
        }


async def test_probe_35_and_36_the_kernels_own_files_cannot_be_written(tmp_path: Path) -> None:
    async with sandbox(tmp_path) as environment:
        # Opened for writing and left at that: a sandbox that fails here must not harm the machine
        # that tests it.
        assert (await environment.run("find /proc -maxdepth 1 -name sys -writable")).output == ""
        for path in (
            "/proc/sys/kernel/core_pattern",
            "/proc/sysrq-trigger",
            "/proc/sys/kernel/domainname",
            "/proc/sys/vm/drop_caches",
            "/proc/irq/default_smp_affinity",
            "/proc/mtrr",
            "/sys/fs/cgroup/memory/release_agent",
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory.max",
            "/sys/fs/cgroup/cgroup.procs",
            "/sys/fs/cgroup/memory/cgroup.procs",
        ):
            assert (await environment.run(f": >> {path}")).exit_code != 0, path
        assert (
            await environment.run("mount -o remount,rw / || mount -t cgroup -o rdma c /tmp")
        ).exit_code != 0


async def test_probe_35_what_root_owns_of_the_machine_keeps_its_modes(tmp_path: Path) -> None:
    async with sandbox(tmp_path) as environment:
        for path in (
            "/dev/null",
            "/dev/tty",
            "/dev/urandom",
            "/proc/meminfo",
            "/proc/uptime",
            "/usr/bin/env",
        ):
            # The mode it has: a sandbox that fails here must not harm the machine that tests it.
            assert (await environment.run(f"chmod $(stat -c %a {path}) {path}")).exit_code != 0, (
                path
            )
        assert await said(
            environment, "echo x > /dev/null && head -c 4 /dev/zero | wc -c; cat /proc/1/comm"
        ) == ("4\nhermetic-reside\n")


async def test_probe_38_and_39_no_program_gets_more_rights(tmp_path: Path) -> None:
    async with sandbox(tmp_path) as environment:
        status = await said(environment, "cat /proc/self/status")
        assert "NoNewPrivs:\t1" in status
        assert "CapEff:\t0000000000000000" in status
        assert "CapBnd:\t0000000000000000" in status
        assert "Seccomp:\t2" in status
        code = "import os\ntry: os.setuid(12345); print('became')\nexcept OSError: print('refused')"
        assert await say(environment, code) == "refused"


async def test_probe_41_no_keys_are_typed_into_a_terminal(tmp_path: Path) -> None:
    code = (
        "import fcntl\nfor request in (0x5412, 0x541c):\n"
        " try: fcntl.ioctl(0, request, b'#'); print('typed')\n except PermissionError: print('refused')"
    )
    async with sandbox(tmp_path) as environment:
        process = await environment.start(["python3", "-c", code], pty=True)
        assert await process.wait(timeout=20) == hermetic.Exited(0)
        assert (await process.read()).data.split() == [b"refused", b"refused"]


async def test_probe_43_no_socket_of_the_machine_is_there(tmp_path: Path) -> None:
    async with sandbox(tmp_path, network=True) as environment:
        found = await said(
            environment, "find / -type s -not -path '/proc/*' 2>/dev/null; ls /run /var/run/"
        )
        assert found.split() == [
            "/run/hermetic/place/s",
            "/run:",
            "hermetic",
            "/var/run/:",
            "hermetic",
        ]


async def test_probe_44_the_kernel_tells_little(tmp_path: Path) -> None:
    async with sandbox(tmp_path) as environment:
        assert (await environment.run("dmesg")).exit_code != 0
        assert (await environment.run("cat /proc/keys")).exit_code != 0
        addresses = await said(environment, "head -5 /proc/kallsyms | cut -d' ' -f1 | sort -u")
        assert set(addresses.split()) <= {"0000000000000000"}
        assert await said(environment, "ls /sys/block 2>/dev/null") == ""


# -- 4. resources


async def test_probe_45_a_fork_bomb_meets_its_limit(tmp_path: Path) -> None:
    code = (
        "import os, time\nn = 0\n"
        "for _ in range(400):\n"
        " try: pid = os.fork()\n except OSError as error: print(error.errno); break\n"
        " if not pid: time.sleep(60); os._exit(0)\n n += 1\nprint(n)"
    )
    async with sandbox(tmp_path, pids=64) as environment:
        error, count = (await say(environment, code)).split()
        assert error == "11"
        assert int(count) < 64
        assert (await environment.run("echo alive")).output == "alive\n"


async def test_probe_46_a_memory_bomb_ends_alone(tmp_path: Path) -> None:
    code = "data = []\nwhile len(data) < 40: data.append(bytearray(16 << 20)); print(len(data), flush=True)"
    async with sandbox(tmp_path, memory_bytes=128 << 20) as environment:
        if not kept_of(environment).cgroups:
            pytest.skip("no cgroup can be made here: run the tests as root")
        result = await environment.run(["python3", "-c", code], timeout=60)
        assert result.ending == hermetic.OutOfMemory()
        assert int(result.output.split()[-1]) < 8
        assert (await environment.run("echo alive")).output == "alive\n"


async def test_probe_47_and_48_a_missing_disk_quota_is_named(tmp_path: Path) -> None:
    async with sandbox(tmp_path) as environment:
        assert any(
            note.startswith("no disk quota") and str(tmp_path) in note
            for note in environment.isolation.notes
        )
        assert any("processor time" in note for note in environment.isolation.notes)  # 52
        assert "Read-only" in await said(environment, "dd if=/dev/zero of=/fill bs=1M count=1")


@pytest.mark.parametrize("path", ["/tmp/fill", "/dev/shm/fill", "~/fill", "/var/tmp/fill"])
async def test_probe_49_and_50_files_in_memory_have_a_size_that_fits_the_memory(
    tmp_path: Path, path: str
) -> None:
    async with sandbox(tmp_path, memory_bytes=128 << 20) as environment:
        result = await environment.run(f"head -c 200M /dev/zero > {path}; echo alive", timeout=60)
        assert "No space left on device" in result.output
        assert result.output.endswith("alive\n")


async def test_probe_54_programs_in_tmp_can_be_run(tmp_path: Path) -> None:
    async with sandbox(tmp_path) as environment:
        assert (await environment.run("cp /bin/true /tmp/t && /tmp/t")).exit_code == 0


# -- 5. the network


async def test_probe_55_to_57_there_is_no_network(tmp_path: Path) -> None:
    code = (
        "import socket\n"
        "for kind, proto in ((1, 0), (2, 0), (2, 1)):\n"
        " try:\n"
        "  s = socket.socket(2, kind, proto); s.settimeout(2); s.connect(('1.1.1.1', 443)); print(s.send(b'x' * 8))\n"
        " except OSError as error: print(error.errno in (101, 1, 13))"
    )
    async with sandbox(tmp_path) as environment:
        assert (await say(environment, code)).split() == ["True"] * 3
        result = await environment.run("getent hosts example.com", timeout=20)
        assert result.exit_code not in (0, 124)


async def test_probe_58_ports_and_abstract_sockets_of_the_machine_do_not_answer(
    tmp_path: Path,
) -> None:
    name = f"\0hermetic-test-{os.getpid()}"
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as abstract,
    ):
        abstract.bind(name)
        abstract.listen()
        code = (
            "import socket\n"
            f"for family, address in ((2, ('127.0.0.1', {server.getsockname()[1]})), (1, {name!r})):\n"
            " try: socket.socket(family).connect(address); print('reached')\n except OSError: print('refused')"
        )
        async with sandbox(tmp_path) as environment:
            assert (await say(environment, code)).split() == ["refused", "refused"]
        async with sandbox(tmp_path, network=True) as environment:
            reached, closed = (await say(environment, code)).split()
            assert reached == "reached"
            notes = environment.isolation.notes
            # 59, 60: there is no bridge that could refuse
            assert any("its ports" in note for note in notes)
            assert (closed == "refused") is not any("abstract sockets" in note for note in notes)
            own = "import socket as s; a = s.socket(1); a.bind('\\0own'); a.listen(); s.socket(1).connect('\\0own')"
            assert await say(environment, own) == ""


# -- 6. processes

ESCAPES = "import os, signal, time\nfor s in (1, 15): signal.signal(s, signal.SIG_IGN)\n" + (
    "if os.fork(): time.sleep(600)\nos.setsid()\nif os.fork(): os._exit(0)\ntime.sleep(600)"
)


async def test_probe_62_and_65_nothing_outlives_a_timeout(tmp_path: Path) -> None:
    async with sandbox(tmp_path) as environment:
        before = await environment.run("true")
        assert before.exit_code == 0
        result = await environment.run(["python3", "-c", ESCAPES], timeout=0.5)
        assert result.ending == hermetic.TimedOut(after=0.5)
        assert (await said(environment, "pgrep python3")).split() == []
        await environment.run(
            "for i in $(seq 300); do (sleep 0.001 &) ; done; sleep 0.5", timeout=60
        )
        # One that has just ended is a zombie until it is collected a moment later; none stays.
        none = "for i in {1..50}; do n=$(ps -eo stat= | grep -c Z); [ $n = 0 ] && break; sleep 0.1; done; echo $n"
        assert await said(environment, none) == "0\n"


async def test_probe_66_a_background_child_does_not_hold_the_result(tmp_path: Path) -> None:
    async with sandbox(tmp_path) as environment:
        result = await environment.run("sleep 300 & echo ok", timeout=20)
        assert (result.output, result.exit_code) == ("ok\n", 0)


# -- 8. the way in


async def test_probe_85_another_user_cannot_reach_the_resident(tmp_path: Path) -> None:
    need_root("only root can try as another user")
    code = "import socket, sys\ntry: socket.socket(1).connect(sys.argv[1])\nexcept PermissionError: print('refused')"
    async with sandbox(tmp_path) as environment:
        record = Records(runtime_root()).read(environment.id)
        assert record is not None
        argv = [
            need("setpriv"),
            "--reuid=65534",
            "--clear-groups",
            "/usr/bin/python3",
            "-c",
            code,
            record.socket,
        ]
        assert (await run_program(*argv))[1] == "refused\n"


async def test_probe_102_without_bubblewrap_nothing_runs_unprotected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    code, output = await run_program(
        sys.executable, "-m", "hermetic", "run", "--env", "sandbox", "--", "touch ran"
    )
    assert code == 125
    assert "bubblewrap" in output
    assert not (tmp_path / "ran").exists()
