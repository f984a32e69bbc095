"""Which system calls a contained command may not make, written for container engines (JSON) and for
bwrap (BPF).

Every call up to NEWEST is known here, and later ones are refused with ENOSYS, so that a new kernel
adds no hole and programs fall back to older calls. Refused calls fail with EPERM. Only calls of the
machine's own architecture are allowed: 32-bit programs do not run.
"""

import errno
import platform
import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from hermetic.contract.errors import Unsupported


class Numbers(NamedTuple):
    """The number of one call on each architecture; None where it does not exist."""

    x86_64: int | None
    aarch64: int | None


class ModeArgument(NamedTuple):
    """A call that gives a file its mode: which argument that is, and which one says whether a file
    is made at all.
    """

    numbers: Numbers
    mode: int
    flags: int | None = None


# Calls that are refused whatever their arguments and the capabilities: first those that older
# profiles of engines allow, then those that they refuse too.
REFUSED: Mapping[str, Numbers] = {
    name: Numbers(*numbers)
    for name, *numbers in (
        # Requests that no filter sees, because the kernel takes them out of shared memory.
        ("io_uring_setup", 425, 425),
        ("io_uring_enter", 426, 426),
        ("io_uring_register", 427, 427),
        # Keys of the kernel, which knows no containers there.
        ("add_key", 248, 217),
        ("request_key", 249, 218),
        ("keyctl", 250, 219),
        # Page faults that user space delays at will, which helps to win races in the kernel.
        ("userfaultfd", 323, 282),
        # Other namespaces, and what can be mounted there. `clone` is in CLONE_MASK below.
        ("unshare", 272, 97),
        ("setns", 308, 268),
        ("mount", 165, 40),
        ("umount2", 166, 39),
        ("pivot_root", 155, 41),
        ("chroot", 161, 51),
        ("open_tree", 428, 428),
        ("move_mount", 429, 429),
        ("fsopen", 430, 430),
        ("fsconfig", 431, 431),
        ("fsmount", 432, 432),
        ("fspick", 433, 433),
        ("mount_setattr", 442, 442),
        ("statmount", 457, 457),
        ("listmount", 458, 458),
        ("open_tree_attr", 467, 467),
        # Files by number instead of by path, events of whole file systems.
        ("open_by_handle_at", 304, 265),
        ("fanotify_init", 300, 262),
        ("lookup_dcookie", 212, 18),
        # The machine itself: code in the kernel, its clock, its name, its log, its disks, its
        # ports.
        ("bpf", 321, 280),
        ("perf_event_open", 298, 241),
        ("init_module", 175, 105),
        ("finit_module", 313, 273),
        ("delete_module", 176, 106),
        ("create_module", 174, None),
        ("get_kernel_syms", 177, None),
        ("query_module", 178, None),
        ("kexec_load", 246, 104),
        ("kexec_file_load", 320, 294),
        ("reboot", 169, 142),
        ("settimeofday", 164, 170),
        ("clock_settime", 227, 112),
        ("clock_adjtime", 305, 266),
        ("sethostname", 170, 161),
        ("setdomainname", 171, 162),
        ("syslog", 103, 116),
        ("acct", 163, 89),
        ("swapon", 167, 224),
        ("swapoff", 168, 225),
        ("quotactl", 179, 60),
        ("quotactl_fd", 443, 443),
        ("nfsservctl", 180, 42),
        ("_sysctl", 156, None),
        ("sysfs", 139, None),
        ("ustat", 136, None),
        ("uselib", 134, None),
        ("vhangup", 153, 58),
        ("iopl", 172, None),
        ("ioperm", 173, None),
        # Memory of other nodes and other processes, and their descriptors.
        ("mbind", 237, 235),
        ("set_mempolicy", 238, 237),
        ("get_mempolicy", 239, 236),
        ("migrate_pages", 256, 238),
        ("move_pages", 279, 239),
        ("set_mempolicy_home_node", 450, 450),
        ("pidfd_getfd", 438, 438),
        ("lsm_get_self_attr", 459, 459),
        ("lsm_set_self_attr", 460, 460),
        ("lsm_list_modules", 461, 461),
    )
}

# Calls whose arguments decide; `clone3` keeps its flags in memory, where no filter sees them, and
# so does not exist.
ASKED: Mapping[str, Numbers] = {
    "socket": Numbers(41, 198),
    "socketpair": Numbers(53, 199),
    "ioctl": Numbers(16, 29),
    "clone": Numbers(56, 220),
    "clone3": Numbers(435, 435),
    "personality": Numbers(135, 92),
}

# A set-uid file that reaches the caller's side would be one of the caller there, where others could
# run it.
MODES: Mapping[str, ModeArgument] = {
    "openat": ModeArgument(Numbers(257, 56), 3, 2),
    "open": ModeArgument(Numbers(2, None), 2, 1),
    "creat": ModeArgument(Numbers(85, None), 1),
    "chmod": ModeArgument(Numbers(90, None), 1),
    "fchmod": ModeArgument(Numbers(91, 52), 1),
    "fchmodat": ModeArgument(Numbers(268, 53), 2),
    "fchmodat2": ModeArgument(Numbers(452, 452), 2),
    "mknod": ModeArgument(Numbers(133, None), 1),
    "mknodat": ModeArgument(Numbers(259, 33), 2),
}
OPENAT2 = 437  # keeps the mode in memory, where no filter sees it
SET_UID = 0o4000
# O_CREAT and O_TMPFILE: without them the mode that goes with opening a file means nothing
MAKES_FILE = 0o20000100

# AF_UNIX, AF_INET, AF_INET6, AF_NETLINK: no AF_VSOCK, AF_ALG, AF_PACKET nor any other
FAMILIES = (1, 2, 10, 16)
# TIOCSTI and TIOCLINUX: typing into a terminal, as if its user had
TERMINAL_REQUESTS = (0x5412, 0x541C)
CLONE_MASK = 0x7E020000  # every flag of `clone` that makes a namespace
# Linux, uname26, and the question which one it is
PERSONALITIES = (0, 8, 0x20000, 0x20008, 0xFFFFFFFF)
NEWEST = 469  # file_setattr of Linux 6.17

# What an ordinary program may need, on either architecture; an engine passes over names its kernel
# does not know.
ALLOWED = """
accept accept4 access adjtimex alarm arch_prctl bind brk cachestat capget capset chdir chmod chown clock_getres
clock_gettime clock_nanosleep close close_range connect copy_file_range creat dup dup2 dup3 epoll_create epoll_create1
epoll_ctl epoll_pwait epoll_pwait2 epoll_wait eventfd eventfd2 execve execveat exit exit_group faccessat faccessat2
fadvise64 fallocate fanotify_mark fchdir fchmod fchmodat fchmodat2 fchown fchownat fcntl fdatasync fgetxattr
file_getattr file_setattr flistxattr flock fork fremovexattr fsetxattr fstat fstatfs fsync ftruncate futex futex_requeue
futex_wait futex_waitv futex_wake futimesat get_robust_list get_thread_area getcpu getcwd getdents getdents64 getegid
geteuid getgid getgroups getitimer getpeername getpgid getpgrp getpid getppid getpriority getrandom getresgid getresuid
getrlimit getrusage getsid getsockname getsockopt gettid gettimeofday getuid getxattr getxattrat inotify_add_watch
inotify_init inotify_init1 inotify_rm_watch io_cancel io_destroy io_getevents io_pgetevents io_setup io_submit
ioprio_get ioprio_set kcmp kill landlock_add_rule landlock_create_ruleset landlock_restrict_self lchown lgetxattr link
linkat listen listxattr listxattrat llistxattr lremovexattr lseek lsetxattr lstat madvise map_shadow_stack membarrier
memfd_create memfd_secret mincore mkdir mkdirat mknod mknodat mlock mlock2 mlockall mmap modify_ldt mprotect
mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedsend mq_unlink mremap mseal msgctl msgget msgrcv msgsnd msync
munlock munlockall munmap name_to_handle_at nanosleep newfstatat open openat openat2 pause pidfd_open pidfd_send_signal
pipe pipe2 pkey_alloc pkey_free pkey_mprotect poll ppoll prctl pread64 preadv preadv2 prlimit64 process_madvise
process_mrelease process_vm_readv process_vm_writev pselect6 ptrace pwrite64 pwritev pwritev2 read readahead readlink
readlinkat readv recvfrom recvmmsg recvmsg remap_file_pages removexattr removexattrat rename renameat renameat2
restart_syscall rmdir rseq rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend
rt_sigtimedwait rt_tgsigqueueinfo sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getattr
sched_getparam sched_getscheduler sched_rr_get_interval sched_setaffinity sched_setattr sched_setparam
sched_setscheduler sched_yield seccomp select semctl semget semop semtimedop sendfile sendmmsg sendmsg sendto
set_robust_list set_thread_area set_tid_address setfsgid setfsuid setgid setgroups setitimer setpgid setpriority
setregid setresgid setresuid setreuid setrlimit setsid setsockopt setuid setxattr setxattrat shmat shmctl shmdt shmget
shutdown sigaltstack signalfd signalfd4 splice stat statfs statx symlink symlinkat sync sync_file_range syncfs sysinfo
tee tgkill time timer_create timer_delete timer_getoverrun timer_gettime timer_settime timerfd_create timerfd_gettime
timerfd_settime times tkill truncate umask uname unlink unlinkat utime utimensat utimes vfork vmsplice wait4 waitid
write writev
"""


def docker_profile(*, may_set_uid: bool = True) -> str:
    """A profile for `--security-opt seccomp=FILE` of docker and podman: an allow list, as the
    engines' own are.

    It takes the place of the engine's profile, so it lists what is allowed, and what it does not
    list is refused. Unlike the engine's own it gives no call back for an added capability. With
    `may_set_uid=False` no file can be made that runs as its owner.
    """
    plain = [name for name in ALLOWED.split() if may_set_uid or name not in (*MODES, "openat2")]
    rules = [
        _rule(plain),
        {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": errno.ENOSYS},
    ]
    rules += [_rule(["socket", "socketpair"], _equal(0, family)) for family in FAMILIES]
    rules += [_rule(["personality"], _equal(0, value)) for value in PERSONALITIES]
    rules.append(_rule(["clone"], _masked(0, CLONE_MASK, 0)))
    rules += [
        _rule(["ioctl"], _masked(1, mask, value)) for mask, value in _all_but(TERMINAL_REQUESTS)
    ]
    if not may_set_uid:
        rules += [_rule([name], _masked(call.mode, SET_UID, 0)) for name, call in MODES.items()]
        rules += [
            _rule([name], _masked(call.flags, MAKES_FILE, 0))
            for name, call in MODES.items()
            if call.flags
        ]
        rules.append({"names": ["openat2"], "action": "SCMP_ACT_ERRNO", "errnoRet": errno.ENOSYS})
    # Told its architecture and no error of ours, runc says ENOSYS to later calls and EPERM to the
    # rest.
    natives = [
        {"architecture": f"SCMP_ARCH_{name.upper()}", "subArchitectures": []} for name in _AUDIT
    ]
    profile = {"defaultAction": "SCMP_ACT_ERRNO", "archMap": natives, "syscalls": rules}
    return msgspec.json.encode(profile).decode()


def _rule(names: Iterable[str], *args: dict[str, Any]) -> dict[str, Any]:
    return {"names": [*names], "action": "SCMP_ACT_ALLOW", "args": [*args]}


def _equal(index: int, value: int) -> dict[str, Any]:
    return {"index": index, "value": value, "op": "SCMP_CMP_EQ"}


def _masked(index: int, mask: int, value: int) -> dict[str, Any]:
    return {"index": index, "value": mask, "valueTwo": value, "op": "SCMP_CMP_MASKED_EQ"}


def _all_but(values: Iterable[int], prefix: int = 0, bit: int = 31) -> Iterator[tuple[int, int]]:
    """Masks and what they leave, which together fit every number of 32 bits that is not in
    `values`.

    The kernel looks at 32 bits of a request and an engine at 64, so "not equal" would let a request
    with other high bits pass.
    """
    mask = -1 << bit & 0xFFFFFFFF
    for branch in (prefix, prefix | 1 << bit):
        below = [value for value in values if value & mask == branch]
        if not below:
            yield mask, branch
        elif bit:
            yield from _all_but(below, branch, bit - 1)


# Classic BPF: instructions, and where `struct seccomp_data` holds what they look at.
_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_JUMP_IF_EQUAL, _JUMP_IF_AT_LEAST = 0x15, 0x35
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}


def bpf(machine: str | None = None, *, may_set_uid: bool = True) -> bytes:
    """A filter for bwrap's `--seccomp FD` on this machine, or on another. Raises Unsupported on an
    unknown one.

    With `may_set_uid=False` no file can be made that runs as its owner.
    """
    machine = machine or platform.machine()
    if machine not in _AUDIT:
        raise Unsupported(
            f"no filter of system calls is known for {machine}; use a machine of one of these: {', '.join(_AUDIT)}",
            capability="seccomp",
        )
    refuse, unknown = _ERRNO | errno.EPERM, _ERRNO | errno.ENOSYS
    program = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_IF_EQUAL, 1, 0, _AUDIT[machine]),
        (_RETURN, 0, 0, unknown),
        (_LOAD, 0, 0, _NUMBER),
        (_JUMP_IF_AT_LEAST, 0, 1, NEWEST + 1),
        (_RETURN, 0, 0, unknown),
    ]
    if not may_set_uid:  # first, for these calls are frequent
        for call in MODES.values():
            program += _when(getattr(call.numbers, machine), _sets_uid(call, refuse))
        program += _when(OPENAT2, [(_RETURN, 0, 0, unknown)])
    asked = {
        "clone3": [(_RETURN, 0, 0, unknown)],
        "socket": _argument_in(0, FAMILIES, _ALLOW, refuse),
        "socketpair": _argument_in(0, FAMILIES, _ALLOW, refuse),
        "personality": _argument_in(0, PERSONALITIES, _ALLOW, refuse),
        "ioctl": _argument_in(1, TERMINAL_REQUESTS, refuse, _ALLOW),
        "clone": [*_allow_without(0, CLONE_MASK), (_RETURN, 0, 0, refuse)],
    }
    for name, numbers in ASKED.items():
        program += _when(getattr(numbers, machine), asked[name])
    for numbers in REFUSED.values():
        program += _when(getattr(numbers, machine), [(_RETURN, 0, 0, refuse)])
    program.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


_Instruction = tuple[int, int, int, int]


def _when(number: int | None, then: list[_Instruction]) -> list[_Instruction]:
    """`then`, which returns, for the call with this number; nothing where there is none."""
    return [] if number is None else [(_JUMP_IF_EQUAL, 0, len(then), number), *then]


def _sets_uid(call: ModeArgument, refuse: int) -> list[_Instruction]:
    makes = [] if call.flags is None else _allow_without(call.flags, MAKES_FILE)
    return [*makes, *_allow_without(call.mode, SET_UID), (_RETURN, 0, 0, refuse)]


def _allow_without(index: int, bits: int) -> list[_Instruction]:
    """Allows where none of these bits is set in an argument, else goes on."""
    return [
        (_LOAD, 0, 0, _FIRST_ARGUMENT + 8 * index),
        (_AND, 0, 0, bits),
        (_JUMP_IF_EQUAL, 0, 1, 0),
        (_RETURN, 0, 0, _ALLOW),
    ]


def _argument_in(
    index: int, values: Iterable[int], inside: int, outside: int
) -> list[_Instruction]:
    """Returns `inside` where the low 32 bits of an argument, all that the kernel looks at, are one
    of `values`.
    """
    program: list[_Instruction] = [(_LOAD, 0, 0, _FIRST_ARGUMENT + 8 * index)]
    for value in values:
        program += [(_JUMP_IF_EQUAL, 0, 1, value), (_RETURN, 0, 0, inside)]
    return [*program, (_RETURN, 0, 0, outside)]
