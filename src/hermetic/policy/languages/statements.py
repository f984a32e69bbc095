"""Statements of a text, and the functions and classes that it defines.

Where a text branches, names keep every value they may have. Functions and methods that no call
reaches are visited at the end, with unknown arguments.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from hermetic.policy.call import Call
from hermetic.policy.programs.table import TABLE

from .expressions import Expressions, chooses
from .values import UNKNOWN, Class, Instance, Name, Value, choices, element_of, is_endless, one_of

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_DECORATING = TABLE.words("decorators")
_STAR = TABLE.words("star-imports")
_WAITS = frozenset(TABLE.words("waits"))


class TextReader(Expressions):
    """Walks a whole text."""

    def __init__(self, call: Call, language: str, depth: int, *, is_brief: bool = False) -> None:
        super().__init__(call, language, depth, is_brief=is_brief)
        self.functions: dict[str, Definition] = {}  # by "def:NUMBER:NAME"
        self.defaults: dict[str, dict[str, Value]] = {}  # of their parameters
        self.reached: set[str] = set()
        self.is_plain = False  # no function is called by a name that the text computes
        self.owners: dict[str, Class] = {}  # of those that are methods
        # how many branches were around a function when it was called
        self.entered: dict[str, int] = {}
        self.returns: list[list[Value]] = []

    def whole(self, tree: ast.Module) -> None:
        """Visit a text, then all functions that nothing in it calls."""
        self.visit(tree)
        while left := [key for key in self.functions if key not in self.reached]:
            for key in left:
                self.is_uncalled = self.is_plain and key not in self.handed
                self.own(key, [Instance(self.owners[key])] if key in self.owners else [], {})

    # --- imports and definitions
    def _import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.imported(alias.name)
            first = alias.name.split(".")[0]
            self.names[alias.asname or first] = Name(alias.name if alias.asname else first)

    def _importfrom(self, node: ast.ImportFrom) -> None:
        module = Name(node.module or "")
        self.imported(module)
        for alias in node.names:
            if alias.name == "*":
                for name in _STAR:
                    self.names.setdefault(name, self.of_module(module, name))
            found = self.of_module(module, alias.name)
            self.names[alias.asname or alias.name] = (
                Name(f"{module}.{alias.name}") if node.level else found
            )

    def _functiondef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.visit(node.returns)
        self.block(getattr(node, "type_params", ()))
        self.names[node.name] = self.decorated(node.decorator_list, self.defined(node, node.name))

    _asyncfunctiondef = _functiondef

    def _lambda(self, node: ast.Lambda) -> Value:
        return self.defined(node, "lambda")

    def defined(self, node: Definition, name: str) -> Name:
        """A new function; its defaults and annotations are evaluated where it is defined."""
        key = f"def:{len(self.functions)}:{name}"
        given = node.args
        placed = [*given.posonlyargs, *given.args]
        reverse = [one.arg for one in placed[::-1]]
        held = dict(zip(reverse, map(self.visit, given.defaults[::-1]), strict=False))
        for parameter, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
            if default is not None:
                held[parameter.arg] = self.visit(default)
        for one in [*placed, *given.kwonlyargs, given.vararg, given.kwarg]:
            self.visit(one.annotation if one is not None else None)
        self.functions[key], self.defaults[key] = node, held
        return Name(key)

    def decorated(self, decorators: list[ast.expr], value: Value) -> Value:
        """A function or class, or what its decorators make of it."""
        for decorator in reversed(decorators):
            found = self.visit(decorator)
            name = found if isinstance(found, Name) else getattr(found, "call", "")
            if not isinstance(name, str) or not name.startswith(_DECORATING):
                value = one_of([value, self.invoke(found, [value], {})])
        return value

    def _classdef(self, node: ast.ClassDef) -> None:
        bases = [self.visit(base) for base in node.bases]
        self.block(node.keywords)
        self.block(getattr(node, "type_params", ()))
        outer, self.names = self.names, dict(self.names)
        self.block(node.body)
        members = {name: one for name, one in self.names.items() if outer.get(name) is not one}
        self.names = outer
        made = Class(node.name, members, bases)
        for name, value in members.items():
            for one in choices(value):
                if isinstance(one, Name) and one.startswith("def:"):
                    self.methods.setdefault(name, []).append(one)
                    self.owners[one] = made
        self.names[node.name] = self.decorated(node.decorator_list, made)

    # --- simple statements
    def _return(self, node: ast.Return) -> None:
        value = self.visit(node.value)
        if self.returns:
            self.returns[-1].append(value)

    def _assign(self, node: ast.Assign) -> None:
        value = self.visit(node.value)
        for target in node.targets:
            self.assign(target, value)

    def _annassign(self, node: ast.AnnAssign) -> None:
        self.visit(node.annotation)
        if node.value is not None:
            self.assign(node.target, self.visit(node.value))
        else:
            self.visit(node.target)

    def _augassign(self, node: ast.AugAssign) -> None:
        value = self.visit(node.value)
        self.assign(node.target, self.sized(self.binary(self.visit(node.target), value, node.op)))

    # --- branches and loops
    def either(self, *ways: Callable[[], object]) -> None:
        """Take each way from here; afterwards names have the values of any of them."""
        before = self.names
        ends: list[dict[str, Value]] = []
        with self.within(branch=True):
            for way in ways:
                self.call.machine.spend(len(before) // 16)
                self.names = dict(before)
                way()
                ends.append(self.names)
        self.names = self.joined(ends)

    def joined(self, ends: list[dict[str, Value]]) -> dict[str, Value]:
        """Names with the values of any of the ways."""
        found = dict(ends[0])
        for name in {name for end in ends for name in end}:
            values = [end[name] for end in ends if name in end]
            is_same = all(value is values[0] for value in values)
            found[name] = values[0] if is_same else one_of(values)
        return found

    def _for(self, node: ast.For | ast.AsyncFor) -> None:
        given = self.visit(node.iter)
        items = self.rounds_of(given, 24) if isinstance(given, list) else []
        endless = is_endless(given)
        nodes = [one for part in node.body for one in ast.walk(part)]
        skips = any(isinstance(one, ast.Continue | ast.Break) for one in nodes)
        passed = [one.test for one in nodes if isinstance(one, ast.If) and _leaves_out(one)]
        chosen = skips and not (passed and all(chooses(test) for test in passed))

        def rounds() -> None:
            for item in items or [element_of(given)]:
                self.assign(node.target, item)
                self.block(node.body)

        is_run_away = endless and not _waits(node.body)
        with self.within(loop=endless, endless=is_run_away, branch=skips, chosen=chosen):
            if items:
                rounds()
            else:
                self.either(rounds, lambda: None)
        self.block(node.orelse)

    _asyncfor = _for

    def _while(self, node: ast.While) -> None:
        self.visit(node.test)
        is_always = isinstance(node.test, ast.Constant) and bool(node.test.value)
        with self.within(loop=True, endless=is_always and not _waits(node.body)):
            if is_always:
                self.block(node.body)
            else:
                self.either(lambda: self.block(node.body), lambda: None)
        self.block(node.orelse)

    def _if(self, node: ast.If) -> None:
        self.visit(node.test)
        with self.within(chosen=chooses(node.test)):
            self.either(lambda: self.block(node.body), lambda: self.block(node.orelse))

    def _with(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            value = self.visit(item.context_expr)
            if item.optional_vars is not None:
                self.assign(item.optional_vars, value)
        self.block(node.body)

    _asyncwith = _with

    def _try(self, node: ast.Try) -> None:
        before = dict(self.names)
        self.block(node.body)
        self.block(node.orelse)
        after = self.names
        ends = [after]
        for handler in node.handlers:
            self.names = self.joined([before, after])
            self.visit(handler.type)
            if handler.name:
                self.names[handler.name] = UNKNOWN
            self.block(handler.body)
            ends.append(self.names)
        self.names = self.joined(ends)
        self.block(node.finalbody)

    _trystar = _try

    def _match(self, node: ast.Match) -> None:
        subject = self.visit(node.subject)

        def take(case: ast.match_case) -> None:
            for part in ast.walk(case.pattern):
                name = getattr(part, "name", None) or getattr(part, "rest", None)
                if isinstance(name, str):
                    is_whole = part is case.pattern
                    self.names[name] = subject if is_whole else element_of(subject)
            self.visit(case.pattern)
            self.visit(case.guard)
            self.block(case.body)

        self.either(*[lambda case=case: take(case) for case in node.cases], lambda: None)

    # --- functions and classes of the text
    def own(self, key: str, args: list[Value], keywords: dict[str, Value]) -> Value:
        definition = self.functions[key]
        self.reached.add(key)
        if key in self.active:
            is_certain = self.language == "python" and self.conditional == self.entered[key]
            if key in self.forked and is_certain:
                self.report("fork-bomb", "starts copies of itself without end")
            return UNKNOWN
        self.entered[key] = self.conditional
        outer = self.names
        self.names = {**outer, **self.parameters(key, definition.args, args, keywords)}
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

    def parameters(
        self, key: str, given: ast.arguments, args: list[Value], keywords: dict[str, Value]
    ) -> dict[str, Value]:
        """The parameters of a call; without an argument they have their default, or are unknown."""
        placed = [one.arg for one in [*given.posonlyargs, *given.args]]
        every = [*placed, *(one.arg for one in given.kwonlyargs)]
        held = {name: self.defaults[key].get(name, UNKNOWN) for name in every}
        held.update(zip(placed, args, strict=False))
        if given.vararg is not None:
            held[given.vararg.arg] = args[len(placed) :] or UNKNOWN
        if given.kwarg is not None:
            held[given.kwarg.arg] = {key: one for key, one in keywords.items() if key not in every}
        return {**held, **{name: one for name, one in keywords.items() if name in every}}


def _outer_names(definition: Definition) -> set[str]:
    """The names that a function declares as those of the text around it."""
    found: set[str] = set()
    for statement in [] if isinstance(definition, ast.Lambda) else definition.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Global | ast.Nonlocal):
                found.update(node.names)
    return found


def _leaves_out(branch: ast.If) -> bool:
    """True for a branch that goes on with the next round of its loop."""
    return any(isinstance(one, ast.Continue) for one in branch.body)


def _waits(body: list[ast.stmt]) -> bool:
    """True for a loop that may end, or that waits in each round."""
    for node in (node for statement in body for node in ast.walk(statement)):
        if isinstance(node, ast.Break | ast.Return | ast.Raise | ast.Await | ast.Yield):
            return True
        name = getattr(node, "attr", getattr(node, "id", ""))
        if isinstance(node, ast.Attribute | ast.Name) and name in _WAITS:
            return True
    return False
