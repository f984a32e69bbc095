"""Arithmetic as bash computes it: integers of 64 bits, variables, assignments."""

from __future__ import annotations

import re
from collections.abc import Callable

_TOKEN = re.compile(
    r"\s*(0[xX][0-9a-fA-F]+|\d+#[0-9A-Za-z@_]+|\d+|[A-Za-z_]\w*(?:\[[^\]]*\])?"
    r"|<<=|>>=|\*\*|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[-+*/%<>&|^~!?:(),=])"
)
_LEVELS: tuple[tuple[str, ...], ...] = (
    (",",),
    ("||",),
    ("&&",),
    ("|",),
    ("^",),
    ("&",),
    ("==", "!="),
    ("<", ">", "<=", ">="),
    ("<<", ">>"),
    ("+", "-"),
    ("*", "/", "%"),
)
_ASSIGNS = frozenset({"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="})
_NAME = re.compile(r"[A-Za-z_]\w*")


class _Unclear(Exception):
    pass


def _wrap(value: int) -> int:
    return (value + 2**63) % 2**64 - 2**63


class _Calculator:
    def __init__(
        self, text: str, get: Callable[[str], int | None], put: Callable[[str, int], None]
    ) -> None:
        self.tokens: list[str] = []
        pos = 0
        text = text.rstrip()
        while pos < len(text):
            match = _TOKEN.match(text, pos)
            if match is None or len(self.tokens) > 400:
                raise _Unclear
            self.tokens.append(match[1])
            pos = match.end()
        self.at = 0
        self.depth = 0
        self.get, self.put = get, put

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self) -> str:
        token = self.peek()
        self.at += 1
        return token

    def whole(self) -> int:
        if not self.tokens:
            return 0
        value = self.binary(0)
        if self.at < len(self.tokens):
            raise _Unclear
        return value

    def binary(self, level: int) -> int:
        self.depth += 1
        if self.depth > 300:
            raise _Unclear
        try:
            if level == 1:
                return self.assign()
            if level >= len(_LEVELS):
                return self.power()
            value = self.binary(level + 1)
            while self.peek() in _LEVELS[level]:
                value = self.apply(self.take(), value, self.binary(level + 1))
            return value
        finally:
            self.depth -= 1

    def assign(self) -> int:
        name = self.peek()
        following = self.tokens[self.at + 1] if self.at + 1 < len(self.tokens) else ""
        if following in _ASSIGNS and _NAME.match(name):
            self.at += 2
            value = self.assign()
            if following != "=":
                value = self.apply(following[:-1], self.variable(name), value)
            self.put(name, value)
            return value
        value = self.logic()
        if self.peek() == "?":
            self.take()
            yes = self.assign()
            if self.take() != ":":
                raise _Unclear
            no = self.assign()
            return yes if value else no
        return value

    def logic(self) -> int:
        value = self.binary(2)
        while self.peek() == "||":
            self.take()
            other = self.binary(2)
            value = int(bool(value or other))
        return value

    def power(self) -> int:
        value = self.unary()
        if self.peek() == "**":
            self.take()
            exponent = self.power()
            if exponent < 0 or exponent > 64:
                raise _Unclear
            return _wrap(value**exponent)
        return value

    def unary(self) -> int:
        token = self.take()
        if token in ("+", "-", "!", "~"):
            value = self.unary()
            return {"+": value, "-": -value, "!": int(not value), "~": ~value}[token]
        if token in ("++", "--"):
            name = self.take()
            value = self.variable(name) + (1 if token == "++" else -1)
            self.put(name, value)
            return value
        if token == "(":
            value = self.binary(0)
            if self.take() != ")":
                raise _Unclear
            return value
        if token[:1].isdigit():
            return _number(token)
        if not _NAME.match(token):
            raise _Unclear
        value = self.variable(token)
        if self.peek() in ("++", "--"):
            self.put(token, value + (1 if self.take() == "++" else -1))
        return value

    def variable(self, name: str) -> int:
        value = self.get(name)
        if value is None:
            raise _Unclear
        return value

    def apply(self, operator: str, left: int, right: int) -> int:
        if operator in ("/", "%"):
            if right == 0:
                raise _Unclear
            quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
            return _wrap(quotient if operator == "/" else left - quotient * right)
        if operator in ("<<", ">>"):
            if not 0 <= right < 64:
                raise _Unclear
            return _wrap(left << right if operator == "<<" else left >> right)
        table: dict[str, Callable[[], int]] = {
            "+": lambda: left + right,
            "-": lambda: left - right,
            "*": lambda: left * right,
            "&": lambda: left & right,
            "|": lambda: left | right,
            "^": lambda: left ^ right,
            "==": lambda: int(left == right),
            "!=": lambda: int(left != right),
            "<": lambda: int(left < right),
            ">": lambda: int(left > right),
            "<=": lambda: int(left <= right),
            ">=": lambda: int(left >= right),
            "&&": lambda: int(bool(left and right)),
            "||": lambda: int(bool(left or right)),
            ",": lambda: right,
        }
        return _wrap(table[operator]())


def _number(token: str) -> int:
    try:
        if "#" in token:
            base, digits = token.split("#")
            if not 2 <= int(base) <= 36:
                raise _Unclear
            return _wrap(int(digits, int(base)))
        if token[:2] in ("0x", "0X"):
            return _wrap(int(token, 16))
        if token.startswith("0"):
            return _wrap(int(token, 8))
        return _wrap(int(token[:40]))
    except ValueError:
        raise _Unclear from None


def calculate(
    text: str, get: Callable[[str], int | None], put: Callable[[str, int], None]
) -> int | None:
    """The value of an arithmetic text, or None when it cannot be known."""
    if not text.isascii():
        return None
    try:
        return _Calculator(text, get, put).whole()
    except _Unclear:
        return None
