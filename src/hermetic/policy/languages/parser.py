"""Reads scripts in Perl, Ruby, JavaScript, PHP, Lua and the like into the tree that Python has.

The reader knows the expressions that these languages share: strings and their joining, names,
attributes, calls with and without parentheses, items, lists, tables and functions. What it does not
understand it steps over by one token, so that the calls behind it are found.
"""

from __future__ import annotations

import ast
import re
from typing import Any

from hermetic.policy.tables import names

from .calls import Row, table_of
from .tokens import Token, tokens_of

DECLARES = frozenset(names("const let var my our local auto val"))
_PREFIXES = DECLARES | frozenset(
    names("new await return typeof void yield not async throw defined else do then try")
)
_FUNCTIONS = frozenset(names("function sub def fn lambda proc"))
_KEYWORDS = frozenset(names("if while for switch until unless elsif"))
# Words that end the arguments of a call without parentheses.
_STOPS = frozenset(names("if unless while until do for foreach and or then end rescue in x"))
_PLAIN_CALLS = frozenset(names("perl ruby elixir julia r tcl lisp scheme clojure haskell crystal"))
WITHOUT_PARENTHESES = frozenset(names("perl ruby elixir crystal"))  # methods are called by name
_ARROWS = frozenset(names("javascript java groovy julia"))
_EACH = ("for", "foreach")
_OF = ("of", "in", "as", ":")  # between the variable of a loop and its list
_PICKS = ("map", "grep", "first", "any", "sort")
_INTERPOLATION = {
    **dict.fromkeys(
        ("perl", "php"),
        re.compile(
            r"\$\{(\w+)\}|(\$\w+(?:(?:->)?(?:\{[^{}]*\}|\[[^\[\]]*\]))*)|\{(\$[^}]*)\}|@\{\[(.*?)\]\}"
        ),
    ),
    **dict.fromkeys(("tcl", "groovy"), re.compile(r"\$\{?(\w+)\}?|\{(\$[^}]*)\}")),
    **dict.fromkeys(("ruby", "elixir", "crystal"), re.compile(r"#\{([^}]*)\}")),
    "javascript": re.compile(r"\$\{([^}]*)\}"),
    "julia": re.compile(r"\$\(?(\w+)\)?"),
}
_END = Token("end", "")
_ENDS = frozenset(names(") ] } , ; : => { ( [ -> ' \" ` @ $ #")) | {"\n"}
_SKIPPED = frozenset(names("! \\ ~ & @ * ... % $"))
_OPERATORS: dict[str, type[ast.operator]] = {
    **dict.fromkeys(("+", ".", "..", "+=", ".="), ast.Add),
    "%": ast.Mod,
}
_CLOSING = {"{": "}", "[": "]", "(": ")"}


class Block(ast.expr):
    """A value whose items `names` are: that of a loop, or of Ruby's `{ |x| … }` behind a call."""

    _fields = ("value",)

    def __init__(self, value: ast.expr, names: list[str]) -> None:
        self.value, self.names = value, names


class Reader:
    """A place among the tokens of a script."""

    def __init__(self, tokens: list[Token], language: str) -> None:
        self.tokens = tokens
        self.language = language
        self.at = 0
        self.functions: list[ast.FunctionDef] = []

    def whole(self) -> ast.Module:
        """The tree of a script; its functions stand first."""
        body = self.statements(self.tokens)
        return ast.Module([*self.functions, *map(ast.Expr, body)], [])

    def statements(self, tokens: list[Token]) -> list[ast.expr]:
        outer = self.tokens, self.at
        self.tokens, self.at = tokens, 0
        found: list[ast.expr] = []
        while self.at < len(tokens):
            begun = self.at
            found.append(self.statement())
            self.at += self.at == begun
        self.tokens, self.at = outer
        return found

    # --- tokens
    def peek(self, ahead: int = 0) -> Token:
        """A token without taking it."""
        place = self.at + ahead
        return self.tokens[place] if 0 <= place < len(self.tokens) else _END

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

    def inside(self) -> list[Token]:
        """The tokens between the bracket at this place and its closing one, which are taken."""
        opening = self.peek().text
        level, begun = 0, self.at
        while self.at < len(self.tokens):
            token = self.tokens[self.at]
            if token.kind == "symbol":
                level += (token.text == opening) - (token.text == _CLOSING[opening])
            self.at += 1
            if level == 0:
                break
        return self.tokens[begun + 1 : self.at - (level == 0)]

    # --- statements
    def statement(self) -> ast.expr:
        """One statement; a word or symbol that begins none is stepped over."""
        self.skip_lines()
        if self.peek().text in DECLARES and self.sign(1) in _CLOSING:
            return self.destructures()
        if self.sign() in _EACH and (loop := self.each()) is not None:
            return loop
        value = self.expression()
        while self.take(","):
            right = self.expression()
            if isinstance(value, ast.Name) and isinstance(right, ast.NamedExpr):
                value = ast.NamedExpr(value, right.value)  # `value, error := call()`
            else:
                value = _tuple(value, right)
        if self.language == "perl" and self.sign() in _EACH:  # `unlink $_ for LIST`
            self.at += 1
            return _tuple(self.given_each(), value)
        return value

    def each(self) -> ast.expr | None:
        """The head of a loop over a list: `for my $f (LIST)`, `foreach (LIST as $f)`,
        `for (const f of LIST)`, `for f in LIST`; None for any other.
        """
        begun = self.at
        self.at += 1 + (self.sign(1) == "await")
        if self.sign() == "(":
            head = self.inside()
            signs = [one.text if one.kind in ("name", "symbol") else "" for one in head]
            word = next((at for at, text in enumerate(signs) if text in _OF), None)
            if word is None and self.language == "perl" and ";" not in signs:
                return self.elements(head, ["_"])
            if word is not None and signs[word] == "as":
                return self.elements(head[:word], _variables(head[word + 1 :])[-1:])
            if word is not None:
                return self.elements(head[word + 1 :], _variables(head[:word])[-1:])
        elif self.language == "perl":
            self.at += self.peek().text in DECLARES
            name = _variables([self.peek()])
            self.at += 1
            if self.sign() == "(":
                return self.elements(self.inside(), name)
        else:
            head = []
            while self.peek().kind in ("name", "variable") or self.sign() == ",":
                head.append(self.peek())
                self.at += 1
                if head[-1].text == "in":
                    return Block(self.expression(), _variables(head[:-1])[-1:])
        self.at = begun
        return None

    def elements(self, tokens: list[Token], names: list[str]) -> ast.expr:
        """A list whose elements are given to a name."""
        return Block(_one(self.statements(tokens)), names)

    def given_each(self) -> ast.expr:
        """The list that follows, whose elements are `$_`."""
        return Block(_one(self.listed("")[0]), ["_"])

    def destructures(self) -> ast.expr:
        """`const {a, b: c} = expression`, `my ($a, $b) = …`."""
        self.at += 1
        is_table = self.peek().text == "{"
        words = [one.text for one in self.inside() if one.kind in ("name", "variable", "symbol")]
        if not self.take("="):
            return ast.Constant(None)
        value = self.expression()
        parts = [part.split(":") for part in "".join(words).split(",")]
        if is_table:
            return _tuple(
                value, *(_set(_name(part[-1]), _attribute(value, part[0])) for part in parts)
            )
        return _set(ast.Tuple([_name(part[0]) for part in parts]), value)

    # --- functions
    def definition(self) -> ast.expr:
        """`function name(a, b) { … }`; its value is the function."""
        self.at += 1
        self.take("*")
        name = ""
        while self.peek().kind == "name" or self.sign() in (".", ":"):
            name += self.peek().text
            self.at += 1
        return self.function(self.parameters() if self.sign() == "(" else [], name)

    def parameters(self) -> list[str]:
        return [one.text for one in self.inside() if one.kind in ("name", "variable")]

    def function(self, parameters: list[str], name: str = "") -> ast.expr:
        """A function of the tokens that follow: a block, or one expression."""
        self.skip_lines()
        if self.sign() == "{":
            values = self.statements(self.inside())
        elif self.language in _ARROWS or self.take("=>"):
            values = [self.expression()]
        else:
            return ast.Constant(None)  # its statements are visited where they stand
        body: list[ast.stmt] = [*map(ast.Expr, values[:-1]), *map(ast.Return, values[-1:])]
        name = name or f"function {len(self.functions)}"
        arguments = [ast.arg(one.lstrip("$@%&")) for one in parameters]
        given = ast.arguments([], arguments, None, [], [], None, [])
        self.functions.append(ast.FunctionDef(name, given, body, []))
        return _name(name)

    # --- expressions
    def expression(self) -> ast.expr:
        """An expression; operators have no precedence, which joining strings does not need."""
        begun = self.at
        value = self.operand()
        while self.at > begun:
            token = self.peek()
            if token.kind != "symbol" or token.text in _ENDS:
                return value
            self.at += 1
            self.skip_lines()
            if token.text in ("=", ":="):
                return _set(value, self.expression())
            if token.text == "?":
                other = self.expression()
                last = self.expression() if self.take(":") else ast.Constant(None)
                value = ast.IfExp(value, other, last)
            elif token.text == "/" and self.language == "elixir" and self.peek().kind == "number":
                self.at += 1  # `&File.rm/1`: how many arguments a function takes
            elif token.text in ("||", "&&"):
                value = ast.BoolOp(ast.Or(), [value, self.operand()])
            else:
                operator = _OPERATORS.get(token.text, ast.MatMult)()
                result = ast.BinOp(value, operator, self.operand())
                value = _set(value, result) if token.text in ("+=", ".=") else result
        return value

    def operand(self) -> ast.expr:
        """A value with what follows it: attributes, calls, items."""
        token = self.peek()
        if token.kind == "symbol" and token.text in _SKIPPED and self.peek(1).kind != "command":
            self.at += 1
            return self.operand() if self.peek().kind != "end" else ast.Constant(None)
        if token.text == "-" and self.peek(1).kind == "number":
            self.at += 2
            return ast.Constant(-number_of(self.peek(-1).text))
        if token.kind == "name" and token.text in _PREFIXES:
            self.at += 1
            return self.operand()
        return self.behind(self.primary())

    def primary(self) -> ast.expr:
        token = self.peek()
        if token.kind == "symbol":
            return self.bracket(token)
        if token.kind == "name":
            if token.text in _FUNCTIONS:
                return self.definition()
            if token.text in _PICKS and self.language == "perl" and self.sign(1) == "{":
                return self.picked(token.text)
            self.at += 1
            if (self.sign(), self.language) in (("=>", "javascript"), ("->", "julia")):
                self.at += 1
                return self.function([token.text])
            return _name(token.text)
        self.at += 1
        if token.kind == "template":
            return self.filled(token.text)
        if token.kind == "words":
            return ast.List([ast.Constant(word) for word in token.text.split()])
        if token.kind == "command":
            shell = "$" if self.language == "javascript" else "system"
            return _call(_name(shell), self.filled(token.text))
        if token.kind == "code":
            return _call(_name("eval"), ast.Constant(token.text))
        if token.kind == "angle":
            is_file = "/" in token.text or "*" in token.text
            return (
                _call(_name("glob"), ast.Constant(token.text[1:-1])) if is_file else _name("STDIN")
            )
        if token.kind == "number":
            return ast.Constant(number_of(token.text))
        if token.kind == "variable":
            return _name(token.text)
        return ast.Constant(token.text if token.kind == "string" else None)

    def picked(self, word: str) -> ast.expr:
        """Perl's `map { … } LIST` and `grep { … } LIST`."""
        self.at += 1
        body = self.inside()
        self.take(",")
        found = self.given_each()
        inner = self.statements(body)
        if word != "map":
            return ast.Subscript(ast.List([found, *inner]), ast.Constant(0))
        return _tuple(found, ast.List([_one(inner)]))

    def bracket(self, token: Token) -> ast.expr:
        """Parentheses, lists and tables; the function that an arrow begins."""
        begun = self.at
        if token.text == "(":
            self.inside()
            if self.sign() in ("=>", "->") and self.language in _ARROWS:
                self.at = begun
                parameters = self.parameters()
                self.at += 1
                return self.function(parameters)
            self.at = begun
        if token.text in ("(", "[") or (token.text == "{" and self.is_table()):
            args, keywords = self.listed(_CLOSING[token.text])
            keys: list[ast.expr | None] = [ast.Constant(one.arg) for one in keywords]
            table = [ast.Dict(keys, [one.value for one in keywords])]
            if token.text == "(":
                values = [*args, *(table if keywords else [])]
                if self.language == "javascript" and values:
                    return _tuple(*values)  # of several expressions the last one counts
                return values[0] if len(values) == 1 else ast.List(values)
            return table[0] if not args and (keywords or token.text == "{") else ast.List(args)
        return ast.Constant(None)

    def is_table(self) -> bool:
        """True where a brace begins a table, not a block."""
        ahead = 1
        while self.peek(ahead).kind == "newline":
            ahead += 1
        first, second = self.peek(ahead), self.peek(ahead + 1).text
        if self.language == "lua" or first.text in ("}", "..."):
            return True
        is_key = first.kind in ("string", "template", "name", "number", "variable")
        is_short = second in (",", "}") and self.language == "javascript"
        return (is_key or first.text == "[") and (second in (":", "=>") or is_short)

    def behind(self, value: ast.expr) -> ast.expr:
        """A value with the attributes, calls and items that follow it."""
        while True:
            token, after = self.peek(), self.peek(1)
            if token.kind == "newline" and after.text in (".", "->", "?."):
                self.at += 1
            elif self.is_member(token, after, value):
                self.at += 2
                value = _attribute(value, after.text)
            elif self.sign() == "(" and not (isinstance(value, ast.Name) and value.id in _KEYWORDS):
                value = self.called(value, self.listed(")"))
            elif self.sign() == "[" and not isinstance(value, ast.Constant):
                args, _ = self.listed("]")
                value = ast.Subscript(value, args[0] if args else ast.Constant(None))
            elif (
                self.sign() == "{" and self.language == "perl" and self.peek(-1).kind == "variable"
            ):
                key = self.inside()
                value = ast.Subscript(value, ast.Constant(key[0].text if len(key) == 1 else None))
            elif token.kind == "command" and isinstance(value, ast.Name):  # $`…`
                return self.primary()
            elif self.is_plain_call(value, token):
                value = self.called(value, self.listed(""))
            elif self.has_block() and isinstance(value, ast.Name | ast.Attribute):
                return self.called(ast.Await(value), None)
            else:
                return self.ended(value)

    def is_member(self, token: Token, after: Token, value: ast.expr) -> bool:
        if token.kind != "symbol" or after.kind not in ("name", "string"):
            return False
        if token.text == ".":
            joins = self.language in ("perl", "php") and not isinstance(value, ast.Name)
            return after.kind == "name" and not joins
        return token.text in ("->", "?.", "::") or (token.text == ":" and self.language == "lua")

    def called(
        self, function: ast.expr, given: tuple[list[ast.expr], list[ast.keyword]] | None
    ) -> ast.expr:
        """A call, with the names that Ruby's block behind it gives to items."""
        value = function if given is None else ast.Call(function, *given)
        if not self.has_block() or self.sign(1) != "|":
            return value
        self.at += 2
        found: list[str] = []
        while self.peek().kind in ("name", "symbol") and not self.take("|"):
            found += [self.peek().text] if self.peek().kind == "name" else []
            self.at += 1
        return Block(value, found)

    def has_block(self) -> bool:
        return self.language == "ruby" and self.sign() in ("{", "do")

    def row_of(self, value: ast.expr) -> tuple[str, Row | None]:
        """The name by which a value is called, and what is known of it."""
        path = _path(value)
        return path, table_of(self.language).find(path)

    def ended(self, value: ast.expr) -> ast.expr:
        """A name on its own may be a call: `fork`, `FileUtils.pwd`."""
        if self.language not in WITHOUT_PARENTHESES or self.peek(-1).kind != "name":
            return value
        follows = self.peek().text
        is_capture = follows == "/" and self.language == "elixir"
        if is_capture or follows in ("=", "{") or not isinstance(value, ast.Name | ast.Attribute):
            return value
        if follows in ("}", ")", ",") and isinstance(value, ast.Name) and value.id != "fork":
            row = self.row_of(value)[1]
            if row is None or row.run is not None or (follows != "}" and row.delete is not None):
                return value
        return ast.Await(value)

    def is_plain_call(self, value: ast.expr, token: Token) -> bool:
        """True where arguments follow a name without parentheses."""
        if token.kind in ("newline", "end", "symbol") or self.peek(-1).kind != "name":
            return False
        if not isinstance(value, ast.Name | ast.Attribute):
            return False
        name, row = self.row_of(value)
        if self.language not in _PLAIN_CALLS:
            is_file = row is not None and row.hook == "load" and token.kind == "variable"
            is_text = is_file or token.kind in ("string", "template")
            return row is not None and is_text and self.language in ("php", "lua")
        if token.kind == "name":
            is_call = row is not None or name in ("puts", "print", "p", "return")
            return is_call and token.text not in _STOPS
        return name not in _STOPS

    # --- arguments
    def listed(self, closing: str) -> tuple[list[ast.expr], list[ast.keyword]]:
        """The values up to a closing bracket, and those with a name; up to the end of the statement
        without a bracket.
        """
        args: list[ast.expr] = []
        keywords: list[ast.keyword] = []
        self.at += bool(closing)
        while (token := self.peek()).kind != "end":
            if closing and self.take(closing):
                break
            if not closing and _ends_arguments(token):
                break
            if token.kind == "newline" or self.sign() in (",", ";"):
                self.at += 1
                continue
            begun = self.at
            key = token.text if token.kind in ("name", "string", "template", "number") else ""
            arrow = self.sign(1)
            if key and arrow == "=>" and self.language == "perl":
                args.append(ast.Constant(key))
                self.at += 2
            elif key and (
                arrow == ":"
                or (arrow == "=>" and self.language in ("ruby", "php"))
                or (arrow == "=" and self.language in ("lua", "r", "julia", "swift"))
            ):
                self.at += 2
                self.skip_lines()
                keywords.append(ast.keyword(key, self.expression()))
            else:
                args.append(self.expression())
                self.at += self.at == begun
        return args, keywords

    def filled(self, text: str) -> ast.expr:
        """A string with the values of the expressions in it."""
        pattern = _INTERPOLATION.get(self.language)
        if pattern is None or not pattern.search(text):
            return ast.Constant(text)
        parts: list[ast.expr] = []
        end = 0
        for match in pattern.finditer(text):
            inner = next((group for group in match.groups() if group), "")
            parts.append(ast.Constant(text[end : match.start()]))
            parts += self.statements(tokens_of(inner, self.language))[-1:]
            end = match.end()
        return ast.JoinedStr([*parts, ast.Constant(text[end:])])


def _one(values: list[ast.expr]) -> ast.expr:
    """A value alone, or the list of several."""
    return values[0] if len(values) == 1 else ast.List(values)


def _variables(tokens: list[Token]) -> list[str]:
    """The names among the tokens of a declaration."""
    found = [one.text for one in tokens if one.kind in ("name", "variable")]
    return [one.lstrip("$@%&") for one in found if one not in DECLARES]


def _ends_arguments(token: Token) -> bool:
    if token.kind == "symbol":
        return token.text in (";", "}", ")", "]", "{", "&&", "||")
    return token.kind == "newline" or (token.kind == "name" and token.text in _STOPS)


def _name(text: str) -> ast.Name:
    return ast.Name((text.lstrip("$@%&") or text).replace("::", "."))


def _attribute(value: ast.expr, name: str) -> ast.expr:
    return ast.Attribute(value, name) if name else value


def _call(function: ast.expr, *args: ast.expr) -> ast.expr:
    return ast.Call(function, list(args), [])


def _set(target: Any, value: ast.expr) -> ast.expr:
    return ast.NamedExpr(target, value)


def _tuple(*values: ast.expr) -> ast.expr:
    """Several expressions, of which the last one counts."""
    if len(values) == 1:
        return values[0]
    return ast.Subscript(ast.List(list(values)), ast.Constant(len(values) - 1))


def _path(value: ast.expr) -> str:
    if isinstance(value, ast.Name):
        return value.id
    return f"{_path(value.value)}.{value.attr}" if isinstance(value, ast.Attribute) else "?"


def number_of(text: str) -> int:
    """The value of a number; those with a leading zero are octal."""
    try:
        is_octal = text.isdigit() and text[0] == "0"
        return int(text, 8 if is_octal else 0)
    except ValueError:
        return int(float(text)) if "." in text else 0
