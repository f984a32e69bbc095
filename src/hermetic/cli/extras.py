"""Hermetic's extras: what each is for, and which of its packages are installed."""

import importlib.metadata
import re
from typing import NamedTuple

PURPOSES = {
    "mcp": "`hermetic mcp`, and the same of `hermetic serve`",
    "serve": "`hermetic serve`: the console, the API",
    "screen": "the text on a process's terminal",
    "web": "the tools web_search and web_extract",
    "otel": "traces of calls of `hermetic mcp`",
    "modal": "environments of the kind modal",
    "daytona": "environments of the kind daytona",
    "kubernetes": "environments of the kind kubernetes",
    "ray": "environments on the nodes of a Ray cluster",
}
# A requirement of an extra, without a condition on the platform.
_REQUIREMENT = re.compile(r"(?P<package>[\w.-]+)[^;]*;\s*extra\s*==\s*[\"'](?P<extra>[\w-]+)[\"']")


class Extra(NamedTuple):
    """An extra of the installed Hermetic."""

    name: str
    installed: tuple[str, ...]  # packages with their versions
    missing: tuple[str, ...]

    @property
    def command(self) -> str:
        return f"pip install 'hermetic[{self.name}]'"


def extras() -> list[Extra]:
    """Every extra for users; none where Hermetic itself is not installed as a package."""
    try:
        requirements = importlib.metadata.requires("hermetic") or []
    except importlib.metadata.PackageNotFoundError:
        return []
    packages: dict[str, dict[str, str | None]] = {name: {} for name in PURPOSES}
    for requirement in requirements:
        match = _REQUIREMENT.fullmatch(requirement)
        if match and match["extra"] in packages:
            packages[match["extra"]][match["package"]] = _version(match["package"])
    return [
        Extra(
            name,
            tuple(f"{package} {version}" for package, version in found.items() if version),
            tuple(package for package, version in found.items() if not version),
        )
        for name, found in packages.items()
    ]


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
