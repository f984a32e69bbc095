"""Variables that a caller wants commands to have."""

import re
from collections.abc import Mapping

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def fault_of(env: object) -> str | None:
    """What is wrong with them and what would be right; None when every one can be passed on."""
    if not isinstance(env, Mapping):
        return f"env must map names to values, not be {type(env).__name__}"
    for name, value in env.items():
        if not isinstance(name, str) or not isinstance(value, str):
            return f"env must map text to text; {name!r} does not"
        if not _NAME.fullmatch(name):
            return (
                f"env name {name!r} is not a variable name; use A-Z a-z 0-9 _, and no digit first"
            )
        if "\0" in value:
            return f"the value of env {name} contains a NUL character; remove it"
        if not is_text(value):
            return f"the value of env {name} is not valid UTF-8 text; pass it in a file or as stdin"
    return None


def is_text(value: str) -> bool:
    """False for text with smuggled bytes in it, which UTF-8 has no way to say."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
