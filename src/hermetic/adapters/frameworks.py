"""The frameworks that adapters import, and what installs one that is missing."""

import importlib.metadata
from collections.abc import Iterator
from contextlib import contextmanager

# The package to install for each top module of a framework.
PACKAGES = {
    "agents": "openai-agents",
    "claude_agent_sdk": "claude-agent-sdk",
    "deepagents": "deepagents",
    "harbor": "harbor",
    "inspect_ai": "inspect-ai",
    "minisweagent": "mini-swe-agent",
    "pydantic_ai": "pydantic-ai-slim",
    "smolagents": "smolagents",
    "swerex": "swe-rex",
}


@contextmanager
def framework(module: str) -> Iterator[None]:
    """Around an adapter's imports of its framework: an ImportError says what to install."""
    try:
        yield
    except ImportError as error:
        package = PACKAGES[module]
        version = _version(package)
        if version is None:  # a directory of the user's may have the module's name
            raise ModuleNotFoundError(
                f"this adapter needs the package {package}; install it with: pip install {package}",
                name=module,
            ) from None
        raise ImportError(
            f"this adapter does not fit {package} {version}, which is installed: {error}; "
            f"try: pip install --upgrade {package}",
            name=error.name,
            path=error.path,
        ) from error


def _version(package: str) -> str | None:
    """The installed version; None without the package."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
