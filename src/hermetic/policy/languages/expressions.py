"""Expressions of a script: names are followed and constants computed.

A node without a method of its own is visited by its children, so that no part of a text is left
out.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from hermetic.policy.budget import joined
from hermetic.policy.call import Call
from hermetic.policy.marks import UNSET
from hermetic.policy.tables import regex

from . import values
from .folds import add, hidden_like, percent
from .hooks import Hooks
from .parser import WITHOUT_PARENTHESES, Block
from .values import UNKNOWN, Bound, Name, Obj, OneOf, Value, element_of, marks_of, one_of

MAX_NODES = 12_000
MAX_REPEATED = 10_000  # characters of a text times a number
_NUMBERS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.BitXor: operator.xor,
    ast.BitOr: operator.or_,
    ast.BitAnd: operator.and_,
}


_FEW = (ast.Eq, ast.In, ast.Is, ast.Lt, ast.LtE)
_OWNER = regex(r"'(username|uids?|getuid|geteuid|getuser|getlogin|pw_name|ruser|euser)'")
_MOST = (ast.NotEq, ast.NotIn, ast.IsNot, ast.Gt, ast.GtE)


class TooLarge(Exception):
    """A text with more nodes than a check may look at."""


def chooses(test: ast.expr, *, few: bool = True) -> bool:
    """True for a condition that holds for few of many things; for one that holds for all but few
    with `few=False`.
    """
    match test:
        case ast.UnaryOp(op=ast.Not()):
            return chooses(test.operand, few=not few)
        case ast.BoolOp():
            found = [chooses(one, few=few) for one in test.values]
            return any(found) if isinstance(test.op, ast.And) == few else all(found)
        case ast.Compare(ops=[op]):
            if _OWNER.search(ast.dump(test)):  # a person owns many
                return not few
            return isinstance(op, _FEW if few else _MOST)
        case ast.Call(func=ast.Attribute(attr="isdigit" | "isnumeric" | "isdecimal")):
            return not few
    return few


class Expressions(Hooks):
    """Evaluates expressions; statements are visited by the subclass."""

    def __init__(self, call: Call, language: str, depth: int, *, is_brief: bool = False) -> None:
        super().__init__(call, language, depth)
        self.is_brief = is_brief  # a loop over numbers takes one round, with an unknown number
        self.nodes = 0
        self.called: Value = UNKNOWN  # the function of the last call

    def visit(self, node: ast.AST | None) -> Value:
        """The value of a node, as far as it can be known; UNKNOWN for a statement."""
        if node is None:
            return None
        self.nodes += 1
        self.call.machine.spend(self.nodes % 2)
        if self.nodes > MAX_NODES:
            raise TooLarge
        method: Callable[[ast.AST], Value] | None = getattr(
            self, "_" + type(node).__name__.lower(), None
        )
        if method is not None:
            return self.sized(method(node))
        children = [self.visit(child) for child in ast.iter_child_nodes(node)]
        return Obj("?", text=marks_of(children))

    def sized(self, value: Value) -> Value:
        """The value, or an unknown one where it has grown beyond what is looked at."""
        if isinstance(value, list | dict | OneOf):
            count = values.count_items(value)
            self.call.machine.spend(count // 16)
            return value if count <= values.MAX_ITEMS else Obj("list", text=UNSET)
        return value if not values.is_too_long(value) else Obj("?", text=marks_of(value))

    @contextmanager
    def within(
        self,
        *,
        loop: bool = False,
        endless: bool = False,
        branch: bool = False,
        chosen: bool = False,
    ) -> Iterator[None]:
        """Inside a loop, one that neither ends nor waits, a branch, or where few of many are
        chosen.
        """
        self.loop += loop
        self.endless += endless
        self.conditional += branch
        self.chosen += chosen
        yield
        self.loop -= loop
        self.endless -= endless
        self.conditional -= branch
        self.chosen -= chosen

    def block(self, body: Iterable[ast.AST]) -> None:
        """Visit nodes in order."""
        for statement in body:
            self.visit(statement)

    def rounds_of(self, given: list[Value], most: int) -> list[Value]:
        """The items that a loop is evaluated for."""
        numbers = len(given) > 1 and all(isinstance(value, int) for value in given)
        return [UNKNOWN] if self.is_brief and numbers else values.bounded(given, most)

    def assign(self, target: ast.expr, value: Value) -> None:
        """An assignment."""
        if isinstance(target, ast.Name):
            self.names[target.id] = value
        elif isinstance(target, ast.Tuple | ast.List):
            for at, one in enumerate(target.elts):
                known = isinstance(value, list) and at < len(value)
                self.assign(one, value[at] if known else element_of(value))  # type: ignore[index]
        elif isinstance(target, ast.Starred):
            self.assign(target.value, [value])
        elif isinstance(target, ast.Subscript):
            key = self.visit(target.slice)
            for base in values.choices(self.visit(target.value)):
                if isinstance(base, dict):
                    base[key if isinstance(key, str) else f"?{len(base)}"] = value
                elif isinstance(base, list):
                    base.append(value)
        elif isinstance(target, ast.Attribute):
            self.assign_attribute(self.visit(target.value), target.attr, value)

    # --- names and attributes
    def _constant(self, node: ast.Constant) -> Value:
        return node.value if not isinstance(node.value, complex) else UNKNOWN

    def _name(self, node: ast.Name) -> Value:
        return self.names[node.id] if node.id in self.names else Name(node.id)

    def _attribute(self, node: ast.Attribute) -> Value:
        return self.attribute(self.result_of(self.visit(node.value)), node.attr)

    # --- literals
    def _list(self, node: ast.List | ast.Tuple | ast.Set) -> Value:
        return self.spread(node.elts)

    _tuple = _set = _list

    def spread(self, nodes: list[ast.expr]) -> list[Value]:
        """The values of expressions, starred ones by their items."""
        out: list[Value] = []
        for item in nodes:
            value = self.visit(item)
            if isinstance(item, ast.Starred):
                out += value if isinstance(value, list) else [element_of(value)]
            else:
                out.append(value)
        return out

    def _dict(self, node: ast.Dict) -> Value:
        found: dict[str, Value] = {}
        for key, item in zip(node.keys, node.values, strict=True):
            name, value = self.visit(key), self.visit(item)
            if key is None and isinstance(value, dict):
                found.update(value)
            else:
                found[name if isinstance(name, str) else f"?{len(found)}"] = value
        return found

    def _joinedstr(self, node: ast.JoinedStr) -> Value:
        parts = [self.visit(part) for part in node.values]
        return hidden_like(parts, joined(map(values.text_of, parts)))

    def _formattedvalue(self, node: ast.FormattedValue) -> Value:
        self.visit(node.format_spec)
        value = self.visit(node.value)
        return hidden_like([value], values.text_of(value))

    # --- operators
    def _binop(self, node: ast.BinOp) -> Value:
        return self.binary(self.visit(node.left), self.visit(node.right), node.op)

    def binary(self, left: Value, right: Value, op: ast.operator) -> Value:
        """The result of a binary operator."""
        if isinstance(left, OneOf):
            return one_of(self.binary(one, right, op) for one in left.values)
        if isinstance(right, OneOf):
            return one_of(self.binary(left, one, op) for one in right.values)
        if isinstance(left, Obj) and left.call == "Path" and isinstance(op, ast.Div):
            return Obj("Path", joined(((left.path or "").rstrip("/"), "/", values.text_of(right))))
        if isinstance(left, int) and isinstance(right, int):
            action = _NUMBERS.get(type(op))
            is_small = abs(left) < 2**63 and abs(right) < 2**63
            return action(left, right) if action and is_small else UNKNOWN
        if isinstance(op, ast.Add):
            return add(left, right)
        if isinstance(op, ast.Mult) and isinstance(left, str | bytes) and isinstance(right, int):
            is_short = len(left) * right < MAX_REPEATED
            return left * right if is_short else Obj("?", text=marks_of(left))
        if isinstance(op, ast.Mod) and values.is_text(left):
            return percent(str(left), right)
        return Obj("?", text=marks_of(left) + marks_of(right))

    def _unaryop(self, node: ast.UnaryOp) -> Value:
        value = self.visit(node.operand)
        return -value if isinstance(node.op, ast.USub) and isinstance(value, int) else UNKNOWN

    def _ifexp(self, node: ast.IfExp) -> Value:
        self.visit(node.test)
        return self.perhaps([node.body, node.orelse])

    def _boolop(self, node: ast.BoolOp) -> Value:
        return self.perhaps(node.values)

    def perhaps(self, nodes: list[ast.expr]) -> Value:
        """One of the values of expressions of which some are not evaluated."""
        with self.within(branch=True):
            return one_of([self.visit(node) for node in nodes])

    def _namedexpr(self, node: ast.NamedExpr) -> Value:
        value = self.visit(node.value)
        self.assign(node.target, value)
        return value

    def _starred(self, node: ast.Starred) -> Value:
        return self.visit(node.value)

    def _await(self, node: ast.Await) -> Value:
        return self.result_of(self.visit(node.value))

    def result_of(self, value: Value) -> Value:
        """The result of a method that is called without parentheses, as Ruby and Perl allow."""
        if self.language in WITHOUT_PARENTHESES and isinstance(value, Bound):
            return self.bound(value, [], {})
        if self.language not in WITHOUT_PARENTHESES or not isinstance(value, Name | Obj):
            return value
        name = value if isinstance(value, Name) else value.call
        if name[:1].isupper() and "." not in name:  # a class or module
            return value
        row = self.table.find(name)
        if row is None or (row.run is not None and "." not in name and name != "fork"):
            return value
        return self.named(name, value if isinstance(value, Obj) else None, [], {})

    def _block(self, node: Block) -> Value:
        self.called = UNKNOWN
        result = self.result_of(self.visit(node.value))
        bound = (one.base for one in (self.called, result) if isinstance(one, values.Bound))
        held = next(bound, result)
        is_file = isinstance(result, Obj) and result.call in ("file", "output", "socket")
        element = one_of(held) if isinstance(held, list) and held else element_of(held)
        for name in node.names:
            self.names[name] = result if is_file else element
        return result

    def _subscript(self, node: ast.Subscript) -> Value:
        base = self.visit(node.value)
        is_slice = isinstance(node.slice, ast.Slice)
        key = self._slice_of(node.slice) if is_slice else self.visit(node.slice)  # type: ignore[arg-type]
        return one_of(self.item(one, key) for one in values.choices(base))

    def _slice_of(self, node: ast.Slice) -> slice | None:
        parts = [self.visit(part) for part in (node.lower, node.upper, node.step)]
        is_known = all(part is None or isinstance(part, int) for part in parts)
        return slice(*parts) if is_known else None

    def _listcomp(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp
    ) -> Value:
        first = node.generators[0]
        given = self.visit(first.iter)
        items = self.rounds_of(given, 64) if isinstance(given, list) else [element_of(given)]
        endless = values.is_endless(given)
        tests = [test for one in node.generators for test in one.ifs]
        out: list[Value] = []
        chosen = any(map(chooses, tests))
        with self.within(loop=endless, endless=endless, branch=bool(tests), chosen=chosen):
            for item in items:
                self.assign(first.target, item)
                self.block(first.ifs)
                for other in node.generators[1:]:
                    inner = self.visit(other.iter)
                    known = isinstance(inner, list) and inner
                    self.assign(other.target, one_of(inner) if known else element_of(inner))  # type: ignore[arg-type]
                    self.block(other.ifs)
                if isinstance(node, ast.DictComp):
                    self.visit(node.key)
                out.append(self.visit(node.value if isinstance(node, ast.DictComp) else node.elt))
        return out if isinstance(given, list) else Obj("list", text=marks_of(out))

    _setcomp = _generatorexp = _dictcomp = _listcomp

    def _call(self, node: ast.Call) -> Value:
        function = self.visit(node.func)
        args = self.spread(node.args)
        keywords: dict[str, Value] = {}
        for keyword in node.keywords:
            value = self.visit(keyword.value)
            if keyword.arg is None and isinstance(value, dict):
                keywords.update(value)
            else:
                keywords[keyword.arg or "**"] = value
        if self.language != "python":  # a table is how they name arguments
            for table in [arg for arg in args if isinstance(arg, dict)]:
                keywords.update(table)
                args.remove(table)
        result = self.invoke(function, args, keywords)
        self.called = function
        return result
