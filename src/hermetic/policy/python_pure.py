"""Computes what Python's own pure functions and the methods of constants give."""

from __future__ import annotations

import base64
import binascii
import re

from hermetic.policy.tables import names

from .budget import MAX_TEXT, joined
from .marks import DECODED, is_plain, unknown_like
from .python_folding import has_wide_field
from .python_statements import Statements
from .python_values import (
    MAX_CHOICES,
    MAX_ITEMS,
    UNKNOWN,
    Bound,
    Class,
    Getter,
    Instance,
    Method,
    Name,
    Obj,
    OneOf,
    Value,
    bounded,
    choices,
    decode_text,
    element_of,
    marks_of,
    text_of,
)

# Functions that harm by their arguments: handed over, they are called with arguments that are not known.
_HARMFUL = re.compile(
    r"(os|posix|nt)\.(system|popen|remove|unlink|rmdir|removedirs|kill|killpg|truncate|(exec|spawn|posix_spawn)\w*)"
    r"|subprocess\.(run|call|check_call|check_output|Popen|getoutput|getstatusoutput)|commands\.getoutput"
    r"|asyncio\.create_subprocess_\w+|shutil\.rmtree|send2trash\.send2trash|pty\.spawn|(builtins\.)?(exec|eval)"
)
_HARMFUL_METHODS = ("unlink", "rmdir", "rmtree")  # of a path
# Callees that call what they are given with known arguments, which is judged there.
CALLERS = names(
    """
map filter reduce partial submit Thread Timer Process call_soon apply apply_async starmap run_in_executor register
"""
)
# Callees that only look at what they are given, and parameters that do.
_LOOKERS = names(
    """
print repr str type id callable hash isinstance issubclass hasattr help dir bool len vars getattr setattr delattr
cast TypeVar NewType super create_autospec wraps update_wrapper signature getsource getdoc getfile exec eval compile
"""
)
_LOOKING = ("", "builtins", "typing", "inspect", "functools", "unittest", "mock")  # modules of theirs
_LOOKED_AT = ("spec", "spec_set", "bound", "autospec")


class Computing(Statements):
    """Calls without effects, on values that are known."""

    def _bound(self, function: Bound, args: list[Value], keywords: dict[str, Value]) -> Value:
        base, attr = function.base, function.attr
        if isinstance(base, str) and attr == "join" and args:
            parts = args[0] if isinstance(args[0], list) else [args[0]]
            return joined((text_of(part) for part in parts), base)
        if isinstance(base, bytes) and attr == "join" and args and isinstance(args[0], list):
            pieces = [part for part in args[0] if isinstance(part, bytes)]
            is_short = sum(map(len, pieces)) + len(base) * len(pieces) <= MAX_TEXT
            return base.join(pieces) if is_short else UNKNOWN
        if isinstance(base, str) and attr == "format":
            given, named = [text_of(arg) for arg in args], {key: text_of(value) for key, value in keywords.items()}
            longest = max(map(len, [*given, *named.values()]), default=0)
            if has_wide_field(base) or len(base) + base.count("{") * longest > MAX_TEXT:
                return unknown_like(base, *given, *named.values())
            try:
                return base.format(*given, **named)
            except (IndexError, KeyError, ValueError, AttributeError):
                return unknown_like(base)
        if isinstance(base, list) and attr in ("append", "insert", "extend") and args:
            added = args[-1] if attr == "extend" and isinstance(args[-1], list) else [args[-1]]
            if len(base) + len(added) <= MAX_ITEMS:
                base += added
            return None
        if isinstance(base, dict):
            if attr == "get" and args and isinstance(args[0], str):
                return base.get(args[0], args[1] if len(args) > 1 else None)
            return list(base.values()) if attr == "values" else UNKNOWN
        if isinstance(base, str) and attr == "encode" and not is_plain(base):
            return Obj("?", text=base)
        simple = names(
            """
replace lower upper strip lstrip rstrip split encode decode title swapcase translate hex removeprefix splitlines
zfill
"""
        )
        if (
            isinstance(base, str | bytes)
            and attr in simple
            and all(isinstance(arg, str | int | bytes | dict) for arg in args)
            and _result_size(base, attr, args) <= MAX_TEXT
        ):
            try:
                result: Value = (
                    getattr(base, attr)(*args)
                    if attr != "decode" or not args or args[0] not in ("rot13", "hex", "base64")
                    else decode_text(base, str(args[0]))
                )
            except (AttributeError, TypeError, ValueError, LookupError, UnicodeError):
                return unknown_like(base if isinstance(base, str) else "")
            return result
        return Obj("?", text=marks_of(base))

    def _pure(self, name: str, args: list[Value], keywords: dict[str, Value]) -> Value:
        first = args[0] if args else None
        last = name.rsplit(".", 1)[-1]
        data = first.encode("latin-1", "replace") if isinstance(first, str) and not isinstance(first, Name) else first
        try:
            if isinstance(data, bytes):
                if last in ("b64decode", "urlsafe_b64decode", "decodebytes", "a2b_base64", "standard_b64decode"):
                    return base64.b64decode(
                        data + b"=" * (-len(data) % 4), altchars=b"-_" if "urlsafe" in last else None
                    )
                if last in ("b32decode", "b16decode", "b85decode", "a85decode"):
                    found: bytes = getattr(base64, last)(data)
                    return found
                if last in ("unhexlify", "a2b_hex"):
                    return binascii.unhexlify(data)
                if last == "fromhex":
                    return bytes.fromhex(data.decode("latin-1"))
            if last == "chr" and isinstance(first, int) and 0 <= first < 0x110000:
                return chr(first)
            if last == "ord" and isinstance(first, str) and len(first) == 1:
                return ord(first)
            if last in ("bytes", "bytearray") and isinstance(first, list) and all(isinstance(n, int) for n in first):
                return bytes(n & 255 for n in first if isinstance(n, int))
            if last == "reversed" and isinstance(first, str | list | bytes):
                return list(first)[::-1]
            if last in ("list", "tuple", "sorted") and isinstance(first, str | list) and not isinstance(first, Name):
                return list(first)
            if last == "map" and len(args) > 1:
                items: list[Value] = (
                    args[1]
                    if isinstance(args[1], list)
                    else [chr(n) if isinstance(n, int) else n for n in args[1]]
                    if isinstance(args[1], str | bytes) and not isinstance(args[1], Name)
                    else [element_of(args[1])]
                )
                if isinstance(args[1], bytes):
                    items = list(args[1])
                return [self.invoke(args[0], [item], {}) for item in bounded(items, 64)]
            if last == "int" and isinstance(first, str) and is_plain(first):
                return int(first, args[1] if len(args) > 1 and isinstance(args[1], int) else 10)
            if name == "codecs.decode" and len(args) > 1 and isinstance(first, str | bytes):
                return decode_text(first, str(args[1]))
            if last == "range" and isinstance(first, int) and first <= 64 and len(args) == 1:
                return list(range(first))
            if name.startswith(("zlib.", "gzip.", "bz2.", "lzma.")):
                return Obj("?", text=DECODED + marks_of(first))
            if last == "iter":
                return Obj("iter")
            if name.startswith("shlex.split") and isinstance(first, str):
                return list(first.split())
            if last in CALLERS:
                self._callback(args, keywords)
        except (ValueError, TypeError, binascii.Error, LookupError, UnicodeError, OverflowError):
            return Obj("?", text=DECODED)
        if not isinstance(first, Obj | str) and name.startswith("itertools."):
            return Obj(name)
        decoded = (
            DECODED if re.search(r"decode|decompress|decrypt|unhex|loads", last) and last not in ("loads",) else ""
        )
        return Obj(name, None, decoded + "".join(marks_of(arg) for arg in [*args, *keywords.values()]))

    def _callback(self, args: list[Value], keywords: dict[str, Value]) -> None:
        """Judge the function that is given to a callee which calls it with the arguments behind it."""
        called = (Name, OneOf, Method, Class, Instance, Getter)
        at = next((at for at, arg in enumerate(args) if isinstance(arg, called)), len(args))
        target = keywords.get("target", args[at] if at < len(args) else None)
        given = keywords.get("args", args[at + 1 :])
        if isinstance(target, called):
            self.invoke(target, given if isinstance(given, list) else [], {})

    def _hand_over(self, callee: str, args: list[Value], keywords: dict[str, Value]) -> None:
        """Judge the harmful functions among the arguments of a foreign callee, which may call them."""
        root, _, last = callee.rpartition(".")
        if last in _LOOKERS and root.split(".")[0] in _LOOKING:
            return
        given = keywords.get("args")
        behind: list[Value] = given if isinstance(given, list) and given else [UNKNOWN]
        placed = [] if last in CALLERS else [(arg, args[at + 1 : at + 9]) for at, arg in enumerate(args)]
        named = [(value, behind) for name, value in keywords.items() if name not in ("target", *_LOOKED_AT)]
        for value, rest in [*placed, *named]:
            for one in self._harmful_in(value):
                if isinstance(one, Name):
                    self._named(str(one), rest or [UNKNOWN], {})
                elif isinstance(one, Obj):
                    self._method(one, [], {})

    def _harmful_in(self, value: Value) -> list[Value]:
        """The harmful functions that a value is, or holds; some of them, where they are many."""
        found: list[Value] = []
        for one in choices(value):
            inner = list(one if isinstance(one, list) else one.values() if isinstance(one, dict) else [one])
            self.call.machine.spend(len(inner) // 16)
            found += [item for item in inner if _is_harmful(item)]
        return found[:MAX_CHOICES]

    def _named(self, name: str, args: list[Value], keywords: dict[str, Value]) -> Value:
        """What a call of a function by its dotted name gives."""
        raise NotImplementedError

    def _method(self, function: Obj, args: list[Value], keywords: dict[str, Value]) -> Value:
        """What a call of a method of such an object gives."""
        raise NotImplementedError


def _is_harmful(value: Value) -> bool:
    if isinstance(value, Obj) and value.path is not None:
        return value.call.rpartition(".")[2] in _HARMFUL_METHODS
    return isinstance(value, Name) and _HARMFUL.fullmatch(value) is not None


def _result_size(base: str | bytes, attr: str, args: list[Value]) -> int:
    """A bound on the length of what a method of a text gives."""
    if attr == "replace" and len(args) > 1 and isinstance(args[1], str | bytes):
        return len(base) + (len(base) + 1) * len(args[1])
    if attr == "translate" and args and isinstance(args[0], dict):
        return len(base) * max((len(text_of(value)) for value in args[0].values()), default=1)
    return len(base) + max((arg for arg in args if isinstance(arg, int)), default=0)
