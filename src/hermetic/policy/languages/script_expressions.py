"""Expressions of scripts in Perl, Ruby, JavaScript, PHP, Lua and the like.

The reader knows the expressions that these languages share: strings and their joining, names,
attributes, calls with and without parentheses, items, lists, tables and functions.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from hermetic.policy.call import Call
from hermetic.policy.marks import LOCAL, UNSET
from hermetic.policy.tables import names

from .evaluation import ENVIRONMENT
from .folds import add, percent
from .hooks import Hooks
from .tokens import LISPS, Token, tokens_of
from .values import UNKNOWN, Name, Obj, Value, is_text, items_of, marks_of, one_of, text_of

_GLOBALS = frozenset(names("_G globalThis window global self Kernel Object main"))
DECLARES = frozenset(names("const let var my our local auto val"))
_PREFIXES = DECLARES | frozenset(
    names("new await return typeof void yield not async throw defined else do then try")
)
_KEYWORDS = frozenset(names("if while for switch until unless foreach elsif"))
# Words that end the arguments of a call without parentheses.
_STOPS = frozenset(names("if unless while until do for foreach and or then end rescue in x"))
_PLAIN_CALLS = frozenset(names("perl ruby elixir julia r tcl lisp scheme clojure haskell crystal"))
_INTERPOLATION = {
    **dict.fromkeys(("perl", "php", "tcl", "groovy"), re.compile(r"\$\{?(\w+)\}?|\{(\$[^}]*)\}")),
    **dict.fromkeys(("ruby", "elixir", "crystal"), re.compile(r"#\{([^}]*)\}")),
    "javascript": re.compile(r"\$\{([^}]*)\}"),
    "julia": re.compile(r"\$\(?(\w+)\)?"),
}
_END = Token("end", "")
_ENDS = frozenset(names(") ] } , ; : => { ( [ -> ' \" ` @ $ #")) | {"\n"}


class ScriptExpressions(Hooks):
    """Evaluates expressions; statements and functions are read by the subclass."""

    def __init__(self, call: Call, language: str, depth: int) -> None:
        super().__init__(call, language, depth)
        self.tokens: list[Token] = []
        self.at = 0
        self.member_of: tuple[Value, str] | None = None  # the attribute read last, for assignments
        self.names.update(dict.fromkeys(("ENV", "_ENV", "_SERVER"), ENVIRONMENT))

    def visit(self, tokens: list[Token]) -> Value:
        """The value of the last statement of some tokens."""
        raise NotImplementedError

    def set(self, name: str, value: Value) -> None:
        """Assign a variable."""
        raise NotImplementedError

    def definition(self) -> Value:
        """A function that begins at the current place."""
        raise NotImplementedError

    def parameters(self) -> list[str]:
        """The names between parentheses."""
        raise NotImplementedError

    def body(self, parameters: list[str]) -> Value:
        """A function of the tokens that follow."""
        raise NotImplementedError

    # --- tokens
    def peek(self, ahead: int = 0) -> Token:
        """A token without taking it."""
        place = self.at + ahead
        return self.tokens[place] if place < len(self.tokens) else _END

    def sign(self, ahead: int = 0) -> str:
        """A word or symbol without taking it; empty for strings and all else."""
        token = self.peek(ahead)
        return token.text if token.kind in ("symbol", "name") else ""

    def take(self, text: str) -> bool:
        """True when the next token is that symbol or word, which is taken."""
        is_it = self.sign() == text
        self.at += is_it
        return is_it

    def skip_lines(self) -> None:
        while self.peek().kind == "newline":
            self.at += 1

    def matching(self, opening: str, closing: str) -> int:
        """The place of the bracket that closes the one at the current place."""
        level, at = 0, self.at
        while at < len(self.tokens):
            if self.tokens[at].kind == "symbol":
                level += (self.tokens[at].text == opening) - (self.tokens[at].text == closing)
                if level == 0:
                    return at
            at += 1
        return at

    # --- expressions
    def expression(self) -> Value:
        """An expression; operators have no precedence, which joining strings does not need."""
        begun = self.at
        value = self.operand()
        while self.at > begun:
            token = self.peek()
            if token.text == "=" and token.kind == "symbol":
                target = self.peek(-1)
                member, self.member_of = self.member_of, None
                self.at += 1
                self.skip_lines()
                value = self.expression()
                if member is not None:
                    self.assign_attribute(member[0], member[1], value)
                elif target.kind in ("name", "variable"):
                    self.set(target.text, value)
                return value
            if token.kind != "symbol" or token.text in _ENDS:
                return value
            self.at += 1
            if token.text == "?":
                self.skip_lines()
                value = self.expression()
                value = one_of([value, self.expression()]) if self.take(":") else value
                continue
            target = self.peek(-2)
            self.skip_lines()
            value = self.binary(token.text, value, self.operand())
            if token.text in ("+=", ".=") and target.kind in ("name", "variable"):
                self.set(target.text, value)
        return value

    def binary(self, symbol: str, left: Value, right: Value) -> Value:
        """The result of an operator."""
        if symbol in ("+", ".", "..", "+=", ".="):
            if isinstance(left, int) and isinstance(right, int) and symbol == "+":
                return left + right if abs(left) + abs(right) < 2**63 else UNKNOWN
            return add(left, right)
        if symbol in ("||", "&&"):
            return one_of([left, right])
        if symbol == "%" and is_text(left):
            return percent(text_of(left), right)
        if symbol == "<<" and isinstance(left, Obj) and left.call in ("file", "socket", "net"):
            return self.invoke(self.attribute(left, "write"), [right], {})
        return Obj("?", text=marks_of(left) + marks_of(right))

    def operand(self) -> Value:
        """A value with what follows it: attributes, calls, items."""
        token = self.peek()
        if (
            token.kind == "symbol"
            and token.text in ("!", "\\", "~", "&", "@", "*", "...", "%", "$")
            and self.peek(1).kind != "command"
        ):
            self.at += 1
            return self.operand() if self.peek().kind != "end" else UNKNOWN
        if token.text == "-" and self.peek(1).kind == "number":
            self.at += 2
            return -number_of(self.peek(-1).text)
        if token.kind == "name" and token.text in _PREFIXES:
            self.at += 1
            return self.operand()
        self.member_of = None
        return self.behind(self.primary())

    def primary(self) -> Value:
        token = self.peek()
        self.at += 1
        if token.kind == "string":
            return token.text
        if token.kind == "template":
            return self.filled(token.text)
        if token.kind == "words":
            return list(token.text.split())
        if token.kind == "command":
            self.shell(self.filled(token.text))
            return Obj("output", text=LOCAL)
        if token.kind == "code":
            self.judge_again(token.text)
            return UNKNOWN
        if token.kind == "angle":
            is_file = "/" in token.text or "*" in token.text
            named = Name("glob" if is_file else "readline")
            return (
                self.invoke(named, [token.text[1:-1]], {})
                if is_file
                else Obj("stdin", text=self.call.input())
            )
        if token.kind == "number":
            return number_of(token.text)
        if token.kind == "variable":
            name = token.text.lstrip("$@%&").replace("::", ".")
            return self.names.get(name, Name(name))
        if token.kind == "name":
            if token.text in ("function", "sub", "fn", "lambda", "proc") and self.sign() in (
                "(",
                "{",
                "*",
            ):
                self.at -= 1
                return self.definition()
            if self.sign() == "=>" and self.language == "javascript":
                self.at += 1
                return self.body([token.text]) or UNKNOWN
            return self.names.get(token.text, Name(token.text.replace("::", ".")))
        return self.bracket(token)

    def bracket(self, token: Token) -> Value:
        """Parentheses, lists and tables; the function that an arrow begins."""
        if token.text == "(":
            self.at -= 1
            end = self.matching("(", ")")
            arrow = self.tokens[end + 1 : end + 2]
            if (
                arrow
                and arrow[0].text in ("=>", "->")
                and self.language in ("javascript", "java", "groovy")
            ):
                parameters = self.parameters()
                self.at += 1
                return self.body(parameters) or UNKNOWN
            if self.language in LISPS:
                self.at += 1
                return self.lisp()
            args, keywords = self.arguments(")")
            values = [*args, *([keywords] if keywords else [])]
            if self.language == "javascript" and values:
                return values[-1]  # of several expressions the last one counts
            return values[0] if len(values) == 1 else values
        if token.text == "[":
            self.at -= 1
            args, keywords = self.arguments("]")
            return keywords if keywords and not args else args
        if token.text == "{" and self.is_table():
            self.at -= 1
            args, keywords = self.arguments("}")
            return keywords if keywords or not args else args
        self.at -= 1
        return UNKNOWN

    def lisp(self) -> Value:
        """`(function argument …)`."""
        function = self.operand()
        args: list[Value] = []
        while self.peek().kind != "end" and not self.take(")"):
            begun = self.at
            args.append(self.operand())
            self.at += self.at == begun
        return (
            self.invoke(function, args, {})
            if isinstance(function, Name)
            else Obj("?", text=marks_of(args))
        )

    def is_table(self) -> bool:
        """True where a brace begins a table, not a block."""
        at = self.at
        while at < len(self.tokens) and self.tokens[at].kind == "newline":
            at += 1
        first = self.tokens[at] if at < len(self.tokens) else _END
        second = self.tokens[at + 1].text if at + 1 < len(self.tokens) else ""
        if self.language == "lua" or first.text in ("}", "..."):
            return True
        is_key = (
            first.kind in ("string", "template", "name", "number", "variable") or first.text == "["
        )
        return is_key and (
            second in (":", "=>") or (second in (",", "}") and self.language == "javascript")
        )

    def behind(self, value: Value) -> Value:
        """A value with the attributes, calls and items that follow it."""
        while True:
            token = self.peek()
            if token.kind == "newline" and self.sign(1) in (".", "->", "?."):
                self.at += 1
                continue
            after = self.peek(1)
            if (
                token.text in (".", "->", "?.", "::", ":")
                and after.kind in ("name", "string")
                and token.kind == "symbol"
            ):
                if (token.text == ":" and self.language != "lua") or (
                    token.text == "." and after.kind == "string"
                ):
                    return value
                if (
                    token.text == "."
                    and self.language in ("perl", "php")
                    and not isinstance(value, Name)
                ):
                    return value
                self.at += 2
                self.member_of = (value, after.text)
                value = self.attribute(self.without_call(value), after.text)
            elif token.text == "(" and token.kind == "symbol" and not self.is_keyword(value):
                self.member_of = None
                args, keywords = self.arguments(")")
                value = self.block(self.invoke(value, args, keywords), value)
            elif token.text == "[" and token.kind == "symbol" and value is not UNKNOWN:
                args, _ = self.arguments("]")
                value = self.index(value, args[0] if args else UNKNOWN)
            elif token.text == "{" and self.language == "perl" and self.peek(-1).kind == "variable":
                end = self.matching("{", "}")
                key = self.tokens[self.at + 1].text if end == self.at + 2 else UNKNOWN
                self.at = end + 1
                value = self.item(value, key)
            elif token.kind == "command" and isinstance(value, Name):  # $`…`
                return self.primary()
            elif self.is_plain_call(value, token):
                args, keywords = self.plain_arguments()
                value = self.block(self.invoke(value, args, keywords), value)
            elif (
                self.sign() in ("{", "do")
                and isinstance(value, Name | Obj)
                and self.language == "ruby"
            ):
                return self.block(self.without_call(value), value)
            else:
                return self.ended(value)

    def is_keyword(self, value: Value) -> bool:
        return isinstance(value, Name) and value in _KEYWORDS

    def ended(self, value: Value) -> Value:
        """A name on its own may be a call: `fork`, `FileUtils.pwd`."""
        last = self.peek(-1) if self.at else _END
        follows = self.peek()
        if follows.text in ("=", "{") or last.kind != "name" or not isinstance(value, Name | Obj):
            return value
        if self.language in ("perl", "ruby", "elixir", "crystal") and value is not UNKNOWN:
            if (
                follows.text in ("}", ")", ",")
                and isinstance(value, Name)
                and "." not in value
                and value != "fork"
            ):
                row = self.table.find(value)
                if (
                    row is None
                    or row.run is not None
                    or (follows.text != "}" and row.delete is not None)
                ):
                    return value
            return self.without_call(value)
        return value

    def without_call(self, value: Value) -> Value:
        """The result of a method that is called without parentheses, as Ruby and Perl allow."""
        if self.language not in ("ruby", "perl", "elixir", "crystal") or not self.at:
            return value
        name = value if isinstance(value, Name) else value.call if isinstance(value, Obj) else ""
        row = self.table.find(name) if name else None
        if row is None or (row.run is not None and "." not in name and name != "fork"):
            return value
        return self.named(name, value if isinstance(value, Obj) else None, [], {})

    def index(self, base: Value, key: Value) -> Value:
        """`base[key]`: an item, or an attribute by its name."""
        if isinstance(base, Name) and is_text(key):
            if self.table.find(f"{base}.[]") is not None:
                return self.named(f"{base}.[]", None, [key], {})
            return self.attribute(base, text_of(key))
        return one_of(self.item(one, key) for one in [base])

    def of_module(self, base: Name, attr: str) -> Value:
        if base in _GLOBALS:
            return self.names.get(attr, Name(attr))
        if base == "process" and attr == "execPath":
            return "/usr/bin/node"
        if f"{base}.{attr}" in ("process.stdin", "io.stdin"):
            return Obj("stdin", text=self.call.input())
        return super().of_module(base, attr)

    def block(self, result: Value, called: Value) -> Value:
        """Ruby's `{ |x| … }` behind a call: x is an item of what the call gives or is a method of."""
        if self.language != "ruby" or self.sign() not in ("{", "do") or self.sign(1) != "|":
            return result
        self.at += 2
        base = called.base if hasattr(called, "base") else result
        item = one_of(list(items_of(base))) if isinstance(base, list) and base else UNKNOWN
        if isinstance(result, Obj) and result.call == "file":
            item = result
        while self.peek().kind in ("name", "symbol") and not self.take("|"):
            if self.peek().kind == "name":
                self.names[self.peek().text] = item
            self.at += 1
        return result

    # --- arguments
    def arguments(self, closing: str) -> tuple[list[Value], dict[str, Value]]:
        """The values up to a closing bracket, and those with a name."""
        self.at += 1
        return self.listed(
            lambda token: token.kind == "symbol" and token.text == closing, inside=True
        )

    def plain_arguments(self) -> tuple[list[Value], dict[str, Value]]:
        """The arguments of a call without parentheses, up to the end of the statement."""

        def is_end(token: Token) -> bool:
            if token.kind == "symbol":
                return token.text in (";", "}", ")", "]", "{", "&&", "||")
            return token.kind in ("newline", "end") or (
                token.kind == "name" and token.text in _STOPS
            )

        return self.listed(is_end, inside=False)

    def listed(
        self, is_end: Callable[[Token], bool], *, inside: bool
    ) -> tuple[list[Value], dict[str, Value]]:
        args: list[Value] = []
        keywords: dict[str, Value] = {}
        while (token := self.peek()).kind != "end":
            if is_end(token):
                self.at += inside
                break
            if token.kind == "newline" or self.sign() in (",", ";"):
                self.at += 1
                continue
            begun = self.at
            key = token.text if token.kind in ("name", "string", "template", "number") else ""
            arrow = self.sign(1)
            if key and (
                arrow in (":", "=>")
                or (arrow == "=" and self.language in ("lua", "r", "julia", "swift"))
            ):
                if arrow != "=>" or self.language in ("ruby", "php"):
                    self.at += 2
                    self.skip_lines()
                    keywords[key] = self.expression()
                    continue
                if self.language == "perl":
                    args.append(key)
                    self.at += 2
                    continue
            value = self.expression()
            if isinstance(value, dict):
                keywords.update(value)
            elif self.at > begun:
                args.append(value)
            self.at += self.at == begun
        return args, keywords

    def is_plain_call(self, value: Value, token: Token) -> bool:
        """True where arguments follow a name without parentheses."""
        if (
            not isinstance(value, Name | Obj)
            or value is UNKNOWN
            or token.kind in ("newline", "end", "symbol")
        ):
            return False
        if self.peek(-1).kind != "name":
            return False
        name = value if isinstance(value, Name) else value.call
        row = self.table.find(name)
        if token.kind == "name":
            is_call = row is not None or name in ("puts", "print", "p", "return")
            return self.language in _PLAIN_CALLS and is_call and token.text not in _STOPS
        if self.language in _PLAIN_CALLS:
            return name not in _STOPS
        return (
            row is not None
            and token.kind in ("string", "template")
            and self.language in ("php", "lua")
        )

    def filled(self, text: str) -> Value:
        """A string with the values of the expressions in it."""
        pattern = _INTERPOLATION.get(self.language)
        if pattern is None or not pattern.search(text):
            return text

        def value_of(match: re.Match[str]) -> str:
            inner = next((group for group in match.groups() if group), "")
            if inner.isidentifier():
                return text_of(self.names.get(inner, UNKNOWN)) or UNSET
            return text_of(self.visit(tokens_of(inner, self.language)))

        return pattern.sub(value_of, text)


def number_of(text: str) -> int:
    """The value of a number; those with a leading zero are octal."""
    lowered = text.lower()
    if "." in text:
        return int(float(text))
    base = (
        16
        if lowered.startswith("0x")
        else 2
        if lowered.startswith("0b")
        else 8
        if text[0] == "0" and len(text) > 1
        else 10
    )
    try:
        return int(lowered.replace("0o", "").replace("0b", "").replace("0x", ""), base)
    except ValueError:
        return 0
