"""Tokens of scripts in Perl, Ruby, JavaScript, PHP, Lua and the like."""

from __future__ import annotations

import re

import msgspec

from hermetic.policy.shell.quoting import decode_backslashes
from hermetic.policy.tables import names

MAX_TOKENS = 5_000
SLASH_COMMENTS = frozenset(names("javascript php java groovy scala swift csharp go c rust"))
HASH_COMMENTS = frozenset(names("perl ruby php r julia elixir tcl nim awk crystal octave"))
DASH_COMMENTS = frozenset(["lua", "haskell"])
LISPS = frozenset(["lisp", "scheme", "clojure"])
_TOKEN = re.compile(
    r"""(?P<newline>\n)|(?P<space>[^\S\n]+)
    |(?P<slashes>//[^\n]*|/\*.*?\*/)|(?P<dashes>--\[\[.*?\]\]|--[^\n]*)|(?P<hash>\#(?!\{)[^\n]*)
    |(?P<command>(?:%x|qx)\s*(?:\{[^}]*\}|\([^)]*\)|\[[^\]]*\]|/[^/]*/|\|[^|]*\||<[^>]*>|!.[^!]*!))
    |(?P<words>(?:%[wi]|qw)\s*(?:\{[^}]*\}|\([^)]*\)|\[[^\]]*\]|/[^/]*/))
    |(?P<raw>(?:%[qQ]|qq|q)(?:\{[^}]*\}|\([^)]*\)|\[[^\]]*\]|\|[^|]*\||/[^/]*/)|\[\[.*?\]\])
    |(?P<swap>(?<![\w$@%>.])(?:s|tr|y)(?P<d>[/\#|!,])(?:(?!(?P=d))[^\\]|\\.)*(?P=d)
      (?P<with>(?:(?!(?P=d))[^\\]|\\.)*)(?P=d)(?P<flags>[a-z]*))
    |(?P<match>(?<![\w$@%>.])m(?P<m>[/\#|!,])(?:(?!(?P=m))[^\\]|\\.)*(?P=m)[a-z]*)
    |(?P<tick>`(?:[^`\\]|\\.)*`)|(?P<single>'(?:[^'\\]|\\.)*')|(?P<double>"(?:[^"\\]|\\.)*")
    |(?P<angle><[\w$/*.~-]*>)
    |(?P<label>(?<![\w:)\]"'?]):[A-Za-z_]\w*[!?]?(?!:))
    |(?P<variable>[$@%&]\{?[A-Za-z_]\w*(?:::\w+)*\}?|\$[\d_&~!/,;.])
    |(?P<name>[A-Za-z_](?:\w|::(?=\w))*[!?]?)
    |(?P<number>0[xob]?[0-9a-fA-F]+\b|\d+(?:\.\d+)?)
    |(?P<symbol>=>|->|\?\.|\.{2,3}|[=!]==?|[<>]=|=~|!~|&&|\|\||[-+.*/|]=|<<|.)""",
    re.VERBOSE | re.DOTALL,
)
_LISP_NAME = re.compile(r"[A-Za-z_*+!?<>=-][\w*+!?<>=:./-]*")
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
    perlish = language in ("perl", "ruby")
    while pos < size:
        if len(found) > MAX_TOKENS:
            raise TooLong
        if text[pos] == "/" and _begins_pattern(found) and (pattern := _PATTERN.match(text, pos)):
            pos = pattern.end()
            found.append(Token("name", "pattern"))
            continue
        if language in LISPS and (name := _LISP_NAME.match(text, pos)):
            found.append(Token("name", name[0].replace(":", ".").replace("..", ".")))
            pos = name.end()
            continue
        match = _TOKEN.match(text, pos)
        if match is None or match.lastgroup is None:
            break
        kind = next(kind for kind, value in match.groupdict().items() if value is not None)
        if not _is_kind(kind, match, language, found):
            sigil = text[pos] if kind != "name" else match[0].rstrip("!?")
            found.append(Token("name" if sigil[0].isalpha() else "symbol", sigil))
            pos += len(sigil)
            continue
        pos = match.end()
        if kind in ("space", "slashes", "dashes", "hash", "match"):
            continue
        if kind == "swap":
            if "e" in (match["flags"] or "") and match["with"].strip():
                found.append(Token("code", match["with"]))
            continue
        found.append(_token(kind, match[0], language, perlish, found))
    return found


def _is_kind(kind: str, match: re.Match[str], language: str, found: list[Token]) -> bool:
    """False where a language has no such token; its first character stands for itself then."""
    if kind == "slashes":
        return language in SLASH_COMMENTS or match[0].startswith("/*")
    if kind == "dashes":
        return language in DASH_COMMENTS
    if kind == "hash":
        return language in HASH_COMMENTS and not (found and found[-1].text == "$")
    if kind in ("swap", "match", "words", "command"):
        return language in ("perl", "ruby", "elixir", "crystal")
    if kind == "raw":
        return language in (("lua",) if match[0].startswith("[[") else ("perl", "ruby", "elixir"))
    if kind == "angle":
        return language == "perl"
    if kind == "label":
        return language in ("ruby", "elixir")
    if kind == "variable":
        if match[0][0] == "$":
            return language not in ("ruby", "javascript") or len(match[0]) > 2
        return language == "perl" or (match[0][0] == "@" and language == "ruby")
    return kind != "name" or language in ("ruby", "elixir", "julia") or match[0][-1] not in "!?"


def _token(kind: str, value: str, language: str, perlish: bool, found: list[Token]) -> Token:
    if kind in ("single", "double", "tick"):
        body = value[1:-1]
        if kind == "single" and language != "javascript":
            return Token("string", body.replace("\\'", "'").replace("\\\\", "\\"))
        body = decode_backslashes(body, octal_needs_zero=False)[0] if "\\" in body else body
        if kind == "tick" and (
            language not in ("javascript", "go") or (found and found[-1].text == "$")
        ):
            return Token("command", body)
        return Token("string" if kind == "single" else "template", body)
    if kind in ("command", "words", "raw"):
        body = value[2:-2] if value.startswith("[[") else _QUOTE.sub("", value)[1:-1]
        kind = {"raw": "template" if value[1] in "qQ" else "string"}.get(kind, kind)
        return Token(kind, body)
    if kind == "variable":
        return Token(kind, value[0] + value[1:].strip("{}"))
    if kind == "label":
        return Token("string", value[1:])
    return Token(kind, value)


def _begins_pattern(found: list[Token]) -> bool:
    """True where a slash begins a pattern, as it cannot divide anything."""
    if not found:
        return True
    last = found[-1]
    if last.kind == "name":
        return last.text in _BEFORE_PATTERN
    return last.kind == "newline" or (last.kind == "symbol" and last.text not in (")", "]", "}"))
