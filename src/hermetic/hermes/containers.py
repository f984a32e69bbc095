"""The container engine, and what killed processes left in it."""

import datetime
import functools
import logging
import os
import re
import shutil
import subprocess

PLACES = (
    "/usr/local/bin/docker",
    "/opt/homebrew/bin/docker",
    "/Applications/Docker.app/Contents/Resources/bin/docker",
)
LIST_SECONDS, INSPECT_SECONDS, REMOVE_SECONDS = 15.0, 10.0, 30.0
NEVER = "0001-01-01"  # the engine's date of a container that has not ended

_log = logging.getLogger("hermetic.hermes")


@functools.cache
def find_docker() -> str | None:
    """The client of docker or podman:

    HERMES_DOCKER_BINARY, else on PATH, else in known places; None without one.
    """
    named = os.environ.get("HERMES_DOCKER_BINARY", "")
    candidates = (named if _runs(named) else None, shutil.which("docker"), shutil.which("podman"))
    return next(filter(None, (*candidates, *filter(_runs, PLACES))), None)


def _runs(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def reap_orphan_containers(
    *,
    max_age_seconds: float = 600,
    profile_filter: str | None = None,
    docker_exe: str | None = None,
) -> int:
    """Removes containers of Hermes Agent that have ended long ago; returns how many.

    Containers of Hermetic need none of this: they are removed by the engine when they end.
    """
    engine = docker_exe or find_docker()
    if engine is None:
        return 0
    filters = ["--filter", "label=hermes-agent=1", "--filter", "status=exited"]
    if profile_filter:
        filters += ["--filter", f"label=hermes-profile={label_value(profile_filter)}"]
    listed = _said([engine, "ps", "--all", *filters, "--format", "{{.ID}}"], LIST_SECONDS)
    return sum(_reaped(engine, id, max_age_seconds) for id in (listed or "").split())


def label_value(text: str) -> str:
    """A text as the value of a label, as Hermes Agent writes it."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", text)[:63] or "unknown"


def _reaped(engine: str, id: str, max_age_seconds: float) -> bool:
    finished = _finished(
        _said([engine, "inspect", "--format", "{{.State.FinishedAt}}", id], INSPECT_SECONDS) or ""
    )
    if finished is None:
        return False
    age = (datetime.datetime.now(datetime.UTC) - finished).total_seconds()
    return (
        age >= max_age_seconds and _said([engine, "rm", "--force", id], REMOVE_SECONDS) is not None
    )


def _finished(text: str) -> datetime.datetime | None:
    """The time that the engine has printed; None when it is not known."""
    exact = re.sub(r"(\.\d{6})\d+", r"\1", text.strip())
    # podman prints: 2026-05-28 13:45:00.123456789 +0000 UTC
    exact = re.sub(r" ([+-]\d{2})(\d{2}) \w+$", r"\1:\2", exact)
    if not exact or exact.startswith(NEVER):
        return None
    try:
        found = datetime.datetime.fromisoformat(exact)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=datetime.UTC)


def _said(words: list[str], seconds: float) -> str | None:
    """What the client printed; None when it failed."""
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        _log.debug("%s failed: %s", words[1], error)
        return None
    if done.returncode != 0:
        _log.debug("%s failed: %s", words[1], done.stderr.strip())
        return None
    return done.stdout
