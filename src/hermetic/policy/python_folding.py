"""Folds a Python text: statements are walked in order, names followed, constants computed."""

from __future__ import annotations

import ast
from collections.abc import Callable

from hermetic.policy.tables import names

from .call import Call
from .commands.unseen import UNKNOWN_COMMAND
from .marks import SECRET, UNSET, unknown_like
from .python_values import UNKNOWN, Bound, Name, Obj, Value, bounded, element_of, marks_of, text_of

MAX_NODES = 6_000


class TooLarge(Exception):
    pass


class Folding:
    """Statements and expressions; what a call does is said by the subclass."""

    def __init__(self, call: Call, depth: int, *, is_brief: bool = False) -> None:
        self.call = call
        self.depth = depth
        self.is_brief = is_brief  # numbers that a loop goes through are one that is unknown, not each by itself
        self.names: dict[str, Value] = {}
        self.functions: dict[str, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda] = {}
        self.nodes = 0
        self.active: list[str] = []
        self.socket = False
        self.loop = 0

    def block(self, body: list[ast.stmt]) -> None:
        for statement in body:
            self.statement(statement)

    def statement(self, node: ast.stmt) -> None:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise TooLarge
        if isinstance(node, ast.Import):
            for alias in node.names:
                self.names[alias.asname or alias.name.split(".")[0]] = Name(
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if alias.name == "*":
                    self._star(node.module or "")
                self.names[alias.asname or alias.name] = Name(f"{node.module}.{alias.name}")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            self.functions[node.name] = node
            for decorator in node.decorator_list:
                self.value(decorator)
                if not isinstance(decorator, ast.Call):
                    self._decorated(decorator, node)
        elif isinstance(node, ast.ClassDef):
            self.block(node.body)
        elif isinstance(node, ast.Assign):
            value = self.value(node.value)
            for target in node.targets:
                self.assign(target, value)
        elif isinstance(node, ast.AnnAssign | ast.AugAssign):
            value = self.value(node.value) if node.value else None
            if isinstance(node, ast.AugAssign):
                value = self.binary(self.value(_load(node.target)), value, node.op)
            self.assign(node.target, value)
        elif isinstance(node, ast.For | ast.AsyncFor):
            self._for(node)
        elif isinstance(node, ast.While):
            self.value(node.test)
            self.loop += 1
            self.block(node.body)
            self.loop -= 1
            self.block(node.orelse)
        elif isinstance(node, ast.If):
            self.value(node.test)
            self.block(node.body)
            self.block(node.orelse)
        elif isinstance(node, ast.With | ast.AsyncWith):
            for item in node.items:
                value = self.value(item.context_expr)
                if item.optional_vars is not None:
                    self.assign(item.optional_vars, value)
            self.block(node.body)
        elif isinstance(node, ast.Try):
            self.block(node.body)
            for handler in node.handlers:
                self.block(handler.body)
            self.block(node.orelse)
            self.block(node.finalbody)
        else:
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    self.value(child)
                elif isinstance(child, ast.stmt):
                    self.statement(child)

    def _star(self, module: str) -> None:
        for name in names(
            """
system popen remove unlink rmtree run Popen call Path kill fork execvp rmdir chmod urlopen check_output move
CDLL PyDLL cdll pydll LibraryLoader environ listdir walk socket
"""
        ):
            self.names.setdefault(name, Name(f"{module}.{name}"))

    def _decorated(self, decorator: ast.expr, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        target = self.value(decorator)
        if isinstance(target, Name) and target in ("exec", "eval", "os.system"):
            self.call.report(UNKNOWN_COMMAND, "runs what a decorator is given")

    def _for(self, node: ast.For | ast.AsyncFor) -> None:
        values = self.value(node.iter)
        items = self._items(values, 24) if isinstance(values, list) and values else [element_of(values)]
        endless = isinstance(values, Obj) and values.call in (
            "iter",
            "itertools.count",
            "itertools.repeat",
            "itertools.cycle",
        )
        self.loop += endless
        for item in items:
            self.assign(node.target, item)
            self.block(node.body)
        self.loop -= endless
        self.block(node.orelse)

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
        elif isinstance(target, ast.Subscript):
            base = self.value(target.value)
            key = self.value(target.slice)
            if isinstance(base, dict) and isinstance(key, str):
                base[key] = value

    def value(self, node: ast.expr | None) -> Value:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise TooLarge
        if node is None:
            return None
        method = getattr(self, "_" + type(node).__name__.lower(), None)
        if method is not None:
            found: Value = method(node)
            return found
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.value(child)
        return UNKNOWN

    def _constant(self, node: ast.Constant) -> Value:
        return node.value if not isinstance(node.value, complex) else UNKNOWN

    def _name(self, node: ast.Name) -> Value:
        if node.id in self.names:
            return self.names[node.id]
        if node.id in self.functions:
            return Name("def:" + node.id)
        return Name(node.id)

    def _attribute(self, node: ast.Attribute) -> Value:
        return self.attribute(self.value(node.value), node.attr)

    def attribute(self, base: Value, attr: str) -> Value:
        if isinstance(base, Name):
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
            if base.startswith("__builtins__") or base == "builtins":
                return Name(attr)
            return Name(full)
        if isinstance(base, Obj):
            if base.path is not None and attr in ("parent", "parents"):
                return Obj("Path", (base.path.rstrip("/").rpartition("/")[0] or "/"), "")
            return Obj(f"{base.call}.{attr}", base.path, base.text)
        return Obj("method:" + attr, None, "") if not isinstance(base, str | bytes | list | dict) else Bound(base, attr)

    def _list(self, node: ast.List) -> Value:
        out: list[Value] = []
        for item in node.elts:
            if isinstance(item, ast.Starred):
                value = self.value(item.value)
                out += value if isinstance(value, list) else [element_of(value)]
            else:
                out.append(self.value(item))
        return out

    _tuple = _set = _list

    def _dict(self, node: ast.Dict) -> Value:
        found: dict[str, Value] = {}
        for key, item in zip(node.keys, node.values, strict=True):
            name = self.value(key) if key is not None else None
            value = self.value(item)
            found[name if isinstance(name, str) else f"?{len(found)}"] = value
        return found

    def _joinedstr(self, node: ast.JoinedStr) -> Value:
        return "".join(text_of(self.value(part)) for part in node.values)

    def _formattedvalue(self, node: ast.FormattedValue) -> Value:
        return text_of(self.value(node.value))

    def _binop(self, node: ast.BinOp) -> Value:
        return self.binary(self.value(node.left), self.value(node.right), node.op)

    def binary(self, left: Value, right: Value, op: ast.operator) -> Value:
        if isinstance(left, Obj) and left.path is not None and isinstance(op, ast.Div):
            return Obj("Path", left.path.rstrip("/") + "/" + text_of(right))
        if isinstance(op, ast.Add):
            if isinstance(left, list) and isinstance(right, list):
                return left + right
            if isinstance(left, bytes) and isinstance(right, bytes):
                return left + right
            if (isinstance(left, str) and not isinstance(left, Name)) or (
                isinstance(right, str) and not isinstance(right, Name)
            ):
                return text_of(left) + text_of(right)
        if (
            isinstance(op, ast.Mult)
            and isinstance(left, str | bytes)
            and isinstance(right, int)
            and len(left) * right < 10_000
        ):
            return left * right
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
        parts = values if isinstance(values, list) else [values]
        try:
            return template % tuple(text_of(part) if not isinstance(part, int | float) else part for part in parts)
        except (TypeError, ValueError):
            return unknown_like(template)

    def _unaryop(self, node: ast.UnaryOp) -> Value:
        value = self.value(node.operand)
        if isinstance(node.op, ast.USub) and isinstance(value, int):
            return -value
        return UNKNOWN

    def _ifexp(self, node: ast.IfExp) -> Value:
        self.value(node.test)
        first, second = self.value(node.body), self.value(node.orelse)
        return first if first == second else UNKNOWN

    def _boolop(self, node: ast.BoolOp) -> Value:
        values = [self.value(part) for part in node.values]
        return values[-1]

    def _lambda(self, node: ast.Lambda) -> Value:
        name = f"lambda{len(self.functions)}"
        self.functions[name] = node
        return Name("def:" + name)

    def _namedexpr(self, node: ast.NamedExpr) -> Value:
        value = self.value(node.value)
        self.assign(node.target, value)
        return value

    def _starred(self, node: ast.Starred) -> Value:
        return self.value(node.value)

    def _await(self, node: ast.Await) -> Value:
        return self.value(node.value)

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> Value:
        generator = node.generators[0]
        values = self.value(generator.iter)
        items = self._items(values, 64) if isinstance(values, list) else [element_of(values)]
        endless = isinstance(values, Obj) and values.call in (
            "iter",
            "itertools.count",
            "itertools.repeat",
            "itertools.cycle",
        )
        self.loop += endless
        out: list[Value] = []
        for item in items:
            self.assign(generator.target, item)
            for other in node.generators[1:]:
                self.assign(other.target, element_of(self.value(other.iter)))
            for test in generator.ifs:
                self.value(test)
            out.append(self.value(node.elt))
        self.loop -= endless
        return out if isinstance(values, list) else Obj("list", text="".join(marks_of(one) for one in out))

    _listcomp = _setcomp = _generatorexp = _comprehension

    def _subscript(self, node: ast.Subscript) -> Value:
        base = self.value(node.value)
        key = _slice(node.slice, self) if isinstance(node.slice, ast.Slice) else self.value(node.slice)
        if isinstance(base, str | bytes | list) and not isinstance(base, Name) and isinstance(key, int | slice):
            try:
                return base[key]
            except (IndexError, ValueError):
                return UNKNOWN
        if isinstance(base, dict) and isinstance(key, str):
            return base.get(key, UNKNOWN)
        if isinstance(base, Obj) and base.call == "os.environ":
            return self._environment(key)
        if isinstance(base, Obj) and base.call in ("vars", "globals", "locals") and isinstance(key, str):
            return self.attribute(Name(base.path), key) if base.path else self.names.get(key, Name(key))
        if isinstance(base, Name) and isinstance(key, str) and base.endswith("__dict__"):
            return Name(f"{base[: -len('.__dict__')]}.{key}")
        if isinstance(base, Name) and base in ("sys.modules",) and isinstance(key, str):
            return Name(key)
        if isinstance(base, Name) and base.startswith("__builtins__") and isinstance(key, str):
            return Name(key)
        return Obj("?", text=marks_of(base))

    def _environment(self, key: Value) -> Value:
        if isinstance(key, str) and not isinstance(key, Name):
            return self.call.shell.scalar(key)
        return Obj("?", text=SECRET)

    def invoke(self, function: Value, args: list[Value], keywords: dict[str, Value]) -> Value:
        """What a call gives, after what it does was judged."""
        raise NotImplementedError


def _load(target: ast.expr) -> ast.expr:
    return ast.Name(id=target.id, ctx=ast.Load()) if isinstance(target, ast.Name) else target


def _slice(node: ast.Slice, walker: Folding) -> slice | None:
    parts = [walker.value(part) if part is not None else None for part in (node.lower, node.upper, node.step)]
    if all(part is None or isinstance(part, int) for part in parts):
        return slice(*parts)
    return None
