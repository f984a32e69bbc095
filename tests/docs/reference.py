"""Writes docs/reference.md: every public name with its signature, its docstring and its fields.

`scripts/reference` runs it; `test_reference.py` fails where the page differs from what it would
write.
"""

import ast
import inspect
import io
import re
import textwrap
import tokenize
from collections.abc import Iterator

import msgspec

import hermetic
from hermetic.contract import limits
from hermetic.contract.endings import Ending
from tests.docs.pages import ROOT

PAGE = "docs/reference.md"
ABOUT = """\
# Reference

Every public name of `hermetic`, with its signature and its docstring. `scripts/reference` writes this page from the
sources; do not edit it by hand. [python-api.md](python-api.md) explains the same names with examples that run.
`hermetic.blocking` has the same classes and functions without `async`.
"""
FUNCTIONS = ("open", "attach", "assess")
CLASSES = ("Environment", "Session", "Process", "Fleet", "Toolbox", "Tool")
LIMIT_TABLES = (
    "src/hermetic/resident/wire/frames.py",
    "src/hermetic/resident/limits.py",
    "src/hermetic/contract/limits.py",
)
WIDTH = 100

Function = ast.FunctionDef | ast.AsyncFunctionDef


def reference() -> str:
    """The whole page."""
    public = [
        name
        for name in hermetic.__all__
        if not name.startswith("_") and name not in ("blocking", "Ending")
    ]
    errors = [name for name in public if _is(name, Exception)]
    endings = [ending.__name__ for ending in Ending.__args__]
    values = [name for name in public if _is(name, msgspec.Struct) and name not in endings]
    assert sorted(public) == sorted([*FUNCTIONS, *CLASSES, *values, *endings, *errors]), (
        "a public name has no section"
    )
    lines = [ABOUT]
    lines += [
        "## Functions",
        "",
        *(line for name in FUNCTIONS for line in _function(_tree(name), 3)),
    ]
    lines += ["## Classes", "", *(line for name in CLASSES for line in _class(name))]
    lines += ["## Values", "", *(line for name in values for line in _struct(name))]
    lines += [
        "## Endings",
        "",
        "`Ending` is the union of these.",
        "",
        *(line for name in endings for line in _struct(name)),
    ]
    lines += ["## Errors", "", *(line for name in errors for line in _error(name))]
    lines += ["## Limits", "", "All limits, from `hermetic.contract.limits`.", "", *_limits()]
    return "\n".join(lines)


def write() -> None:
    """Brings the page up to date."""
    (ROOT / PAGE).write_text(reference(), encoding="utf-8")


def _is(name: str, base: type) -> bool:
    value = getattr(hermetic, name)
    return isinstance(value, type) and issubclass(value, base)


def _source(name: str) -> str:
    return textwrap.dedent(inspect.getsource(getattr(hermetic, name)))


def _tree(name: str) -> ast.stmt:
    return ast.parse(_source(name)).body[0]


def _class(name: str) -> Iterator[str]:
    tree = _tree(name)
    assert isinstance(tree, ast.ClassDef)
    bases = ", ".join(
        ast.unparse(base) for base in tree.bases if ast.unparse(base) not in _hidden_bases(name)
    )
    yield from (f"### `{name}`", "")
    if bases:
        yield from (f"Base: `{bases}`.", "")
    bodies = [tree.body, *(_class_body(base) for base in _hidden_bases(name).values())]
    members = [
        node
        for body in bodies
        for node in body
        if isinstance(node, Function) and not node.name.startswith("_")
    ]
    for node in tree.body:
        if (
            name in ("Fleet", "Toolbox", "Tool")
            and isinstance(node, Function)
            and node.name == "__init__"
        ):
            yield from _signature(node, name)
    yield from _text(ast.get_docstring(tree))
    for node in members:
        yield from _function(node, 4)


def _hidden_bases(name: str) -> dict[str, type]:
    """Bases of ours without a public name: their methods are those of the class."""
    bases = getattr(hermetic, name).__bases__
    return {
        base.__name__: base
        for base in bases
        if base.__module__.startswith("hermetic.") and base.__name__ not in hermetic.__all__
    }


def _class_body(base: type) -> list[ast.stmt]:
    tree = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
    assert isinstance(tree, ast.ClassDef)
    return tree.body


def _function(node: ast.stmt, level: int) -> Iterator[str]:
    assert isinstance(node, Function)
    yield from ("#" * level + f" `{node.name}`", "")
    if any(ast.unparse(mark).endswith("property") for mark in node.decorator_list):
        yield from (f"Property: `{ast.unparse(node.returns)}`.", "") if node.returns else ()
    else:
        yield from _signature(node, node.name)
    yield from _text(ast.get_docstring(node))


def _signature(node: Function, name: str) -> Iterator[str]:
    arguments = node.args
    for group in (arguments.posonlyargs, arguments.args):
        if group and group[0].arg == "self":
            del group[0]
    start = f"{'async ' if isinstance(node, ast.AsyncFunctionDef) else ''}{name}("
    end = f") -> {ast.unparse(node.returns)}" if node.returns and node.name != "__init__" else ")"
    whole = start + ", ".join(_parts(arguments)) + end
    if len(whole) > WIDTH:
        parts = "".join(f"    {part},\n" for part in _parts(arguments))
        whole = f"{start}\n{parts}{end}"
    yield from ("```py", whole, "```", "")


def _parts(arguments: ast.arguments) -> Iterator[str]:
    """Each argument as text, in order, with the star that begins keyword-only ones."""
    none = [None] * (len(arguments.args) - len(arguments.defaults))
    for argument, default in zip(arguments.args, [*none, *arguments.defaults], strict=True):
        yield _argument(argument, default)
    if arguments.vararg:
        yield f"*{ast.unparse(arguments.vararg)}"
    elif arguments.kwonlyargs:
        yield "*"
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield _argument(argument, default)
    if arguments.kwarg:
        yield f"**{ast.unparse(arguments.kwarg)}"


def _argument(argument: ast.arg, default: ast.expr | None) -> str:
    return ast.unparse(argument) + (f" = {ast.unparse(default)}" if default else "")


def _struct(name: str) -> Iterator[str]:
    source, tree = _source(name), _tree(name)
    assert isinstance(tree, ast.ClassDef)
    yield from (f"### `{name}`", "", *_text(ast.get_docstring(tree)))
    comments = {
        token.start[0]: token.string.removeprefix("#").strip()
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    fields = [node for node in tree.body if isinstance(node, ast.AnnAssign)]
    if fields:
        yield from ("| field | type | default | meaning |", "|---|---|---|---|")
    for field in fields:
        default = f"`{ast.unparse(field.value)}`" if field.value else ""
        cells = (f"`{ast.unparse(field.target)}`", f"`{ast.unparse(field.annotation)}`", default)
        yield f"| {' | '.join(_cell(cell) for cell in cells)} | {_cell(comments.get(field.end_lineno or 0, ''))} |"
    if fields:
        yield ""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            yield f"- `{node.name}`: {(ast.get_docstring(node) or '').splitlines()[0]}"
    yield ""


def _error(name: str) -> Iterator[str]:
    error = getattr(hermetic, name)
    bases = ", ".join(f"`{base.__name__}`" for base in error.__bases__)
    yield from (f"### `{name}`", "", f"Base: {bases}.", "", *_text(inspect.getdoc(error)))
    fields = (
        [field for field in inspect.signature(error).parameters if field != "message"]
        if _has_init(error)
        else []
    )
    if fields:
        yield from ("Attributes: " + ", ".join(f"`{field}`" for field in fields) + ".", "")


def _has_init(error: type) -> bool:
    return any(
        "__init__" in vars(base)
        for base in error.__mro__
        if base.__module__.startswith("hermetic.")
    )


def _limits() -> Iterator[str]:
    yield from ("| limit | value | unit | meaning |", "|---|---|---|---|")
    for name, unit, meaning in limit_rows():
        yield f"| `{name}` | {getattr(limits, name):,} | {unit} | {_cell(meaning)} |"
    yield ""


def limit_rows() -> list[tuple[str, str, str]]:
    """Name, unit and meaning of every limit: the comment behind its value, or on the line before."""
    behind = r"^([A-Z_]+) = .*  # (\w+): (.+)$"
    before = r"^# (\w+): (.+)\n([A-Z_]+) = "
    rows = []
    for path in LIMIT_TABLES:
        page = (ROOT / path).read_text(encoding="utf-8")
        for found in re.finditer(f"{behind}|{before}", page, re.MULTILINE):
            name, unit, meaning, unit_before, meaning_before, name_after = found.groups()
            rows.append((name or name_after, unit or unit_before, meaning or meaning_before))
    return rows


def _text(docstring: str | None) -> Iterator[str]:
    if docstring:
        yield from (*docstring.splitlines(), "")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    write()
