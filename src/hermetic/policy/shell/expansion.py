"""Folds words to the fields bash would pass on; unknown text stays in them as marks."""

from __future__ import annotations

import re
from functools import lru_cache

from hermetic.policy.budget import CHARACTERS, MAX_TEXT, READ_CHARACTERS, copying, joined, reading
from hermetic.policy.call import Machine
from hermetic.policy.marks import (
    BRACKET,
    NUMBER,
    STAR,
    UNSET,
    activate_globs,
    close_globs,
    is_plain,
    unknown_like,
)

from . import parameters
from .arithmetic import calculate
from .braces import expand_braces
from .state import Shell, Value
from .syntax import Arith, Lit, Piece, Proc, Sub, Var, Word

MAX_FIELDS = 2_000
_STEPPED = re.compile(
    r"([A-Za-z_]\w*)\s*(?:\+\+|--|(?:[-+*/%&|^]|<<|>>)?=(?!=))|(?:\+\+|--)\s*([A-Za-z_]\w*)"
)


_SPECIAL = re.compile(r"[]!^-]")


class Folder:
    """Folds the words of one shell."""

    def __init__(self, runner: Machine, shell: Shell) -> None:
        self.runner = runner
        self.shell = shell

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
        values = [(self._single(piece), piece_quoted(piece)) for piece in word.pieces]
        out: list[str] = []
        for value, quoted in values:
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
            return [close_globs(self._tilde_first(word, 0, pieces[0], assignment=False))]
        fields: list[str] = []
        current: str | None = None
        for at, piece in enumerate(pieces):
            if isinstance(piece, Lit):
                current = (current or "") + self._tilde_first(word, at, piece, assignment=False)
                continue
            if isinstance(piece, Proc):
                current = (current or "") + self._single(piece)
                continue
            values, quoted = self._values(piece)
            if quoted:
                for number, value in enumerate(values):
                    if number:
                        fields.append(current or "")
                        current = value
                    else:
                        current = (current or "") + value
                continue
            current = self._split_values(values, fields, current)
        if current is not None:
            fields.append(_cap(current))
        return list(map(close_globs, fields))

    def _split_values(
        self, values: list[str], fields: list[str], current: str | None
    ) -> str | None:
        """Word splitting by IFS of unquoted values; glob characters in them become active."""
        ifs = self.shell.scalar("IFS") if "IFS" in self.shell.variables else " \t\n"
        for number, value in enumerate(values):
            if number and current is not None:
                fields.append(current)
                current = None
            if not value:
                continue
            pieces = split_ifs(value, ifs)
            if value[0] in ifs and value[0] in " \t\n" and current is not None:
                fields.append(current)
                current = None
            for at, piece in enumerate(pieces):
                if at:
                    fields.append(current or "")
                    current = None
                current = (current or "") + activate_globs(piece)
            if pieces and value[-1] in ifs and value[-1] in " \t\n" and current is not None:
                fields.append(current)
                current = None
        return current

    def _values(self, piece: Piece) -> tuple[list[str], bool]:
        """The values of an expansion and whether they are quoted; several only for `$@`, `${a[@]}`
        and kin.
        """
        if isinstance(piece, Var):
            many = self._many(piece)
            if many is not None:
                self.runner.spend(len(many) + copying(*many))
                return many, piece.quoted
            value = self._variable(piece)
            if len(value) >= READ_CHARACTERS:
                self.runner.spend(copying(value) if piece.quoted else reading(value))
            return [value], piece.quoted
        return [self._single(piece)], piece_quoted(piece)

    def _single(self, piece: Piece) -> str:
        if isinstance(piece, Lit):
            return piece.text
        if isinstance(piece, Var):
            many = self._many(piece)
            value = joined(many, " ") if many is not None else self._variable(piece)
            if len(value) >= CHARACTERS:
                self.runner.spend(copying(value))
            return value
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
        value = calculate(text, self._number, self._assign_number)
        if value is not None:
            return str(value)
        for match in _STEPPED.finditer(text):
            self.shell.set(match[1] or match[2], NUMBER)
        return NUMBER

    def _number(self, name: str) -> int | None:
        base, _, index = name.partition("[")
        value: str | None
        if index:
            value = self._element(base, Word([Lit(index[:-1], True)], 0, 0))
        else:
            held = self.shell.get(base)
            if held is None and not self.shell.complete:
                return None
            value = self.shell.scalar(base)
        if value is None or not value.isascii():
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
            return None

    def _assign_number(self, name: str, value: int) -> None:
        base, _, index = name.partition("[")
        if not index:
            self.shell.set(base, str(value))

    # --- parameters

    def _many(self, var: Var) -> list[str] | None:
        """The separate values of `$@`, `$*`, `${a[@]}`, `${a[@]:1}` …; None for an ordinary
        parameter.
        """
        star = False
        if var.name in "@*" and not var.indirect and not var.length and var.index is None:
            held = self.shell.positional
            values = [UNSET] if held is None else list(held)
            star = var.name == "*"
            if var.op == ":" and held is not None:
                values = [self.shell.name0, *values]
        elif var.index is not None and not var.length and self._index_text(var) in ("@", "*"):
            star = self._index_text(var) == "*"
            value = self.shell.get(var.name)
            values = self.shell.items(var.name)
            if var.indirect:
                values = (
                    list(value) if isinstance(value, dict) else [str(n) for n in range(len(values))]
                )
        else:
            return None
        values = self._each(var, values)
        if star and var.quoted:
            ifs = self.shell.scalar("IFS")
            return [joined(values, ifs[:1])]
        return values

    def _index_text(self, var: Var) -> str:
        assert var.index is not None
        pieces = var.index.pieces
        return pieces[0].text if len(pieces) == 1 and isinstance(pieces[0], Lit) else ""

    def _each(self, var: Var, values: list[str]) -> list[str]:
        if not var.op or var.indirect:
            return values
        if var.op == ":":
            offset = self._count(var.arg)
            length = self._count(var.arg2)
            if offset is None or (var.arg2 is not None and length is None):
                return [unknown_like(*values)]
            start = offset if offset >= 0 else max(len(values) + offset, 0)
            if var.name in "@*" and var.index is None and offset == 0 and values:
                values = values if start == 0 else values[1:]
            end = (
                len(values)
                if length is None
                else start + length
                if length >= 0
                else len(values) + length
            )
            return values[start:end]
        if var.op in (":-", "-", ":=", "=", ":?", "?", ":+", "+"):
            there = bool(values) and (values != [""])
            plus = var.op[-1] == "+"
            if there:
                return [self.text(var.arg)] if plus and var.arg else values
            return [] if plus or var.arg is None else [self.text(var.arg)]
        return [self._apply(var, value) for value in values]

    def _count(self, word: Word | None) -> int | None:
        if word is None:
            return None
        text = self.arithmetic(word)
        return None if text == NUMBER else int(text)

    def _variable(self, var: Var) -> str:
        name = var.name
        if var.op == "bad":  # the text ends there; whatever runs inside has run by then
            self._default(var)
            return UNSET
        if var.length:
            return self._length(var)
        if var.indirect:
            if var.op in ("@", "names") and var.index is None:
                found = [known for known in self.shell.variables if known.startswith(name)]
                return joined(found, " ")
            if name in self.shell.references:
                return self.shell.resolve(name)
            target = self.shell.scalar(name) if not name.isdigit() else self._special(name)
            if not is_plain(target) or not target:
                return UNSET
            base, _, index = target.partition("[")
            if "$(" in index or "`" in index:
                self.runner.fold_text(target, self.shell)
            value = (
                self._element(base, Word([Lit(index[:-1], True)], 0, 0))
                if index
                else self._parameter(base)
            )
            return self._apply_default(var, value)
        value = self._element(name, var.index) if var.index is not None else self._parameter(name)
        return self._apply_default(var, value)

    def _length(self, var: Var) -> str:
        if var.name in "@*":
            held = self.shell.positional
            return NUMBER if held is None else str(len(held))
        if var.index is not None and self._index_text(var) in ("@", "*"):
            value: Value | None = self.shell.get(var.name)
            return NUMBER if value is None else str(len(self.shell.items(var.name)))
        value = (
            self._element(var.name, var.index)
            if var.index is not None
            else self._parameter(var.name)
        )
        return NUMBER if value is None else parameters.length_of(value)

    def _parameter(self, name: str) -> str | None:
        """The value of a parameter, None when it is unset or nobody has seen it."""
        if name.isdigit() or name in "@*#?$!-":
            return self._special(name)
        value = self.shell.get(name)
        return None if value is None else self.shell.scalar(name)

    def _special(self, name: str) -> str:
        held = self.shell.positional
        if name == "0":
            return self.shell.name0
        if name.isdigit():
            if held is None:
                return UNSET
            return held[int(name) - 1] if int(name[:6]) <= len(held) else ""
        if name in "@*":
            return UNSET if held is None else joined(held, " ")
        if name == "#":
            return NUMBER if held is None else str(len(held))
        if name == "-":
            return "himBHs"
        return NUMBER

    def _element(self, name: str, index: Word | None) -> str | None:
        value = self.shell.get(name)
        if value is None:
            if index is not None:
                self.text(index)  # commands in an index run, whatever the array holds
            return None
        if isinstance(value, dict):
            key = self.text(index) if index else "0"
            return value.get(key, "") if is_plain(key) else unknown_like(*value.values())
        number = self._count(index)
        if number is None:
            return unknown_like(*(value if isinstance(value, list) else [value]))
        values = [value] if isinstance(value, str) else value
        return values[number] if -len(values) <= number < len(values) else ""

    def _apply_default(self, var: Var, value: str | None) -> str:
        """Defaults and alternatives; the other operators work on the value."""
        op = var.op
        if op in (":-", "-", ":=", "=", ":?", "?", ":+", "+"):
            there = value is not None and (value != "" or len(op) == 1)
            if op[-1] == "+":
                if value is None and not self.shell.complete:
                    text = self._default(var)  # or nothing, when the variable is unset
                    return unknown_like(text) if text[:1].isalpha() and is_plain(text) else text
                return self._default(var) if there else ""
            if there and value is not None:
                return value
            text = self._default(var)
            if op[-1] == "?":
                return UNSET
            if op[-1] == "=" and var.index is None:
                self.shell.set(var.name, text)
            return text
        if value is None:
            value = "" if self.shell.complete else UNSET
        return self._apply(var, value)

    def _default(self, var: Var) -> str:
        return self.text(var.arg) if var.arg is not None else ""

    def _apply(self, var: Var, value: str) -> str:
        op = var.op
        if not op:
            return value
        self.runner.spend(reading(value))
        if op in ("#", "##", "%", "%%"):
            return parameters.remove(value, op, self.pattern(var.arg) if var.arg else "")
        if op[0] == "/":
            pattern = self.pattern(var.arg) if var.arg else ""
            return parameters.replace(value, op, pattern, self.text(var.arg2) if var.arg2 else "")
        if op == ":":
            return parameters.slice_text(
                value, self._count(var.arg), self._count(var.arg2), var.arg2 is not None
            )
        if op[0] in "^,":
            return parameters.change_case(value, op, self.pattern(var.arg) if var.arg else "")
        if op == "@":
            how = self.text(var.arg) if var.arg else ""
            return (
                self.runner.fold_text(value, self.shell)
                if how == "P"
                else parameters.transform(value, how)
            )
        return unknown_like(value)

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


def piece_quoted(piece: Piece) -> bool:
    """True when an expansion stands in double quotes."""
    return not isinstance(piece, Proc) and piece.quoted


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


def _cap(text: str) -> str:
    return text if len(text) <= MAX_TEXT else unknown_like(text) + STAR
