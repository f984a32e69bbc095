"""Folds a Python text: every node of its tree is visited, names are followed, constants computed.

A node without a method of its own is visited by its children, so that no part of a text is left out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable

from .budget import MAX_TEXT, joined
from .call import Call
from .marks import SECRET, UNSET, unknown_like
from .python_values import (
    MAX_ITEMS,
    UNKNOWN,
    Bound,
    Class,
    Getter,
    Instance,
    Method,
    Name,
    Obj,
    OneOf,
    Value,
    bounded,
    choices,
    element_of,
    is_too_long,
    items_in,
    marks_of,
    one_of,
    text_of,
)

MAX_NODES = 12_000
MAX_REPEATED = 10_000  # characters of a text times a number
_WIDE = re.compile(r"\d{4}")
# Modules that other modules import: reached by way of those, they are the same.
_MODULES = frozenset(
    {"os", "posix", "subprocess", "shutil", "sys", "builtins", "importlib", "pty", "ctypes", "pathlib"}
)
_INTERPRETER = "/usr/bin/python3"  # for sys.executable, wherever that is
_THEMSELVES = ("__call__", "__func__", "__wrapped__")  # attributes of a function that are called as it is
_ENDLESS = ("iter", "itertools.count", "itertools.repeat", "itertools.cycle")


class TooLarge(Exception):
    pass


class Folding:
    """Statements and expressions; what a call does is said by the subclass."""

    def __init__(self, call: Call, depth: int, *, is_brief: bool = False) -> None:
        self.call = call
        self.depth = depth
        self.is_brief = is_brief  # numbers that a loop goes through are one that is unknown, not each by itself
        self.names: dict[str, Value] = {}
        self.methods: dict[str, list[Name]] = {}  # by their names alone, of all classes
        self.attributes: dict[str, Value] = {}  # what was assigned to an attribute of that name, of any object
        self.nodes = 0
        self.socket = False
        self.loop = 0

    # --- visiting
    def visit(self, node: ast.AST | None) -> Value:
        """What a node gives, as far as that can be known; UNKNOWN for a statement."""
        if node is None:
            return None
        self.nodes += 1
        self.call.machine.spend(self.nodes % 2)
        if self.nodes > MAX_NODES:
            raise TooLarge
        method: Callable[[ast.AST], Value] | None = getattr(self, "_" + type(node).__name__.lower(), None)
        if method is not None:
            return self._sized(method(node))
        return Obj("?", text="".join(marks_of(self.visit(child)) for child in ast.iter_child_nodes(node)))

    value = visit

    def _sized(self, value: Value) -> Value:
        """The value, or an unknown one where it has grown beyond what is looked at."""
        if isinstance(value, list | dict | OneOf):
            count = items_in(value)
            self.call.machine.spend(count // 16)
            return value if count <= MAX_ITEMS else Obj("list", text=UNSET)
        return value if not is_too_long(value) else Obj("?", text=marks_of(value))

    def block(self, body: Iterable[ast.AST]) -> None:
        for statement in body:
            self.visit(statement)

    def _either(self, *ways: Callable[[], object]) -> None:
        """Take each way from here; afterwards names have the values of any of them."""
        before = self.names
        ends: list[dict[str, Value]] = []
        for way in ways:
            self.call.machine.spend(len(before) // 16)
            self.names = dict(before)
            way()
            ends.append(self.names)
        self.names = self._joined(ends)

    def _joined(self, ends: list[dict[str, Value]]) -> dict[str, Value]:
        found = dict(ends[0])
        for name in {name for end in ends for name in end}:
            values = [end[name] for end in ends if name in end]
            found[name] = values[0] if all(value is values[0] for value in values) else one_of(values)
        return found

    def _items(self, values: list[Value], most: int) -> list[Value]:
        """What a loop goes through."""
        if self.is_brief and len(values) > 1 and all(isinstance(value, int) for value in values):
            return [UNKNOWN]
        return bounded(values, most)

    def assign(self, target: ast.expr, value: Value) -> None:
        if isinstance(target, ast.Name):
            self.names[target.id] = value
        elif isinstance(target, ast.Tuple | ast.List):
            for at, one in enumerate(target.elts):
                self.assign(one, value[at] if isinstance(value, list) and at < len(value) else element_of(value))
        elif isinstance(target, ast.Starred):
            self.assign(target.value, [value])
        elif isinstance(target, ast.Subscript):
            key = self.visit(target.slice)
            for base in choices(self.visit(target.value)):
                if isinstance(base, dict):
                    base[key if isinstance(key, str) else f"?{len(base)}"] = value
                elif isinstance(base, list):
                    base.append(value)
        elif isinstance(target, ast.Attribute):
            self.visit(target.value)
            self.attributes[target.attr] = one_of([*choices(self.attributes.get(target.attr, value)), value])

    # --- expressions
    def _constant(self, node: ast.Constant) -> Value:
        return node.value if not isinstance(node.value, complex) else UNKNOWN

    def _name(self, node: ast.Name) -> Value:
        return self.names[node.id] if node.id in self.names else Name(node.id)

    def _attribute(self, node: ast.Attribute) -> Value:
        return self.attribute(self.visit(node.value), node.attr)

    def attribute(self, base: Value, attr: str) -> Value:
        if isinstance(base, OneOf):
            return one_of(self.attribute(one, attr) for one in base.values if one is not None)
        if isinstance(base, Instance | Class):
            return self._member(base, attr)
        if attr in _THEMSELVES and isinstance(base, Name | Bound | Method | Getter):
            return base
        if isinstance(base, Name):
            return self._of_module(base, attr)
        if isinstance(base, Obj):
            if base.path is not None and attr in ("parent", "parents"):
                return Obj("Path", (base.path.rstrip("/").rpartition("/")[0] or "/"), "")
            found = Obj(f"{base.call}.{attr}", base.path, base.text)
            module = [Name(attr.lstrip("_"))] if attr.lstrip("_") in _MODULES else []
            return one_of(
                [found, *module, *self._assigned(attr), *(Method(one, base) for one in self.methods.get(attr, ()))]
            )
        if isinstance(base, str | bytes | list | dict):
            return Bound(base, attr)
        return one_of([Obj("method:" + attr), *self._assigned(attr)])

    def _member(self, base: Instance | Class, attr: str) -> Value:
        found = (base.kind if isinstance(base, Instance) else base).find(attr)
        values = self._assigned(attr)
        for one in choices(found) if found is not None else []:
            is_bound = isinstance(base, Instance) and isinstance(one, Name) and one.startswith("def:")
            values.append(Method(one, base) if is_bound and isinstance(one, Name) else one)
        return one_of(values) if values else Obj(f"object.{attr}")

    def _assigned(self, attr: str) -> list[Value]:
        return list(choices(self.attributes[attr])) if attr in self.attributes else []

    def _of_module(self, base: Name, attr: str) -> Value:
        full = f"{base}.{attr}"
        if full in ("os.environ", "os.environb"):
            return Obj("os.environ", text=SECRET)
        if full in ("os.sep", "os.path.sep"):
            return "/"
        if full == "os.curdir":
            return "."
        if full == "sys.stdin":
            return Obj("stdin", text=self.call.input())
        if full == "sys.argv":
            return Obj("sys.argv", text=UNSET)
        if (shared := shared_by_modules(base, attr)) is not None:
            return one_of([shared, *self._assigned(attr)])
        if base.startswith("__builtins__") or base == "builtins":
            return Name(attr)
        return one_of([Name(full), *self._assigned(attr)])

    def _list(self, node: ast.List) -> Value:
        out: list[Value] = []
        for item in node.elts:
            if isinstance(item, ast.Starred):
                value = self.visit(item.value)
                out += value if isinstance(value, list) else [element_of(value)]
            else:
                out.append(self.visit(item))
        return out

    _tuple = _set = _list

    def _dict(self, node: ast.Dict) -> Value:
        found: dict[str, Value] = {}
        for key, item in zip(node.keys, node.values, strict=True):
            name = self.visit(key) if key is not None else None
            value = self.visit(item)
            if key is None and isinstance(value, dict):
                found.update(value)
            else:
                found[name if isinstance(name, str) else f"?{len(found)}"] = value
        return found

    def _joinedstr(self, node: ast.JoinedStr) -> Value:
        return joined([text_of(self.visit(part)) for part in node.values])

    def _formattedvalue(self, node: ast.FormattedValue) -> Value:
        self.visit(node.format_spec)
        return text_of(self.visit(node.value))

    def _binop(self, node: ast.BinOp) -> Value:
        return self.binary(self.visit(node.left), self.visit(node.right), node.op)

    def binary(self, left: Value, right: Value, op: ast.operator) -> Value:
        if isinstance(left, OneOf):
            return one_of(self.binary(one, right, op) for one in left.values)
        if isinstance(right, OneOf):
            return one_of(self.binary(left, one, op) for one in right.values)
        if isinstance(left, Obj) and left.path is not None and isinstance(op, ast.Div):
            return Obj("Path", joined((left.path.rstrip("/"), "/", text_of(right))))
        if isinstance(op, ast.Add):
            if isinstance(left, list) and isinstance(right, list):
                return left + right if len(left) + len(right) <= MAX_ITEMS else Obj("list", text=UNSET)
            if isinstance(left, bytes) and isinstance(right, bytes):
                return left + right if len(left) + len(right) <= MAX_TEXT else UNKNOWN
            if (isinstance(left, str) and not isinstance(left, Name)) or (
                isinstance(right, str) and not isinstance(right, Name)
            ):
                return joined((text_of(left), text_of(right)))
        if isinstance(op, ast.Mult) and isinstance(left, str | bytes) and isinstance(right, int):
            return left * right if len(left) * right < MAX_REPEATED else Obj("?", text=marks_of(left))
        if isinstance(op, ast.Mod) and isinstance(left, str):
            return self._percent(left, right)
        if isinstance(left, int) and isinstance(right, int):
            return self._numbers(left, right, op)
        return Obj("?", text=marks_of(left) + marks_of(right))

    def _numbers(self, left: int, right: int, op: ast.operator) -> Value:
        actions: dict[type[ast.operator], Callable[[], int]] = {
            ast.Add: lambda: left + right,
            ast.Sub: lambda: left - right,
            ast.Mult: lambda: left * right,
            ast.BitXor: lambda: left ^ right,
            ast.BitOr: lambda: left | right,
            ast.BitAnd: lambda: left & right,
        }
        action = actions.get(type(op))
        return action() if action and abs(left) < 2**63 and abs(right) < 2**63 else UNKNOWN

    def _percent(self, template: str, values: Value) -> Value:
        given = values if isinstance(values, list) else [values]
        parts = [part if isinstance(part, int | float) else text_of(part) for part in given]
        if has_wide_field(template) or len(template) + sum(len(str(part)) for part in parts) > MAX_TEXT:
            return unknown_like(template, *map(str, parts))
        try:
            return template % tuple(parts)
        except (TypeError, ValueError):
            return unknown_like(template)

    def _unaryop(self, node: ast.UnaryOp) -> Value:
        value = self.visit(node.operand)
        return -value if isinstance(node.op, ast.USub) and isinstance(value, int) else UNKNOWN

    def _ifexp(self, node: ast.IfExp) -> Value:
        self.visit(node.test)
        return one_of([self.visit(node.body), self.visit(node.orelse)])

    def _boolop(self, node: ast.BoolOp) -> Value:
        return one_of([self.visit(part) for part in node.values])

    def _namedexpr(self, node: ast.NamedExpr) -> Value:
        value = self.visit(node.value)
        self.assign(node.target, value)
        return value

    def _starred(self, node: ast.Starred) -> Value:
        return self.visit(node.value)

    _await = _starred

    def _comprehension_of(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Value:
        first = node.generators[0]
        values = self.visit(first.iter)
        items = self._items(values, 64) if isinstance(values, list) else [element_of(values)]
        endless = is_endless(values)
        self.loop += endless
        out: list[Value] = []
        for item in items:
            self.assign(first.target, item)
            self.block(first.ifs)
            for other in node.generators[1:]:
                inner = self.visit(other.iter)
                self.assign(other.target, one_of(inner) if isinstance(inner, list) and inner else element_of(inner))
                self.block(other.ifs)
            if isinstance(node, ast.DictComp):
                self.visit(node.key)
                out.append(self.visit(node.value))
            else:
                out.append(self.visit(node.elt))
        self.loop -= endless
        return out if isinstance(values, list) else Obj("list", text="".join(marks_of(one) for one in out))

    _listcomp = _setcomp = _generatorexp = _dictcomp = _comprehension_of

    def _subscript(self, node: ast.Subscript) -> Value:
        base = self.visit(node.value)
        key = self._slice_of(node.slice) if isinstance(node.slice, ast.Slice) else self.visit(node.slice)
        return one_of(self._item(one, key) for one in choices(base))

    def _item(self, base: Value, key: Value) -> Value:
        if isinstance(base, str | bytes | list) and not isinstance(base, Name) and isinstance(key, int | slice):
            try:
                return base[key]
            except (IndexError, ValueError):
                return UNKNOWN
        if isinstance(base, dict) and isinstance(key, str) and key in base:
            return base[key]
        if isinstance(base, dict | list):  # nobody knows which
            return one_of([*(base.values() if isinstance(base, dict) else base), UNKNOWN])
        if isinstance(base, Obj) and base.call == "os.environ":
            return self._environment(key)
        if isinstance(base, Obj) and base.call in ("vars", "globals", "locals") and isinstance(key, str):
            return self.attribute(Name(base.path), key) if base.path else self.names.get(key, Name(key))
        if isinstance(base, Name) and isinstance(key, str) and base.endswith("__dict__"):
            return Name(f"{base[: -len('.__dict__')]}.{key}")
        if isinstance(base, Name) and isinstance(key, str) and (base == "sys.modules" or base[:12] == "__builtins__"):
            return Name(key)
        return Obj("?", text=marks_of(base))

    def _slice_of(self, node: ast.Slice) -> slice | None:
        parts = [self.visit(part) for part in (node.lower, node.upper, node.step)]
        return slice(*parts) if all(part is None or isinstance(part, int) for part in parts) else None

    def _environment(self, key: Value) -> Value:
        if isinstance(key, str) and not isinstance(key, Name):
            return self.call.shell.scalar(key)
        return Obj("?", text=SECRET)

    def invoke(self, function: Value, args: list[Value], keywords: dict[str, Value]) -> Value:
        """What a call gives, after what it does was judged."""
        raise NotImplementedError


def shared_by_modules(module: str, attr: str) -> Name | str | None:
    """What a name of a module is, where modules have it from elsewhere; None for a name of its own."""
    if f"{module}.{attr}" == "sys.executable":
        return _INTERPRETER
    return Name(attr.lstrip("_")) if attr.lstrip("_") in _MODULES else None


def is_endless(values: Value) -> bool:
    return isinstance(values, Obj) and values.call in _ENDLESS


def has_wide_field(template: str) -> bool:
    """True when a template may ask for many characters by a number of few."""
    return "*" in template or _WIDE.search(template) is not None
