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


class Simple(msgspec.Struct):
    assigns: list[Assign]
    words: list[Word | Assign]  # an Assign among the words is an argument of declare and its kin
    redirects: list[Redirect]
    start: int
    end: int
    rest: str = ""  # the raw text after the first word, for alias expansion


class Pipe(msgspec.Struct):
    commands: list[Node]
    start: int
    end: int


class Seq(msgspec.Struct):
    items: list[tuple[Node, str]]  # command, and the operator after it: ; & && ||


class Group(msgspec.Struct):
    kind: str  # { or (
    body: Seq
    redirects: list[Redirect]
    start: int
    end: int


class If(msgspec.Struct):
    branches: list[tuple[Seq | None, Seq]]  # condition (None: else), body
    redirects: list[Redirect]
    start: int
    end: int


class Loop(msgspec.Struct):
    word: str  # while or until
    condition: Seq
    body: Seq
    redirects: list[Redirect]
    start: int
    end: int


class For(msgspec.Struct):
    name: str
    words: list[Word] | None  # None: over "$@"
    body: Seq
    redirects: list[Redirect]
    start: int
    end: int


class CFor(msgspec.Struct):
    header: Word
    body: Seq
    redirects: list[Redirect]
    start: int
    end: int


class Case(msgspec.Struct):
    subject: Word
    items: list[tuple[list[Word], Seq]]
    redirects: list[Redirect]
    start: int
    end: int
    falling: frozenset[int] = frozenset()  # items after which the next one may run too: ;& and ;;&


class Condition(msgspec.Struct):
    """`[[ … ]]`"""

    words: list[Word]
    redirects: list[Redirect]
    start: int
    end: int


class Calc(msgspec.Struct):
    """`(( … ))`"""

    word: Word
    redirects: list[Redirect]
    start: int
    end: int


class Function(msgspec.Struct):
    name: str
    body: Node
    start: int
    end: int


class Coproc(msgspec.Struct):
    name: str
    body: Node
    start: int
    end: int


Node: TypeAlias = (
    Simple | Pipe | Group | If | Loop | For | CFor | Case | Condition | Calc | Function | Coproc
)
