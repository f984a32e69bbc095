"""Statements of a Python text, and the functions and classes that it defines.

Where the text may take several ways, names keep every value they may have. Functions and methods that no call reaches
are visited at the end, with arguments that are unknown.
"""

from __future__ import annotations

import ast

from hermetic.policy.tables import names

from .call import Call
from .python_folding import Folding, is_endless, shared_by_modules
from .python_values import UNKNOWN, Class, Instance, Name, Value, choices, element_of, one_of

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class Statements(Folding):
    """Walks a whole text."""

    def __init__(self, call: Call, depth: int, *, is_brief: bool = False) -> None:
        super().__init__(call, depth, is_brief=is_brief)
        self.functions: dict[str, Function] = {}  # by "def:NUMBER:NAME"
        self.defaults: dict[str, dict[str, Value]] = {}  # of their parameters
        self.reached: set[str] = set()  # those that a call has reached
        self.owners: dict[str, Class] = {}  # of those that are methods
        self.active: list[str] = []
        self.returns: list[list[Value]] = []

    def whole(self, tree: ast.Module) -> None:
        """Visit a text, then all functions that nothing in it calls by name."""
        self.visit(tree)
        while left := [key for key in self.functions if key not in self.reached]:
            for key in left:
                self.own(key, [Instance(self.owners[key])] if key in self.owners else [], {})

    def _import(self, node: ast.Import) -> Value:
        for alias in node.names:
            first = alias.name.split(".")[0]
            self.names[alias.asname or first] = Name(alias.name if alias.asname else first)
        return None

    def _importfrom(self, node: ast.ImportFrom) -> Value:
        for alias in node.names:
            if alias.name == "*":
                self._star(node.module or "")
            found = shared_by_modules(node.module or "", alias.name) if not node.level else None
            self.names[alias.asname or alias.name] = Name(f"{node.module}.{alias.name}") if found is None else found
        return None

    def _star(self, module: str) -> None:
        for name in names(
            """
system popen remove unlink rmtree run Popen call Path kill fork execvp rmdir chmod urlopen check_output move
CDLL PyDLL cdll pydll LibraryLoader environ listdir walk socket
"""
        ):
            self.names.setdefault(name, Name(f"{module}.{name}"))

    def _functiondef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Value:
        self.visit(node.returns)
        self._type_params(node)
        self.names[node.name] = self._decorated(node.decorator_list, self._defined(node, node.name))
        return None

    _asyncfunctiondef = _functiondef

    def _lambda(self, node: ast.Lambda) -> Value:
        return self._defined(node, "lambda")

    def _defined(self, node: Function, name: str) -> Name:
        """A new function; its defaults and annotations are evaluated where it is defined."""
        key = f"def:{len(self.functions)}:{name}"
        arguments = node.args
        placed = [*arguments.posonlyargs, *arguments.args]
        held = dict(zip((one.arg for one in placed[::-1]), map(self.visit, arguments.defaults[::-1]), strict=False))
        for parameter, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
            if default is not None:
                held[parameter.arg] = self.visit(default)
        for one in [*placed, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]:
            self.visit(one.annotation if one is not None else None)
        self.functions[key], self.defaults[key] = node, held
        return Name(key)

    def _decorated(self, decorators: list[ast.expr], value: Value) -> Value:
        """What its decorators make of a function or class: that itself, or what they give."""
        for decorator in reversed(decorators):
            found = self.visit(decorator)
            if not (isinstance(found, Name) and found in ("staticmethod", "classmethod", "property")):
                value = one_of([value, self.invoke(found, [value], {})])
        return value

    def _type_params(self, node: ast.AST) -> None:
        self.block(getattr(node, "type_params", ()))

    def _classdef(self, node: ast.ClassDef) -> Value:
        bases = [self.visit(base) for base in node.bases]
        self.block(node.keywords)
        self._type_params(node)
        outer = self.names
        self.names = dict(outer)
        self.block(node.body)
        members = {name: value for name, value in self.names.items() if outer.get(name) is not value}
        self.names = outer
        made = Class(node.name, members, bases)
        for name, value in members.items():
            for one in choices(value):
                if isinstance(one, Name) and one.startswith("def:"):
                    self.methods.setdefault(name, []).append(one)
                    self.owners[one] = made
        self.names[node.name] = self._decorated(node.decorator_list, made)
        return None

    def _return(self, node: ast.Return) -> Value:
        value = self.visit(node.value)
        if self.returns:
            self.returns[-1].append(value)
        return None

    def _assign(self, node: ast.Assign) -> Value:
        value = self.visit(node.value)
        for target in node.targets:
            self.assign(target, value)
        return None

    def _annassign(self, node: ast.AnnAssign) -> Value:
        self.visit(node.annotation)
        if node.value is not None:
            self.assign(node.target, self.visit(node.value))
        else:
            self.visit(node.target)
        return None

    def _augassign(self, node: ast.AugAssign) -> Value:
        value = self.visit(node.value)
        self.assign(node.target, self._sized(self.binary(self.visit(_load(node.target)), value, node.op)))
        return None

    def _for(self, node: ast.For | ast.AsyncFor) -> Value:
        values = self.visit(node.iter)
        items = self._items(values, 24) if isinstance(values, list) and values else [element_of(values)]

        def rounds() -> None:
            for item in items:
                self.assign(node.target, item)
                self.block(node.body)

        endless = is_endless(values)
        self.loop += endless
        if isinstance(values, list) and values:
            rounds()
        else:
            self._either(rounds, lambda: None)
        self.loop -= endless
        self.block(node.orelse)
        return None

    _asyncfor = _for

    def _while(self, node: ast.While) -> Value:
        self.visit(node.test)
        self.loop += 1
        if isinstance(node.test, ast.Constant) and node.test.value:
            self.block(node.body)
        else:
            self._either(lambda: self.block(node.body), lambda: None)
        self.loop -= 1
        self.block(node.orelse)
        return None

    def _if(self, node: ast.If) -> Value:
        self.visit(node.test)
        self._either(lambda: self.block(node.body), lambda: self.block(node.orelse))
        return None

    def _with(self, node: ast.With | ast.AsyncWith) -> Value:
        for item in node.items:
            value = self.visit(item.context_expr)
            if item.optional_vars is not None:
                self.assign(item.optional_vars, value)
        self.block(node.body)
        return None

    _asyncwith = _with

    def _try(self, node: ast.Try) -> Value:
        before = dict(self.names)
        self.block(node.body)
        self.block(node.orelse)
        after = self.names
        ends = [after]
        for handler in node.handlers:
            self.names = self._joined([before, after])
            self.visit(handler.type)
            if handler.name:
                self.names[handler.name] = UNKNOWN
            self.block(handler.body)
            ends.append(self.names)
        self.names = self._joined(ends)
        self.block(node.finalbody)
        return None

    _trystar = _try

    def _match(self, node: ast.Match) -> Value:
        subject = self.visit(node.subject)

        def take(case: ast.match_case) -> None:
            for part in ast.walk(case.pattern):
                name = getattr(part, "name", None) or getattr(part, "rest", None)
                if isinstance(name, str):
                    self.names[name] = subject if part is case.pattern else one_of([element_of(subject), UNKNOWN])
            self.visit(case.pattern)
            self.visit(case.guard)
            self.block(case.body)

        self._either(*[lambda case=case: take(case) for case in node.cases], lambda: None)
        return None

    # --- functions of the text
    def own(self, key: str, args: list[Value], keywords: dict[str, Value]) -> Value:
        """What a function of the text gives; parameters without an argument have their default, or are unknown."""
        definition = self.functions[key]
        self.reached.add(key)
        if key in self.active:
            return UNKNOWN
        outer = self.names
        self.names = {**outer, **self._parameters(key, definition.args, args, keywords)}
        self.active.append(key)
        self.returns.append([])
        if isinstance(definition, ast.Lambda):
            self.returns[-1].append(self.visit(definition.body))
        else:
            self.block(definition.body)
        self.active.pop()
        found = self.returns.pop()
        inner, self.names = self.names, outer
        for name in _outer_names(definition):
            if name in inner:
                outer[name] = inner[name]
        return one_of(found) if found else UNKNOWN

    def _parameters(
        self, key: str, arguments: ast.arguments, args: list[Value], keywords: dict[str, Value]
    ) -> dict[str, Value]:
        placed = [one.arg for one in [*arguments.posonlyargs, *arguments.args]]
        every = [*placed, *(one.arg for one in arguments.kwonlyargs)]
        held = {name: self.defaults[key].get(name, UNKNOWN) for name in every}
        held.update(zip(placed, args, strict=False))
        if arguments.vararg is not None:
            held[arguments.vararg.arg] = args[len(placed) :] or UNKNOWN
        if arguments.kwarg is not None:
            held[arguments.kwarg.arg] = {name: value for name, value in keywords.items() if name not in every}
        return {**held, **{name: value for name, value in keywords.items() if name in every}}


def _outer_names(definition: Function) -> set[str]:
    """The names that a function declares as those of the text around it."""
    body = [] if isinstance(definition, ast.Lambda) else definition.body
    found: set[str] = set()
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Global | ast.Nonlocal):
                found.update(node.names)
    return found


def _load(target: ast.expr) -> ast.expr:
    return ast.Name(id=target.id, ctx=ast.Load()) if isinstance(target, ast.Name) else target
