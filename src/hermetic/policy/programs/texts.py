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
from hermetic.policy.languages.sql import destruction, expand, without_tests
from hermetic.policy.marks import DECODED, NET, UNSET, is_known, marks_in, shown
from hermetic.policy.network import check_sent, land, leave
from hermetic.policy.rehearsal import is_for_tests
from hermetic.policy.tables import names, regex
from hermetic.policy.variables import is_known_registry

from .playbook import judge_playbook
from .table import TABLE, Entry, pattern

_ARGUMENT = regex(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"|\b(?!nil\b|t\b)[a-z][\w-]*")


# A package of a manifest that a script changes, by its address.
_DEPENDENCY = regex(
    r"(?s)\b(?:overrides|resolutions|\w*[dD]ependencies)\b.{0,200}?(https?://[^\s\"']+\.(?:tgz|tar\.\w+|zip|whl))[\"'\s]"
)


def judge_text(call: Call, text: str, language: str) -> None:
    """Judge code of a language."""
    if "://" in text and (match := _DEPENDENCY.search(text)) and not is_known_registry(match[1]):
        reason = f"takes packages from an address nobody has vouched for: {shown(match[1])}"
        call.report("package-source", reason)
    if language == "python":
        judge_python(call, text)
    elif language == "sh":
        run_code(call, text, call.name)
    elif language == "ansible":
        judge_playbook(call, text)
    elif language not in TABLE.texts:
        judge_code(call, text, language)
    elif language in ("sql", "sqlite"):
        _judge_sql(call, text, language)
    elif is_wholly_unseen(text):
        execute(call, text, f"{language} code")
    else:
        judge_patterns(call, text, language)


def _judge_sql(call: Call, text: str, language: str) -> None:
    """Judge the statements and the commands of a database's client; sqlite3 works on a file."""
    options = call.options
    is_file = language == "sqlite"
    given = () if is_file else options.values("v", "set", "variable")
    text = expand(text, dict(value.partition("=")[::2] for value in given))
    if marks_in(text) and not text.strip(UNSET + DECODED + " "):
        execute(call, text, "SQL")
    if call.name in ("mysql", "mariadb", "mycli"):  # a transaction ends there, and is not undone
        text = re.sub(r"(?i)\btruncate\b", ";commit;truncate", text)
    if reason := destruction(text):
        file = options.operands[0] if options.operands else "/dev/null"
        local = is_file and call.place(file)[1] in ("workspace", "temp", "null")
        own = is_for_tests(call, _database(call), call.env.get("@container", ""))
        local = local or not destruction(without_tests(text), beyond=own)
        call.report("sql-local" if local else "sql-destroys", reason)
    for commands in ("sql", "sqlite")[: 1 + is_file]:
        judge_patterns(call, text, commands)


_NAMED = regex(r"(?:^|\s)dbname=(\S+)|^\w+://[^/]*/([^?]*)")


def _database(call: Call) -> str:
    """The name of the database that a client connects to."""
    given = call.options.value("d", "dbname", "database", "D")
    name = given or next(iter(call.options.operands), "") or _variable(call, "PGDATABASE")
    match = _NAMED.search(name)
    return (match[1] or match[2]) if match else name.rpartition("/")[2]


def _variable(call: Call, name: str) -> str:
    return call.env.get(name) or (call.shell.scalar(name) if name in call.shell.variables else "")


# Variables by which tools for applications choose a database or a set of containers.
_CHOOSING = names(
    "MIX_ENV RAILS_ENV RACK_ENV APP_ENV NODE_ENV FLASK_ENV DJANGO_SETTINGS_MODULE DATABASE_URL DB_NAME"
    " DB_DATABASE COMPOSE_PROJECT_NAME COMPOSE_FILE"
)


def chooses_tests(call: Call) -> bool:
    """True where an argument or a variable makes a tool work on what is there for tests."""
    named = re.findall(r"-(?:e|f|p|-[\w-]+)[= ](\S+)", " ".join(call.args))
    given = dict(arg.partition("=")[::2] for arg in call.args)
    named += [given.get(name) or _variable(call, name) for name in _CHOOSING]
    return is_for_tests(call, *(re.sub(r"^.*/(home|Users)/[^/]+/", "", one) for one in named))


_GLOB = regex(r"\bforeach\s+(\w+)\s+\[glob\s+(?:-(?:nocomplain|types\s+\S+)\s+)*([\w*./?~-]+)\]")


def judge_patterns(call: Call, text: str, language: str) -> None:
    """Judge a text by the patterns of a small language: each match is an action on what its group
    holds.
    """
    text = text.lower() if language == "redis" else text
    for name, pattern_of_files in _GLOB.findall(text) if language == "tcl" else ():
        text = re.sub(rf"\${name}\b", pattern_of_files, text)
    for entry in TABLE.texts[language]:
        for match in pattern(entry.pattern).finditer(text):
            apply_entry(call, entry, match)


def apply_entry(call: Call, entry: Entry, match: re.Match[str]) -> None:
    """Do what an entry says with the first group that holds something: an action, or a report."""
    value = next((one for one in match.groups() if one), "" if match.re.groups else match[0])
    value = re.sub(r"^(~|\$HOME|\$env:HOME)(?=/|$)", call.shell.home, value)
    if entry.rule.startswith("run "):
        call.run([*entry.rule.split()[1:], value.replace("\\", "/")])
    elif entry.rule.startswith("sh "):
        run_code(call, entry.rule[3:].replace("{}", value), call.name)
    elif action := ACTIONS.get(entry.rule):
        action(call, value)
    else:
        reason = entry.reason or call.rule(entry.rule).reason
        reason = reason if "\\" not in reason else match.expand(reason)
        first = (match[1] or "") if match.re.groups else ""
        call.report(entry.rule, shown(reason.replace("{}", first)))


def is_action(name: str) -> bool:
    """True for what an entry does that is no rule."""
    return name in ACTIONS or name.startswith(("run ", "sh "))


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


def _is_dangerous(call: Call, text: str) -> bool:
    """True for a text that begins with a program worth trying, and would be dangerous as code."""
    first = "".join(text.split(None, 1)[:1]).rsplit("/", 1)[-1]
    is_tried = TABLE.row(first).has("tried") or "$" in first
    return is_tried and call.machine.probe_text(text, call.shell)


# What a pattern's match does with the text of its group. `run PROGRAM` runs it on that, `sh CODE`
# runs code with it; any other action is a rule.
ACTIONS: dict[str, Callable[[Call, str], object]] = {
    "code": lambda call, text: run_code(call, text.replace('\\"', '"'), call.name),
    "typed": lambda call, text: run_code(call, re.sub(r"\\n|\^M", "\n", text), "typed text"),
    "program": lambda call, text: run_program(call, text, "a command"),
    "escaped": lambda call, text: run_code(
        call, re.sub(r"\\(.)", r"\1", text).strip("'\""), call.name
    ),
    "strings": _strings,
    # code with words of its own language, which no shell knows
    "tried": lambda call, text: (
        run_code(call, text, call.name) if _is_dangerous(call, text.replace('\\"', '"')) else None
    ),
    "script": lambda call, path: call.run(["sh", path]),
    "python": judge_python,
    "perl": lambda call, text: judge_code(call, text, "perl"),
    "redis": lambda call, text: judge_code(call, text, "redis"),
    "reads": read,
    "leaves": leave,
    "lands": _lands,
    "sends": lambda call, path: check_sent(call, read(call, path)),
    "writes": lambda call, path: write(call, path),
    "deletes": lambda call, path: delete(call, path, recursive=True),
}
