"""SQL: what a text would do, by its tokens; also SQL that is put together when it runs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hermetic.policy.programs.table import TABLE, pattern
from hermetic.policy.rehearsal import TESTS
from hermetic.policy.tables import regex

_TOKEN = regex(
    r"(?s)--[^\n]*|#[^\n]*|/\*.*?\*/|\s+|'(?:[^'\\]|''|\\.)*'|\"(?:[^\"]|\"\")*\"|`[^`]*`"
    r"|\$(\w*)\$.*?\$\1\$|[A-Za-z_][\w$]*|\d[\w.]*|<=|>=|<>|!=|\|\||::|."
)
_KEY = r"(?:(?:\w+_)?(?:id|rowid|pk)|_id)"
_OPENS = ("", "transaction", "work", "tran", "isolation", "immediate", "exclusive", "deferred")
_UNDONE = ("delete", "update", "insert", "merge", "with", "truncate")  # by a rollback
# Conditions that hold for every row.
_ALWAYS = regex(
    rf"true|t|[1-9]\d*|not (?:false|0)|(\S+) (?:=|<=|>=|is|like) (?:\1|'%')|{_KEY} >=? [01]"
    rf"|(\d+) (?:<>|!=) (?!\2$)\d+|{_KEY} is not null"
    r"|(?:exists|(\S+) in select \3)\b(?!.*\bwhere\b).*"
)


def statements(text: str) -> list[list[str]]:
    """The statements of a text as lower-case tokens; comments are gone, strings stay as they are."""
    found: list[list[str]] = [[]]
    for match in _TOKEN.finditer(text):
        token = match[0]
        if (
            token.isspace()
            or token.startswith(("--", "/*"))
            or (token.startswith("#") and len(token) > 1)
        ):
            if token.startswith("/*!"):
                found[-1] += [
                    part for one in statements(re.sub(r"^/\*!\d*|\*/$", "", token)) for part in one
                ]
            continue
        if token == ";":
            found.append([])
        elif token[0] in "'\"`$" and len(token) > 1:
            found[-1].append(token)
        else:
            found[-1].append(token.lower())
    return [one for one in found if one]


def destruction(text: str, *, beyond: bool = False) -> str | None:
    """Why a text destroys data, in a person's words; None when it does not. With `beyond` only what
    reaches beyond its database counts.
    """
    found = (_destroys(tokens, beyond) for tokens in _lasting(_flat(text)))
    reason = next(filter(None, found), None)
    if reason or not _BUILDS.search(text):
        return reason
    reason = next(filter(None, (destruction(one, beyond=beyond) for one in _built(text))), None)
    return reason and f"{reason}, by a statement put together when it runs"


def _lasting(found: list[list[str]]) -> list[list[str]]:
    """The statements without those of a transaction that is rolled back. A statement that is no
    change of rows may end the transaction before, so it stays.
    """
    kept: list[list[str]] = []
    begun = -1
    for tokens in found:
        first, second = (*tokens, "", "")[:2]
        if (first, second) == ("start", "transaction") or (first == "begin" and second in _OPENS):
            begun = len(kept)
        elif first in ("commit", "end"):
            begun = -1
        elif first in ("rollback", "abort") and "to" not in tokens and begun >= 0:
            kept[begun:] = [one for one in kept[begun:] if one[0] not in _UNDONE]
            begun = -1
        kept.append(tokens)
    return kept


def _destroys(tokens: list[str], beyond: bool = False) -> str | None:
    while tokens and tokens[0] in ("explain", "begin", "(", "start", "do"):
        if tokens[0] == "explain" and "analyze" not in tokens[:3]:
            return None
        tokens = tokens[1:]
    first = "".join(tokens[:1])
    shape = " ".join("''" if token[0] in "'\"`" else token for token in tokens)
    kinds = ("statement-beyond", "statement")[: 2 - beyond]
    for entry in (one for kind in kinds for one in TABLE.texts[kind]):
        if match := pattern(entry.pattern).match(shape):
            return match.expand(entry.reason)
    if beyond:
        return None
    if first in ("delete", "update") or (first == "with" and "delete" in tokens[:12]):
        return _unfiltered(tokens, "changes" if first == "update" else "deletes")
    if tokens[:2] in (["create", "rule"], ["create", "event"], ["create", "trigger"]):
        done = tokens[tokens.index("do") + 1 :] if "do" in tokens else []
        return _destroys([token for token in done if token not in ("instead", "also")])
    return None


def _unfiltered(tokens: list[str], what: str) -> str | None:
    if len(tokens) < 2 or (tokens[0] == "update" and "set" not in tokens):
        return None
    if "where" not in tokens:
        return f"{what} every row of a table" if "limit" not in tokens else None
    where = tokens[tokens.index("where") + 1 :]
    end = next((at for at, one in enumerate(where) if one in ("returning", "order", "limit")), None)
    return f"{what} every row: the condition is always true" if _always(where[:end]) else None


def _always(where: list[str]) -> bool:
    """True for a condition that holds for every row."""
    where = [token for token in where if token not in ("(", ")")]
    for word, holds in (("or", any), ("and", all)):
        if word in where:
            cut = where.index(word)
            return holds((_always(where[:cut]), _always(where[cut + 1 :])))
    if numbers := re.fullmatch(r"(\d{1,9}) ([<>]) (\d{1,9})", " ".join(where)):
        left, right = int(numbers[1]), int(numbers[3])
        return left < right if numbers[2] == "<" else left > right
    return _ALWAYS.fullmatch(" ".join(where)) is not None


_DOLLARS = re.compile(r"^\$\w*\$|\$\w*\$$")
SOMETHING = "x"  # stands for a part of a string that only the database knows
_CLIENT_SET = re.compile(r"(?m)^[ \t]*+\\set[ \t]++(\w++)[ \t]++(\S.*)$")
_CLIENT_USE = re.compile(r"(?<![:\w]):(['\"]?)(\w+)\1")
# Words of texts that run strings as SQL.
_BUILDS = regex(
    r"(?i)\b(?:g?exec|execute|prepare|immediate|perform|call|eval|exec(?:ute)?_sql|open(?:query|rowset)"
    r"|(?:query|database|cursor)_to_xml|dblink\w*|xp_cmdshell|sp_\w+)\b"
)


def expand(text: str, given: dict[str, str]) -> str:
    """The text with the client's variables put in: those given on the command line, and those it
    sets itself.
    """
    variables = dict(given)
    for name, value in _CLIENT_SET.findall(text):
        value = value.rstrip()
        variables[name] = _unquote(value) if value[:1] in "'\"" else value
    if not variables:
        return text
    text = _CLIENT_SET.sub("", text)
    return _CLIENT_USE.sub(lambda match: variables.get(match[2], match[0]), text)


def printed(text: str) -> str:
    """The statements that a query prints as strings, which another client may run."""
    found = [
        _joined(tokens, {})
        for tokens in statements(text)
        if tokens[0] in ("select", "with", "values")
    ]
    return "".join(one + ";\n" for one in found if destruction(one))


def _built(text: str) -> Iterator[str]:
    """The strings of a text, and what each statement joins them to."""
    variables: dict[str, str] = {}
    for tokens in _flat(text):
        yield from (_unquote(token) for token in tokens if token.startswith("'"))
        yield _joined(tokens, variables)
        _remember(tokens, variables)


def _flat(text: str) -> list[list[str]]:
    """The statements of a text, with those inside bodies in dollars after their own."""
    found: list[list[str]] = []
    for tokens in statements(text):
        bodies = [_DOLLARS.sub("", token) for token in tokens if _DOLLARS.match(token)]
        found += [tokens, *(inner for body in bodies for inner in statements(body))]
    return found


def _remember(tokens: list[str], variables: dict[str, str]) -> None:
    """`SET @s = …`, `DECLARE @s text = …`, `s := …`."""
    if "=" in tokens[1:]:
        at = tokens.index("=", 1)
        before = [token for token in tokens[:at] if token not in ("@", ":")]
        value = _joined(tokens[at + 1 :], variables)
        if value:
            variables[before[1] if before[0] == "declare" and before[1:] else before[-1]] = value


def _joined(tokens: list[str], variables: dict[str, str]) -> str:
    """The strings and variables of a statement in their order; the rest of it is unknown."""
    out = ""
    for token in tokens:
        if token[:1] == "'" or (token[:1] == '"' and " " in token):
            out += _unquote(token)
        elif token in variables:
            out += variables[token]
        elif token in ("from", "where", "using", "into", "end") and out:
            break
        elif (
            out
            and (token[0].isalpha() or token[0] == "_")
            and token not in ("as", "format", "concat")
        ):
            out += SOMETHING
    return out.replace("%I", SOMETHING).replace("%s", SOMETHING).replace("?", SOMETHING)


def _unquote(token: str) -> str:
    return token[1:-1].replace("''", "'").replace("\\'", "'") if len(token) > 1 else token


_TEST_DROPPED = regex(
    rf"(?i)\b(?:drop|truncate)\s+(?:(?:database|keyspace|schema)\s+(?:if\s+exists\s+)?[`\"]?(?:\w+[_-])?{TESTS}(?:[_-]\w+)?[`\"]?"
    rf"|table\s+(?:if\s+exists\s+)?{TESTS}\.\w+)\s*(?:cascade\s*)?(?:;|$)"
)


def without_tests(text: str) -> str:
    """The text without statements that drop whole databases for tests."""
    return _TEST_DROPPED.sub("", text)
