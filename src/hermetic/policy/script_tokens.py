"""The tokens of a text in Perl, Ruby, JavaScript, PHP, Lua …, with the values of its strings."""

from __future__ import annotations

import re

import msgspec

from hermetic.policy.tables import names

from .marks import UNSET
from .quoting import decode_backslashes

MAX_TOKENS = 5_000
_PATTERN = re.compile(r"/(?:[^/\\\n]|\\.)+/[a-z]*")
_TOKEN = re.compile(
    r"""(?P<space>\s+)
    |(?P<comment>//[^\n]*|/\*.*?\*/|--\[\[.*?\]\])
    |(?P<hash>\#[^\n]*)
    |(?P<qx>(?:%x|qx)\s*(?:\{[^}]*\}|\([^)]*\)|\[[^\]]*\]|/[^/]*/|\|[^|]*\||<[^>]*>|!.[^!]*!))
    |(?P<q>(?:%[qQw]|qq|q|qw)(?:\{[^}]*\}|\([^)]*\)|\[[^\]]*\]|\|[^|]*\||/[^/]*/)|\[\[.*?\]\])
    |(?P<swap>(?<![\w$@%>.])(?:s|tr|y)(?P<d>[/\#|!,])(?:(?!(?P=d))[^\\]|\\.)*(?P=d)(?P<with>(?:(?!(?P=d))[^\\]|\\.)*)(?P=d)(?P<flags>[a-z]*))
    |(?P<match>(?<![\w$@%>.])m(?P<m>[/\#|!,])(?:(?!(?P=m))[^\\]|\\.)*(?P=m)[a-z]*)
    |(?P<tick>`(?:[^`\\]|\\.)*`)
    |(?P<single>'(?:[^'\\]|\\.)*')
    |(?P<double>"(?:[^"\\]|\\.)*")
    |(?P<regex>(?:(?<=[=(,!&|{;~])|(?<=\bif)|(?<=\bunless)|(?<=\band)|(?<=\bor)|^)\s*/(?:[^/\\\n]|\\.)+/[a-z]*)
    |(?P<name>[$@%&]?[A-Za-z_][\w]*(?:(?:::|\.|->|:)[A-Za-z_]\w*[!?]?)*[!?]?)
    |(?P<number>0[xo]?[0-9a-fA-F]+|\d+)
    |(?P<symbol>.)""",
    re.VERBOSE | re.DOTALL,
)


class TooLong(Exception):
    """A script with more tokens than a check may look at."""


class Token(msgspec.Struct, gc=False):
    kind: str
    text: str


_KINDS = names("space comment hash qx q swap match tick single double regex name number symbol")


def _kind(match: re.Match[str]) -> str:
    return next(kind for kind in _KINDS if match[kind] is not None)


def tokens_of(text: str, language: str) -> list[Token]:
    """The tokens of a script; strings hold their value, commands in backquotes have a kind of their own."""
    found: list[Token] = []
    hash_comments = language not in ("node", "lua", "java", "groovy", "scala", "swift", "csharp", "go")
    line_comments = language in ("node", "php", "java", "groovy", "scala", "swift", "csharp", "go", "deno", "bun")
    pos, size = 0, len(text)
    while pos < size:
        if len(found) > MAX_TOKENS:
            raise TooLong
        match = _TOKEN.match(text, pos)
        if text[pos] == "/" and _begins_pattern(found):
            pattern = _PATTERN.match(text, pos)
            if pattern:
                pos = pattern.end()
                continue
        if match is None:
            break
        kind, value = _kind(match), match[0]
        pos = match.end()
        if (
            kind == "space"
            or (kind == "comment" and (line_comments or value.startswith("/*")))
            or (kind == "hash" and hash_comments and (not found or found[-1].text not in ("$",)))
        ):
            continue
        if kind in ("comment", "hash"):
            found.append(Token("symbol", value[0]))
            pos = match.start() + 1
        elif kind in ("single", "double"):
            found.append(Token("string", _unquoted(value[1:-1], kind == "double", language)))
        elif kind == "tick":
            found.append(
                Token(
                    "string"
                    if language in ("node", "deno", "bun", "go") and not (found and found[-1].text == "$")
                    else "command",
                    _unquoted(value[1:-1], True, language),
                )
            )
        elif kind == "qx":
            body = re.sub(r"^(%x|qx)\s*", "", value)
            found.append(Token("command", body[1:-1]))
        elif kind == "q":
            found.append(
                Token(
                    "string", value[2:-2] if value.startswith("[[") else re.sub(r"^(%[qQw]|qq|qw|q)", "", value)[1:-1]
                )
            )
        elif (
            kind == "swap" and language in ("perl", "ruby") and "e" in (match["flags"] or "") and match["with"].strip()
        ):
            found.append(Token("substitution", match["with"]))
        elif kind in ("swap", "match") and language not in ("perl", "ruby"):
            found.append(Token("name", value[0]))
            pos = match.start() + 1
        elif kind not in ("regex", "swap", "match"):
            found.append(Token(kind, value))
    return found


def _begins_pattern(found: list[Token]) -> bool:
    """True where a slash begins a pattern, as it cannot divide anything."""
    if not found:
        return True
    last = found[-1]
    if last.kind == "name":
        return last.text in (
            "if",
            "unless",
            "and",
            "or",
            "not",
            "when",
            "while",
            "until",
            "split",
            "grep",
            "return",
            "puts",
            "print",
        )
    return last.kind == "symbol" and last.text in "=(,!&|{;~?:["


def _unquoted(body: str, interpolates: bool, language: str) -> str:
    text = (
        decode_backslashes(body, octal_needs_zero=False)[0]
        if interpolates
        else body.replace("\\'", "'").replace("\\\\", "\\")
    )
    if interpolates:
        if language in ("perl", "php", "tcl", "groovy"):
            text = re.sub(r"\$\{?[A-Za-z_]\w*\}?(\[[^\]]*\])?|\{\$[^}]*\}", UNSET, text)
        elif language in ("ruby", "elixir", "julia"):
            text = re.sub(r"#\{[^}]*\}|\$\([^)]*\)", UNSET, text)
        elif language in ("node", "deno", "bun"):
            text = re.sub(r"\$\{[^}]*\}", UNSET, text)
    return text
