"""Filters of system calls, put to real calls in bubblewrap, docker and podman."""

import platform
import re
import signal
import subprocess
from pathlib import Path

import msgspec
import pytest

from hermetic.contract.errors import Unsupported
from hermetic.environments.isolation.seccomp import (
    ALLOWED,
    ASKED,
    MODES,
    NEWEST,
    REFUSED,
    bpf,
    docker_profile,
)
from tests.environments.syscalls import PLAIN, told
from tests.programs import need, need_variable, unavailable

MACHINE = platform.machine()
NUMBERS = [
    f"{name}={number}"
    for name, numbers in REFUSED.items()
    if (number := getattr(numbers, MACHINE, None)) is not None
]
HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
# Numbers that no kernel of the last ten years answers, and names that only the generic header has.
NO_CALL = """
getpmsg putpmsg afs_syscall tuxcall security vserver epoll_ctl_old epoll_wait_old syscalls arch_specific_syscall fstatat
sync_file_range2
"""


def expected() -> dict[str, str]:
    return {**PLAIN, **{name.partition("=")[0]: "EPERM" for name in NUMBERS}}


def test_bubblewrap_refuses_every_call_of_the_table(tmp_path: Path) -> None:
    need("bwrap")
    (tmp_path / "filter").write_bytes(bpf())
    script = 'exec bwrap --unshare-user --dev-bind / / --proc /proc --seccomp 9 /usr/bin/python3 "$@" 9<"$0"'
    said = told(["sh", "-c", script, str(tmp_path / "filter")], NUMBERS)
    assert {name: said[name] for name in expected()} == expected()
    assert said["x32"] == "0"


SET_USER_ID = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
os.chdir(os.sys.argv[1])
def tried(act):
    try:
        act()
    except OSError as error:
        return error.errno
    return 0
os.mknod("f")
made = os.O_CREAT | os.O_WRONLY
ways = [
    lambda: os.chmod("f", 0o4755), lambda: os.fchmod(os.open("f", os.O_RDONLY), 0o4755), lambda: os.mknod("n", 0o4755),
    lambda: os.open("o", made, 0o4755), lambda: os.open(".", os.O_TMPFILE | os.O_RDWR, 0o4755),
]
how = (ctypes.c_uint64 * 3)(made, 0o4755, 0)
print([tried(way) for way in ways], libc.syscall(437, -100, b"p", how, 24), ctypes.get_errno())
print(os.open("f", os.O_RDONLY, 0o4755) > 0, tried(lambda: os.chmod("f", 0o755)), tried(lambda: os.chmod(".", 0o2755)))
print([oct(os.stat(name).st_mode) for name in os.listdir(".")])
"""


def test_no_file_gets_the_rights_of_its_owner_in_bubblewrap(tmp_path: Path) -> None:
    need("bwrap")
    (tmp_path / "filter").write_bytes(bpf(may_set_uid=False))
    (tmp_path / "ws").mkdir()
    script = 'exec bwrap --unshare-user --dev-bind / / --seccomp 9 /usr/bin/python3 -c "$@" 9<"$0"'
    argv = ["sh", "-c", script, str(tmp_path / "filter"), SET_USER_ID, str(tmp_path / "ws")]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines() == ["[1, 1, 1, 1, 1] -1 38", "True 0 0", "['0o100755']"]


@pytest.fixture
def profile(tmp_path: Path) -> str:
    """The option that makes an engine use our profile."""
    path = tmp_path / "seccomp.json"
    path.write_text(docker_profile())
    return f"--security-opt=seccomp={path}"


@pytest.mark.parametrize("engine", ["docker", "podman"])
def test_an_engine_refuses_every_call_of_the_table(engine: str, profile: str) -> None:
    argv = [need(engine), "run", "--rm", "--network=none", "--cap-drop=ALL", profile]
    said = told([*argv, need_variable("IMAGE_BASE"), "python3"], NUMBERS)
    # The engine's library of calls is older than the youngest of the table: they do not exist
    # there.
    young = {name for name, numbers in REFUSED.items() if (numbers.x86_64 or 0) > 450}
    assert said["x32"] in ("0", f"-{signal.SIGSYS.value}")
    assert {name: said[name] for name in expected().keys() - young} == {
        name: error for name, error in expected().items() if name not in young
    }
    assert {said[name] for name in young} <= {"EPERM", "ENOSYS"}


def test_an_engine_gives_no_call_back_for_a_capability(profile: str) -> None:
    argv = [need("docker"), "run", "--rm", "--network=none", "--cap-add=SYS_ADMIN", profile]
    argv += [need_variable("IMAGE_BASE"), "mount", "-t", "tmpfs", "t", "/mnt"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert "permission denied" in done.stderr


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_every_call_the_kernel_names_is_either_allowed_refused_or_asked_about(machine: str) -> None:
    header = HEADERS[machine]
    if not header.exists():
        unavailable(f"no {header}; install linux-libc-dev")
    named = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", header.read_text())
    known = {
        name for name, _ in named if not name.endswith("time64") and not name.endswith("64_time")
    }
    known -= {name for name in known if re.fullmatch(r"clock_\w+64", name)} | {
        "timer_gettime64",
        "timer_settime64",
    }
    known -= {"timerfd_gettime64", "timerfd_settime64"} | set(NO_CALL.split())
    assert known - set(ALLOWED.split()) - set(REFUSED) - set(ASKED) == set()
    for name, number in named:
        table = {**REFUSED, **ASKED, **{mode: where.numbers for mode, where in MODES.items()}}
        if name in table:
            assert getattr(table[name], machine) == int(number), name
        assert int(number) <= NEWEST


def test_nothing_is_both_allowed_and_refused() -> None:
    allowed = ALLOWED.split()
    assert sorted(allowed) == allowed
    assert len(set(allowed)) == len(allowed)
    assert not set(allowed) & (set(REFUSED) | set(ASKED))


def test_a_request_passes_the_profile_exactly_when_it_types_into_no_terminal() -> None:
    rules = msgspec.json.decode(docker_profile())["syscalls"]
    tests = [rule["args"][0] for rule in rules if rule["names"] == ["ioctl"]]

    def fits(request: int) -> bool:
        return any(request & test["value"] == test["valueTwo"] for test in tests)

    refused = [request for request in range(0x10000) if not fits(request)]
    assert refused == [0x5412, 0x541C]
    assert not fits(0x5412 | 7 << 40)
    assert fits(0x80045430)


def test_an_unknown_architecture_is_told_and_not_left_open() -> None:
    with pytest.raises(Unsupported, match="riscv64"):
        bpf("riscv64")
    assert len(bpf("aarch64")) % 8 == 0
