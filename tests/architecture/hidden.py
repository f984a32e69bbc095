"""What an import graph does not show: imports by string, private names of another package, knots of
modules.
"""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Set
from pathlib import Path

from tests.architecture.arrows import (
    LAZY,
    ROOT_PACKAGE,
    imports,
    lazy_calls,
    modules_in,
    nodes,
    parsed,
    unit,
)

# runs in a script's interpreter, where this package does not exist
INSIDE = "hermetic.tools.code.inside"
NAMED_TUPLE = frozenset({"_replace", "_asdict", "_fields", "_make"})


def string_imports(source: Path) -> list[str]:
    """Modules of ours that are imported by their names, other than by `Lazy` and in a package's
    `__getattr__`.
    """
    modules = dict(modules_in(source))
    ours = re.compile(r"(hermetic(?:\.\w+)+)(?::\w+)?")
    found = []
    for name, path in modules.items():
        if name == LAZY or name.startswith(INSIDE):
            continue
        tree = parsed(path)
        allowed = {id(node) for call in lazy_calls(tree) for node in ast.walk(call)}
        allowed |= {id(node) for given in _package_getattr(tree, path) for node in ast.walk(given)}
        for node in nodes(tree):
            if id(node) in allowed:
                continue
            if isinstance(node, ast.Call) and _imports_by_string(node):
                found.append(f"{path.relative_to(source)}:{node.lineno}: {ast.unparse(node)}")
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                match = ours.fullmatch(node.value)
                if (
                    match
                    and modules.get(match[1], path).name != "__init__.py"
                    and match[1] in modules
                ):
                    found.append(f"{path.relative_to(source)}:{node.lineno}: {node.value!r}")
    return found


def _package_getattr(tree: ast.Module, path: Path) -> list[ast.stmt]:
    if path.name != "__init__.py":
        return []
    return [
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name == "__getattr__"
    ]


def _imports_by_string(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name == "Lazy":
        return True  # its name is computed
    if name not in ("__import__", "import_module"):
        return False
    target = call.args[0].value if call.args and isinstance(call.args[0], ast.Constant) else None
    is_relative = len(call.args) > 4 or any(
        word.arg in ("level", "package") for word in call.keywords
    )
    return is_relative or str(target).partition(".")[0] not in sys.stdlib_module_names


def private_names(source: Path) -> list[str]:
    """Uses of a private attribute or name that only another package defines."""
    modules = {name: path for name, path in modules_in(source) if not name.startswith(INSIDE)}
    trees = {name: parsed(path) for name, path in modules.items()}
    defined = {name: set(_defined(tree)) for name, tree in trees.items()}
    owners: defaultdict[str, set[str]] = defaultdict(set)
    for name, names in defined.items():
        for private in names:
            owners[private].add(unit(name))
    found = []
    for name, tree in trees.items():
        foreign = _foreign(tree) if unit(name) != "session" else frozenset()
        for line, text, private in _used(tree):
            is_theirs = text in foreign and "session" in owners[private]
            if is_theirs or (owners[private] and unit(name) not in owners[private]):
                found.append(f"{modules[name].relative_to(source)}:{line}: {text}.{private}")
    return found


def is_private(name: str) -> bool:
    return (
        name.startswith("_")
        and not name.startswith("__")
        and name != "_"
        and name not in NAMED_TUPLE
    )


def _defined(tree: ast.AST) -> Iterator[str]:
    for node in nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and is_private(
            node.name
        ):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and is_private(node.id):
            yield node.id
        elif (
            isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and is_private(node.attr)
        ):
            yield from [node.attr] if ast.unparse(node.value) in ("self", "cls") else []


def _foreign(tree: ast.AST) -> Set[str]:
    """Parameters whose type is a class of `hermetic.session`: their private attributes are that
    package's.
    """
    imported = [
        node
        for node in nodes(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("hermetic.session.")
    ]
    classes = {alias.name for node in imported for alias in node.names if alias.name[:1].isupper()}
    return {
        node.arg
        for node in nodes(tree)
        if isinstance(node, ast.arg)
        and node.annotation is not None
        and classes & set(re.findall(r"\w+", ast.unparse(node.annotation)))
    }


def _used(tree: ast.AST) -> Iterator[tuple[int, str, str]]:
    libraries = set()
    for node in nodes(tree):
        if isinstance(node, ast.Import):
            libraries |= {
                (a.asname or a.name).split(".")[0]
                for a in node.names
                if not a.name.startswith(ROOT_PACKAGE)
            }
        elif (
            isinstance(node, ast.ImportFrom)
            and not node.level
            and not (node.module or "").startswith(ROOT_PACKAGE)
        ):
            libraries |= {alias.asname or alias.name for alias in node.names}
    for node in nodes(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            base = node.value.id if isinstance(node.value, ast.Name) else ast.unparse(node.value)
            if base not in ("self", "cls") and base not in libraries:
                yield node.lineno, base, node.attr
        elif isinstance(node, ast.ImportFrom) and (
            node.level or (node.module or "").startswith(ROOT_PACKAGE)
        ):
            for alias in filter(lambda alias: is_private(alias.name), node.names):
                yield node.lineno, node.module or "", alias.name


def knots(source: Path, *, at_import: bool = False) -> list[list[str]]:
    """Groups of modules of one package that need each other; `at_import`: without types and first
    uses.
    """
    modules = dict(modules_in(source))
    graph: defaultdict[str, set[str]] = defaultdict(set)
    for arrow in imports(source):
        is_inner = arrow.target in modules and unit(arrow.importer) == unit(arrow.target)
        is_skipped = arrow.importer == arrow.target or (
            at_import and (arrow.is_deferred or arrow.in_function)
        )
        if is_inner and not is_skipped:
            graph[arrow.importer].add(arrow.target)
    return _components(graph)


def _components(graph: Mapping[str, Set[str]]) -> list[list[str]]:
    """Strongly connected components of more than one node: what each node reaches, and is reached
    by.
    """
    reached = {node: _reachable(graph, node) for node in graph}
    groups = {
        frozenset(n for n in reached[node] if node in reached.get(n, ()))
        for node in graph
        if node in reached[node]
    }
    return sorted(sorted(group) for group in groups)


def _reachable(graph: Mapping[str, Set[str]], start: str) -> Set[str]:
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        for node in graph.get(waiting.pop(), ()):
            if node not in seen:
                seen.add(node)
                waiting.append(node)
    return seen
