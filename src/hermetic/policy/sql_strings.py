"""SQL that is put together when it runs: variables of clients and servers, joined strings, prepared statements."""

from __future__ import annotations

import itertools
import re

from .sql import destruction, statements

SOMETHING = "x"  # stands for a part of a string that only the database knows
_CLIENT_SET = re.compile(r"(?m)^[ \t]*+\\set[ \t]++(\w++)[ \t]++(\S.*)$")
_CLIENT_USE = re.compile(r"(?<![:\w]):(['\"]?)(\w+)\1")
_RUNS = ("execute", "exec", "prepare", "immediate", "perform", "call")
_RUNS_ARGUMENTS = frozenset(
    {"query_to_xml", "dblink_exec", "dblink", "sp_executesql", "sp_msforeachtable", "sp_msforeachdb", "xp_cmdshell"}
    | {"openrowset", "openquery", "eval", "database_to_xml", "cursor_to_xml", "exec_sql", "execute_sql"}
)


def expand(text: str, given: dict[str, str]) -> str:
    """The text with the client's variables put in: those given on the command line, and those it sets itself."""
    variables = dict(given)
    for name, value in _CLIENT_SET.findall(text):
        value = value.rstrip()
        variables[name] = _unquote(value) if value[:1] in "'\"" else value
    if not variables:
        return text
    text = _CLIENT_SET.sub("", text)
    return _CLIENT_USE.sub(lambda match: variables.get(match[2], match[0]), text)


def built_destruction(text: str) -> str | None:
    """Why a statement that this text puts together and runs destroys data; None when none does."""
    lowered = text.lower()
    if not any(word in lowered for word in (*_RUNS, *_RUNS_ARGUMENTS, "gexec")):
        return None
    variables: dict[str, str] = {}
    for tokens in _flat(text):
        _remember(tokens, variables)
        for built in _run_by(tokens, variables):
            reason = destruction(built)
            if reason:
                return f"{reason}, by a statement put together when it runs"
    return None


def printed(text: str) -> str:
    """The statements that a query prints as strings, for whoever runs what it prints."""
    found = [_joined(tokens, {}) for tokens in statements(text) if tokens[0] in ("select", "with", "values")]
    return "".join(one + ";\n" for one in found if one and destruction(one))


def _flat(text: str) -> list[list[str]]:
    """The statements of a text, with those inside bodies in dollars after their own."""
    found: list[list[str]] = []
    for tokens in statements(text):
        bodies = [re.sub(r"^\$\w*\$|\$\w*\$$", "", token) for token in tokens if re.match(r"\$\w*\$", token)]
        found.append(tokens)
        found += [inner for body in bodies for inner in statements(body)]
    return found


def _remember(tokens: list[str], variables: dict[str, str]) -> None:
    """`SET @s = …`, `DECLARE @s text = …`, `s := …`."""
    for at, token in enumerate(tokens):
        if token == "=" and at:
            start = at - 1 if tokens[at - 1] not in (":",) else at - 2
            name = _name_before(tokens, start, declared=tokens[0] == "declare")
            value = _joined(tokens[at + 1 :], variables)
            if name and value:
                variables[name] = value


def _name_before(tokens: list[str], at: int, *, declared: bool) -> str:
    if declared:
        names = [after for mark, after in itertools.pairwise(tokens) if mark == "@"]
        return names[0] if names else tokens[1] if len(tokens) > 1 else ""
    return tokens[at] if at >= 0 else ""


def _run_by(tokens: list[str], variables: dict[str, str]) -> list[str]:
    """The texts that a statement runs as SQL."""
    found: list[str] = []
    if tokens[-2:] == ["\\", "gexec"]:
        found.append(_joined(tokens[1:], variables))
    for at, token in enumerate(tokens):
        if token in _RUNS:
            rest = tokens[at + 1 :]
            if token == "prepare" and "from" in rest:
                rest = rest[rest.index("from") + 1 :]
            found.append(_joined(rest, variables))
        elif token in _RUNS_ARGUMENTS:
            found += [_unquote(one) for one in tokens[at + 1 :] if one.startswith("'")]
            found.append(_joined(tokens[at + 1 :], variables))
    return [one for one in found if one]


def _joined(tokens: list[str], variables: dict[str, str]) -> str:
    """The strings and variables of an expression in their order; the rest of it is something nobody knows."""
    out = ""
    for token in tokens:
        if token[:1] == "'" or (token[:1] == '"' and " " in token):
            out += _unquote(token)
        elif token in variables:
            out += variables[token]
        elif token in ("from", "where", "using", "into", "end") and out:
            break
        elif out and (token[0].isalpha() or token[0] == "_") and token not in ("as", "format", "concat"):
            out += SOMETHING
    return out.replace("%I", SOMETHING).replace("%s", SOMETHING).replace("?", SOMETHING)


def _unquote(token: str) -> str:
    return token[1:-1].replace("''", "'").replace("\\'", "'") if len(token) > 1 else token
