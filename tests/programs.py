"""What a test needs of the machine: a skip with its reason at home, a failure in CI."""

import os
import shutil
from typing import NoReturn

import pytest


def in_ci() -> bool:
    """True where nothing may be missing (the variable CI is set)."""
    return os.environ.get("CI", "").lower() not in ("", "0", "false", "no")


def unavailable(reason: str) -> NoReturn:
    """Ends the calling test: skipped at home, failed in CI; `reason` says what would help."""
    if in_ci():
        pytest.fail(f"missing in CI: {reason}", pytrace=False)
    pytest.skip(reason)


def need(program: str, *, hint: str | None = None) -> str:
    """Path of `program`; ends the calling test where the machine has none."""
    path = shutil.which(program)
    if path is None:
        unavailable(
            hint or f"no {program} on PATH; install it, or run ./test as root on Debian, which does"
        )
    return path


def need_variable(name: str, *, hint: str | None = None) -> str:
    """Value of an environment variable that scripts/engines/up sets; ends the calling test where it
    is unset.
    """
    value = os.environ.get(name)
    if not value:
        unavailable(
            hint
            or f"{name} is not set; scripts/engines/up sets it (./test runs that as root on Debian)"
        )
    return value


def need_root(reason: str) -> None:
    """Ends the calling test where it does not run as root."""
    if os.geteuid() != 0:
        unavailable(reason)
