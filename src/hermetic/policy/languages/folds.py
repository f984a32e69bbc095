"""Computes results: pure functions named by `fold` in calls.toml, and methods of constants."""

from __future__ import annotations

import base64
import binascii
import codecs
import re
from collections.abc import Callable

from hermetic.policy.budget import MAX_TEXT, joined
from hermetic.policy.marks import DECODED, UNSET, is_plain, unknown_like
from hermetic.policy.shell import Shell
from hermetic.policy.tables import names

from .values import (
    MAX_ITEMS,
    UNKNOWN,
    Bound,
    Decoded,
    Name,
    Obj,
    Value,
    is_text,
    items_of,
    marks_of,
    text_of,
)

Fold = Callable[[list[Value], Shell], Value]  # raises an error of ERRORS where it cannot compute
ERRORS = (
    *(ValueError, TypeError, LookupError, AttributeError, OverflowError, binascii.Error),
    ArithmeticError,
)
_WIDE = re.compile(r"\d{4}")
_TEMPORARY = "/tmp/tmpXXXXXXXX"
_METHODS = frozenset(
    names(
        """
replace lower upper strip lstrip rstrip split encode decode title swapcase translate hex
removeprefix splitlines zfill
"""
    )
)
_SAME = frozenset(
    names(
        """
toString to_s to_str decode encode read text trim chomp to_a flatten compact freeze
"""
    )
)


def _bytes(value: Value) -> bytes:
    if isinstance(value, bytes):
        return value
    if not is_text(value) or not is_plain(text_of(value)):
        raise TypeError
    return text_of(value).encode("latin-1", "replace")


def _base64(args: list[Value], _: Shell) -> Value:
    data = _bytes(args[0]).replace(b"-", b"+").replace(b"_", b"/")
    return base64.b64decode(data + b"=" * (-len(data) % 4))


def _other_base(args: list[Value], _: Shell) -> Value:
    for decode in (base64.b16decode, base64.b32decode, base64.b85decode, base64.a85decode):
        try:
            return decode(_bytes(args[0]))
        except ValueError:
            continue
    raise ValueError


def _buffer(args: list[Value], shell: Shell) -> Value:
    kind = text_of(args[1]) if len(args) > 1 else ""
    if kind in ("base64", "base64url"):
        return _base64(args, shell)
    return bytes.fromhex(text_of(args[0])) if kind == "hex" else args[0]


def _decoder(args: list[Value], _: Shell) -> Value:
    if len(args) > 1 and isinstance(args[0], bytes):
        return codecs.decode(args[0], text_of(args[1]))
    if len(args) > 1 and text_of(args[1]).replace("_", "") == "rot13":
        return codecs.decode(text_of(args[0]), "rot13")
    if args and all(isinstance(arg, int) for arg in args):
        return Decoded("".join(chr(arg) for arg in args if isinstance(arg, int)))
    raise ValueError


def _reverse(args: list[Value], _: Shell) -> Value:
    if is_text(args[0]) and len(args) == 1:
        return text_of(args[0])[::-1]
    if isinstance(args[0], list | bytes):
        return list(args[0])[::-1]
    raise TypeError


def _list(args: list[Value], _: Shell) -> Value:
    if not is_text(args[0]) and not isinstance(args[0], list):
        raise TypeError
    return list(items_of(args[0])) if isinstance(args[0], list) else list(text_of(args[0]))


def _range(args: list[Value], _: Shell) -> Value:
    if len(args) != 1 or not isinstance(args[0], int) or args[0] > 64:
        raise ValueError
    return list(range(args[0]))


def _int(args: list[Value], _: Shell) -> Value:
    if not is_text(args[0]) or not is_plain(text_of(args[0])):
        raise TypeError
    return int(text_of(args[0]), args[1] if len(args) > 1 and isinstance(args[1], int) else 10)


def _octets(args: list[Value], _: Shell) -> Value:
    if not isinstance(args[0], list):
        raise TypeError
    return bytes(item & 255 if isinstance(item, int) else 0 for item in args[0])


def join_paths(args: list[Value], shell: Shell) -> str:
    """The parts as one path; an absolute part begins anew."""
    out = ""
    for arg in args:
        text = text_of(arg)
        out = text if text.startswith("/") else f"{out.rstrip('/')}/{text}" if out else text
    return expand(out, shell) if out.startswith("~") else out


def expand(text: str, shell: Shell) -> str:
    """A path with `~` and variables replaced."""
    if text == "~" or text.startswith("~/"):
        return shell.home + text[1:]
    if text.startswith("~"):
        return "/home/" + text[1:]
    return re.sub(r"\$\{?(\w+)\}?", lambda match: shell.scalar(match[1]), text)


def _join(args: list[Value], _: Shell) -> Value:
    between, rest = args[0], args[1:]
    if isinstance(between, list):  # table.concat(list, separator)
        rest, between = list(between), (rest[0] if rest else "")
    parts = [item for one in rest for item in (one if isinstance(one, list) else [one])]
    return joined((text_of(part) for part in parts), text_of(between))


def _site(args: list[Value], shell: Shell) -> Value:
    return f"{shell.home}/.local/lib/python3/site-packages"


def percent(template: str, values: Value) -> Value:
    """`%` of a text, as sprintf does it."""
    given = values if isinstance(values, list) else [values]
    parts = [part if isinstance(part, int | float) else text_of(part) for part in given]
    if is_wide(template) or len(template) + sum(len(str(part)) for part in parts) > MAX_TEXT:
        return unknown_like(template, *map(str, parts))
    try:
        return template % tuple(parts)
    except (TypeError, ValueError):
        return unknown_like(template, *map(str, parts))


FOLDS: dict[str, Fold] = {
    "base64": _base64,
    "hex": lambda args, _: bytes.fromhex(_bytes(args[0]).decode("latin-1")),
    "other_base": _other_base,
    "buffer": _buffer,
    "decoder": _decoder,
    "chr": lambda args, _: chr(int(str(args[0]))),
    "ord": lambda args, _: ord(str(args[0])),
    "reverse": _reverse,
    "join": _join,
    "join_paths": join_paths,
    "path": lambda args, shell: Obj("Path", join_paths(args, shell) if args else "."),
    "expand": lambda args, shell: expand(text_of(args[0]), shell),
    "same": lambda args, _: (
        text_of(args[0]) if isinstance(args[0], Obj) and args[0].path else args[0]
    ),
    "directory": lambda args, _: text_of(args[0]).rpartition("/")[0] or ".",
    "list": _list,
    "bytes": _octets,
    "int": _int,
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
    "site": _site,
    "format": lambda args, _: percent(text_of(args[0]), args[1:]),
    "function": lambda args, _: Name(text_of(args[0]).replace("::", ".")),
}


def bound_call(function: Bound, args: list[Value], keywords: dict[str, Value]) -> Value:
    """The result of a method of a constant."""
    base, attr = function.base, function.attr
    if attr == "join" and (args or isinstance(base, list)):
        return _joined(base, args)
    if isinstance(base, str) and attr == "format":
        return _formatted(base, args, keywords)
    if isinstance(base, list):
        return _of_list(base, attr, args)
    if isinstance(base, dict):
        if attr == "get" and args and isinstance(args[0], str):
            return base.get(args[0], args[1] if len(args) > 1 else None)
        return list(base.values()) if attr == "values" else UNKNOWN
    if isinstance(base, str | bytes):
        return _of_text(base, attr, args)
    return Obj("?", text=marks_of(base))


def _joined(base: Value, args: list[Value]) -> Value:
    if isinstance(base, list):  # the list's own method, as in JavaScript and Ruby
        return joined((text_of(part) for part in base), text_of(args[0]) if args else "")
    parts = args[0] if isinstance(args[0], list) else [args[0]]
    if isinstance(base, bytes):
        pieces = [part for part in parts if isinstance(part, bytes)]
        is_short = sum(map(len, pieces)) + len(base) * len(pieces) <= MAX_TEXT
        return base.join(pieces) if is_short else UNKNOWN
    return joined((text_of(part) for part in parts), text_of(base))


def _formatted(base: str, args: list[Value], keywords: dict[str, Value]) -> Value:
    given = [text_of(arg) for arg in args]
    named = {key: text_of(value) for key, value in keywords.items()}
    longest = max(map(len, [*given, *named.values()]), default=0)
    if is_wide(base) or len(base) + base.count("{") * longest > MAX_TEXT:
        return unknown_like(base, *given, *named.values())
    try:
        return base.format(*given, **named)
    except ERRORS:
        return unknown_like(base, *given, *named.values())


def _of_list(base: list[Value], attr: str, args: list[Value]) -> Value:
    if attr in ("append", "insert", "extend", "push") and args:
        added = args[-1] if attr == "extend" and isinstance(args[-1], list) else [args[-1]]
        if len(base) + len(added) <= MAX_ITEMS:
            base += added
        return None
    if attr == "reverse":
        return base[::-1]
    if attr in ("pack", "unpack"):
        return Obj("?", text=DECODED)
    return base if attr in _SAME else Obj("?", text=marks_of(base))


def _of_text(base: str | bytes, attr: str, args: list[Value]) -> Value:
    unknown = unknown_like(base) if isinstance(base, str) else Obj("?")
    if isinstance(base, str) and not is_plain(base) and attr not in ("strip", "split", "replace"):
        return Obj("?", text=base)
    if attr == "toString" or (attr in _SAME and attr not in _METHODS):
        return Decoded(base.decode("latin-1")) if isinstance(base, bytes) else base
    if attr == "reverse":
        return base[::-1]
    if attr.startswith(("unpack", "unhex", "decode")) and attr != "decode":
        return Obj("?", text=DECODED)
    plain = all(isinstance(arg, str | int | bytes | dict) for arg in args)
    if attr not in _METHODS or not plain or _result_size(base, attr, args) > MAX_TEXT:
        return Obj("?", text=marks_of(base))
    try:
        if attr == "decode" and args and args[0] in ("rot13", "hex", "base64"):
            return codecs.decode(base, str(args[0]))  # type: ignore[arg-type]
        if attr == "split" and args == [""]:
            return list(text_of(base))
        result: Value = getattr(base, attr)(*args)
    except ERRORS:
        return unknown
    return result


def is_wide(template: str) -> bool:
    """True when a template may ask for many characters by a number."""
    return "*" in template or _WIDE.search(template) is not None


def _result_size(base: str | bytes, attr: str, args: list[Value]) -> int:
    """A bound on the length of what a method of a text gives."""
    if attr == "replace" and len(args) > 1 and isinstance(args[1], str | bytes):
        return len(base) + (len(base) + 1) * len(args[1])
    if attr == "translate" and args and isinstance(args[0], dict):
        return len(base) * max((len(text_of(value)) for value in args[0].values()), default=1)
    return len(base) + max((arg for arg in args if isinstance(arg, int)), default=0)


def add(left: Value, right: Value) -> Value:
    """Two values joined: lists, bytes, or texts."""
    if isinstance(left, list) and isinstance(right, list):
        is_short = len(left) + len(right) <= MAX_ITEMS
        return left + right if is_short else Obj("list", text=UNSET)
    if isinstance(left, bytes) and isinstance(right, bytes):
        return left + right if len(left) + len(right) <= MAX_TEXT else UNKNOWN
    if is_text(left) or is_text(right):
        return joined((text_of(left), text_of(right)))
    return Obj("?", text=marks_of(left) + marks_of(right))
