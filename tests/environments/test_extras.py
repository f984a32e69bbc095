"""Kinds that need an extra: what is said without it, and that it is imported on first use alone."""

import subprocess
import sys
from typing import Any

import pytest

import hermetic
from hermetic.contract.errors import NotInstalled
from hermetic.environments import catalog

EXTRAS = {"kubernetes": "lightkube", "modal": "modal", "daytona": "daytona", "ray": "ray"}
OPTIONS: dict[str, dict[str, Any]] = {"ray": {}}


@pytest.mark.parametrize("kind", EXTRAS)
async def test_without_its_extra_a_kind_says_what_to_install(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, EXTRAS[kind], None)  # as if not installed
    with pytest.raises(NotInstalled, match=rf"pip install 'hermetic\[{kind}\]'"):
        await hermetic.open(kind, **OPTIONS.get(kind, {"image": "x"}))
    backend: Any = catalog.find(kind)
    finding = await backend.doctor()
    assert finding.state == "missing"
    assert f"pip install 'hermetic[{kind}]'" in finding.advice
    if hasattr(backend, "collect"):
        assert await backend.collect("/", lambda id: None) == []


def test_neither_the_import_nor_the_doctor_imports_an_extra() -> None:
    script = f"""
import asyncio, contextlib, sys
import hermetic
from hermetic.environments import catalog
async def main():
    for kind in {[*EXTRAS, "slurm"]!r}:
        with contextlib.suppress(hermetic.ExecutionError):
            hermetic.open(kind, image="x")
        await catalog.find(kind).doctor()
asyncio.run(main())
print(sorted(set({[*EXTRAS.values(), "httpx2", "anyio"]!r}) & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")
