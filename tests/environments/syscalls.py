"""A program that makes system calls which a contained command is refused, and what it says of each."""

import subprocess
from collections.abc import Sequence

# Prints one line for each call: its name and "ok" or the name of the error. Arguments are calls to
# make: NAME=NUMBER.
PROBE = r"""
import ctypes, errno, os, pty, socket, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
numbers = dict(argument.split("=") for argument in sys.argv[1:])

def said(name, result):
    code = ctypes.get_errno()
    print(name, "ok" if result >= 0 else errno.errorcode[code], flush=True)

def call(name, number, *args):
    ctypes.set_errno(0)
    said(name, libc.syscall(ctypes.c_long(number), *(ctypes.c_ulong(a & (1 << 64) - 1) for a in args)))

for name, number in numbers.items():
    call(name, int(number), -1, -1, -1, -1, -1)
machine = os.uname().machine
nr = {"x86_64": dict(socket=41, ioctl=16, clone=56, personality=135), "aarch64": dict(
    socket=198, ioctl=29, clone=220, personality=92)}[machine]
for family in (1, 2, 10, 16, 17, 38, 40):
    call("socket-%d" % family, nr["socket"], family, 2 if family != 16 else 3, 0)
call("socket-vsock-high", nr["socket"], 40 | 1 << 32, 1, 0)
leader, terminal = pty.openpty()
key = ctypes.create_string_buffer(b"#")
size = ctypes.create_string_buffer(8)
for name, request in (("TIOCSTI", 0x5412), ("TIOCLINUX", 0x541C), ("TIOCSTI-high", 0x5412 | 1 << 32)):
    call(name, nr["ioctl"], terminal, request, ctypes.addressof(key))
for name, request in (("TIOCGWINSZ", 0x5413), ("TIOCGPTN", 0x80045430), ("TIOCGPTN-signed", 0xFFFFFFFF80045430)):
    call(name, nr["ioctl"], leader, request, ctypes.addressof(size))
call("FIONREAD", nr["ioctl"], leader, 0x541B, ctypes.addressof(size))
call("clone-newuser", nr["clone"], 0x10000000, 0, 0, 0, 0)
call("clone3", 435, 0, 0)
call("later", 600)
call("personality", nr["personality"], 0xFFFFFFFF)
call("personality-old-layout", nr["personality"], 0x0200000)
# What ordinary programs do.
def forked(name, act):
    child = os.fork()
    if not child:
        os._exit(act())
    print(name, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)

forked("fork", lambda: 7)
# The same machine's third way to make calls: refused, or the death of who tries (SIGSYS).
forked("x32", lambda: int(libc.syscall(ctypes.c_long(0x40000000 + 39)) != -1))
thread = threading.Thread(target=lambda: print("thread", "ok"))
thread.start()
thread.join()
a, b = socket.socketpair()
a.send(b"x")
print("socketpair", b.recv(1).decode())
"""

PLAIN = {
    "socket-1": "ok",
    "socket-2": "ok",
    "socket-16": "ok",
    "socket-17": "EPERM",
    "socket-38": "EPERM",
    "socket-40": "EPERM",
    "socket-vsock-high": "EPERM",
    "TIOCSTI": "EPERM",
    "TIOCLINUX": "EPERM",
    "TIOCSTI-high": "EPERM",
    "TIOCGWINSZ": "ok",
    "TIOCGPTN": "ok",
    "TIOCGPTN-signed": "ok",
    "FIONREAD": "ok",
    "clone-newuser": "EPERM",
    "clone3": "ENOSYS",
    "later": "ENOSYS",
    "personality": "ok",
    "personality-old-layout": "EPERM",
    "fork": "7",
    "thread": "ok",
    "socketpair": "x",
}


def told(argv: Sequence[str], numbers: Sequence[str]) -> dict[str, str]:
    """What the probe says of each call when `argv` runs it as `python3 -c`."""
    done = subprocess.run(
        [*argv, "-c", PROBE, *numbers], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return dict(line.split() for line in done.stdout.splitlines())
