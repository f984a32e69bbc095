"""The programs a command's text starts, as far as the text tells: words past assignments and
wrappers.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from hermetic.policy.shell.reader import Reader, Unreadable
from hermetic.policy.shell.syntax import (
    Case,
    CFor,
    Condition,
    Coproc,
    For,
    Group,
    If,
    Lit,
    Loop,
    Pipe,
    Seq,
    Simple,
    Word,
)

LONGEST_TEXT = 100_000  # characters; a longer text is data more than commands
DEEPEST = 4  # levels of texts within texts: sh -c 'sh -c …'

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_NEGATION = re.compile(r"(?:^|[\s;&|({])!\s+$")
_SHELLS = frozenset({"bash", "sh", "dash", "zsh", "ksh"})
_COMPOUND = (Pipe, Seq, Group, If, Loop, For, CFor, Case, Coproc)


class _Wrapper(NamedTuple):
    """How the words before a wrapped command are passed over."""

    valued: str = ""  # short options that take a value
    long: tuple[str, ...] = ()  # long options that take one as the next word
    operands: int = 0


_WRAPPERS = {
    "sudo": _Wrapper("ugpCrtTDRhU", ("user", "group", "prompt", "chdir", "host")),
    "doas": _Wrapper("uC"),
    "env": _Wrapper("uCS", ("unset", "chdir", "split-string")),
    "nice": _Wrapper("n", ("adjustment",)),
    "ionice": _Wrapper("cnpPu", ("class", "classdata")),
    "time": _Wrapper("fo", ("format", "output")),
    "timeout": _Wrapper("ks", ("kill-after", "signal"), operands=1),
    "stdbuf": _Wrapper("ioe", ("input", "output", "error")),
    "chrt": _Wrapper(operands=1),
    "taskset": _Wrapper(operands=1),
    "flock": _Wrapper("wE", ("timeout", "conflict-exit-code"), operands=1),
    "strace": _Wrapper("aeEIoOpPsSuUX", ("output", "trace")),
    "nohup": _Wrapper(),
    "setsid": _Wrapper(),
    "command": _Wrapper(),
    "builtin": _Wrapper(),
    "exec": _Wrapper("a"),
    "caffeinate": _Wrapper("tw"),
    "unbuffer": _Wrapper(),
    "dotenv": _Wrapper("f", ("file",)),
}


class Invocation(NamedTuple):
    """One program with its arguments; None stands for a word that only the shell will know."""

    words: tuple[str | None, ...]
    wrappers: tuple[str, ...] = ()  # programs around it, the outermost first

    @property
    def name(self) -> str:
        """The program without its directory; empty when it is not known."""
        return (self.words[0] or "").rsplit("/", 1)[-1] if self.words else ""

    @property
    def arguments(self) -> tuple[str, ...]:
        """The arguments that are known."""
        return tuple(word for word in self.words[1:] if word is not None)


class Statement(NamedTuple):
    """One pipeline of the text's outermost list."""

    invocations: tuple[Invocation, ...]
    operator: str  # what follows it: ; & && ||


class Last(NamedTuple):
    """The program whose status is the text's."""

    invocation: Invocation
    is_certain: bool  # False: the one before an && may have failed instead
    is_negated: bool


# The hints, the kind of output and the meaning of an exit code all ask about one command.
@lru_cache(maxsize=64)
def statements(command: str) -> tuple[Statement, ...]:
    """The pipelines of the outermost list; none for a text that cannot be read."""
    return tuple(
        Statement(tuple(_within(node, 0)), operator) for node, operator in _read(command).items
    )


def invocations(command: str) -> list[Invocation]:
    """Every program in the text in order, also those in groups, loops and the texts of `sh -c`."""
    return [found for statement in statements(command) for found in statement.invocations]


def last_invocation(command: str) -> Last | None:
    """The program whose status the text ends with; None when that is a compound, a job or not
    known.
    """
    return _last(_read(command), command, 0)


def _read(command: str) -> Seq:
    if len(command) > LONGEST_TEXT:
        return Seq([])
    try:
        return Reader(command).read()
    except (Unreadable, RecursionError):
        return Seq([])


def _last(seq: Seq, text: str, depth: int) -> Last | None:
    if not seq.items or depth > DEEPEST:
        return None
    node, operator = seq.items[-1]
    if operator == "&":
        return None
    is_negated = _NEGATION.search(text[: node.start]) is not None
    if isinstance(node, Pipe):
        node = node.commands[-1]
    if isinstance(node, Group):
        found = _last(node.body, text, depth + 1)
    elif isinstance(node, Simple):
        found = _last_of_simple(node, depth)
    elif isinstance(node, Condition):
        found = Last(Invocation(("[[",)), True, False)
    else:
        return None
    if found is None:
        return None
    is_certain = found.is_certain and not (len(seq.items) > 1 and seq.items[-2][1] == "&&")
    return Last(found.invocation, is_certain, found.is_negated != is_negated)


def _last_of_simple(node: Simple, depth: int) -> Last | None:
    invocation = _invocation(node)
    if invocation is None:
        return None
    if text := _shell_text(invocation):
        return _last(_read(text), text, depth + 1)
    return Last(invocation, True, False)


def _within(part: object, depth: int) -> Iterator[Invocation]:
    """The programs of a part of the syntax, in order; not those in words and redirections."""
    if isinstance(part, Simple):
        if invocation := _invocation(part):
            yield invocation
            if depth < DEEPEST and (text := _shell_text(invocation)):
                yield from _within(_read(text), depth + 1)
    elif isinstance(part, _COMPOUND):
        for field in part.__struct_fields__:
            yield from _within(getattr(part, field), depth)
    elif isinstance(part, list | tuple):
        for item in part:
            yield from _within(item, depth)


def _invocation(node: Simple) -> Invocation | None:
    words = [_literal(word) if isinstance(word, Word) else None for word in node.words]
    wrappers: list[str] = []
    while words and (name := (words[0] or "").rsplit("/", 1)[-1]) in _WRAPPERS:
        inner = _past(name, words)
        if not inner:
            break
        wrappers.append(name)
        words = inner
    return Invocation(tuple(words), tuple(wrappers)) if words else None


def _literal(word: Word) -> str | None:
    """The word's text; None when an expansion is part of it."""
    texts = [piece.text for piece in word.pieces if isinstance(piece, Lit)]
    return "".join(texts) if len(texts) == len(word.pieces) else None


def _past(name: str, words: Sequence[str | None]) -> list[str | None]:
    """The words of the wrapped command; [] when the wrapper wraps none."""
    wrapper = _WRAPPERS[name]
    at, operands = 1, wrapper.operands
    while at < len(words):
        word = words[at]
        if word == "--":
            at += 1
            break
        if name == "command" and word in ("-v", "-V"):
            return []
        if word is not None and word.startswith("-") and len(word) > 1:
            at += 2 if _takes_next(wrapper, word) else 1
        elif name == "env" and word is not None and _ASSIGNMENT.match(word):
            at += 1
        else:
            break
    return list(words[at + operands :])


def _takes_next(wrapper: _Wrapper, option: str) -> bool:
    if option.startswith("--"):
        return option[2:] in wrapper.long
    return len(option) == 2 and option[1] in wrapper.valued


def _shell_text(invocation: Invocation) -> str | None:
    """The text that `sh -c` would run."""
    if invocation.name not in _SHELLS:
        return None
    for at, word in enumerate(invocation.words[1:], 1):
        if word is None or not word.startswith("-"):
            return None
        if not word.startswith("--") and word.endswith("c"):
            return invocation.words[at + 1] if at + 1 < len(invocation.words) else None
    return None
