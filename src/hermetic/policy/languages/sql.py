"""SQL: what a text would do, by its tokens; also SQL that is put together when it runs."""

from __future__ import annotations

import re

from hermetic.policy.call import Call
from hermetic.policy.programs.table import rule
from hermetic.policy.tables import names, regex

_TOKEN = re.compile(
    (
        r"--[^\n]*|#[^\n]*|/\*.*?\*/|\s+|'(?:[^'\\]|''|\\.)*'|\"(?:[^\"]|\"\")*\"|`[^`]*`|\$(\w*)"
        r"\$.*?\$\1\$|[A-Za-z_][\w$]*|\d[\w.]*|<=|>=|<>|!=|\|\||::|."
    ),
    re.DOTALL,
)
_KEY = r"(?:(?:\w+_)?(?:id|rowid|pk)|_id)"
_DROPPED = "|".join(
    names(
        """
table database schema view index user role sequence type function procedure trigger keyspace collection
materialized extension domain tablespace column owned partition constraint foreign policy measurement series
retention warehouse stage stream task dictionary cluster server publication subscription language aggregate if
"""
    )
)
_USERS = "changes who may use the database"
_PROGRAM = "lets the database run a program"
# What a statement does, by its tokens in small letters with a blank between; strings are empty.
_DESTROYS = tuple(
    (regex(pattern), reason)
    for pattern, reason in (
        (r"match\b(?!.*\bwhere\b).*\bdelete\b", "deletes every node of a graph"),
        (
            r"rename table\b|alter\b(?!.*\bcolumn\b).*\brename\b.* to \S+$",
            "takes a table away under another name",
        ),
        (r"merge\b(?=.*\btrue\b).*\bdelete\b", "deletes every row of a table"),
        (rf"drop ({_DROPPED})\b", "drops a {} of the database"),
        (r"truncate\b", "empties a table"),
        (r"alter\b.*\bdrop\b", "drops a part of a table"),
        (r"(?:flushall|flushdb|purge)\b", "empties the database"),
        (r"grant\b.*\b(?:all|superuser)\b", "gives away all rights on the database"),
        (r"alter (?:user|role)\b.*\b(?:superuser|identified|password)\b", _USERS),
        (r"alter\b.*disable row level security$", "turns off what guards the rows of a table"),
        (r"(?:.* )?(?:pl(?:python\w*|perlu|sh|rubyu)|executable)(?: |$)", _PROGRAM),
        (r"copy\b.*\bprogram\b|.*\b(?:xp_cmdshell|sys_exec|sys_eval)\b", _PROGRAM),
        (r"revoke\b|create\b.*\bsuperuser\b", _USERS),
        (r".*\bpg_read_file\b", "lets the database read files"),
        (r"(?=.*\binto\b).*\b(?:out|dump)file\b", "lets the database write a file"),
        (
            r".*\bpg_terminate_backend\b|shutdown(?: \S+){0,2}$|kill\b.*\ball\b",
            "ends the database or its connections",
        ),
    )
)
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


def destruction(text: str) -> str | None:
    """Why a text destroys data, in a person's words; None when it does not."""
    return next(filter(None, map(_destroys, statements(text))), None)


def _destroys(tokens: list[str]) -> str | None:
    while tokens and tokens[0] in ("explain", "begin", "(", "start", "do"):
        if tokens[0] == "explain" and "analyze" not in tokens[:3]:
            return None
        tokens = tokens[1:]
    first = "".join(tokens[:1])
    bodies = [_body(token) for token in tokens if _DOLLARS.match(token)]
    if first in ("execute", "exec", "perform", "prepare"):
        bodies += [_unquote(token) for token in tokens if token.startswith("'")]
    for body in bodies:
        if reason := destruction(body):
            return reason
    shape = " ".join("''" if token[0] in "'\"`" else token for token in tokens)
    for pattern, reason in _DESTROYS:
        if match := pattern.match(shape):
            return reason.format(*match.groups())
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
_RUNS = ("execute", "exec", "prepare", "immediate", "perform", "call")
_RUNS_ARGUMENTS = frozenset(
    names(
        """
query_to_xml dblink_exec dblink sp_executesql sp_msforeachtable sp_msforeachdb xp_cmdshell openrowset
openquery eval database_to_xml cursor_to_xml exec_sql execute_sql
"""
    )
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
    found = [
        _joined(tokens, {})
        for tokens in statements(text)
        if tokens[0] in ("select", "with", "values")
    ]
    return "".join(one + ";\n" for one in found if one and destruction(one))


def _flat(text: str) -> list[list[str]]:
    """The statements of a text, with those inside bodies in dollars after their own."""
    found: list[list[str]] = []
    for tokens in statements(text):
        bodies = [_body(token) for token in tokens if _DOLLARS.match(token)]
        found += [tokens, *(inner for body in bodies for inner in statements(body))]
    return found


def _body(token: str) -> str:
    return _DOLLARS.sub("", token)


def _remember(tokens: list[str], variables: dict[str, str]) -> None:
    """`SET @s = …`, `DECLARE @s text = …`, `s := …`."""
    if "=" in tokens[1:]:
        at = tokens.index("=", 1)
        before = [token for token in tokens[:at] if token not in ("@", ":")]
        value = _joined(tokens[at + 1 :], variables)
        if value:
            variables[before[1] if before[0] == "declare" and before[1:] else before[-1]] = value


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
    """The strings and variables of an expression in their order; the rest of it is something nobody
    knows.
    """
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


_STORE = re.compile(
    r"(?im)^[ \t]*(FLUSHALL|FLUSHDB|FLUSH_ALL|SHUTDOWN|SWAPDB|REPLICAOF|SLAVEOF|CONFIG[ \t]+SET|SCRIPT[ \t]+FLUSH|"
    r"DEBUG[ \t]+SEGFAULT|MODULE[ \t]+LOAD|CLUSTER[ \t]+RESET|"
    r"(DROP|TRUNCATE|DELETE)[ \t]+(TABLE|DATABASE|FROM|SCHEMA)\b)"
)
_HTTP = re.compile(r"(?m)^[ \t]*DELETE[ \t]+/\S*[ \t]+HTTP/")


def check_commands(call: Call, text: str | None) -> None:
    """Report commands to a database or a web service that delete what is there, sent over a bare
    connection.
    """
    if not text:
        return
    if _STORE.search(text):
        call.report(rule("sql-destroys"), "empties or stops a database over a bare connection")
    elif _HTTP.search(text):
        call.report(rule("cloud-destroys"), "deletes something by HTTP over a bare connection")
