"""Computes results: pure functions named by `fold` in calls.toml, and methods of constants."""

from __future__ import annotations

import base64
import binascii
import codecs
import re
from collections.abc import Callable, Iterable
from typing import Any

from hermetic.policy.budget import MAX_TEXT, joined
from hermetic.policy.marks import DECODED, UNSET, is_plain, unknown_like
from hermetic.policy.programs.table import TABLE
from hermetic.policy.shell import Shell
from hermetic.policy.tables import names

from . import values
from .values import UNKNOWN, Bound, Decoded, Name, Obj, Unpacked, Value, is_text, marks_of, text_of

Fold = Callable[[list[Value], Shell], Value]  # raises an error of ERRORS where it cannot compute
ERRORS = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, binascii.Error)
_WIDE = re.compile(r"\d{4}|\*")  # in a template: asks for many characters by a number
_TEMPORARY = "/tmp/tmpXXXXXXXX"
_MAX_WORK = 2**18  # characters that a method of a text may give
_METHODS = frozenset(TABLE.words("text-methods"))
_SAME = frozenset(
    names("toString to_sym intern to_s to_str read text trim chomp to_a flatten compact freeze")
)
# Methods of a list that give some of its items.
_SOME = frozenset(
    names(
        "sort sort_by uniq slice take drop first values entries each lazy shuffle sorted filter select"
    )
)


def _known(value: Value) -> Any:
    """A constant. Raises TypeError for any other value."""
    if not is_text(value) and not isinstance(value, bytes | list | int):
        raise TypeError
    if isinstance(value, str) and not is_plain(value):
        raise TypeError
    return value


def _bytes(value: Value) -> bytes:
    known = _known(value)
    return known if isinstance(known, bytes) else text_of(known).encode("latin-1", "replace")


def _base64(args: list[Value], _: Shell) -> Value:
    data = _bytes(args[0]).replace(b"-", b"+").replace(b"_", b"/")
    return Unpacked(base64.b64decode(data + b"=" * (-len(data) % 4)))


def _other_base(args: list[Value], _: Shell) -> Value:
    for decode in (base64.b16decode, base64.b32decode, base64.b85decode, base64.a85decode):
        try:
            return Unpacked(decode(_bytes(args[0])))
        except ValueError:
            continue
    raise ValueError


def _buffer(args: list[Value], shell: Shell) -> Value:
    kind = text_of(args[1]) if len(args) > 1 else ""
    if kind in ("base64", "base64url"):
        return _base64(args, shell)
    return Unpacked.fromhex(text_of(args[0])) if kind == "hex" else args[0]


def _decoder(args: list[Value], _: Shell) -> Value:
    if args and all(isinstance(arg, int) for arg in args):
        return Decoded("".join(map(chr, map(_known, args))))
    codec = text_of(args[1]).replace("_", "")
    return codecs.decode(_known(args[0]) if codec == "rot13" else _bytes(args[0]), codec)


def _range(args: list[Value], _: Shell) -> Value:
    (most,) = args
    if _known(most) > 64:
        raise ValueError
    return list(range(_known(most)))


def join_paths(args: list[Value], shell: Shell) -> str:
    """The parts as one path; an absolute part begins anew."""
    out = ""
    for text in map(text_of, args):
        out = text if text.startswith("/") or not out else f"{out.rstrip('/')}/{text}"
    return expand(out, shell) if out.startswith("~") else out


def expand(text: str, shell: Shell) -> str:
    """A path with `~` and variables replaced."""
    if text == "~" or text.startswith("~/"):
        return shell.home + text[1:]
    return re.sub(r"\$\{?(\w+)\}?", lambda match: shell.scalar(match[1]), text)


def _join(args: list[Value], _: Shell) -> Value:
    between, rest = args[0], args[1:]
    if isinstance(between, list):  # table.concat(list, separator), and the list's own method
        rest, between = list(between), (rest[0] if rest else "")
    parts = [item for one in rest for item in (one if isinstance(one, list) else [one])]
    return hidden_like(parts, joined(map(text_of, parts), text_of(between)))


def hidden_like(parts: Iterable[Value], text: str) -> str:
    """A text of some parts, as hidden as they are."""
    is_hidden = any(isinstance(one, Decoded | Unpacked) for one in parts)
    return Decoded(text) if is_hidden else text


def reverse(value: Value) -> Value:
    """A list, or a text that nobody reads, from its end."""
    found = value[::-1]  # type: ignore[index]
    return Decoded(found) if isinstance(found, str) else found


def percent(template: str, given: Value) -> Value:
    """`%` of a text, as sprintf does it."""
    parts = [
        part if isinstance(part, int | float) else text_of(part)
        for part in (given if isinstance(given, list) else [given])
    ]
    shown = list(map(str, parts))
    if not _WIDE.search(template) and len(template) + sum(map(len, shown)) <= MAX_TEXT:
        try:
            return template % tuple(parts)
        except (TypeError, ValueError):
            pass
    return unknown_like(template, *shown)


FOLDS: dict[str, Fold] = {
    "base64": _base64,
    "hex": lambda args, _: Unpacked.fromhex(_bytes(args[0]).decode("latin-1")),
    "other_base": _other_base,
    "buffer": _buffer,
    "decoder": _decoder,
    "chr": lambda args, _: Decoded(chr(int(str(args[0])))),
    "ord": lambda args, _: ord(str(args[0])),
    "reverse": lambda args, _: reverse(_known(args[0])),
    "join": _join,
    "join_paths": join_paths,
    "path": lambda args, shell: Obj("Path", join_paths(args, shell) or "."),
    "expand": lambda args, shell: expand(text_of(args[0]), shell),
    "same": lambda args, _: (
        text_of(args[0]) if isinstance(args[0], Obj) and args[0].path else args[0]
    ),
    "directory": lambda args, _: text_of(args[0]).rpartition("/")[0] or ".",
    "list": lambda args, _: list(_known(args[0])),
    "bytes": lambda args, _: Unpacked(_known(item) & 255 for item in _known(args[0])),
    "int": lambda args, _: int(_known(args[0]), *map(_known, args[1:2])),
    "range": _range,
    "split": lambda args, _: list(text_of(args[0]).split()),
    "temporary": lambda _, __: _TEMPORARY,
    "temporary_root": lambda _, __: "/tmp",
    "temporary_pair": lambda _, __: [UNKNOWN, _TEMPORARY],
    "temporary_file": lambda _, __: Obj("file", _TEMPORARY),
    "itself": lambda args, _: args[0],
    "home": lambda _, shell: shell.home,
    "home_path": lambda _, shell: Obj("Path", shell.home),
    "cwd_path": lambda _, shell: Obj("Path", shell.cwd),
    "cwd": lambda _, shell: shell.cwd,
    "site": lambda _, shell: f"{shell.home}/.local/lib/python3/site-packages",
    "format": lambda args, _: percent(text_of(args[0]), args[1:]),
    "function": lambda args, _: Name(text_of(args[0]).replace("::", ".")),
}


def bound_call(
    function: Bound, args: list[Value], keywords: dict[str, Value], shell: Shell
) -> Value:
    """The result of a method of a constant."""
    base, attr = function.base, function.attr
    if attr == "join":
        return _join([base, *args], shell)
    if attr == "reverse" and isinstance(base, list | str | bytes):
        return reverse(base)
    if attr in _SOME and isinstance(base, list):
        return base
    if attr in _SAME:
        text = base.decode("latin-1") if isinstance(base, bytes) else base
        return hidden_like([base], text) if isinstance(text, str) else text
    if attr.startswith(("unpack", "unhex", "pack")):
        return Obj("?", text=DECODED)
    if isinstance(base, list):
        return _of_list(base, attr, args)
    if isinstance(base, dict):
        if attr == "get" and args and isinstance(args[0], str):
            return base.get(args[0], args[1] if len(args) > 1 else None)
        return list(base.values()) if attr == "values" else UNKNOWN
    if attr == "split" and args == [""]:
        return list(text_of(base))
    is_wide = attr == "format" and _WIDE.search(text_of(base)) is not None
    if attr in _METHODS and not is_wide and _work(base, args, keywords) <= _MAX_WORK:
        try:
            if attr == "format":
                named = {key: text_of(one) for key, one in keywords.items()}
                return text_of(base).format(*map(text_of, args), **named)
            result: Value = getattr(_known(base), attr)(*args)
            return hidden_like([base], result) if isinstance(result, str) else result
        except ERRORS:
            return UNKNOWN
    return Obj("?", text=marks_of([base, *args]))


def _of_list(base: list[Value], attr: str, args: list[Value]) -> Value:
    if attr not in ("append", "insert", "extend", "push") or not args:
        return Obj("?", text=marks_of(base))
    added = args[-1] if attr == "extend" and isinstance(args[-1], list) else [args[-1]]
    if len(base) + len(added) <= values.MAX_ITEMS:
        base += added
    return None


def _work(base: Value, args: list[Value], keywords: dict[str, Value]) -> int:
    """A bound on the length of what a method of a text gives."""
    work = len(text_of(base)) + 1
    for one in (*args, *keywords.values()):
        texts = one.values() if isinstance(one, dict) else [one]
        if isinstance(one, int):
            work += abs(one)
        else:
            work *= max((len(text_of(text)) for text in texts), default=0) + 1
    return work


def add(left: Value, right: Value) -> Value:
    """Two values joined: lists, bytes, or texts."""
    if isinstance(left, list) and isinstance(right, list):
        is_short = len(left) + len(right) <= values.MAX_ITEMS
        return left + right if is_short else Obj("list", text=UNSET)
    if isinstance(left, bytes) and isinstance(right, bytes):
        return left + right if len(left) + len(right) <= MAX_TEXT else UNKNOWN
    if is_text(left) or is_text(right):
        return hidden_like((left, right), joined((text_of(left), text_of(right))))
    return Obj("?", text=marks_of([left, right]))
