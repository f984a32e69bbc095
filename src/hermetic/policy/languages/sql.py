"""SQL: what a text would do, by its tokens; also SQL that is put together when it runs."""

from __future__ import annotations

import itertools
import re

from hermetic.policy.call import Call
from hermetic.policy.programs.table import rule
from hermetic.policy.tables import names

_TOKEN = re.compile(
    (
        r"--[^\n]*|#[^\n]*|/\*.*?\*/|\s+|'(?:[^'\\]|''|\\.)*'|\"(?:[^\"]|\"\")*\"|`[^`]*`|\$(\w*)"
        r"\$.*?\$\1\$|[A-Za-z_][\w$]*|\d[\w.]*|<=|>=|<>|!=|\|\||::|."
    ),
    re.DOTALL,
)
_KEY = re.compile(r"(\w+_)?(id|rowid|pk)|_id")
_DROPPED = frozenset(
    names(
        """
table database schema view index user role sequence type function procedure trigger keyspace collection
materialized extension domain tablespace column owned partition constraint foreign policy measurement series
retention warehouse stage stream task dictionary cluster server publication subscription language aggregate
temporary
"""
    )
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
    for tokens in statements(text):
        reason = _statement(tokens)
        if reason:
            return reason
    return None


def _statement(tokens: list[str]) -> str | None:
    while tokens and tokens[0] in ("explain", "begin", "(", "start", "do"):
        if tokens[0] == "explain" and "analyze" not in tokens[:3]:
            return None
        tokens = tokens[1:]
    if not tokens:
        return None
    first = tokens[0]
    if first == "match" and "delete" in tokens and "where" not in tokens:
        return "deletes every node of a graph"
    for token in tokens:
        if token.startswith("$") and len(token) > 2:
            reason = destruction(re.sub(r"^\$\w*\$|\$\w*\$$", "", token))
            if reason:
                return reason
    if first in ("execute", "exec", "perform", "prepare"):
        for token in tokens:
            if token.startswith("'"):
                reason = destruction(token[1:-1].replace("''", "'"))
                if reason:
                    return reason
    if (first == "rename" and tokens[1:2] == ["table"]) or (
        first == "alter"
        and tokens[-2:-1] == ["to"]
        and "rename" in tokens
        and "column" not in tokens
    ):
        return "takes a table away under another name"
    if first == "merge" and "delete" in tokens and "true" in tokens:
        return "deletes every row of a table"
    if first == "drop" and (len(tokens) < 2 or tokens[1] in _DROPPED or tokens[1] == "if"):
        if tokens[1:2] == ["temporary"]:
            return None
        return f"drops a {tokens[1] if len(tokens) > 1 else 'thing'} of the database"
    if first == "truncate":
        return "empties a table"
    if first == "alter" and "drop" in tokens:
        return "drops a part of a table"
    if first in ("delete", "update") or ("delete" in tokens[:12] and first == "with"):
        return _unfiltered(tokens, first)
    if first in ("flushall", "flushdb", "purge", "optimize") and first != "optimize":
        return "empties the database"
    if first in ("grant",) and ("all" in tokens or "superuser" in tokens):
        return "gives away all rights on the database"
    if (
        first == "alter"
        and len(tokens) > 1
        and tokens[1] in ("user", "role")
        and any(t in tokens for t in ("superuser", "identified", "password"))
    ):
        return "changes who may use the database"
    if first == "create" and tokens[1:2] in (["rule"], ["event"], ["trigger"]) and "do" in tokens:
        return _statement(
            [
                token
                for token in tokens[tokens.index("do") + 1 :]
                if token not in ("instead", "also", "(")
            ]
        )
    if first == "alter" and tokens[-4:] == ["disable", "row", "level", "security"]:
        return "turns off what guards the rows of a table"
    if any(re.fullmatch(r"pl(python\w*|perlu|sh|rubyu)|executable", token) for token in tokens):
        return "lets the database run a program"
    if first == "copy" and "program" in tokens:
        return "lets the database run a program"
    if first == "revoke" or (first == "create" and "superuser" in tokens):
        return "changes who may use the database"
    if (
        "xp_cmdshell" in tokens
        or "sys_exec" in tokens
        or "sys_eval" in tokens
        or "pg_read_file" in tokens
    ):
        return "lets the database run a program or read files"
    if ("outfile" in tokens or "dumpfile" in tokens) and "into" in tokens:
        return "lets the database write a file"
    if (
        "pg_terminate_backend" in tokens
        or (first == "shutdown" and len(tokens) <= 3)
        or (first == "kill" and "all" in tokens)
    ):
        return "ends the database or its connections"
    return None


def _unfiltered(tokens: list[str], first: str) -> str | None:
    if first == "update" and "set" not in tokens:
        return None
    if first == "delete" and "from" not in tokens[:3] and len(tokens) < 2:
        return None
    what = "deletes" if first != "update" else "changes"
    if "where" not in tokens:
        return f"{what} every row of a table" if "limit" not in tokens else None
    where = tokens[tokens.index("where") + 1 :]
    for stop in ("returning", "order", "limit"):
        if stop in where:
            where = where[: where.index(stop)]
    return f"{what} every row: the condition is always true" if _always(where) else None


def _always(where: list[str]) -> bool:
    """True for a condition that holds for every row."""
    if "or" in where:
        cut = where.index("or")
        return _always(where[:cut]) or _always(where[cut + 1 :])
    where = [token for token in where if token not in ("(", ")")]
    if "and" in where:
        cut = where.index("and")
        return _always(where[:cut]) and _always(where[cut + 1 :])
    if len(where) == 1:
        return where[0] in ("true", "1", "t") or (where[0].isdigit() and where[0] != "0")
    if len(where) == 2:
        return where in (["not", "false"], ["not", "0"])
    if len(where) == 3:
        left, operator, right = where
        if operator in ("=", "<=", ">=", "is", "like"):
            return left == right or right == "'%'"
        if operator in (">", ">=") and _KEY.fullmatch(left) and right in ("0", "1"):
            return True
        if operator in ("<>", "!=", "<", ">") and left.isdigit() and right.isdigit():
            numbers = int(left[:9]), int(right[:9])
            return {
                "<>": numbers[0] != numbers[1],
                "!=": numbers[0] != numbers[1],
                "<": numbers[0] < numbers[1],
                ">": numbers[0] > numbers[1],
            }[operator]
    if where[:1] == ["exists"] or where[1:3] == ["in", "select"]:
        return "where" not in where and where[:1] in (["exists"], where[3:4])
    return (
        where[-3:] == ["is", "not", "null"] and bool(_KEY.fullmatch(where[0])) and len(where) == 4
    )


SOMETHING = "x"  # stands for a part of a string that only the database knows
_CLIENT_SET = re.compile(r"(?m)^[ \t]*+\\set[ \t]++(\w++)[ \t]++(\S.*)$")
_CLIENT_USE = re.compile(r"(?<![:\w]):(['\"]?)(\w+)\1")
_RUNS = ("execute", "exec", "prepare", "immediate", "perform", "call")
_RUNS_ARGUMENTS = frozenset(
    {
        "query_to_xml",
        "dblink_exec",
        "dblink",
        "sp_executesql",
        "sp_msforeachtable",
        "sp_msforeachdb",
        "xp_cmdshell",
    }
    | {
        "openrowset",
        "openquery",
        "eval",
        "database_to_xml",
        "cursor_to_xml",
        "exec_sql",
        "execute_sql",
    }
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
        bodies = [
            re.sub(r"^\$\w*\$|\$\w*\$$", "", token)
            for token in tokens
            if re.match(r"\$\w*\$", token)
        ]
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
