"""Calls of C libraries from Python: by ctypes or cffi a text reaches what the os module would show."""

from __future__ import annotations

import re

from .call import Call
from .commands.unseen import OPAQUE_CODE, UNKNOWN_COMMAND
from .effects import delete, write
from .python_values import Value, text_of

LOADERS = re.compile(r"ctypes\.(\w*DLL|\w*dll\.LoadLibrary|\w*dll|util\.find_library)|cffi\.\w+")
_DELETES = frozenset({"unlink", "remove", "rmdir", "unlinkat"})
_WRITES = frozenset({"truncate", "creat", "open", "open64", "fopen", "mknod", "mkfifo"})
_MOVES = {"rename": "mv", "renameat": "mv", "link": "ln", "symlink": "ln", "chmod": "chmod", "chown": "chown"}
_KERNEL = re.compile(
    r"exec\w*|reboot|kill|killpg|syscall|mount|umount2?|set(re|e)?[ug]id|ptrace|init_module|delete_module|swapoff|"
    r"sethostname|settimeofday|fork|vfork|clone|posix_spawnp?|dlopen|ioctl|chroot|pivot_root|unshare|setns"
)


def loads_unseen(call: Call, path: Value) -> None:
    """Report a library from where anyone can write."""
    text = text_of(path)
    if text.startswith(("/tmp/", "/var/tmp/", "/dev/shm/")):
        call.report(OPAQUE_CODE, f"loads a library nobody has seen: {text}")


def library_call(call: Call, function: str, args: list[Value]) -> str | None:
    """Judge a function of a C library; gives the text of a command it would run, None without one."""
    given = [arg.decode("latin-1") if isinstance(arg, bytes) else text_of(arg) for arg in args]
    first = given[0] if given else ""
    if function in ("system", "popen"):
        return first
    if function in _DELETES:
        delete(call, first, recursive=False)
    elif function in _WRITES:
        if function not in ("open", "open64", "fopen") or len(args) > 1:
            write(call, first)
    elif function in _MOVES and len(given) > 1:
        operands = [format(int(given[1]), "o"), first] if function == "chmod" and given[1].isdigit() else given[:2]
        call.run([_MOVES[function], *(operands if function != "chown" else ["nobody", first])])
    elif _KERNEL.fullmatch(function):
        call.report(UNKNOWN_COMMAND, "calls the kernel directly")
    return None
