"""The import graph of a package tree, drawn from its sources, and the arrows in it that point the
wrong way.
"""

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT_PACKAGE = "hermetic"

# A module imports from rows below its own, never from above, never from beside.
ROWS: tuple[frozenset[str], ...] = (
    frozenset({"conformance", "adapters"}),  # use the public names, as a program of a user does
    frozenset({"", "__main__"}),  # "" is hermetic/__init__.py
    frozenset({"cli"}),  # starts the other front doors
    frozenset({"hermes"}),  # calls from plain threads, through the blocking portal
    frozenset({"serve"}),  # other front doors over HTTP
    frozenset({"mcp", "blocking"}),
    frozenset({"toolbox"}),
    frozenset(
        {
            "tools.approval",
            "tools.terminal",
            "tools.process",
            "tools.files",
            "tools.code",
            "tools.web",
        }
    ),
    frozenset({"tools.base"}),
    frozenset({"fleet", "config", "recordings"}),
    frozenset({"approvals", "redaction"}),
    frozenset({"session"}),
    frozenset({"policy", "environments", "tools.edits"}),
    frozenset({"registry"}),
    frozenset({"link"}),
    frozenset({"contract"}),
    frozenset({"resident", "tools"}),  # "tools" is tools/__init__.py, which holds nothing
)

# The frame layout and the limits are written once, in the resident; nothing else of it is imported
# from outside. The archive consists of the resident's files, so it imports the package to find
# them.
SHARED_WITH_RESIDENT = frozenset(
    {
        ("contract", "hermetic.resident.limits"),
        ("contract", "hermetic.resident.wire.frames"),
        ("link", "hermetic.resident.wire.frames"),
        ("link", "hermetic.resident"),
    }
)

# the one way to import a module of ours by its name; everything may use it
LAZY = "hermetic.resident.lazy"

# Optional extras, and Hermes Agent, whose plugins must not import it while they register: their
# users may import them where they are used.
OPTIONAL_PACKAGES = frozenset(
    {
        "charset_normalizer",
        "daytona",
        "httpcore2",
        "httpx2",
        "lightkube",
        "mcp",
        "modal",
        "opentelemetry",
        "pypdf",
        "pyte",
        "ray",
        "selectolax",
    }
    | {"starlette", "uvicorn"}
    | {"agent", "gateway", "hermes_cli", "tools"}
)


class Import(NamedTuple):
    """One import statement's target, and where it stands."""

    importer: str  # dotted name of the importing module
    target: str  # dotted name of the imported module
    place: str  # path:line
    in_function: bool
    is_deferred: bool = False  # for type checkers alone, or imported on first use


def wrong_arrows(source: Path) -> list[str]:
    """One line for each import below `source`/hermetic that the picture does not allow; [] when all
    is well.
    """
    modules = dict(modules_in(source))
    complaints = [
        f"{path}: {unit(name)!r} has no row in tests/architecture/arrows.py; give it one"
        for name, path in modules.items()
        if _row(unit(name)) is None
    ]
    for arrow in imports(source):
        complaints += [f"{arrow.place}: {why}" for why in _faults(arrow)]
    return complaints


def imports(source: Path) -> list[Import]:
    """Every import below `source`/hermetic, also those inside functions and under conditions."""
    modules = dict(modules_in(source))
    names = frozenset(modules)
    files = [(name, path, path.stat().st_mtime_ns) for name, path in modules.items()]
    return [
        found
        for name, path, changed in files
        for found in _imports_in(source, name, path, changed, names)
    ]


@cache
def _imports_in(
    source: Path, name: str, path: Path, changed: int, modules: frozenset[str]
) -> list[Import]:
    """The imports of a module; one that has not changed is read once."""
    found: list[Import] = []
    tree = parsed(path)
    deferred = _lines_for_types(tree)
    for node, in_function in _statements(tree):
        place = f"{path.relative_to(source)}:{node.lineno}"
        targets = _targets(node, name, path.name == "__init__.py", modules)
        found += [
            Import(name, target, place, in_function, node.lineno in deferred) for target in targets
        ]
    for call in lazy_calls(tree):
        target = _absolute(call, name, path.name == "__init__.py")
        found.append(Import(name, target, f"{path.relative_to(source)}:{call.lineno}", False, True))
    return found


def lazy_calls(tree: ast.AST) -> Iterator[ast.Call]:
    """Calls of `Lazy` with a literal name."""
    for node in nodes(tree):
        is_lazy = (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "Lazy"
        )
        if (
            isinstance(node, ast.Call)
            and is_lazy
            and node.args
            and isinstance(node.args[0], ast.Constant)
        ):
            yield node


def _absolute(lazy: ast.Call, importer: str, is_package: bool) -> str:
    written = ast.literal_eval(lazy.args[0])
    name = written.lstrip(".")
    around = importer.split(".")
    kept = len(around) - (len(written) - len(name)) + (1 if is_package else 0)
    return name if name == written else ".".join([*around[:kept], name])


def _lines_for_types(tree: ast.AST) -> set[int]:
    """Lines below `if TYPE_CHECKING`."""
    branches = [
        node
        for node in nodes(tree)
        if isinstance(node, ast.If)
        and isinstance(node.test, ast.Name)
        and node.test.id == "TYPE_CHECKING"
    ]
    return {
        line
        for branch in branches
        for statement in branch.body
        for line in range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
    }


def unit(module: str) -> str:
    """The part of the package that `module` belongs to and that has a row; "" is
    hermetic/__init__.py.
    """
    inner = module.split(".")[1:3]
    return ".".join(inner) if _row(".".join(inner)) is not None else inner[0]


def parsed(path: Path) -> ast.Module:
    """The file's syntax tree; one that has not changed is parsed once."""
    return _parsed(path, path.stat().st_mtime_ns)


@cache
def _parsed(path: Path, changed: int) -> ast.Module:
    return ast.parse(path.read_bytes(), filename=str(path))


@cache
def nodes(tree: ast.AST) -> list[ast.AST]:
    """All nodes of a tree; one is walked once."""
    return list(ast.walk(tree))


def forget() -> None:
    """Frees the trees, which are large: every later test of the process would pay for them in
    garbage collection.
    """
    for kept in (_imports_in, _parsed, nodes):
        kept.cache_clear()


def modules_in(source: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted((source / ROOT_PACKAGE).rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def _statements(
    tree: ast.AST, in_function: bool = False
) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node, in_function
        inside = in_function or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        yield from _statements(node, inside)


def _targets(
    node: ast.Import | ast.ImportFrom, importer: str, is_package: bool, modules: frozenset[str]
) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    base = node.module or ""
    if node.level:
        around = importer.split(".")
        kept = len(around) - node.level + (1 if is_package else 0)
        base = ".".join([*around[:kept], *filter(None, [node.module])])
    # `from package import name` reaches the submodule where one has that name, else the package
    # itself.
    names = [f"{base}.{alias.name}" for alias in node.names]
    return sorted({name if name in modules else base for name in names})


def _row(name: str) -> int | None:
    return next((index for index, row in enumerate(ROWS) if name in row), None)


def _faults(arrow: Import) -> Iterator[str]:
    package = arrow.target.partition(".")[0]
    source, target = unit(arrow.importer), unit(arrow.target)
    if arrow.in_function and source != "" and package not in OPTIONAL_PACKAGES:
        yield f"{arrow.importer} imports {arrow.target} inside a function; imports stand at the top of the file"
    if package != ROOT_PACKAGE:
        if source == "resident" and package not in sys.stdlib_module_names:
            yield f"{arrow.importer} imports {arrow.target}; the resident has only the standard library"
        return
    if source == target:
        return
    upper, lower = _row(source), _row(target)
    if arrow.target == LAZY:
        return
    if target == "resident":
        if (source, arrow.target) not in SHARED_WITH_RESIDENT:
            yield f"{arrow.importer} imports {arrow.target}; outside the resident only its limits and frames are shared"
    elif upper is not None and lower is not None and upper >= lower:
        direction = "beside" if upper == lower else "above"
        yield f"{arrow.importer} imports {arrow.target}, which stands {direction} it"
