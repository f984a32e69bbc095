"""Clients of databases: SQL and commands in options, files and standard input."""

from __future__ import annotations

import re

from hermetic.policy.call import Call
from hermetic.policy.dynamic_code import execute, run_code
from hermetic.policy.effects import read, write
from hermetic.policy.languages.scripts import judge_code
from hermetic.policy.languages.sql import built_destruction, destruction, expand, printed
from hermetic.policy.marks import DECODED, LOCAL, UNSET, is_known, marks_in
from hermetic.policy.programs.interpret import report_first
from hermetic.policy.programs.texts import given_texts, judge_patterns


def judge_sql(call: Call) -> str | None:
    """psql, mysql, sqlcmd and other clients."""
    row, options = call.row, call.options
    if options.has("help", "version", "V"):
        return None
    report_first(call, row.rules)
    texts = given_texts(call)
    if row.operands:
        texts += options.operands[row.operands.startswith("skip") :]
    for pager in options.values(*row.code.split()):
        run_code(call, pager, "a pager")
    for path in options.values(*row.writes.split()):
        write(call, path)
    variables = dict(value.partition("=")[::2] for value in options.values("v", "set", "variable"))
    texts = [expand(text, variables) for text in texts]
    for text in texts:
        if marks_in(text) and not text.strip(UNSET + DECODED + " "):
            execute(call, text, "SQL")
        _statements(call, text, local=False)
    return "".join(map(printed, texts)) + LOCAL + "\n"


def _statements(call: Call, text: str, *, local: bool) -> None:
    if reason := destruction(text) or built_destruction(text):
        call.report("sql-local" if local else "sql-destroys", reason)
    judge_patterns(call, text, "sql")


def judge_sqlite(call: Call) -> str | None:
    """sqlite3 works on a file; dot commands can run a shell."""
    words = call.options.operands
    content = "".join(read(call, path) for path in words[:1])
    is_local = not words or call.place(words[0])[1] in ("workspace", "temp", "null")
    for text in (*words[1:], *given_texts(call)):
        _statements(call, text, local=is_local)
        judge_patterns(call, text, "sqlite")
        if marks_in(text) and not text.strip(UNSET + " "):
            execute(call, text, "SQL")
    return LOCAL + marks_in(content) + "\n"


def judge_redis(call: Call) -> str | None:
    """redis-cli: its words are a command, its input is one on each line."""
    for path in call.options.values("eval"):
        if is_known(content := read(call, path)):
            judge_code(call, content, "redis")
    for text in (" ".join(call.options.operands), call.stdin or ""):
        judge_patterns(call, text.lower(), "redis")
        for script in re.findall(r"(?im)^\s*(?:eval|fcall) (.+)", text):
            judge_code(call, script, "redis")
    return LOCAL + "\n"
