"""A shell text as the policy's reader sees it and as bash sees it, in one comparable form.

bash prints what it has parsed: `declare -f` for a function, `bash --pretty-print` for a file. The
reader reads that normal form again, where every command has its own line and every default is
written out. Both trees must be equal.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from hermetic.policy.shell import reader, syntax, word_reader
from hermetic.policy.shell.reader import Reader, Unreadable

View = tuple[Any, ...]
ENVIRONMENT = {"PATH": "/nonexistent", "LC_ALL": "C.UTF-8"}


@pytest.fixture
def unlimited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the reader take whole scripts, which are larger than what a check reads."""
    for name, most in (
        ("COMMANDS", 100_000),
        ("WORDS", 1_000_000),
        ("PIECES", 1_000_000),
        ("DEPTH", 500),
    ):
        for module in (reader, word_reader):
            monkeypatch.setattr(module, f"MAX_{name}", most, raising=False)


def ours(text: str) -> View:
    """The tree of a text without its positions, with the defaults that bash writes out."""
    return _seq(Reader(text).read())


def of_function(text: str, *options: str) -> str | None:
    """`declare -f` of the text as a function's body; None when bash refuses it.

    A restricted shell without programs.
    """
    body = b"__body() {\n" + text.encode("latin-1") + b"\n}"
    define = 'IFS= read -r -d "" text; eval "$text" && declare -f __body'
    done = _bash(["-r", *options, "-c", define], body)
    return _repaired(done.stdout.decode("latin-1")) if done.returncode == 0 else None


def of_file(path: str) -> str | None:
    """The file's commands as bash prints them without running any; None when bash refuses one."""
    done = _bash(["--pretty-print", "-O", "extglob", path], b"")
    if done.returncode or b"syntax error" in done.stderr or b"unexpected EOF" in done.stderr:
        return None
    return _repaired(
        done.stdout.decode("latin-1").replace("\x01\x01", "\x01").replace("\x01\x7f", "\x7f")
    )


def _repaired(normal: str) -> str:
    """bash leaves out the parenthesis without which it does not read a pattern `esac`."""
    return re.sub(r"( in \n\s*)(?=esac\)\n)", r"\1(", normal)


def accepts(text: str) -> bool:
    """True when `bash -n` finds no error."""
    return _bash(["-n", "-O", "extglob"], text.encode("latin-1")).returncode == 0


def literals(words: list[str]) -> list[str]:
    """The values that bash gives to words without expansions."""
    script = "set -f +B; printf '%s\\0' " + " ".join(words)
    return _bash(["-r"], script.encode("latin-1")).stdout.decode("latin-1").split("\0")[:-1]


def _bash(arguments: list[str], stdin: bytes) -> subprocess.CompletedProcess[bytes]:
    program = ["/bin/bash", "--norc", "--noprofile", *arguments]
    return subprocess.run(
        program, input=stdin, capture_output=True, env=ENVIRONMENT, timeout=60, check=False
    )


def commands_in(view: object) -> int:
    """How many simple commands a view holds, also in substitutions."""
    if not isinstance(view, tuple):
        return 0
    return (bool(view) and view[0] == "Simple") + sum(map(commands_in, view))


def commands_only(view: object) -> object:
    """The view without the text of `${…}`: what runs stays, the operands' wording goes."""
    if not isinstance(view, tuple):
        return view
    if view and view[0] == "var":
        return ("var", *(commands_only(one) for one in _substitutions(view)))
    return tuple(map(commands_only, view))


def _substitutions(view: View) -> Iterator[View]:
    for part in view:
        if isinstance(part, tuple):
            if part and part[0] in ("sub", "proc"):
                yield part
            else:
                yield from _substitutions(part)


def top_words(text: str) -> Iterator[list[syntax.Word]]:
    """The words of each command outside of substitutions, with their places in the text."""

    def walk(node: object) -> Iterator[list[syntax.Word]]:
        if isinstance(node, syntax.Simple):
            yield [word for word in node.words if isinstance(word, syntax.Word)]
        elif isinstance(node, list | tuple):
            for one in node:
                yield from walk(one)
        elif type(node) not in (syntax.Word, syntax.Redirect, syntax.Assign) and hasattr(
            node, "__struct_fields__"
        ):
            for name in node.__struct_fields__:
                yield from walk(getattr(node, name))

    return walk(Reader(text).read())


def _seq(seq: syntax.Seq) -> View:
    return tuple((_node(node), operator) for node, operator in seq.items)


def _node(node: syntax.Node) -> View:
    kind = type(node).__name__
    match node:
        case syntax.Simple():
            words = tuple(
                _assign(word) if isinstance(word, syntax.Assign) else _word(word)
                for word in node.words
            )
            return (kind, tuple(map(_assign, node.assigns)), words, _redirects(node))
        case syntax.Pipe():
            return (kind, tuple(map(_node, node.commands)))
        case syntax.Group():
            return (kind, node.kind, _seq(node.body), _redirects(node))
        case syntax.If():
            return (*_if(node.branches)[:-1], _redirects(node))
        case syntax.Loop():
            return (kind, node.word, _seq(node.condition), _seq(node.body), _redirects(node))
        case syntax.For():
            everything = syntax.Word([syntax.Var("@", True)], 0, 0)
            words = tuple(map(_word, [everything] if node.words is None else node.words))
            return (kind, node.name, words, _seq(node.body), _redirects(node))
        case syntax.CFor():
            return (kind, _header(node.header), _seq(node.body), _redirects(node))
        case syntax.Case():
            items = tuple(
                (tuple(map(_word, patterns)), _seq(body)) for patterns, body in node.branches
            )
            return (kind, _word(node.subject), items, tuple(sorted(node.falling)), _redirects(node))
        case syntax.Condition():
            # bash writes `-n` where a word stands alone, and leaves out `!`.
            words = tuple(
                word for word in map(_word, node.words) if word not in (_plain("-n"), _plain("!"))
            )
            return (kind, words, _redirects(node))
        case syntax.Calc():
            return (kind, _word(node.word), _redirects(node))
        case syntax.Function():
            body = _node(node.body)  # bash writes braces around any other body
            return (
                kind,
                node.name,
                body if body[:2] == ("Group", "{") else ("Group", "{", ((body, ";"),), ()),
            )
        case syntax.Coproc():
            body = _node(node.body)
            # bash writes the default name, even here
            if body[0] == "Simple" and body[2][:1] == (_plain("COPROC"),):
                body = (*body[:2], body[2][1:], *body[3:])
            return (kind, node.name, body)


def _plain(text: str) -> View:
    return (("lit", False, text),)


def _if(branches: list[tuple[syntax.Seq | None, syntax.Seq]]) -> View:
    """bash writes `elif` as an `if` inside the `else`."""
    (condition, body), *others = branches
    other: View | None = None
    if others:
        other = _seq(others[0][1]) if others[0][0] is None else ((_if(others), ";"),)
    return ("If", _seq(condition or syntax.Seq([])), _seq(body), other, ())


def _header(word: syntax.Word) -> View:
    """The three parts of `for ((…))`; bash writes 1 for an empty one."""
    parts: list[list[object]] = [[]]
    for piece in _word(word) or ():
        if piece[0] != "lit":
            parts[-1].append(piece)
            continue
        for number, chunk in enumerate(piece[2].split(";")):
            if number:
                parts.append([])
            if chunk.strip():
                parts[-1].append(chunk.strip())
    return tuple(tuple(part) or ("1",) for part in parts)


def _redirects(node: Any) -> View:
    found = []
    for redirect in node.redirects:
        op, target = (
            redirect.op.removesuffix("-") if redirect.op == "<<-" else redirect.op,
            _word(redirect.target),
        )
        if op == "<&" and target == _plain("-"):
            op, default = ">&", "0"
        else:
            default = "0" if op.startswith("<") else "1" if op.startswith(">") else ""
        # bash leaves out 1 before <>
        found.append((op, "" if op == "<>" else redirect.fd or default, target))
    return tuple(found)


def _assign(assign: syntax.Assign) -> View:
    items = tuple((_word(index), _word(item)) for index, item in assign.items)
    return ("assign", assign.name, _word(assign.value), items, _word(assign.index), assign.append)


def _word(word: syntax.Word | None) -> View | None:
    """The pieces of a word; neighbouring literals are one."""
    if word is None:
        return None
    pieces: list[View] = []
    for piece in word.pieces:
        view = _piece(piece)
        if view[0] == "lit" and pieces and pieces[-1][:2] == view[:2]:
            pieces[-1] = (*view[:2], pieces[-1][2] + view[2])
        else:
            pieces.append(view)
    kept = tuple(view for view in pieces if view[0] != "lit" or view[2])
    return kept or (("lit", True, ""),) if word.pieces else ()


def _piece(piece: syntax.Piece) -> View:
    match piece:
        case syntax.Lit():
            return ("lit", piece.quoted, piece.text)
        case syntax.Var():
            words = (_word(piece.arg), _word(piece.arg2), _word(piece.index))
            return ("var", piece.name, piece.quoted, piece.op, *words, piece.indirect, piece.length)
        case syntax.Sub():
            return ("sub", _seq(piece.body), piece.quoted)
        case syntax.Arith():
            return ("arith", _word(piece.word), piece.quoted)
        case syntax.Proc():
            return ("proc", piece.direction, _seq(piece.body))


__all__ = [
    "Unreadable",
    "accepts",
    "commands_in",
    "commands_only",
    "literals",
    "of_file",
    "of_function",
    "ours",
    "top_words",
    "unlimited",
]
