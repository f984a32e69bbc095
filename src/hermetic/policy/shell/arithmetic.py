"""Arithmetic as bash computes it: integers of 64 bits, variables, assignments."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable

_TOKEN = re.compile(
    r"\s*(0[xX][0-9a-fA-F]+|\d+#[0-9A-Za-z@_]+|\d+|[A-Za-z_]\w*(?:\[[^\]]*\])?"
    r"|<<=|>>=|\*\*|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|\S)"
)
# Operators by how tightly they bind; assignments and `?:` stand between the first two.
_LEVELS = (",", "", "||", "&&", "|", "^", "&", "== !=", "< > <= >=", "<< >>", "+ -", "* / %", "**")
_LEVEL = {symbol: at for at, level in enumerate(_LEVELS, 1) for symbol in level.split()}
_ASSIGNMENT = 2
_ASSIGNS = frozenset({"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="})
_NAME = re.compile(r"[A-Za-z_]\w*")
_APPLY: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "**": operator.pow,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
    ",": lambda left, right: right,
    "&&": lambda left, right: bool(left and right),
    "||": lambda left, right: bool(left or right),
    "/": lambda left, right: abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1),
    "%": lambda left, right: abs(left) % abs(right) * (-1 if left < 0 else 1),
}
_UNARY: dict[str, Callable[[int], int]] = {
    "+": operator.pos,
    "-": operator.neg,
    "~": operator.invert,
    "!": operator.not_,
}
_MAX_TOKENS = 400
_MAX_NESTED = 60


class _Unclear(Exception):
    pass


class _Calculator:
    def __init__(
        self, text: str, get: Callable[[str], int | None], put: Callable[[str, int], None]
    ) -> None:
        self.tokens: list[str] = [*_TOKEN.findall(text), "", ""]
        if len(self.tokens) > _MAX_TOKENS:
            raise _Unclear
        self.at = 0
        self.depth = 0
        self.get, self.put = get, put

    def take(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1]

    def expect(self, token: str) -> None:
        if self.take() != token:
            raise _Unclear

    def whole(self) -> int:
        value = self.expression() if self.tokens[0] else 0
        self.expect("")
        return value

    def expression(self, least: int = 0) -> int:
        """The value of what binds tighter than `least`."""
        self.depth += 1
        if self.depth > _MAX_NESTED:
            raise _Unclear
        name, symbol = self.tokens[self.at : self.at + 2]
        if least < _ASSIGNMENT and symbol in _ASSIGNS and _NAME.match(name):
            self.at += 2
            old = self.variable(name) if symbol != "=" else 0
            value = self.expression(_ASSIGNMENT - 1)
            value = _apply(symbol[:-1], old, value) if symbol != "=" else value
            self.put(name, value)
        else:
            value = self.unary()
        while (level := _LEVEL.get(symbol := self.tokens[self.at], 0)) > least:
            self.at += 1
            value = _apply(symbol, value, self.expression(level - (symbol == "**")))
        if symbol == "?" and least < _ASSIGNMENT:
            self.at += 1
            yes = self.expression(_ASSIGNMENT - 1)
            self.expect(":")
            no = self.expression(_ASSIGNMENT - 1)
            value = yes if value else no
        self.depth -= 1
        return value

    def unary(self) -> int:
        token = self.take()
        if token in _UNARY:
            return int(_UNARY[token](self.unary()))
        if token in ("++", "--"):
            return self.step(self.take(), token)
        if token == "(":
            value = self.expression()
            self.expect(")")
            return value
        if token[:1].isdigit():
            return _number(token)
        if not _NAME.match(token):
            raise _Unclear
        value = self.variable(token)
        if self.tokens[self.at] in ("++", "--"):
            self.step(token, self.take())
        return value

    def step(self, name: str, operator: str) -> int:
        value = self.variable(name) + (1 if operator == "++" else -1)
        self.put(name, value)
        return value

    def variable(self, name: str) -> int:
        value = self.get(name)
        if value is None:
            raise _Unclear
        return value


def _apply(symbol: str, left: int, right: int) -> int:
    if symbol in ("<<", ">>", "**") and not 0 <= right < 64:
        raise _Unclear
    return _wrap(int(_APPLY[symbol](left, right)))


def _wrap(value: int) -> int:
    return (value + 2**63) % 2**64 - 2**63


def _number(token: str) -> int:
    base, _, digits = token.partition("#")
    if digits:
        if not 2 <= int(base) <= 36:
            raise _Unclear
        return _wrap(int(digits, int(base)))
    if token[:2] in ("0x", "0X"):
        return _wrap(int(token, 16))
    return _wrap(int(token[:40], 8 if token.startswith("0") else 10))


def calculate(
    text: str, get: Callable[[str], int | None], put: Callable[[str, int], None]
) -> int | None:
    """The value of an arithmetic text, or None when it cannot be known."""
    if not text.isascii():
        return None
    try:
        return _Calculator(text, get, put).whole()
    except (_Unclear, ValueError, ArithmeticError):
        return None
