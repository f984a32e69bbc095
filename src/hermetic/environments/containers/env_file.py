"""Variables forwarded by name: from this process, else from the agent's env file."""

import os
import re
from collections.abc import Iterable
from pathlib import Path

from hermetic.environments.profile import settings_directory

ENV_FILE = ".env"  # in the profile's directory, else in that of the settings
MOST_BYTES = 1 << 20
_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*?)\s*")
_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\", "$": "$"}


def forwarded_variables(names: Iterable[str], profile: str | None) -> dict[str, str]:
    """Values of the names that have one. An empty variable of this process counts as none."""
    names = tuple(names)
    found = {name: os.environ[name] for name in names if os.environ.get(name)}
    if missing := [name for name in names if name not in found]:
        kept = read_env_file(profile)
        found |= {name: kept[name] for name in missing if kept.get(name)}
    return {name: found[name] for name in names if name in found}


def read_env_file(profile: str | None) -> dict[str, str]:
    """The variables of the env file; empty if it cannot be read."""
    directory = settings_directory() if profile is None else Path(profile)
    if directory is None:
        return {}
    try:
        with open(directory / ENV_FILE, encoding="utf-8", errors="replace") as file:
            lines = file.read(MOST_BYTES).splitlines()
    except OSError:
        return {}
    return {match[1]: _value(match[2]) for line in lines if (match := _LINE.fullmatch(line))}


def _value(text: str) -> str:
    """As a shell would take it, without expansions: quotes go, and so does a comment behind an unquoted value."""
    if text[:1] == "'" and (end := text.find("'", 1)) > 0:
        return text[1:end]
    if quoted := re.match(r'"((?:[^"\\]|\\.)*)"', text):
        return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[0]), quoted[1])
    return re.split(r"(?:^|\s)#", text, maxsplit=1)[0].rstrip()
