"""Reads a shell text into the shapes of `syntax`, as bash would; what it cannot read raises
`Unreadable`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from . import syntax
from .syntax import Assign, Compound, Function, Group, Lit, Node, Redirect, Seq, Simple, Word
from .word_reader import MAX_COMMANDS, MAX_DEPTH, NO_STOPS, Unreadable, WordReader

_REDIRECT = re.compile(r"(\d*|\{[A-Za-z_]\w*\})(<<<|<<-|<<|<>|<&|>&|>>|>\||&>>|&>|<(?!\()|>(?!\())")
_RESERVED = re.compile(r"(\[\[|[A-Za-z]+|[!{}])(?=[\s;&|()<>]|$)")
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)(?=\[|\+?=)")
_EQUALS = re.compile(r"(\+?)=")
_DEFINED = re.compile(r"[^\s;&|<>()'\"\\`$]+")
_COPROC_NAME = re.compile(
    r"[^\s;&|<>()'\"\\`$]+[ \t]+(?=[{(]|(?:if|while|until|for|case|select|\[\[)\s)"
)
_FUNCTION = re.compile(r"[ \t]*\([ \t]*\)")
_CONDITION_END = re.compile(r"\]\](?=[ \t\n;&|()<>]|$)")
_DECLARES = frozenset({"declare", "typeset", "export", "local", "readonly", "eval", "alias", "let"})
_STOPPERS = frozenset({"then", "fi", "do", "done", "esac", "else", "elif", "}"})
MAX_DESCRIPTOR = 2**31 - 1


class Reader(WordReader):
    """One pass over one text.

    `span` fixes the reported place of everything read from a nested text.
    """

    def read_list(self, stops: frozenset[str] = NO_STOPS) -> Seq:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Unreadable("commands are nested too deeply")
        items: list[tuple[Node, str]] = []
        while True:
            self._skip_lines()
            if self._ends_list() or (stops and self._reserved() in stops):
                break
            node = self._pipeline()
            items.append((node, self._separator(node)))
        self.depth -= 1
        return Seq(items)

    def _ends_list(self) -> bool:
        return self.pos >= self.size or self.text.startswith((")", ";;", ";&"), self.pos)

    def _separator(self, node: Node) -> str:
        self._blanks()
        text, pos = self.text, self.pos
        if text.startswith(("&&", "||"), pos):
            self.pos += 2
            self._go_on()
            return text[pos : pos + 2]
        if self._ends_list() or text[pos] == "\n":
            return ";"
        if text[pos] in ";&":
            self.pos += 1
            return text[pos]
        last = node.commands[-1] if isinstance(node, syntax.Pipe) else node
        if self._reserved() in _STOPPERS and not isinstance(last, Simple):
            return ";"  # `{ (ls) }`: after a compound command bash knows its own words again
        raise Unreadable(f"unexpected {text[pos]!r}")

    def _go_on(self) -> None:
        """To the command behind an operator, which may be on a later line."""
        self._skip_lines()
        if self.pos >= self.size:
            raise Unreadable("the text ends after an operator")

    def _pipeline(self) -> Node:
        start, negated = self.pos, False
        while (word := self._reserved()) in ("!", "time"):
            negated = negated or word == "!"
            self.pos += len(word)
            self._blanks()
            while word == "time" and self.text.startswith(("-p ", "-- "), self.pos):
                self.pos += 2
                self._blanks()
        if self.pos >= self.size or self.text[self.pos] in "\n;":
            return self._placed(Simple(), start)
        commands = [self._command()]
        while True:
            self._blanks()
            if not self.text.startswith("|", self.pos) or self.text.startswith("||", self.pos):
                break
            self.pos += 1
            if self.text.startswith("&", self.pos):  # `a |& b` is `a 2>&1 | b`
                self.pos += 1
                if isinstance(commands[-1], Compound):
                    one = Word([Lit("1", False)], 0, 0)
                    commands[-1].redirects.append(Redirect(">&", "2", one))
            self._go_on()
            commands.append(self._command())
        if len(commands) > 1:
            return self._placed(syntax.Pipe(commands), start)
        if isinstance(commands[0], Simple):
            commands[0].negated = negated
        return commands[0]

    def _command(self) -> Node:
        start, word = self.pos, self._reserved()
        node: Node | None = None
        if self.text.startswith("((", start) and (text := self._arithmetic(start + 2)):
            node = syntax.Calc(text)
        elif self.text.startswith("(", start):
            self.pos += 1
            node = Group("(", self.read_list())
            self._expect(")")
        elif word in _COMPOUND:
            node = _COMPOUND[word](self, word)
        elif word in _STOPPERS:
            raise Unreadable(f"unexpected {word!r}")
        else:
            return self._simple()
        if isinstance(node, Compound):
            node.redirects = self._redirects()
        return self._placed(node, start)

    def _block(self, opening: str, closing: str) -> Seq:
        self._keyword(opening)
        body = self.read_list(_STOPPERS)
        self._keyword(closing)
        return body

    def _if(self, word: str) -> Node:
        branches: list[tuple[Seq | None, Seq]] = []
        while word in ("if", "elif"):
            self._keyword(word)
            condition = self.read_list(_STOPPERS)
            self._keyword("then")
            branches.append((condition, self.read_list(_STOPPERS)))
            word = self._reserved()
        if word == "else":
            self._keyword("else")
            branches.append((None, self.read_list(_STOPPERS)))
        self._keyword("fi")
        return syntax.If(branches)

    def _loop(self, word: str) -> Node:
        self._keyword(word)
        return syntax.Loop(word, self.read_list(_STOPPERS), self._loop_body())

    def _loop_body(self) -> Seq:
        self._skip_lines()
        if self.text.startswith(";", self.pos):
            self.pos += 1
            self._skip_lines()
        return self._block("{", "}") if self._reserved() == "{" else self._block("do", "done")

    def _for(self, word: str) -> Node:
        self._keyword(word)
        self._blanks()
        if self.text.startswith("((", self.pos):
            header = self._arithmetic(self.pos + 2)
            if header is None:
                raise Unreadable("a loop's header does not end")
            return syntax.CFor(header, self._loop_body())
        name = self._name("a loop without a variable")
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
        return syntax.For(name, words, self._loop_body())

    def _name(self, problem: str) -> str:
        match = _DEFINED.match(self.text, self.pos)
        if match is None:
            raise Unreadable(problem)
        self.pos = match.end()
        return match[0]

    def _case(self, word: str) -> Node:
        self._keyword(word)
        self._blanks()
        subject = self._word()
        self._keyword("in")
        items: list[tuple[list[Word], Seq]] = []
        falling: set[int] = set()
        while True:
            self._skip_lines()
            if self._reserved() == "esac":
                break
            if self.pos >= self.size:
                raise Unreadable("a case does not end")
            patterns: list[Word] = []
            self.pos += self.text[self.pos] == "("
            while not patterns or self.text.startswith("|", self.pos):
                self.pos += bool(patterns)
                self._blanks()
                patterns.append(self._word())
                self._blanks()
            self._expect(")")
            items.append((patterns, self.read_list(frozenset({"esac"}))))
            for end in (";;&", ";;", ";&"):
                if self.text.startswith(end, self.pos):
                    self.pos += len(end)
                    if end != ";;":
                        falling.add(len(items) - 1)
                    break
        self._keyword("esac")
        return syntax.Case(subject, items, frozenset(falling))

    def _condition(self, word: str) -> Node:
        self._keyword(word)
        words: list[Word] = []
        regex = False
        while True:
            self._skip_lines()
            if self.pos >= self.size:
                raise Unreadable("a condition does not end")
            if _CONDITION_END.match(self.text, self.pos):
                self.pos += 2
                return syntax.Condition(words)
            if self.text[self.pos] in "()<>&|" and not regex:
                self.pos += 1
                continue
            start = self.pos
            pieces = self._regex() if regex else self._pieces(" \t\n;&|()<>", False)
            words.append(Word(pieces, start, self.pos))
            regex = self.text[start : self.pos] == "=~"
            if self.pos == start:
                raise Unreadable("a condition cannot be read")

    def _regex(self) -> list[syntax.Piece]:
        """The pattern behind `=~`, in which blanks between parentheses belong to it."""
        pieces: list[syntax.Piece] = []
        level = 0
        while self.pos < self.size:
            char = self.text[self.pos]
            if level == 0 and char in " \t\n":
                break
            level += (char == "(") - (char == ")")
            if char in "()|<>&; \t\n*?[]+@!{}":
                pieces.append(Lit(char, True))
                self.pos += 1
            else:
                pieces += self._pieces(" \t\n()|<>&;", False)
        return pieces

    def _function(self, word: str) -> Node:
        self._keyword(word)
        self._blanks()
        name = self._name("a function without a name")
        if parens := _FUNCTION.match(self.text, self.pos):
            self.pos = parens.end()
        self._skip_lines()
        return Function(name, self._command())

    def _coproc(self, word: str) -> Node:
        self._keyword(word)
        self._blanks()
        name = "COPROC"
        match = _COPROC_NAME.match(self.text, self.pos)
        if match and match[0].strip() not in (*_COMPOUND, "!", "time"):
            self.pos, name = match.end(), match[0].strip()
        return syntax.Coproc(name, self._command())

    def _simple(self) -> Node:
        self.commands += 1
        if self.commands > MAX_COMMANDS:
            raise Unreadable("too many commands in one text")
        node = Simple()
        start = after_first = self.pos
        while True:
            self._blanks()
            if self.pos >= self.size or self.text[self.pos] in "\n;|)":
                break
            char = self.text[self.pos]
            if char == "&" and not self.text.startswith("&>", self.pos):
                break
            if char in "<>&{0123456789" and (match := self._redirection()):
                node.redirects.append(self._redirect(match))
                continue
            if char == "(":
                return self._define(node.words, start)
            item = self._assignment(node.words)
            if isinstance(item, Assign) and not node.words:
                node.assigns.append(item)
                continue
            if isinstance(item, Word) and item.start == item.end:
                raise Unreadable(f"unexpected {char!r}")
            node.words.append(item)
            if len(node.words) == 1:
                after_first = self.pos
        if not (node.assigns or node.words or node.redirects):
            raise Unreadable("a command is missing")
        node.rest = self.text[after_first : self.pos]
        return self._placed(node, start)

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
        return self._placed(Function(name, self._command()), start)

    def _assignment(self, words: list[Word | Assign]) -> Word | Assign:
        start = self.pos
        match = _ASSIGNED.match(self.text, start)
        if match is None or (words and syntax.literal(words[0]) not in _DECLARES):
            return self._word()
        self.pos = match.end()
        index = self._index() if self.text.startswith("[", self.pos) else None
        equals = _EQUALS.match(self.text, self.pos)
        if equals is None or (words and not self.text.startswith("(", equals.end())):
            self.pos = start
            return self._word()
        self.pos = equals.end()
        if self.text.startswith("(", self.pos):
            self.pos += 1
            return Assign(match[1], None, self._array(), index, bool(equals[1]))
        return Assign(match[1], self._word(), [], index, bool(equals[1]))

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
                if equals := _EQUALS.match(self.text, self.pos):
                    self.pos = equals.end()
                else:
                    self.pos, index = before, None
            items.append((index, self._word()))
            if self.pos == before:
                raise Unreadable(f"unexpected {self.text[self.pos]!r} in an array")

    def _redirects(self) -> list[Redirect]:
        found: list[Redirect] = []
        self._blanks()
        while match := self._redirection():
            found.append(self._redirect(match))
            self._blanks()
        return found

    def _redirection(self) -> re.Match[str] | None:
        match = _REDIRECT.match(self.text, self.pos)
        if match and match[1].isdigit() and (len(match[1]) > 10 or int(match[1]) > MAX_DESCRIPTOR):
            return None  # an ordinary word
        return match

    def _redirect(self, match: re.Match[str]) -> Redirect:
        self.pos = match.end()
        self._blanks()
        word = self._word()
        if word.start == word.end:
            raise Unreadable("a redirection without a target")
        redirect = Redirect(match[2], match[1], word)
        if match[2] in ("<<", "<<-"):
            raw = self.text[word.start : word.end].replace("\\\n", "")
            texts = [piece.text for piece in word.pieces if isinstance(piece, Lit)]
            delimiter = "".join(texts) if len(texts) == len(word.pieces) else raw
            quoted = any(char in raw for char in "'\"\\")
            self._heredocs.append((redirect, delimiter, quoted))
        return redirect

    def _placed(self, node: Node, start: int) -> Node:
        node.start, node.end = self.span or (start, self.pos)
        return node

    def _reserved(self) -> str:
        match = _RESERVED.match(self.text, self.pos)
        return match[0] if match else ""

    def _keyword(self, word: str) -> None:
        self._skip_lines()
        if self._reserved() != word:
            raise Unreadable(f"{word!r} is missing")
        self.pos += len(word)


_COMPOUND: dict[str, Callable[[Reader, str], Node]] = {
    "{": lambda reader, _: Group("{", reader._block("{", "}")),
    "if": Reader._if,
    "while": Reader._loop,
    "until": Reader._loop,
    "for": Reader._for,
    "select": Reader._for,
    "case": Reader._case,
    "[[": Reader._condition,
    "function": Reader._function,
    "coproc": Reader._coproc,
}

__all__ = ["Reader", "Unreadable"]
