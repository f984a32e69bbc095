"""Tokens of scripts in Perl, Ruby, JavaScript, PHP, Lua and the like."""

from __future__ import annotations

import re
from collections.abc import Collection

import msgspec

from hermetic.policy.shell.quoting import decode_backslashes
from hermetic.policy.tables import names

MAX_TOKENS = 5_000
SLASH_COMMENTS = frozenset(names("javascript php java groovy scala swift csharp go c rust"))
HASH_COMMENTS = frozenset(names("perl ruby php r julia elixir tcl nim awk crystal octave"))
DASH_COMMENTS = frozenset(["lua", "haskell"])
_TOKEN = re.compile(
    r"""(?P<newline>\n)|(?P<space>[^\S\n]+)
    |(?P<comment>/\*.*?\*/)|(?P<slashes>//[^\n]*)|(?P<dashes>--\[\[.*?\]\]|--[^\n]*)|(?P<hash>\#(?!\{)[^\n]*)
    |(?P<command>(?:%x|qx)\s*(?:\{[^}]*\}|\([^)]*\)|\[[^\]]*\]|/[^/]*/|\|[^|]*\||<[^>]*>|!.[^!]*!))
    |(?P<words>(?:%[wi]|qw)\s*(?:\{[^}]*\}|\([^)]*\)|\[[^\]]*\]|/[^/]*/))
    |(?P<raw>%\([^)]*\)|(?:%[qQ]|qq|q)(?:\{[^}]*\}|\([^)]*\)|\[[^\]]*\]|\|[^|]*\||/[^/]*/))|(?P<long>\[\[.*?\]\])
    |(?P<swap>(?<![\w$@%>.])(?:s|tr|y)(?P<d>[/\#|!,])(?:(?!(?P=d))[^\\]|\\.)*(?P=d)
      (?P<with>(?:(?!(?P=d))[^\\]|\\.)*)(?P=d)(?P<flags>[a-z]*))
    |(?P<match>(?<![\w$@%>.])m(?P<m>[/\#|!,])(?:(?!(?P=m))[^\\]|\\.)*(?P=m)[a-z]*)
    |(?P<tick>`(?:[^`\\]|\\.)*`)|(?P<single>'(?:[^'\\]|\\.)*')|(?P<double>"(?:[^"\\]|\\.)*")
    |(?P<angle><[\w$/*.~-]*>)
    |(?P<label>(?<![\w:)\]"'?]):[A-Za-z_]\w*[!?]?(?!:))
    |(?P<variable>[$@%&]\{?[A-Za-z_]\w*(?:::\w+)*\}?|\$[\d_&~!/,;.])
    |(?P<name>[A-Za-z_](?:\w|::(?=\w))*[!?]?)
    |(?P<number>0[xob]?[0-9a-fA-F]+\b|\d+(?:\.\d+)?)
    |(?P<symbol>=>|->|:=|\?\.|\.{2,3}|[=!]==?|[<>]=|=~|!~|&&|\|\||[-+.*/|]=|<<|.)""",
    re.VERBOSE | re.DOTALL,
)
# A character by its number, as strings of these languages have it.
_NUMBERED = re.compile(r"\\(?:[ux]\{(?P<long>[0-9A-Fa-f]{1,5})\}|u(?P<short>[0-9A-Fa-f]{4}))")
_PERLISH = frozenset(names("perl ruby elixir crystal"))
# Languages that have a kind of token, where not all have it.
_LANGUAGES: dict[str, Collection[str]] = {
    **dict.fromkeys(("words", "command"), _PERLISH),
    **dict.fromkeys(("swap", "match"), ("perl",)),
    "slashes": SLASH_COMMENTS,
    "dashes": DASH_COMMENTS,
    "hash": HASH_COMMENTS,
    "raw": ("perl", "ruby", "elixir"),
    "long": ("lua",),
    "angle": ("perl",),
    "label": ("ruby", "elixir"),
}
_LEFT_OUT = frozenset(names("space comment slashes dashes hash match swap"))
_PATTERN = re.compile(r"/(?:[^/\\\n]|\\.)+/[a-z]*")
_BEFORE_PATTERN = frozenset(
    names("if unless and or not when while until split grep return puts print")
)
_QUOTE = re.compile(r"^(?:%[xwiqQ]|q[qwx]?)\s*")


class TooLong(Exception):
    """A script with more tokens than a check may look at."""


class Token(msgspec.Struct, gc=False):
    """Kinds: string, template (a string with expressions in it), words, command, angle, code, name,
    variable, number, symbol, newline."""

    kind: str
    text: str


def tokens_of(text: str, language: str) -> list[Token]:
    """The tokens of a script; comments and patterns are left out."""
    found: list[Token] = []
    pos, size = 0, len(text)
    while pos < size:
        if len(found) > MAX_TOKENS:
            raise TooLong
        if text[pos] == "/" and _begins_pattern(found) and (pattern := _PATTERN.match(text, pos)):
            pos = pattern.end()
            found.append(Token("name", "pattern"))
            continue
        match = _TOKEN.match(text, pos)
        if match is None or match.lastgroup is None:
            break
        kind = next(kind for kind, value in match.groupdict().items() if value is not None)
        after_dollar = bool(found) and found[-1].text == "$"
        if not _is_kind(kind, match[0], language, after_dollar):
            sigil = text[pos] if kind != "name" else match[0].rstrip("!?")
            found.append(Token("name" if sigil[0].isalpha() else "symbol", sigil))
            pos += len(sigil)
            continue
        pos = match.end()
        if kind == "swap" and "e" in match["flags"]:
            found.append(Token("code", match["with"]))
        elif kind not in _LEFT_OUT:
            found.append(_token(kind, match[0], language, after_dollar))
    return found


def _is_kind(kind: str, text: str, language: str, after_dollar: bool) -> bool:
    """False where a language has no such token; its first character stands for itself then."""
    if kind == "variable":
        if text[0] == "$":
            return language not in ("ruby", "javascript") or len(text) > 2
        return language == "perl" or (text[0] == "@" and language == "ruby")
    if kind == "raw" and text[1] == "(":
        return language == "ruby"
    if kind == "name":
        return text[-1] not in "!?" or language in ("ruby", "elixir", "julia")
    return language in _LANGUAGES.get(kind, (language,)) and not (kind == "hash" and after_dollar)


def _token(kind: str, value: str, language: str, after_dollar: bool) -> Token:
    if kind in ("single", "double", "tick"):
        body = value[1:-1]
        if kind == "single" and language != "javascript":
            return Token("string", body.replace("\\'", "'").replace("\\\\", "\\"))
        body = _NUMBERED.sub(lambda match: chr(int(match["long"] or match["short"], 16)), body)
        body = decode_backslashes(body, octal_needs_zero=False)[0] if "\\" in body else body
        if kind == "tick" and (after_dollar or language not in ("javascript", "go")):
            return Token("command", body)
        return Token("string" if kind == "single" else "template", body)
    if kind == "long":
        return Token("string", value[2:-2])
    if kind in ("command", "words", "raw"):
        body = _QUOTE.sub("", value)[1:-1]
        kind = {"raw": "template" if value[1] in "qQ(" else "string"}.get(kind, kind)
        return Token(kind, body)
    if kind == "variable":
        return Token(kind, value[0] + value[1:].strip("{}"))
    if kind == "label":
        return Token("name" if language == "elixir" else "string", value[1:])
    return Token(kind, value)


def _begins_pattern(found: list[Token]) -> bool:
    """True where a slash begins a pattern, as it cannot divide anything."""
    if not found:
        return True
    last = found[-1]
    if last.kind == "name":
        return last.text in _BEFORE_PATTERN
    return last.kind == "newline" or (last.kind == "symbol" and last.text not in (")", "]", "}"))
