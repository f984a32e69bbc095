"""Scripts in Perl, Ruby, JavaScript, PHP, Lua and the like: finds calls and folds their arguments.

The reader knows the expressions that these languages share. What it does not understand it steps
over by one token, so that the calls behind it are found.
"""

from __future__ import annotations

import ast
import re

from hermetic.policy.call import Call
from hermetic.policy.dynamic_code import UNKNOWN_COMMAND, execute
from hermetic.policy.marks import NET, marks_in
from hermetic.policy.tables import names, regex

from .evaluation import ENVIRONMENT
from .expressions import TooLarge
from .other import changes_users, empties_database, judge_strings
from .parser import Reader
from .statements import TextReader
from .tokens import Token, TooLong, tokens_of
from .values import Name, Obj, Value, is_text, marks_of, text_of

MAX_DEPTH = 6
_GLOBALS = frozenset(names("_G globalThis window global self Kernel Object main"))
# Names of one language for another: what can be called in them is the same.
_DIALECTS = {
    "node": "javascript",
    "deno": "javascript",
    "bun": "javascript",
    "mongo": "javascript",
    "redis": "lua",
}
_IMPORT = regex(
    r"""\bimport\b\s*(?:(?:\*\s*as\s+)?(\w+)\s*,?\s*)?(\{[^}]*\})?\s*from\s*("[^"]*"|'[^']*')"""
)
_LOOP = re.compile(
    r"fork\s*(\(\s*\))?\s*(while|until|if|for)|\b(while|loop|until|for|forever)\b[^;]*fork"
)
_ENDLESS = re.compile(
    r"\b(while|until)\s*\(?\s*(1|true|! 0|false|0|:)(?!\s*[<>=])|\bfor\s*\(\s*;\s*;\s*\)"
    r"|\bloop\s*(\{|do\b)|\b(?:setImmediate|nextTick)\s*\(\s*\w+\s*\)|\bsetInterval\b(?!.*,\s*\d{2,})|\bfor\s*\{|\bforever\b|\bfor\b[^;{]*(math\s*\.\s*huge|1\s*/\s*0)"
)
_FEW = regex(r"\bfor(each)?\b[^{;]*\b\d+ \.\. \d{1,2} |\b\d{1,2} \. times\b")
_DEFINED = re.compile(r"(\(\s*)?\b(?:function|sub|def)\s+(\w+)")
_CONDITION = re.compile(r"\b(if|unless|case|switch|when|while|until|foreach|each)\b|\?|&&|\|\|")
# Conditions by a name, which hold for few of many.
_COMPARES = re.compile(
    r"\b(include\?|includes|index(Of)?|strpos|str_contains|match\w*|test|find|startsWith|start_with\?)\s*\("
    r'|(=~|==|===|\beq)\s*(""|pattern\b)|\bgrep\s*(\(|pattern)'
)
_WAITS = re.compile(
    r"\b(sleep|wait|waitpid|await|break|return|last|accept|recv|gets|join|Sync|Atomics|Run|Output|output|status)\b"
)


def judge_code(call: Call, text: str, language: str, *, depth: int = 0) -> None:
    """Report what a script would do."""
    marks = marks_in(text)
    is_unseen = marks and not text.strip("".join(marks) + " \n")
    if (is_unseen or NET in marks or "\ue004" in marks) and execute(call, text, f"{language} code"):
        return
    if not marks:
        text = text.encode("latin-1", "replace").decode("utf-8", "replace")
    if depth > MAX_DEPTH:
        call.report(UNKNOWN_COMMAND, f"runs {language} code nested too deeply to be read")
        return
    if language == "mongo":
        text = re.sub(r"""\[\s*(["'])(\w+)\1\s*\]\s*(?=[\[.(])""", r".\2", text)
    dialect = _DIALECTS.get(language, language)
    if dialect == "javascript":
        text = re.sub(r"""\bimport\s*(["']https?://)""", r"import(\1", _IMPORT.sub(_required, text))
    try:
        tokens = tokens_of(text, dialect)
        reader = _ScriptReader(call, dialect, depth, text)
        reader.look_for_loops(tokens)
        reader.whole(Reader(tokens, dialect).whole())
    except (TooLong, TooLarge, RecursionError):
        call.report(UNKNOWN_COMMAND, f"runs {language} code too long to be read")
        return
    if language in ("mongo", "redis"):
        if empties_database(tokens):
            reader.report("sql-destroys", "deletes a database's content")
        if changes_users(tokens):
            reader.report("sql-destroys", "changes who may use the database")
    elif language != "awk":
        judge_strings(call, tokens, language)


def _required(match: re.Match[str]) -> str:
    """`import a, {b as c} from "m"` as JavaScript without modules has it."""
    name, table, module = match.groups()
    table = f"const {table.replace(' as ', ': ')} = require({module})" if table else ""
    return f"{name} = require({module}); {table}" if name else table


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


class _ScriptReader(TextReader):
    """Evaluates the tree of a script."""

    def __init__(self, call: Call, language: str, depth: int, text: str) -> None:
        super().__init__(call, language, depth)
        self.names.update(dict.fromkeys(("ENV", "_ENV", "_SERVER"), ENVIRONMENT))
        own, args = self.own_arguments()
        self.names.update(ARGV=[*args], argv=[own, *args], arg=[own, *args])
        self.is_rewritten = language == "perl" and re.search(r"=~\s*(s|tr|y)\W", text) is not None

    def own_arguments(self) -> tuple[str, list[Value]]:
        """The script's name, empty for code in an option, and the arguments that it is given."""
        row, options = self.call.row, self.call.options
        if not row.language:  # it is run by its own name
            return self.call.argv[0], [*self.call.args]
        if options.values(*row.text.split()):
            return "", [*options.operands]
        return "".join(options.operands[:1]), [*options.operands[1:]]

    def judge_again(self, text: str) -> None:
        judge_code(self.call, text, self.language, depth=self.depth + 1)

    def look_for_loops(self, tokens: list[Token]) -> None:
        """Note whether the text has a loop, one without an end, and conditions by a name; where
        they end is not known.
        """
        masked = " ".join(
            '""' if one.kind in ("string", "template") else one.text for one in tokens
        )
        is_endless = _ENDLESS.search(masked) is not None or _recurses(masked)
        self.endless = is_endless and not _WAITS.search(masked)
        self.chosen = bool(_COMPARES.search(masked))
        bounded = _FEW.search(masked) is not None and " exit" in masked
        self.loop = (_LOOP.search(masked) is not None and not bounded) or self.endless

    def assign(self, target: ast.expr, value: Value) -> None:
        super().assign(target, Obj("?", text=marks_of(value)) if self.is_rewritten else value)

    def of_module(self, base: Name, attr: str) -> Value:
        if base in _GLOBALS:
            return self.names.get(attr, Name(attr))
        if f"{base}.{attr}" == "process.argv":
            own, args = self.own_arguments()
            return ["/usr/bin/node", *([own] if own else []), *args]
        if f"{base}.{attr}" == "process.execPath":
            return "/usr/bin/node"
        if f"{base}.{attr}" in ("process.stdin", "io.stdin"):
            return Obj("stdin", text=self.call.input())
        return super().of_module(base, attr)

    def item(self, base: Value, key: Value) -> Value:
        if isinstance(base, Name) and is_text(key):
            if self.table.find(f"{base}.[]") is not None:
                return self.named(f"{base}.[]", None, [key], {})
            return self.attribute(base, text_of(key))
        return super().item(base, key)
