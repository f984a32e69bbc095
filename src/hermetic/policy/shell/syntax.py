"""The shapes a shell text is read into."""

from __future__ import annotations

from typing import TypeAlias

import msgspec


class Lit(msgspec.Struct, gc=False):
    text: str
    quoted: bool


class Var(msgspec.Struct):
    """A parameter expansion: `$x`, `${x:-word}`, `${!x}`, `${#x}`, `${x[@]}`."""

    name: str
    quoted: bool
    op: str = ""
    arg: Word | None = None
    arg2: Word | None = None
    index: Word | None = None
    indirect: bool = False
    length: bool = False
    bare: bool = False  # written as $name, without braces


class Sub(msgspec.Struct):
    """A command substitution."""

    body: Seq
    quoted: bool


class Arith(msgspec.Struct):
    """An arithmetic expansion; its text is folded as a double-quoted word first."""

    word: Word
    quoted: bool


class Proc(msgspec.Struct):
    """A process substitution, `<( )` or `>( )`."""

    direction: str
    body: Seq


Piece: TypeAlias = Lit | Var | Sub | Arith | Proc


class Word(msgspec.Struct):
    pieces: list[Piece]
    start: int
    end: int


def literal(word: Word | Assign | None, *, bare: bool = False) -> str:
    """The text of a word that is one plain text, else nothing; `bare`: nor where it is quoted."""
    piece = word.pieces[0] if isinstance(word, Word) and len(word.pieces) == 1 else None
    return piece.text if isinstance(piece, Lit) and not (bare and piece.quoted) else ""


class Redirect(msgspec.Struct):
    """A redirection; `op` is the operator, `<<` and `<<-` carry their body as the target."""

    op: str
    fd: str
    target: Word


class Assign(msgspec.Struct):
    name: str
    value: Word | None  # None: an array
    items: list[tuple[Word | None, Word]]  # index, element
    index: Word | None = None
    append: bool = False


class _Placed(msgspec.Struct, kw_only=True):
    """A command; `start` and `end` are its place in the text."""

    start: int = 0
    end: int = 0


class Compound(_Placed, kw_only=True):
    """A command that redirections may follow."""

    redirects: list[Redirect] = []


class Simple(Compound):
    assigns: list[Assign] = []
    words: list[Word | Assign] = []  # an Assign here is an argument of declare and its kin
    rest: str = ""  # the raw text after the first word, for alias expansion
    negated: bool = False  # stands alone behind `!`


class Pipe(_Placed):
    commands: list[Node]


class Seq(msgspec.Struct):
    items: list[tuple[Node, str]]  # command, and the operator after it: ; & && ||


class Group(Compound):
    kind: str  # { or (
    body: Seq


class If(Compound):
    branches: list[tuple[Seq | None, Seq]]  # condition (None: else), body


class Loop(Compound):
    word: str  # while or until
    condition: Seq
    body: Seq


class For(Compound):
    name: str
    words: list[Word] | None  # None: over "$@"
    body: Seq


class CFor(Compound):
    header: Word
    body: Seq


class Case(Compound):
    subject: Word
    branches: list[tuple[list[Word], Seq]]
    falling: frozenset[int]  # items after which the next one may run too: ;& and ;;&


class Condition(Compound):
    """`[[ … ]]`"""

    words: list[Word]


class Calc(Compound):
    """`(( … ))`"""

    word: Word


class Function(_Placed):
    name: str
    body: Node


class Coproc(_Placed):
    name: str
    body: Node


Node: TypeAlias = (
    Simple | Pipe | Group | If | Loop | For | CFor | Case | Condition | Calc | Function | Coproc
)
