"""An adapter whose framework is missing, or is another version, says what to install."""

import importlib
import re
import sys
from pathlib import Path

import pytest

from hermetic.adapters.frameworks import PACKAGES, framework

FOLDER = Path(__file__).parents[2] / "src" / "hermetic" / "adapters"
ADAPTERS = {
    path.stem: found[1]
    for path in sorted(FOLDER.glob("*.py"))
    if (found := re.search(r'^with framework\("(\w+)"\):$', path.read_text(), re.MULTILINE))
}


def test_every_framework_has_an_adapter() -> None:
    assert sorted(ADAPTERS.values()) == sorted(PACKAGES)


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.py")))
def test_an_adapter_names_what_to_install(name: str) -> None:
    if name not in ADAPTERS:
        importlib.import_module(f"hermetic.adapters.{name}")
        return
    package = PACKAGES[ADAPTERS[name]]
    with pytest.raises(ModuleNotFoundError, match=f"pip install {package}$") as raised:
        importlib.import_module(f"hermetic.adapters.{name}")
    assert raised.value.name == ADAPTERS[name]


def test_a_module_of_the_frameworks_name_is_no_framework(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "agents").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        with pytest.raises(ModuleNotFoundError, match=r"pip install openai-agents$"):
            importlib.import_module("hermetic.adapters.openai_agents")
    finally:
        sys.modules.pop("agents", None)


def test_another_version_of_a_framework_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "smolagents-0.0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: smolagents\nVersion: 0.0.1\n")
    (tmp_path / "smolagents.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        with pytest.raises(
            ImportError,
            match=r"does not fit smolagents 0\.0\.1.*cannot import name 'Tool'.*--upgrade",
        ):
            importlib.import_module("hermetic.adapters.smolagents")
    finally:
        sys.modules.pop("smolagents", None)


def test_other_errors_pass() -> None:
    with pytest.raises(ZeroDivisionError), framework("smolagents"):
        _ = 1 / 0
