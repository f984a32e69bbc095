"""Prologue of a login shell: init files and PATH, between the user's profile and the first command."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

PROFILES = (".bash_profile", ".bash_login", ".profile")  # bash reads the first readable one
# Entries of the given PATH stay in front; entries that the profile added follow. The text uses no
# builtin that a profile could have redefined, and works with any IFS.
_KEEP_PATH = (
    "__h_y=${PATH-}: PATH=%s; while [[ $__h_y ]]; do __h_t=${__h_y%%%%:*} __h_y=${__h_y#*:}; "
    '[[ -z $__h_t || :$PATH: == *:"$__h_t":* ]] || PATH+=:$__h_t; done; '
    "builtin export PATH; builtin unset __h_y __h_t; "
)


def prologue(environ: dict[str, str], init_files: Sequence[str], keep_path: bool) -> str:
    """One line of shell text to run before the shell's own program."""
    home = environ.get("HOME", "/")
    files = [os.path.join(home, name[2:]) if name.startswith("~/") else name for name in init_files]
    parts = [
        "builtin source %s || builtin :; " % quote(name)
        for name in files
        if not is_read(name, home)
    ]
    path = environ.get("PATH", "")
    if keep_path and path:
        parts.append(_KEEP_PATH % quote(path))
    return "".join(parts)


def is_read(name: str, home: str) -> bool:
    """Whether a file is missing, or the user's profile reads it already."""
    if not os.access(name, os.R_OK):
        return True
    for profile in PROFILES:
        try:
            with open(os.path.join(home, profile), "rb") as file:
                return os.fsencode(os.path.basename(name)) in file.read(1 << 20)
        except OSError:
            continue
    return False


def quote(text: str) -> str:
    return "'%s'" % text.replace("'", "'\\''")
