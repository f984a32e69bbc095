"""`import hermetic`: cheap, and every public name is there."""

import subprocess
import sys

import pytest

import hermetic


def test_every_public_name_resolves() -> None:
    assert [name for name in hermetic.__all__ if getattr(hermetic, name, None) is None] == []
    assert set(dir(hermetic)) == set(hermetic.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'oepn'"):
        hermetic.oepn  # noqa: B018


def test_the_import_alone_loads_nothing_heavy() -> None:
    script = "import sys; before = set(sys.modules); import hermetic; print(*(set(sys.modules) - before))"
    said = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert {"asyncio", "msgspec", "hermetic.contract", "hermetic.session"} & set(
        said.stdout.split()
    ) == set()


def test_blocking_is_reachable_from_the_import_alone() -> None:
    script = "import hermetic; print(hermetic.blocking.open.__name__)"
    said = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert said.stdout == "open\n"
