"""Code that a program is given as text: judged by the reader of its language, or by the patterns of
texts.toml.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from hermetic.policy.call import Call
from hermetic.policy.dynamic_code import execute, is_wholly_unseen, run_code, run_program
from hermetic.policy.effects import delete, read, write
from hermetic.policy.languages.python import judge_python
from hermetic.policy.languages.scripts import judge_code
from hermetic.policy.marks import NET, UNSET, is_known, shown
from hermetic.policy.network import check_sent, land, leave
from hermetic.policy.tables import regex

from .table import TABLE, pattern

_ARGUMENT = regex(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"|\b(?!nil\b|t\b)[a-z][\w-]*")


def judge_text(call: Call, text: str, language: str) -> None:
    """Judge code of a language."""
    if language == "python":
        judge_python(call, text)
    elif language == "sh":
        run_code(call, text, call.name)
    elif language not in TABLE.texts:
        judge_code(call, text, language)
    elif is_wholly_unseen(text):
        execute(call, text, f"{language} code")
    else:
        judge_patterns(call, text, language)


def judge_patterns(call: Call, text: str, language: str) -> None:
    """Judge a text by the patterns of a small language: each match is an action on what its group
    holds.
    """
    for entry in TABLE.texts[language]:
        for match in pattern(entry.pattern).finditer(text):
            value = next(
                (one for one in match.groups() if one), "" if match.re.groups else match[0]
            )
            value = call.shell.home + value[1:] if value.startswith("~/") else value
            if entry.rule.startswith("run "):
                call.run([*entry.rule.split()[1:], value.replace("\\", "/")])
            elif entry.rule.startswith("sh "):
                run_code(call, entry.rule[3:].replace("{}", value), call.name)
            elif action := ACTIONS.get(entry.rule):
                action(call, value)
            else:
                call.report(entry.rule, shown(match.expand(entry.reason)))


def given_texts(call: Call) -> list[str]:
    """The code that options, files they name and standard input hold, as far as it is known."""
    row, options = call.row, call.options
    texts, words = options.values(*row.text.split()), options.operands
    texts += words[1:2] if words and words[0] in row.evals.split() else []
    for path in options.values(*row.script.split()):
        content = read(call, path)
        if NET in content:
            execute(call, content, f"{row.language} code", piped=True)
        if is_known(content):
            texts.append(content)
    if call.stdin is not None and not row.has("filter"):
        texts.append(call.stdin)
        if NET in call.stdin:
            execute(call, call.stdin, f"{row.language} code", piped=True)
    return texts


def _strings(call: Call, text: str) -> None:
    """Run the program whose words are the arguments of a Lisp call; those that are no strings are
    unknown.
    """
    words = [single or double or UNSET for single, double in _ARGUMENT.findall(text)]
    run_code(call, " ".join(words), call.name)


def _lands(call: Call, text: str) -> None:
    """Files that arrive: a name there, and perhaps one here."""
    words = [word for word in text.split() if not word.startswith("-")]
    land(call, words[1] if len(words) > 1 else "./", words[:1])


# What a pattern's match does with the text of its group. `run PROGRAM` runs it on that, `sh CODE`
# runs code with it; any other action is a rule.
ACTIONS: dict[str, Callable[[Call, str], object]] = {
    "code": lambda call, text: run_code(call, text.replace('\\"', '"'), call.name),
    "typed": lambda call, text: run_code(call, text.replace("\\n", "\n"), "typed text"),
    "program": lambda call, text: run_program(call, text, "a command"),
    "escaped": lambda call, text: run_code(
        call, re.sub(r"\\(.)", r"\1", text).strip("'\""), call.name
    ),
    "strings": _strings,
    "script": lambda call, path: call.run(["sh", path]),
    "python": judge_python,
    "lua": lambda call, text: judge_code(call, text, "lua"),
    "reads": read,
    "leaves": leave,
    "lands": _lands,
    "sends": lambda call, path: check_sent(call, read(call, path)),
    "writes": lambda call, path: write(call, path),
    "deletes": lambda call, path: delete(call, path, recursive=True),
}
