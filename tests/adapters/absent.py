"""Adapters without their frameworks: a missing package is replaced by one whose names are empty
classes.

What is tested so is an adapter's own work on a real environment; `real/` has the tests with the
frameworks.
"""

import contextlib
import importlib
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

ERRORS = ("Error", "Exception", "Submitted")  # endings of the names of exceptions


class _Names(type):
    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Record


class Record(metaclass=_Names):
    """An object of a framework's class: its arguments."""

    def __init__(self, *values: Any, **fields: Any) -> None:
        self.values = values
        self.__dict__.update(fields)

    def __call__(self, decorated: Any) -> Any:
        return decorated

    def __class_getitem__(cls, _: Any) -> Any:
        return cls


class Failure(Exception):
    """An exception of a framework."""

    def __init__(self, *values: Any, **fields: Any) -> None:
        super().__init__(*values)
        self.__dict__.update(fields)


class _Empty(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (Failure if name.endswith(ERRORS) else Record,), {})
        setattr(self, name, made)
        return made


class _Stubs(MetaPathFinder, Loader):
    def __init__(self, package: str) -> None:
        self._package = package

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return (
            ModuleSpec(name, self, is_package=True)
            if name.partition(".")[0] == self._package
            else None
        )

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Empty(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


@contextlib.contextmanager
def adapter(name: str, framework: str) -> Iterator[Any]:
    """The module of an adapter, imported without its framework."""
    assert importlib.util.find_spec(framework) is None, (
        f"{framework} is installed; its tests are in real/"
    )
    stubs, before = _Stubs(framework), set(sys.modules)
    sys.meta_path.insert(0, stubs)
    try:
        yield importlib.import_module(f"hermetic.adapters.{name}")
    finally:
        sys.meta_path.remove(stubs)
        for module in set(sys.modules) - before:
            if module.partition(".")[0] == framework or module == f"hermetic.adapters.{name}":
                del sys.modules[module]
