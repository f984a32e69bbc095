"""Reads the words of a shell text: quotes, expansions, substitutions, here-documents."""

from __future__ import annotations

import re

from .quoting import decode_ansi_c
from .syntax import Arith, Lit, Piece, Proc, Redirect, Seq, Sub, Var, Word

MAX_DEPTH = 40
MAX_COMMANDS = 3000
MAX_WORDS = 8000
MAX_PIECES = 16_000

_BLANKS = re.compile(r"(?:[ \t]|\\\n)+")
_COMMENT = re.compile(r"#[^\n]*")
_NAME = re.compile(r"[A-Za-z_]\w*|\d|[@*#?$!\-]")
_BRACED_NAME = re.compile(r"[A-Za-z_]\w*|\d+|[@*#?$!\-]")
_LENGTH = re.compile(r"#(?:[A-Za-z0-9_@*]|[#?$!-]\})")
_OPERATOR = re.compile(r":-|:=|:\?|:\+|##|%%|//|/#|/%|\^\^|,,|[-=?+#%/^,:@]")
_OVER = re.compile(
    r"""(?:\\.|\$'(?:[^'\\]|\\.)*'|'[^']*'|`(?:[^`\\]|\\.)*`|[^\\'"`()$]|\$(?!'))+""", re.DOTALL
)
_OVER_QUOTED = re.compile(r"""(?:\\.|`(?:[^`\\]|\\.)*`|[^\\"`$(]|\$(?!\()|(?<!\$)\()+""", re.DOTALL)
_CONTINUED = re.compile(r"(?<!\\)(?:\\\\)*\\$")
_OPENERS = {"]": "[", ")": "("}  # what is nested where a text stops at one of these
_WORD_END = " \t\n;&|<>()"
_RUNS = {  # what cannot end or change a run of literal text, by where the text stops
    _WORD_END: re.compile(r"[^\\'\"`$<>\s;&|()]+"),
    '"': re.compile(r"[^\\\"`$]+"),
    "": re.compile(r"[^\\`$]+"),
}
_BARE_RUN = re.compile(r"[^\\'\"`$<>\s;&|()?*+@!}/:\[\]]+")
_QUOTED_RUN = re.compile(r"[^\\'\"`$}/:\[\]]+")


class Unreadable(Exception):
    """The text is not shell we can read; the message says why in a person's words."""


NO_STOPS: frozenset[str] = frozenset()


class WordReader:
    """A place in a text, and how to read a word there; lists of commands inside words are read by
    the subclass.
    """

    def __init__(self, text: str, span: tuple[int, int] | None = None, depth: int = 0) -> None:
        self.text = text
        self.pos = 0
        self.size = len(text)
        self.span = span
        self.depth = depth
        self.commands = 0
        self.words = 0
        self.pieces = 0
        self._substitutions = 0  # that the reader is inside of
        self._heredocs: list[tuple[Redirect, str, bool]] = []

    def read_list(self, stops: frozenset[str] = NO_STOPS) -> Seq:
        """The commands up to a closing parenthesis, one of some words or the end."""
        raise NotImplementedError

    def read(self) -> Seq:
        """The whole text as a sequence of commands."""
        seq = self.read_list()
        self._read_heredocs()  # one that is announced on the last line is empty
        if self.pos < self.size:
            raise Unreadable(f"unexpected {self.text[self.pos]!r}")
        return seq

    def _word(self) -> Word:
        start = self.pos
        self.words += 1
        if self.words > MAX_WORDS:
            raise Unreadable("too many words in one text")
        pieces = self._pieces(_WORD_END, False)
        return Word(pieces, start, self.pos)

    def quoted_word(self, text: str) -> Word:
        """A text in which only `$`, backquotes and backslashes are special: a here-document, an
        index.
        """
        inner = type(self)(text, self.span or (self.pos, self.pos), self.depth + 1)
        if inner.depth > MAX_DEPTH:
            raise Unreadable("expansions are nested too deeply")
        return Word(inner._pieces("", True), 0, 0)

    def _pieces(self, stop: str, quoted: bool) -> list[Piece]:
        pieces: list[Piece] = []
        text, size = self.text, self.size
        opener, opened = _OPENERS.get(stop), 0
        run = _RUNS.get(stop) or (_QUOTED_RUN if quoted else _BARE_RUN)
        while self.pos < size:
            self.pieces += 1
            if self.pieces > MAX_PIECES:
                raise Unreadable("too many words and expansions in one text")
            match = run.match(text, self.pos)
            if match:
                pieces.append(Lit(match[0], quoted))
                self.pos = match.end()
                continue
            char = text[self.pos]
            if not quoted and char in "<>" and text.startswith("(", self.pos + 1):
                pieces.append(Proc(char, self._parenthesized()))
            elif char in stop:
                if opened:
                    opened -= 1
                    pieces.append(Lit(char, quoted))
                    self.pos += 1
                    continue
                if not quoted and char == "(" and self._extglob(pieces):
                    continue
                break
            elif char == "\\":
                pieces += self._backslash(stop, quoted)
            elif char == "'" and (not quoted or "}" in stop):
                end = text.find("'", self.pos + 1)
                if end < 0:
                    raise Unreadable("a single quote is not closed")
                if quoted:  # `"${x-'}'}"`: the quotes stay, and so does what expands between them
                    pieces += self.quoted_word(text[self.pos : end + 1]).pieces
                else:
                    pieces.append(Lit(text[self.pos + 1 : end], True))
                self.pos = end + 1
            elif char == '"' and (not quoted or "}" in stop):
                pieces += self._double()
            elif char == "`":
                pieces.append(self._backquote(quoted))
            elif char == "$":
                pieces += self._dollar(quoted, "}" in stop)
            else:
                opened += char == opener
                pieces.append(Lit(char, quoted))
                self.pos += 1
        return pieces

    def _extglob(self, pieces: list[Piece]) -> bool:
        """An extended pattern matches some name: it is folded to a star, and to the commands in it;
        False where none begins.
        """
        last = pieces[-1] if pieces else None
        if not isinstance(last, Lit) or last.quoted or last.text[-1:] not in tuple("?*+@!"):
            return False
        self.pos += 1
        inner = self._pieces(")", False)
        self._expect(")")
        run = [one for one in inner if not isinstance(one, Lit) and not getattr(one, "bare", False)]
        pieces[-1:] = [Lit(last.text[:-1] + "*", False), *run]
        return True

    def _backslash(self, stop: str, quoted: bool) -> list[Piece]:
        following = self.text[self.pos + 1 : self.pos + 2]
        self.pos = min(self.pos + 2, self.size)
        if following == "\n":
            return []
        special = not quoted or following in "$`\\" or following in stop
        return [Lit(following if following and special else "\\" + following, True)]

    def _double(self) -> list[Piece]:
        self.pos += 1
        pieces = self._pieces('"', True)
        self._expect('"')
        return pieces or [Lit("", True)]

    def _backquote(self, quoted: bool) -> Piece:
        pos = self.pos + 1
        while pos < self.size and self.text[pos] != "`":
            pos += 2 if self.text[pos] == "\\" else 1
        if pos >= self.size:
            raise Unreadable("a backquote is not closed")
        escaped = r'\\(?:\n|([`\\$"]))' if quoted else r"\\(?:\n|([`\\$]))"
        inner = re.sub(escaped, r"\1", self.text[self.pos + 1 : pos])
        span = self.span or (self.pos, pos + 1)
        self.pos = pos + 1
        return Sub(type(self)(inner, span, self.depth + 1).read(), quoted)

    def _parenthesized(self) -> Seq:
        """The commands of a substitution, from `$(` or `<(` to its end.

        They have here-documents of their own.
        """
        pending, self._heredocs = self._heredocs, []
        self.pos += 2
        self._substitutions += 1
        body = self.read_list()
        self._substitutions -= 1
        self._expect(")")
        if pending and self._heredocs:
            raise Unreadable("a here-document begins in a substitution and ends behind it")
        self._heredocs += pending
        return body

    def _dollar(self, quoted: bool, braced: bool) -> list[Piece]:
        """An expansion.

        Inside `${…}` the quotes `$'…'` and `$"…"` count even between double quotes.
        """
        text, pos = self.text, self.pos
        if text.startswith("$((", pos) and (word := self._arithmetic(pos + 3)):
            return [Arith(word, quoted)]
        if text.startswith("$(", pos):
            return [Sub(self._parenthesized(), quoted)]
        # bash 5.3 runs the commands in this shell
        if text.startswith(("${ ", "${\t", "${\n", "${|"), pos):
            self.pos += 3
            body = self.read_list(frozenset("}"))
            self._expect("}")
            return [Sub(body, quoted)]
        if text.startswith("${", pos):
            return [self._braced(quoted)]
        if text.startswith("$[", pos):
            end = text.find("]", pos)
            if end < 0:
                raise Unreadable("an arithmetic expansion does not end")
            self.pos = end + 1
            return [Arith(self.quoted_word(text[pos + 2 : end]), quoted)]
        if text.startswith("$'", pos) and (braced or not quoted):
            literal, self.pos = decode_ansi_c(text, pos + 2)
            if self.pos < 0:
                raise Unreadable("a $'…' quote is not closed")
            return [Lit(literal, True)]
        if text.startswith('$"', pos) and (braced or not quoted):
            self.pos += 1
            return self._double()
        match = _NAME.match(text, pos + 1)
        if match is None:
            self.pos += 1
            return [Lit("$", True)]
        self.pos = match.end()
        return [Var(match[0], quoted, bare=match[0][0].isalpha() or match[0][0] == "_")]

    def _braced(self, quoted: bool) -> Piece:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Unreadable("expansions are nested too deeply")
        self.pos += 2
        start = self.pos
        var = self._parameter(quoted)
        if var is None or not self.text.startswith("}", self.pos):
            self.pos = start  # bash reads it up to the brace, and fails when it is expanded
            var = Var("?", quoted, op="bad", arg=Word(self._pieces("}", quoted), start, self.pos))
        self._expect("}")
        self.depth -= 1
        return var

    def _parameter(self, quoted: bool) -> Var | None:
        """The inside of a `${…}`; None without a name."""
        text = self.text
        indirect = length = False
        if text.startswith("!", self.pos) and not text.startswith("!}", self.pos):
            indirect = True
            self.pos += 1
        elif _LENGTH.match(text, self.pos):
            length = True
            self.pos += 1
        match = _BRACED_NAME.match(text, self.pos)
        if match is None:
            return None
        self.pos = match.end()
        var = Var(match[0], quoted, indirect=indirect, length=length)
        if text.startswith("[", self.pos):
            var.index = self._index()
        operator = _OPERATOR.match(text, self.pos)
        if operator and not text.startswith("}", self.pos):
            var.op = operator[0]
            self.pos = operator.end()
            self._operands(var, quoted)
        elif text.startswith("*}", self.pos) and indirect:
            self.pos += 1
            var.op = "names"
        return var

    def _index(self) -> Word:
        """An array's index, from its bracket to behind the closing one."""
        start = self.pos + 1
        self.pos = start
        pieces = self._pieces("]", False)
        self._expect("]")
        return Word(pieces, start, self.pos - 1)

    def _operands(self, var: Var, quoted: bool) -> None:
        first, rest, between = quoted, quoted, ""
        if var.op in ("/", "//", "/#", "/%"):
            first, between = False, "/"
        elif var.op == ":":
            first = rest = True
            between = ":"
        elif var.op in ("#", "##", "%", "%%", "^", "^^", ",", ",,"):
            first = False
        start = self.pos
        var.arg = Word(self._pieces("}" + between, first), start, self.pos)
        if between and self.text.startswith(between, self.pos):
            self.pos += 1
            var.arg2 = Word(self._pieces("}", rest), start, self.pos)

    def _arithmetic(self, pos: int) -> Word | None:
        """The text up to `))` that closes it; None when there is none."""
        end = self._closing(pos, ")")
        if not self.text.startswith("))", end):
            return None
        self.pos = end + 2
        return self.quoted_word(self.text[pos:end])

    def _closing(self, pos: int, closer: str, depth: int = 0) -> int:
        """Where a parenthesis or a double quote is closed, read over quotes and substitutions; the
        end if nowhere.
        """
        level, text = 0, self.text
        if depth > MAX_DEPTH:
            raise Unreadable("expansions are nested too deeply")
        while pos < self.size:
            skipped = (_OVER if closer == ")" else _OVER_QUOTED).match(text, pos)
            if skipped:
                pos = skipped.end()
                continue
            char = text[pos]
            if char == closer and level == 0:
                return pos
            if char == '"':
                pos = self._closing(pos + 1, char, depth + 1)
            elif char == "(" and closer == '"':
                pos = self._closing(pos + 1, ")", depth + 1)
            elif char in "()":
                level += 1 if char == "(" else -1
            pos += 1
        return self.size

    def _blanks(self) -> None:
        match = _BLANKS.match(self.text, self.pos)
        if match:
            self.pos = match.end()
        if self.pos < self.size and self.text[self.pos] == "#":
            comment = _COMMENT.match(self.text, self.pos)
            if comment:
                self.pos = comment.end()

    def _skip_lines(self) -> None:
        self._blanks()
        while self.text.startswith("\n", self.pos):
            self.pos += 1
            if self._heredocs:
                self._read_heredocs()
            self._blanks()

    def _expect(self, char: str) -> None:
        if char == ")":
            self._skip_lines()
        if not self.text.startswith(char, self.pos):
            raise Unreadable(f"{char!r} is missing")
        self.pos += len(char)

    def _read_heredocs(self) -> None:
        """Called just after a newline: the bodies of the here-documents announced on the line
        before.
        """
        pending, self._heredocs = self._heredocs, []
        for redirect, delimiter, quoted in pending:
            lines: list[str] = []
            while self.pos < self.size:
                start, parts = self.pos, [self._line()]
                while not quoted and _CONTINUED.search(parts[-1]) and self.pos < self.size:
                    parts[-1] = parts[-1][:-1]
                    parts.append(self._line())
                line = "".join(parts)
                if redirect.op == "<<-":
                    line = line.lstrip("\t")
                if line == delimiter:
                    break
                if (
                    self._substitutions
                    and line.startswith(delimiter)
                    and ")" in line[len(delimiter) :]
                ):
                    # `EOF)` ends both
                    self.pos = self.text.index(delimiter, start) + len(delimiter)
                    break
                lines.append(line)
            body = "".join(f"{line}\n" for line in lines)
            redirect.target = Word([Lit(body, True)], 0, 0) if quoted else self.quoted_word(body)

    def _line(self) -> str:
        start = self.pos
        end = self.text.find("\n", start)
        end = self.size if end < 0 else end
        self.pos = min(end + 1, self.size)
        return self.text[start:end]
