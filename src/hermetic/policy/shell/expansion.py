"""Folds words to the fields bash would pass on; unknown text stays in them as marks."""

from __future__ import annotations

import re
from functools import lru_cache

from hermetic.policy.budget import CHARACTERS, MAX_TEXT, copying, joined, reading
from hermetic.policy.call import Machine
from hermetic.policy.marks import (
    BRACKET,
    NUMBER,
    STAR,
    UNSET,
    activate_globs,
    close_globs,
    has_glob,
    is_plain,
    marks_in,
    unknown_like,
)
from hermetic.policy.tables import regex

from . import parameters
from .arithmetic import calculate
from .braces import expand_braces
from .elements import (
    MAX_INDEX,
    Several,
    element,
    in_order,
    is_indexed,
    listed,
    numbered,
    of_map,
    several_at,
)
from .setting import set_variable
from .state import Shell
from .syntax import Arith, Lit, Piece, Proc, Sub, Var, Word, literal

MAX_FIELDS = 2_000
MAX_INDIRECT = 8  # variables that each compute from the next
_STEPPED = re.compile(
    r"([A-Za-z_]\w*)\s*(?:\+\+|--|(?:[-+*/%&|^]|<<|>>)?=(?!=))|(?:\+\+|--)\s*([A-Za-z_]\w*)"
)


_SPECIAL = re.compile(r"[]!^-]")
_DEFAULTS = frozenset((":-", "-", ":=", "=", ":?", "?", ":+", "+"))
# Variables that a script names for what it builds.
_BUILT = regex(
    r"(?i)(build|out|output|dist|cache|te?mp|work|scratch|stag(e|ing))_?(dir|path|root|folder)?"
)
_EXPANDED = frozenset("*?[~")  # what an unquoted literal word may be expanded for


class Folder:
    """Folds the words of one shell."""

    def __init__(self, runner: Machine, shell: Shell) -> None:
        self.runner = runner
        self.shell = shell
        self.indirect = 0

    def fields(self, words: list[Word]) -> list[str]:
        """All fields the words expand to."""
        out: list[str] = []
        for word in words:
            for braced in expand_braces(word):
                out += self._split(braced)
                if len(out) > MAX_FIELDS:
                    return [*out[:MAX_FIELDS], UNSET]
        return out

    def text(self, word: Word) -> str:
        """The word as one string, without splitting, globs or braces: an assignment, a
        here-document.
        """
        parts = [
            self._tilde_first(word, at, piece, assignment=True)
            for at, piece in enumerate(word.pieces)
        ]
        text = parts[0] if len(parts) == 1 else joined(parts)
        if len(text) >= CHARACTERS:
            self.runner.spend(copying(*parts))
        return _cap(text)

    def target(self, word: Word) -> str:
        """The word as a redirection target: one field, globs active."""
        fields = self.fields([word])
        return fields[0] if len(fields) == 1 else joined(fields, " ")

    def pattern(self, word: Word) -> str:
        """The word as a pattern: unquoted globs are active marks."""
        out: list[str] = []
        for piece in word.pieces:
            value, quoted = self._single(piece), isinstance(piece, Proc) or piece.quoted
            # what is special in a bracket and quoted there cannot be written in a folded pattern
            is_odd = quoted and _SPECIAL.search(value) and any(BRACKET in one for one in out)
            folded = value if quoted else activate_globs(value)
            out.append(unknown_like(value) if is_odd else folded)
        self.runner.spend(copying(*out))
        return close_globs(joined(out))

    # --- fields

    def _split(self, word: Word) -> list[str]:
        self.runner.spend(1)
        pieces = word.pieces
        if len(pieces) == 1 and isinstance(pieces[0], Lit):
            text = pieces[0].text
            if text.isascii() and (pieces[0].quoted or _EXPANDED.isdisjoint(text)):
                return [text]
            return [_field(close_globs(self._tilde_first(word, 0, pieces[0], assignment=False)))]
        fields = _Fields()
        for at, piece in enumerate(pieces):
            if isinstance(piece, Var):
                values = self._values(piece)
            else:
                values = [self._tilde_first(word, at, piece, assignment=False)]
            if isinstance(piece, Lit | Proc) or piece.quoted:
                fields.add(values)
            else:
                self.runner.spend(sum(map(reading, values)))
                ifs = self.shell.scalar("IFS") if "IFS" in self.shell.variables else " \t\n"
                fields.split(values, ifs)
        return [_field(close_globs(_cap(field))) for field in fields.found]

    def _single(self, piece: Piece) -> str:
        if isinstance(piece, Lit):
            return piece.text
        if isinstance(piece, Var):
            return joined(self._values(piece), " ")
        if isinstance(piece, Sub):
            return self.runner.capture(piece.body, self.shell).rstrip("\n")
        if isinstance(piece, Arith):
            return self.arithmetic(piece.word)
        return self.runner.open_process(piece, self.shell)

    def arithmetic(self, word: Word) -> str:
        """The value of an arithmetic text as a string."""
        return self.calculate("".join(self._single(piece) for piece in word.pieces))

    def calculate(self, text: str) -> str:
        """The value of a folded arithmetic text; what it assigns without a known value is an
        unknown number.
        """
        self.runner.spend(1 + reading(text))
        if "[" in text and ("$(" in text or "`" in text):  # bash expands an index once more
            self.runner.fold_text(text, self.shell)
        value = calculate(text, self._number, self._assign_number)
        if value is not None:
            return str(value)
        for match in _STEPPED.finditer(text):
            self.shell.set(match[1] or match[2], NUMBER)
        return NUMBER

    def _number(self, name: str) -> int | None:
        value = self.named(name)
        if value is None:
            return 0 if self.shell.complete else None
        if not value.isascii():
            return None
        if "$(" in value or "`" in value:
            self.runner.fold_text(value, self.shell)
            return None
        value = value.strip()
        if not value:
            return 0
        self.runner.spend(1)
        try:
            return int(value, 8 if value.startswith("0") and value.isdigit() else 0)
        except ValueError:
            return self._computed(value)

    def _computed(self, text: str) -> int | None:
        """The number that a variable's text computes to, with what it assigns."""
        if self.indirect >= MAX_INDIRECT:
            return None
        self.indirect += 1
        value = self.calculate(text)
        self.indirect -= 1
        return None if value == NUMBER else int(value)

    def _assign_number(self, name: str, value: int) -> None:
        self.set_named(name, str(value))

    # --- elements

    def set_named(self, target: str, text: str) -> None:
        """Set a variable, or an element by its text: `name[index]`."""
        name, bracket, index = target.partition("[")
        if bracket:
            self.set_element(name, index.removesuffix("]"), text)
        else:
            set_variable(self.runner, self.shell, name, text)

    def set_element(self, name: str, key: str, text: str, *, append: bool = False) -> None:
        """Set an element; one without a known index may be any."""
        old, key = self.shell.get(name), self._index(key)
        if name in ("BASH_ALIASES", "BASH_CMDS"):
            self.shell.aliases[key] = text
        if is_indexed(old):
            key = self.calculate(key)
            if key.startswith("-"):
                is_list = (
                    isinstance(old, list) and several_at(old) is None and -int(key) <= len(old)
                )
                key = str(len(old) + int(key)) if isinstance(old, list) and is_list else NUMBER
        pairs = numbered(old)
        self.runner.spend(len(pairs) // 16)
        pairs = {**pairs, key: joined((pairs.get(key, ""), text)) if append else text}
        dense = is_indexed(old) and key.isdigit() and int(key) <= MAX_INDEX
        set_variable(self.runner, self.shell, name, listed(pairs) if dense else pairs)

    def _index(self, text: str) -> str:
        """An index as bash takes it from a text: it runs commands in it."""
        if "$(" in text or "`" in text:
            self.runner.fold_text(text, self.shell)
        return text

    def unset_element(self, target: str) -> None:
        """Take an element out of an array, by its text."""
        name, _, index = target.partition("[")
        old, key = self.shell.get(name), self._index(index.removesuffix("]"))
        if is_indexed(old):
            key = self.calculate(key)
        if key in ("@", "*") or isinstance(old, str):
            self.shell.set(name, "")
        elif old is not None:
            left = {one: text for one, text in numbered(old).items() if one != key}
            self.shell.set(name, left)

    # --- parameters

    def _values(self, var: Var) -> list[str]:
        """What an expansion gives: several values only for `$@`, `${a[@]}` and kin."""
        if var.op == "bad":  # the text ends there; what stands inside has run by then
            self._argument(var)
            return [UNSET]
        values = self._elements(var)
        is_many = values is not None
        if var.length:
            return [self._length(var, values)]
        if values is None:
            value = self._indirect(var) if var.indirect else self._one(var.name, var.index)
            values = [] if value is None else [value]
        values = self._operated(var, values, is_many)
        self.runner.spend(len(values) // 2 + copying(*values))
        if is_many and var.quoted and (literal(var.index) or var.name) == "*":
            return [joined(values, self.shell.scalar("IFS")[:1])]
        return values

    def _elements(self, var: Var) -> list[str] | None:
        """The separate values of `$@`, `${a[*]}` …; None for an ordinary parameter."""
        if var.index is not None and literal(var.index) in ("@", "*"):
            value = self.shell.get(var.name)
            values = self.shell.items(var.name)
            if var.indirect:
                return (
                    list(value) if isinstance(value, dict) else list(map(str, range(len(values))))
                )
            return values if value is None else in_order(value)
        if var.index is None and var.name in ("@", "*") and not var.indirect:
            held = self.shell.positional
            if held is None:
                return [UNSET]
            return [self.shell.name0, *held] if var.op == ":" else list(held)
        return None

    def _length(self, var: Var, values: list[str] | None) -> str:
        if values is not None:
            is_open = values == [UNSET] or several_at(values) is not None
            return NUMBER if is_open else str(len(values))
        value = self._one(var.name, var.index)
        return NUMBER if value is None else parameters.length_of(value)

    def _indirect(self, var: Var) -> str | None:
        """`${!name}`: the parameter that a variable names; `${!prefix@}`: the names themselves."""
        name = var.name
        if var.op in ("@", "names") and var.index is None:
            return joined([known for known in self.shell.variables if known.startswith(name)], " ")
        if name in self.shell.references:
            return self.shell.resolve(name)
        target = self._special(name) if name.isdigit() else self.shell.scalar(name)
        if not is_plain(target) or not target:
            return UNSET
        if "$(" in target or "`" in target:
            self.runner.fold_text(target, self.shell)
        return self.named(target)

    def named(self, text: str) -> str | None:
        """The value of a parameter or element by its text."""
        name, _, index = text.partition("[")
        index = self._index(index.removesuffix("]"))
        return self._one(name, Word([Lit(index, True)], 0, 0) if index else None)

    def _one(self, name: str, index: Word | None) -> str | None:
        """The value of a parameter or element, None when it is unset or unknown."""
        if name.isdigit() or name in "@*#?$!-":
            return self._special(name)
        if index is None and "[" in (target := self.shell.reference(name)):
            return self.named(target)
        value = self.shell.get(name)
        if value is None:
            self.arithmetic(index) if index is not None else None  # commands in an index run
            return None
        if index is None:
            return self.shell.scalar(name)
        if isinstance(value, dict):
            key = self.text(index)
            return of_map(value, key, self.calculate(key) if is_indexed(value) else key)
        values = [value] if isinstance(value, str) else value
        self.runner.spend(len(values) // 16)
        number = self._count(index)
        return unknown_like(*values) if number is None else element(values, number)

    def _special(self, name: str) -> str:
        held = self.shell.positional
        if name == "0":
            return self.shell.name0
        if name == "-":
            return "himBHs"
        if name == "#":
            is_open = held is None or several_at(held) is not None
            return NUMBER if held is None or is_open else str(len(held))
        if not name.isdigit() and name not in "@*":
            return NUMBER
        if held is None:
            return UNSET
        if name in "@*":
            return joined(held, " ")
        return element(held, int(name[:6]) - 1)

    def _count(self, word: Word | None) -> int | None:
        text = self.arithmetic(word) if word is not None else NUMBER
        return None if text == NUMBER else int(text)

    # --- operators

    def _operated(self, var: Var, values: list[str], is_many: bool) -> list[str]:
        """The values after the operator of their expansion."""
        op = var.op
        if op in _DEFAULTS:
            return self._defaulted(var, values, is_many)
        if not values and not is_many:
            values = ["" if self.shell.complete else UNSET]
        if op in ("", "names") or (is_many and var.indirect):
            return values
        if op != ":":
            return [self._apply(var, value) for value in values]
        offset, length = self._count(var.arg), self._count(var.arg2)
        is_known = offset is not None and (var.arg2 is None or length is not None)
        if offset is None or not is_known or (is_many and UNSET in values[:1] and offset < 0):
            return [unknown_like(*values)]
        if is_many and (at := several_at(values)) is not None:
            return values[min(offset, at) if offset >= 0 else 0 :]
        if is_many:
            return values[parameters.cut(len(values), offset, length)]
        return [parameters.slice_text(value, offset, length) for value in values]

    def _defaulted(self, var: Var, values: list[str], is_many: bool) -> list[str]:
        """`${x:-word}`, `${x+word}` and kin."""
        op, is_other = var.op[-1], var.op[-1] == "+"
        is_set = bool(values) and (len(var.op) == 1 or values != [""])
        if is_other and not values and not is_many and not self.shell.complete:
            text = self._argument(var)  # or nothing, when the variable is unset
            return [unknown_like(text) if text[:1].isalpha() and is_plain(text) else text]
        if is_set != is_other:
            return values if is_set else [] if is_many else [""]
        text = self._argument(var)
        if op == "=" and var.index is not None and not is_many:
            self.set_element(var.name, self.text(var.index), text)
        elif op == "=" and not is_many:
            set_variable(self.runner, self.shell, var.name, text)
        if op == "?" and _BUILT.fullmatch(var.name):  # it is set, or nothing runs
            return [f"{self.shell.workspace}/{var.name.lower()}"]
        return [UNSET if op == "?" else text]

    def _argument(self, var: Var) -> str:
        return self.text(var.arg) if var.arg is not None else ""

    def _apply(self, var: Var, value: str) -> str:
        op = var.op
        self.runner.spend(reading(value))
        if op == "@":
            how = self._argument(var)
            if how == "P":
                return self.runner.fold_text(value, self.shell)
            return parameters.transform(value, how)
        pattern = self.pattern(var.arg) if var.arg else ""
        if op[0] in "#%":
            return parameters.remove(value, op, pattern)
        if op[0] == "/":
            return parameters.replace(value, op, pattern, self.text(var.arg2) if var.arg2 else "")
        return parameters.change_case(value, op, pattern)

    # --- tilde

    def _tilde_first(self, word: Word, at: int, piece: Piece, assignment: bool) -> str:
        if not isinstance(piece, Lit):
            return self._single(piece)
        if piece.quoted:
            return piece.text
        text = piece.text
        if at == 0 and text.startswith("~"):
            text = self._tilde(
                text, alone=len(word.pieces) == 1 or "/" in text or _slash_next(word)
            )
        if assignment:
            if ":~" in text:
                text = text.replace(":~", ":" + self.shell.home)
            return text
        return activate_globs(text)

    def _tilde(self, text: str, alone: bool) -> str:
        head, slash, rest = text.partition("/")
        if not alone:
            return text
        if head == "~":
            held = self.shell.get("HOME")
            return (held if isinstance(held, str) else self.shell.home) + slash + rest
        if head == "~+":
            return self.shell.cwd + slash + rest
        if head == "~-":
            return self.shell.previous + slash + rest
        user = head[1:]
        if not user.replace("-", "").replace("_", "").isalnum():
            return text
        return ("/root" if user == "root" else f"/home/{user}") + slash + rest


def _slash_next(word: Word) -> bool:
    following = word.pieces[1] if len(word.pieces) > 1 else None
    return isinstance(following, Lit) and not following.quoted and following.text.startswith("/")


class _Fields:
    """Fields as they are built: the last one goes on until it is ended."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.is_open = False

    def add(self, values: list[str]) -> None:
        """Values that are not split: the first goes on with the open field."""
        for number, value in enumerate(values):
            if self.is_open and not number:
                self.found[-1] += value
            else:
                self.found.append(value)
            self.is_open = True

    def split(self, values: list[str], ifs: str) -> None:
        """Values that are split by IFS; glob characters in them become active."""
        for number, value in enumerate(values):
            self.is_open = self.is_open and not number
            if not value:
                continue
            white = {*" \t\n"}.intersection(ifs)
            self.is_open = self.is_open and value[0] not in white
            self.add(list(map(activate_globs, split_ifs(value, ifs))))
            if ifs and marks_in(value).strip(NUMBER):
                self.found[-1] = Several(self.found[-1])
            self.is_open = self.is_open and value[-1] not in white


def split_ifs(value: str, ifs: str) -> list[str]:
    """Fields of an unquoted value; runs of white space in IFS separate once, other characters each
    time.
    """
    if not ifs or not value:
        return [value] if value or not ifs else []
    separator, white = _separator(ifs)
    fields = separator.split(value.strip(white) if white else value)
    return fields if fields[-1] else fields[:-1]


@lru_cache(64)
def _separator(ifs: str) -> tuple[re.Pattern[str], str]:
    """What separates fields, and the white space among it."""
    white = "".join(char for char in ifs if char in " \t\n")
    others = "".join(char for char in ifs if char not in white)
    blanks, marks = f"[{re.escape(white)}]", f"[{re.escape(others)}]"
    if not others:
        return re.compile(f"{blanks}+"), white
    return re.compile(f"{blanks}*{marks}{blanks}*|{blanks}+" if white else marks), white


def _field(text: str) -> str:
    return Several(text) if has_glob(text) else text


def _cap(text: str) -> str:
    return text if len(text) <= MAX_TEXT else unknown_like(text) + STAR
