"""Build hook of the package: a wheel, or an editable install, gets the console's page.

A failure is a warning.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SKIP = "HERMETIC_CONSOLE"  # "later": leave the page out; console/build.py makes it


class PageHook(BuildHookInterface):  # type: ignore[type-arg]
    """Runs console/build.py before the files of the wheel are collected."""

    def dependencies(self) -> list[str]:
        """pip, where Node has to be fetched from the package index."""
        builder = self.builder()
        if builder is None or builder.is_current() or builder.has_node():
            return []
        return ["pip"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Builds the page if it is missing or old."""
        builder = self.builder()
        if builder is None:
            return
        try:
            builder.build()
        except builder.NotBuilt as error:
            self.app.display_warning(
                f"The console's page was not built; `hermetic serve` works without it. {error}"
            )

    def builder(self) -> ModuleType | None:
        """console/build.py as a module; None when the page is not wanted."""
        path = Path(self.root) / "console" / "build.py"
        if os.environ.get(SKIP) == "later" or not path.exists():
            return None
        spec = importlib.util.spec_from_file_location("hermetic_console_build", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
