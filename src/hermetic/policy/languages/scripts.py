"""Scripts in Perl, Ruby, JavaScript, PHP, Lua and the like: finds calls and folds their arguments.

The reader knows the expressions that these languages share. What it does not understand it steps
over by one token, so that the calls behind it are found.
"""

from __future__ import annotations

import re

from hermetic.policy.call import Call
from hermetic.policy.dynamic_code import UNKNOWN_COMMAND, execute
from hermetic.policy.marks import NET, marks_in

from .other import judge_other, judge_strings, judge_whole
from .script_expressions import DECLARES, ScriptExpressions
from .tokens import Token, TooLong, tokens_of
from .values import UNKNOWN, Name, Obj, Value, items_of, marks_of, one_of

MAX_DEPTH = 6
# Names of one language for another: what can be called in them is the same.
_DIALECTS = {
    "node": "javascript",
    "deno": "javascript",
    "bun": "javascript",
    "mongo": "javascript",
    "redis": "lua",
}
_LOOP = re.compile(
    r"fork\s*(\(\s*\))?\s*(while|until|if|for)|\b(while|loop|until|for|forever)\b[^;]*fork"
)
_ENDLESS = re.compile(
    r"\b(while|until)\s*\(?\s*(1|true|! 0|false|0|:)(?!\s*[<>=])|\bfor\s*\(\s*;\s*;\s*\)"
    r"|\bloop\s*(\{|do\b)|\bsetInterval\b(?!.*,\s*\d{2,})|\bfor\s*\{|\bforever\b|\bfor\b[^;{]*(math\s*\.\s*huge|1\s*/\s*0)"
)
_DEFINED = re.compile(r"(\(\s*)?\b(?:function|sub|def)\s+(\w+)")
_CONDITION = re.compile(r"\b(if|unless|case|switch|when|while|until|foreach|each)\b|\?|&&|\|\|")
_WAITS = re.compile(
    r"\b(sleep|wait|waitpid|await|break|return|last|accept|recv|gets|join|Sync|Atomics)\b"
)


def judge_code(call: Call, text: str, language: str, *, depth: int = 0) -> None:
    """Report what a script would do."""
    marks = marks_in(text)
    is_unseen = marks and not text.strip("".join(marks) + " \n")
    if (is_unseen or NET in marks or "\ue004" in marks) and execute(call, text, f"{language} code"):
        return
    if not marks:
        text = text.encode("latin-1", "replace").decode("utf-8", "replace")
    if judge_other(call, text, language):
        return
    if depth > MAX_DEPTH:
        call.report(UNKNOWN_COMMAND, f"runs {language} code nested too deeply to be read")
        return
    if language == "mongo":
        text = re.sub(r"""\[\s*(["'])(\w+)\1\s*\]\s*(?=[\[.(])""", r".\2", text)
    dialect = _DIALECTS.get(language, language)
    try:
        tokens = tokens_of(text, dialect)
        reader = ScriptReader(call, dialect, depth, text)
        reader.whole(tokens)
    except (TooLong, RecursionError):
        call.report(UNKNOWN_COMMAND, f"runs {language} code too long to be read")
        return
    judge_whole(call, text, tokens, language, reader.network)
    if language not in ("mongo", "redis", "awk"):
        judge_strings(call, tokens, language)


def _recurses(masked: str) -> bool:
    """True for a function that calls itself, in a text without a condition by which that could end."""
    if _CONDITION.search(masked):
        return False
    for begun, name in _DEFINED.findall(masked):
        uses = len(re.findall(rf"(?<![.\w]){re.escape(name)}\b", masked))
        # one that is called where it is defined needs no name for that
        if uses > (1 if begun else 2):
            return True
    return False


class ScriptReader(ScriptExpressions):
    """Walks the tokens of a script."""

    def __init__(self, call: Call, language: str, depth: int, text: str) -> None:
        super().__init__(call, language, depth)
        self.nested = 0
        self.functions: list[tuple[list[str], list[Token]]] = []  # of the text
        self.reached: set[int] = set()
        self.is_rewritten = language == "perl" and re.search(r"=~\s*(s|tr|y)\W", text) is not None

    def whole(self, tokens: list[Token]) -> None:
        """Visit all statements, then the functions that nothing calls."""
        masked = " ".join(
            '""' if one.kind in ("string", "template") else one.text for one in tokens
        )
        self.loop = _LOOP.search(masked) is not None
        is_endless = _ENDLESS.search(masked) is not None or _recurses(masked)
        self.endless = is_endless and not _WAITS.search(masked)
        self.loop = self.loop or self.endless
        self.visit(tokens)
        while left := [at for at in range(len(self.functions)) if at not in self.reached]:
            for at in left:
                self.own_function(at, [])

    def judge_again(self, text: str) -> None:
        judge_code(self.call, text, self.language, depth=self.depth + 1)

    def visit(self, tokens: list[Token]) -> Value:
        """The value of the last statement of some tokens."""
        outer = self.tokens, self.at
        self.tokens, self.at = tokens, 0
        value: Value = UNKNOWN
        while self.at < len(self.tokens):
            begun = self.at
            value = self.statement()
            self.at += self.at == begun
        self.tokens, self.at = outer
        return value

    def own_function(self, at: int, args: list[Value]) -> Value:
        """A call of a function of the text."""
        self.reached.add(at)
        parameters, body = self.functions[at]
        if self.nested > 8:
            return UNKNOWN
        outer = self.names
        given = dict(zip(parameters, [*args, *[UNKNOWN] * len(parameters)], strict=False))
        self.names = {**outer, **given}
        self.nested += 1
        value = self.visit(body)
        self.nested -= 1
        self.names = outer
        return value

    # --- statements
    def statement(self) -> Value:
        """One statement; a word or symbol that begins none is stepped over."""
        token = self.peek()
        if token.kind == "name" and token.text == "import" and self.sign(1) != "(":
            return self.imports()
        if token.text in DECLARES and self.sign(1) in ("{", "[", "("):
            return self.destructures()
        if token.text in ("function", "sub", "def", "fn") and token.kind == "name":
            return self.definition()
        value = self.expression()
        while self.take(","):
            value = self.expression()
        return value

    def imports(self) -> Value:
        """`import a, {b as c} from "m"`, `import * as a from "m"`."""
        self.at += 1
        found: dict[str, str] = {}
        while (token := self.peek()).kind in ("name", "symbol") and token.text not in (";", "from"):
            self.at += 1
            if token.kind == "name" and token.text != "as":
                renamed = self.sign() == "as"
                found[self.peek(1).text if renamed else token.text] = token.text
                self.at += 2 * renamed
        self.take("from")
        module = self.invoke(Name("require"), [self.peek().text], {})
        for alias, name in found.items():
            is_whole = alias == name and "{" not in [one.text for one in self.tokens[: self.at]]
            self.names[alias] = module if is_whole else self.attribute(module, name)
        return UNKNOWN

    def destructures(self) -> Value:
        """`const {a, b: c} = expression`, `my ($a, $b) = …`."""
        self.at += 1
        closing = {"{": "}", "[": "]", "(": ")"}[self.peek().text]
        end = self.matching(self.peek().text, closing)
        inner = [
            one
            for one in self.tokens[self.at + 1 : end]
            if one.kind in ("name", "variable", "symbol")
        ]
        self.at = end + 1
        if not self.take("="):
            return UNKNOWN
        value = self.expression()
        for at, token in enumerate(inner):
            if token.kind == "symbol" or (at and inner[at - 1].text == ":"):
                continue
            renamed = at + 2 < len(inner) and inner[at + 1].text == ":"
            name = inner[at + 2].text if renamed else token.text
            self.set(
                name,
                self.attribute(value, token.text)
                if closing == "}"
                else one_of([*items_of(value), UNKNOWN]),
            )
        return UNKNOWN

    def set(self, name: str, value: Value) -> None:
        """Assign a variable."""
        self.names[name.lstrip("$@%&")] = (
            value if not self.is_rewritten else Obj("?", text=marks_of(value))
        )

    def definition(self) -> Value:
        """`function name(a, b) { … }`; its value is the function."""
        self.at += 1
        self.take("*")
        name = ""
        while self.peek().kind == "name" or self.sign() in (".", ":"):
            name += self.peek().text
            self.at += 1
        parameters = self.parameters() if self.sign() == "(" else []
        function = self.body(parameters)
        if function is not None and name:
            self.names[name] = function
        return function if function is not None else UNKNOWN

    def parameters(self) -> list[str]:
        end = self.matching("(", ")")
        inner = self.tokens[self.at + 1 : end]
        self.at = end + 1
        return [one.text.lstrip("$@%&") for one in inner if one.kind in ("name", "variable")]

    def body(self, parameters: list[str]) -> Value:
        """A function of the tokens that follow: a block, or one expression; None where none
        follows.
        """
        self.skip_lines()
        if self.language == "php" and self.take("use") and self.sign() == "(":
            self.parameters()
        if self.sign() == "{":
            end = self.matching("{", "}")
            inner = self.tokens[self.at + 1 : end]
            self.at = end + 1
        elif self.language == "javascript":
            begun = self.at
            end = self._end_of_expression()
            inner = self.tokens[begun:end]
            self.at = end
        else:
            return None  # its statements are visited where they stand
        self.functions.append((parameters, inner))
        at = len(self.functions) - 1
        return lambda args, _: self.own_function(at, args)

    def _end_of_expression(self) -> int:
        level, at = 0, self.at
        while at < len(self.tokens):
            token = self.tokens[at]
            if token.kind == "symbol":
                level += token.text in ("(", "[", "{")
                level -= token.text in (")", "]", "}")
                if level < 0 or (level == 0 and token.text in (",", ";")):
                    return at
            at += 1
        return at
