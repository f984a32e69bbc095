"""Reads a shell text into the shapes of `syntax`, as bash would; what it cannot read raises
`Unreadable`.
"""

from __future__ import annotations

import re

from .syntax import (
    Assign,
    Calc,
    Case,
    CFor,
    Condition,
    Coproc,
    For,
    Function,
    Group,
    If,
    Lit,
    Loop,
    Node,
    Piece,
    Pipe,
    Redirect,
    Seq,
    Simple,
    Word,
)
from .word_reader import MAX_COMMANDS, MAX_DEPTH, Unreadable, WordReader

_REDIRECT = re.compile(r"(\d*|\{[A-Za-z_]\w*\})(<<<|<<-|<<|<>|<&|>&|>>|>\||&>>|&>|<(?!\()|>(?!\())")
_RESERVED = re.compile(r"(\[\[|[A-Za-z]+|[!{}])(?=[\s;&|()<>]|$)")
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)(?=\[|\+?=)")
_EQUALS = re.compile(r"(\+?)=")
_DEFINED = re.compile(r"[^\s;&|<>()'\"\\`$]+")
_COPROC_NAME = re.compile(
    r"[^\s;&|<>()'\"\\`$]+[ \t]+(?=[{(]|(?:if|while|until|for|case|select|\[\[)\s)"
)
_FUNCTION = re.compile(r"[ \t]*\([ \t]*\)")
_DECLARES = frozenset({"declare", "typeset", "export", "local", "readonly", "eval", "alias", "let"})
_STOPPERS = frozenset({"then", "fi", "do", "done", "esac", "else", "elif", "}"})
_COMPOUND = frozenset(
    {"if", "while", "until", "for", "case", "select", "function", "[[", "{", "!", "time"}
)
_NONE: frozenset[str] = frozenset()
MAX_DESCRIPTOR = 2**31 - 1


class Reader(WordReader):
    """One pass over one text.

    `span` fixes the reported place of everything read from a nested text.
    """

    def read_list(self, closing: str = "") -> Seq:
        """The commands up to a closing parenthesis, a closing word or the end."""
        return self._seq(frozenset({closing}) if closing else _NONE)

    def nested(self, text: str, span: tuple[int, int]) -> Reader:
        """A reader of a text found inside this one."""
        return Reader(text, span, self.depth + 1)

    def read(self) -> Seq:
        """The whole text as a sequence of commands."""
        return self.whole()

    def _seq(self, stops: frozenset[str]) -> Seq:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Unreadable("commands are nested too deeply")
        items: list[tuple[Node, str]] = []
        while True:
            self._skip_lines()
            if (
                self.pos >= self.size
                or self.text[self.pos] == ")"
                or self.text.startswith(";;", self.pos)
            ):
                break
            if self.text.startswith(";&", self.pos):
                break
            if stops and self._reserved() in stops:
                break
            node = self._pipeline()
            items.append((node, self._separator(node)))
        self.depth -= 1
        return Seq(items)

    def _separator(self, node: Node) -> str:
        self._blanks()
        text, pos = self.text, self.pos
        for operator in ("&&", "||"):
            if text.startswith(operator, pos):
                self.pos += 2
                self._skip_lines()
                if self.pos >= self.size:
                    raise Unreadable("the text ends after an operator")
                return operator
        if (
            pos >= self.size
            or text[pos] in ")\n"
            or text.startswith(";;", pos)
            or text.startswith(";&", pos)
        ):
            return ";"
        if text[pos] in ";&":
            self.pos += 1
            return text[pos]
        if self._reserved() in _STOPPERS and not isinstance(_last(node), Simple):
            return ";"  # `{ (ls) }`: after a compound command bash knows its own words again
        raise Unreadable(f"unexpected {text[pos]!r}")

    def _pipeline(self) -> Node:
        start = self.pos
        while (word := self._reserved()) in ("!", "time"):
            self.pos += len(word)
            self._blanks()
            if word == "time":
                while self.text.startswith(("-p ", "-- "), self.pos):
                    self.pos += 2
                    self._blanks()
        if self.pos >= self.size or self.text[self.pos] in "\n;":
            return self._place(Simple([], [], [], start, self.pos))
        commands = [self._command()]
        while True:
            self._blanks()
            if self.text.startswith("|", self.pos) and not self.text.startswith("||", self.pos):
                self.pos += 1
                if self.text.startswith("&", self.pos):
                    self.pos += 1
                    _merge_errors(commands[-1])
                self._skip_lines()
                if self.pos >= self.size:
                    raise Unreadable("the text ends after a pipe")
                commands.append(self._command())
            else:
                break
        if len(commands) == 1:
            return commands[0]
        return self._place(Pipe(commands, start, self.pos))

    def _command(self) -> Node:
        start = self.pos
        word = self._reserved()
        if self.text.startswith("((", self.pos):
            calc = self._calc(start)
            if calc is not None:
                return calc
        if self.text.startswith("(", self.pos):
            self.pos += 1
            body = self._seq(_NONE)
            self._expect(")")
            return self._place(Group("(", body, self._redirects(), start, self.pos))
        if not word:
            return self._simple()
        return self._compound(word, start)

    def _compound(self, word: str, start: int) -> Node:
        if word == "{":
            self.pos += 1
            body = self._seq(_STOPPERS)
            self._keyword("}")
            return self._place(Group("{", body, self._redirects(), start, self.pos))
        if word == "if":
            return self._if(start)
        if word in ("while", "until"):
            self.pos += len(word)
            condition = self._seq(_STOPPERS)
            body = self._do_body()
            return self._place(Loop(word, condition, body, self._redirects(), start, self.pos))
        if word in ("for", "select"):
            return self._for(word, start)
        if word == "case":
            return self._case(start)
        if word == "[[":
            return self._condition(start)
        if word == "function":
            return self._function(start)
        if word == "coproc":
            return self._coproc(start)
        if word in _STOPPERS or word == "in":
            if word == "in":
                return self._simple()
            raise Unreadable(f"unexpected {word!r}")
        return self._simple()

    def _if(self, start: int) -> Node:
        branches: list[tuple[Seq | None, Seq]] = []
        self._keyword("if")
        while True:
            condition = self._seq(_STOPPERS)
            self._keyword("then")
            branches.append((condition, self._seq(_STOPPERS)))
            word = self._reserved()
            if word == "elif":
                self._keyword("elif")
                continue
            if word == "else":
                self._keyword("else")
                branches.append((None, self._seq(_STOPPERS)))
            self._keyword("fi")
            return self._place(If(branches, self._redirects(), start, self.pos))

    def _do_body(self) -> Seq:
        self._skip_lines()
        if self.text.startswith(";", self.pos):
            self.pos += 1
            self._skip_lines()
        if self._reserved() == "{":
            self._keyword("{")
            body = self._seq(_STOPPERS)
            self._keyword("}")
            return body
        self._keyword("do")
        body = self._seq(_STOPPERS)
        self._keyword("done")
        return body

    def _for(self, word: str, start: int) -> Node:
        self._keyword(word)
        self._blanks()
        if self.text.startswith("((", self.pos):
            end = self._closing_parens(self.pos + 2)
            if end < 0:
                raise Unreadable("a loop's header does not end")
            header = self._quoted_word(self.text[self.pos + 2 : end])
            self.pos = end + 2
            body = self._do_body()
            return self._place(CFor(header, body, self._redirects(), start, self.pos))
        match = _DEFINED.match(self.text, self.pos)
        if match is None:
            raise Unreadable("a loop without a variable")
        self.pos = match.end()
        self._skip_lines()
        words: list[Word] | None = None
        if self._reserved() == "in":
            self._keyword("in")
            words = []
            while True:
                self._blanks()
                if self.pos >= self.size or self.text[self.pos] in ";\n":
                    break
                item = self._word()
                if item.start == item.end:
                    raise Unreadable(f"unexpected {self.text[self.pos]!r} in a loop's list")
                words.append(item)
        body = self._do_body()
        return self._place(For(match[0], words, body, self._redirects(), start, self.pos))

    def _case(self, start: int) -> Node:
        self._keyword("case")
        self._blanks()
        subject = self._word()
        self._skip_lines()
        self._keyword("in")
        items: list[tuple[list[Word], Seq]] = []
        falling: set[int] = set()
        while True:
            self._skip_lines()
            if self._reserved() == "esac":
                break
            if self.pos >= self.size:
                raise Unreadable("a case does not end")
            if self.text[self.pos] == "(":
                self.pos += 1
                self._blanks()
            patterns = [self._word()]
            self._blanks()
            while self.text.startswith("|", self.pos):
                self.pos += 1
                self._blanks()
                patterns.append(self._word())
                self._blanks()
            self._expect(")")
            items.append((patterns, self._seq(frozenset({"esac"}))))
            for end in (";;&", ";;", ";&"):
                if self.text.startswith(end, self.pos):
                    self.pos += len(end)
                    if end != ";;":
                        falling.add(len(items) - 1)
                    break
        self._keyword("esac")
        return self._place(
            Case(subject, items, self._redirects(), start, self.pos, frozenset(falling))
        )

    def _condition(self, start: int) -> Node:
        self.pos += 2
        words: list[Word] = []
        regex = False
        while True:
            self._skip_lines()
            if self.pos >= self.size:
                raise Unreadable("a condition does not end")
            if self.text.startswith("]]", self.pos) and self._ends_word(self.pos + 2):
                self.pos += 2
                break
            if self.text[self.pos] in "()<>&|" and not regex:
                self.pos += 1
                continue
            before = self.pos
            words.append(self._pieces_word(" \t\n" if regex else " \t\n;&|()<>", regex))
            regex = self.text[before : self.pos] == "=~"
            if self.pos == before:
                raise Unreadable("a condition cannot be read")
        return self._place(Condition(words, self._redirects(), start, self.pos))

    def _pieces_word(self, stop: str, regex: bool) -> Word:
        start = self.pos
        if not regex:
            return Word(self._pieces(stop, False), start, self.pos)
        pieces: list[Piece] = []
        level = 0
        while self.pos < self.size:
            char = self.text[self.pos]
            if level == 0 and char in " \t\n":
                break
            if char in "(":
                level += 1
            elif char == ")":
                level -= 1
            if char in "()|<>&; \t\n*?[]+@!{}":
                pieces.append(Lit(char, True))
                self.pos += 1
                continue
            pieces += self._pieces(" \t\n()|<>&;", False)
        return Word(pieces, start, self.pos)

    def _calc(self, start: int) -> Node | None:
        end = self._closing_parens(self.pos + 2)
        if end < 0:
            return None
        word = self._quoted_word(self.text[self.pos + 2 : end])
        self.pos = end + 2
        return self._place(Calc(word, self._redirects(), start, self.pos))

    def _function(self, start: int) -> Node:
        self._keyword("function")
        self._blanks()
        match = _DEFINED.match(self.text, self.pos)
        if match is None:
            raise Unreadable("a function without a name")
        self.pos = match.end()
        parens = _FUNCTION.match(self.text, self.pos)
        if parens:
            self.pos = parens.end()
        self._skip_lines()
        return self._place(Function(match[0], self._command(), start, self.pos))

    def _coproc(self, start: int) -> Node:
        self._keyword("coproc")
        self._blanks()
        match = _COPROC_NAME.match(self.text, self.pos)
        if match and match[0].strip() not in _COMPOUND:
            self.pos = match.end()
        name = match[0].strip() if match and match.end() == self.pos else "COPROC"
        return self._place(Coproc(name, self._command(), start, self.pos))

    def _simple(self) -> Node:
        self.commands += 1
        if self.commands > MAX_COMMANDS:
            raise Unreadable("too many commands in one text")
        start = self.pos
        assigns: list[Assign] = []
        words: list[Word | Assign] = []
        redirects: list[Redirect] = []
        after_first = start
        while True:
            self._blanks()
            if self.pos >= self.size or self.text[self.pos] in "\n;|)":
                break
            char = self.text[self.pos]
            if char == "&" and not self.text.startswith("&>", self.pos):
                break
            if char in "<>&{0123456789":
                match = self._redirection()
                if match:
                    redirects.append(self._redirect(match))
                    continue
            if char == "(":
                return self._define(words, start)
            item = self._assignment(words)
            if isinstance(item, Assign) and not words:
                assigns.append(item)
                continue
            if isinstance(item, Word) and item.start == item.end:
                raise Unreadable(f"unexpected {char!r}")
            words.append(item)
            if len(words) == 1:
                after_first = self.pos
        if not (assigns or words or redirects):
            raise Unreadable("a command is missing")
        rest = self.text[after_first : self.pos]
        return self._place(Simple(assigns, words, redirects, start, self.pos, rest))

    def _define(self, words: list[Word | Assign], start: int) -> Node:
        match = _FUNCTION.match(self.text, self.pos)
        first = words[0] if len(words) == 1 else None
        if match is None or not isinstance(first, Word):
            raise Unreadable("unexpected '('")
        name = (
            self.text[first.start : first.end]
            if self.span is None
            else "".join(piece.text for piece in first.pieces if isinstance(piece, Lit))
        )
        self.pos = match.end()
        self._skip_lines()
        return self._place(Function(name, self._command(), start, self.pos))

    def _assignment(self, words: list[Word | Assign]) -> Word | Assign:
        start = self.pos
        match = _ASSIGNED.match(self.text, start)
        if match is None or (words and not self._declares(words[0])):
            return self._word()
        self.pos = match.end()
        index = self._index() if self.text.startswith("[", self.pos) else None
        equals = _EQUALS.match(self.text, self.pos)
        if equals is None or (words and not self.text.startswith("(", equals.end())):
            self.pos = start
            return self._word()
        append = bool(equals[1])
        self.pos = equals.end()
        if self.text.startswith("(", self.pos):
            self.pos += 1
            return Assign(match[1], None, self._array(), index, append)
        return Assign(match[1], self._word(), [], index, append)

    def _declares(self, first: Word | Assign) -> bool:
        if isinstance(first, Assign) or len(first.pieces) != 1:
            return False
        piece = first.pieces[0]
        return isinstance(piece, Lit) and piece.text in _DECLARES

    def _array(self) -> list[tuple[Word | None, Word]]:
        items: list[tuple[Word | None, Word]] = []
        while True:
            self._skip_lines()
            if self.pos >= self.size:
                raise Unreadable("an array does not end")
            if self.text[self.pos] == ")":
                self.pos += 1
                return items
            before, index = self.pos, None
            if self.text.startswith("[", before):
                index = self._index()
                equals = _EQUALS.match(self.text, self.pos)
                if equals is None:
                    self.pos, index = before, None
                else:
                    self.pos = equals.end()
            items.append((index, self._word()))
            if self.pos == before and index is None:
                raise Unreadable(f"unexpected {self.text[self.pos]!r} in an array")

    def _redirects(self) -> list[Redirect]:
        found: list[Redirect] = []
        while True:
            self._blanks()
            match = self._redirection()
            if match is None:
                return found
            found.append(self._redirect(match))

    def _redirection(self) -> re.Match[str] | None:
        match = _REDIRECT.match(self.text, self.pos)
        if match and match[1].isdigit() and (len(match[1]) > 10 or int(match[1]) > MAX_DESCRIPTOR):
            return None  # an ordinary word
        return match

    def _redirect(self, match: re.Match[str]) -> Redirect:
        self.pos = match.end()
        self._blanks()
        start = self.pos
        word = self._word()
        if word.start == word.end:
            raise Unreadable("a redirection without a target")
        redirect = Redirect(match[2], match[1], word)
        if match[2] in ("<<", "<<-"):
            raw = self.text[start : self.pos].replace("\\\n", "")
            delimiter = "".join(
                piece.text if isinstance(piece, Lit) else "" for piece in word.pieces
            )
            if any(not isinstance(piece, Lit) for piece in word.pieces):
                delimiter = raw
            quoted = any(char in raw for char in "'\"\\")
            self._heredocs.append((redirect, delimiter, quoted))
        return redirect

    def _place(self, node: Node) -> Node:
        if self.span is not None:
            node.start, node.end = self.span
        return node

    def _reserved(self) -> str:
        match = _RESERVED.match(self.text, self.pos)
        return match[0] if match else ""

    def _keyword(self, word: str) -> None:
        self._skip_lines()
        if self._reserved() != word:
            raise Unreadable(f"{word!r} is missing")
        self.pos += len(word)

    def _ends_word(self, pos: int) -> bool:
        return pos >= self.size or self.text[pos] in " \t\n;&|()<>"


def _last(node: Node) -> Node:
    return node.commands[-1] if isinstance(node, Pipe) else node


def _merge_errors(node: Node) -> None:
    """`a |& b` is `a 2>&1 | b`."""
    if not isinstance(node, Pipe | Function | Coproc):
        node.redirects.append(Redirect(">&", "2", Word([Lit("1", False)], node.end, node.end)))


__all__ = ["Reader", "Unreadable"]
