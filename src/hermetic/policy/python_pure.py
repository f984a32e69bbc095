"""Computes what Python's own pure functions and the methods of constants give."""

from __future__ import annotations

import base64
import binascii
import re

from hermetic.policy.tables import names

from .marks import DECODED, is_plain, unknown_like
from .python_folding import Folding
from .python_values import UNKNOWN, Bound, Name, Obj, Value, bounded, decode_text, element_of, marks_of, text_of


class Computing(Folding):
    """Calls without effects, on values that are known."""

    def _bound(self, function: Bound, args: list[Value], keywords: dict[str, Value]) -> Value:
        base, attr = function.base, function.attr
        if isinstance(base, str) and attr == "join" and args:
            parts = args[0] if isinstance(args[0], list) else [args[0]]
            return base.join(text_of(part) for part in parts)
        if isinstance(base, bytes) and attr == "join" and args and isinstance(args[0], list):
            return base.join(part for part in args[0] if isinstance(part, bytes))
        if isinstance(base, str) and attr == "format":
            try:
                return base.format(
                    *[text_of(arg) for arg in args], **{key: text_of(value) for key, value in keywords.items()}
                )
            except (IndexError, KeyError, ValueError, AttributeError):
                return unknown_like(base)
        if isinstance(base, list) and attr in ("append", "insert", "extend") and args:
            base += args[-1] if attr == "extend" and isinstance(args[-1], list) else [args[-1]]
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
            if last in names(
                """
filter reduce partial submit Thread Timer call_soon apply starmap run_in_executor register
"""
            ):
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
        target = keywords.get("target", args[0] if args else None)
        given = keywords.get("args", args[1:])
        if isinstance(target, Name):
            self.invoke(target, given if isinstance(given, list) else [], {})
