"""posix_spawn by ctypes: the program also has glibc's own two signals at their defaults.

glibc leaves signals 32 and 33 ignored unless they are in the set of defaults, and Python cannot put
them there.
"""

from __future__ import annotations

import os
import struct

from ..life.fast_stdlib import ctypes
from ..life.process_attributes import GLIBC_SIGNALS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SETSIGDEF, SETSIGMASK, SETSID = 0x04, 0x08, 0x80  # flags of posix_spawn, the same in glibc and musl
OPAQUE_BYTES = 1024  # more than any of its structures takes
SIGNAL_SET = "=Q120x"


class Spawner:
    """Starts programs as leaders of a kernel session. Copies no memory, and waits for the exec."""

    def __init__(self, default_signals: Sequence[int]) -> None:
        """Raises NotImplementedError where ctypes or the function is missing."""
        if ctypes is None or not hasattr(ctypes.CDLL(None), "posix_spawn"):
            raise NotImplementedError("posix_spawn")
        self.libc = ctypes.CDLL(None)
        signals = sum(1 << (number - 1) for number in (*default_signals, *GLIBC_SIGNALS))
        self.attributes = ctypes.create_string_buffer(OPAQUE_BYTES)  # the mask in it is empty
        self.libc.posix_spawnattr_init(self.attributes)
        self.libc.posix_spawnattr_setsigdefault(self.attributes, struct.pack(SIGNAL_SET, signals))
        self.libc.posix_spawnattr_setflags(
            self.attributes, ctypes.c_short(SETSIGDEF | SETSIGMASK | SETSID)
        )

    def spawn(self, argv: Sequence[str], environ: Mapping[str, str], streams: Sequence[int]) -> int:
        """The pid of the program `argv[0]`, with these descriptors from 0 on. Raises OSError."""
        # Encoded at once: no word and no variable holds a null character.
        variables = os.fsencode("\0".join(["%s=%s" % pair for pair in environ.items()])).split(
            b"\0"
        )
        words = os.fsencode("\0".join(argv)).split(b"\0")
        pid, actions = ctypes.c_int(), ctypes.create_string_buffer(OPAQUE_BYTES)
        self.libc.posix_spawn_file_actions_init(actions)
        try:
            for target, fd in enumerate(streams):
                # glibc refuses a descriptor beyond the limit that the program is to have.
                _check(self.libc.posix_spawn_file_actions_adddup2(actions, fd, target))
            _check(
                self.libc.posix_spawn(
                    ctypes.byref(pid),
                    words[0],
                    actions,
                    self.attributes,
                    _array(words),
                    _array(variables),
                )
            )
        finally:
            self.libc.posix_spawn_file_actions_destroy(actions)
        return pid.value


def _check(error: int) -> None:
    if error:
        raise OSError(error, os.strerror(error))


def _array(words: Sequence[bytes]) -> object:
    """A C array of texts, with a null pointer at its end."""
    return (ctypes.c_char_p * (len(words) + 1))(*words)


def find_program(name: str, path: str) -> str:
    """Path of a program, or its plain name: running that then fails with a clear error."""
    for folder in path.split(os.pathsep):
        candidate = os.path.join(folder, name)
        if folder and os.access(candidate, os.X_OK) and os.path.isfile(candidate):
            return candidate
    return name
