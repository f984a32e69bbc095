"""Files of this text that hold code for others: those that a tool runs or reads by itself, and those
that are named to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from hermetic.policy.call import Call
from hermetic.policy.dynamic_code import execute, run_code
from hermetic.policy.languages.settings import settings_in
from hermetic.policy.marks import SECRET, TOKEN, is_known, shown
from hermetic.policy.paths import resolve
from hermetic.policy.tables import regex
from hermetic.policy.variables import is_foreign, is_known_registry, judge_variable

from .generic import is_worth_trying
from .table import TABLE, Row, alternatives, pattern
from .texts import judge_text

_SUFFIXES = dict(pair.split(":") for name in ("suffixes", "sources") for pair in TABLE.words(name))
_SETTINGS = regex(
    r".*\.(ya?ml|json[5c]?|toml|ini|cfg|conf|xml|hcl|tf|nomad|properties|service|kdl|\w*proj|targets|props)"
)
MAX_LINES = 400
_COMMANDS, _PROGRAMS, _ARGUMENTS, _PLACES, _REGISTRIES = map(
    alternatives,
    ("command-keys", "program-keys", "argument-keys", "directory-keys", "registry-keys"),
)
# Texts for people, descriptions of containers and tables; and hooks of programs that read what they are given
# themselves, or hand it to other machines.
_PROSE = regex(
    r".*(\.(md|rst|txt|html?|csv|tsv|log|patch|diff|sql|lock|svg|css|\w*rc)|ignore|(Docker|Container)file[^/]*)|/dev/.*"
)
_OWN = frozenset(("shell", "docker", "compose", "kubectl", "cloud", "http", "ssh", "scp", "make"))
# Files that name where packages come from.
_SOURCES = regex(
    r".*/(\.?npmrc|\.yarnrc(\.yml)?|pip\.conf|\.cargo/config(\.toml)?|bunfig\.toml|(?i:nuget\.config)|\.condarc|\.gemrc|settings\.xml)"
)
# Files that name what a project needs, and a source without any check of who is at the other end.
_MANIFESTS = regex(
    r".*/([\w-]*requirements[^/]*\.txt|Gemfile|(build|settings|init)\.gradle(\.kts)?|pom\.xml|pyproject\.toml|Pipfile|composer\.json|environment\.ya?ml)"
)
_PLAIN_SOURCE = regex(
    r"(?:index-url|source|url|registry|mirror|repositor\w+|find-links|channels)\W{1,8}(http://(?!localhost|127\.)[^\s\"'<]+)"
)


@lru_cache(maxsize=1024)
def _language(path: str) -> str:
    """The language of a file that tools run or read by themselves; empty for any other."""
    kinds = TABLE.texts["carriers"]
    return next((one.reason for one in kinds if pattern(one.pattern).search(path)), "")


@lru_cache(maxsize=1024)
def _named_language(path: str) -> str:
    """The language of a file that a tool is told to run or read."""
    if _SETTINGS.fullmatch(path):
        return "settings"
    known = next((one for suffix, one in _SUFFIXES.items() if path.endswith(suffix)), "")
    return known or ("" if _PROSE.fullmatch(path) else "lines")


def judge_carriers(call: Call, row: Row) -> None:
    """Judge the files of this text that a program may run or read, where their content is known."""
    if row.has("inert"):
        return
    files, named = call.shell.files, set(_named(call, row))
    for full in list(files):
        language = _language(full) or (_named_language(full) if full in named else "")
        if language:
            _judge_once(call, full, language)


def _named(call: Call, row: Row) -> Iterator[str]:
    if row.language or row.has("data") or row.hook in _OWN:
        return
    for arg in (*call.args, *call.env.values()):
        if word := re.split("[=@]", arg)[-1].removeprefix("file://"):
            yield resolve(word, call.shell)


def judge_waiting(call: Call) -> None:
    """Judge files of this text that run, or are believed, without another command."""
    for full, text in list(call.shell.files.items()):
        if _SOURCES.fullmatch(full):
            _judge_registries(call, full, text)
        elif _MANIFESTS.fullmatch(full) and (match := _PLAIN_SOURCE.search(text)):
            reason = f"takes packages from an address nobody has vouched for: {shown(match[1])}"
            call.report("package-source", reason, full)
        for one in TABLE.texts["manifests"] if "://" in text else ():
            if pattern(one.pattern).search(full):
                _judge_sources(call, full, pattern(one.when).findall(text))
        for one in TABLE.texts["self-running"]:
            if pattern(one.pattern).search(full) and re.search(one.when, text):
                _judge_once(call, full, one.reason)


def _judge_once(call: Call, full: str, language: str) -> None:
    """Judge a file that another program runs or reads; one that runs that again ends there."""
    text = call.shell.files.pop(full, "")
    if text and (full, text) not in call.shell.judged:
        _judge(call, full, text, language)
        if not call.machine.probing:
            call.shell.judged.add((full, text))
    call.shell.files.setdefault(full, text)


def _judge(call: Call, full: str, text: str, language: str) -> None:
    if language == "settings":
        judge_settings(call, text)
        if full.endswith((".conf", ".cfg", ".ini")):
            _judge_lines(call, text)
    elif language == "lines":
        _judge_lines(call, text)
    elif is_known(text) or not execute(call, text, full.rpartition("/")[2]):
        judge_text(call, text, language)


_STRING = regex(r"\"((?:[^\"\\\n]|\\.)+)\"|''(.+?)''|'([^'\n]+)'|`([^`\n]+)`")


def _judge_lines(call: Call, text: str) -> None:
    """Judge a file of which only that is known that it may hold commands: its lines, also behind
    their first words, and its strings.
    """
    lines = text.split("\n")
    if len(lines) > MAX_LINES:
        call.report("too-large", f"takes {len(lines)} lines, too many to be read one by one")
    for line in lines[:MAX_LINES]:
        strings = ["".join(groups) for groups in _STRING.findall(line)]
        words = line.strip().split(None, 2)
        tails = [line.strip(), *(line.strip().split(None, at)[-1] for at in range(1, len(words)))]
        for code in (*tails, *strings):
            _try_text(call, code.lstrip("!@-+ "), is_command=False)
        for at, word in enumerate(strings):
            if at + 1 < len(strings):
                _try_words(call, [word, *strings[at + 1 :]])


def _judge_sources(call: Call, full: str, found: list[str | tuple[str, ...]]) -> None:
    """Report the first address of a manifest that nobody has vouched for."""
    for one in found:
        url = one if isinstance(one, str) else "".join(one)
        if is_known(url) and not is_known_registry(url):
            reason = f"takes packages from an address nobody has vouched for: {shown(url)}"
            call.report("package-source", reason, full)
            return


def _judge_registries(call: Call, full: str, text: str) -> None:
    for keys, values in settings_in(text):
        for value in values:
            if _REGISTRIES.search(keys[-1] if keys else "") and "://" in value:
                url = value[value.find("http") :]
                if is_known(url) and not is_known_registry(url):
                    reason = f"takes packages from an address nobody has vouched for: {shown(url)}"
                    call.report("package-source", reason, full)


# What a workflow's host puts in before a command runs.
_GIVEN = regex(r"\$\{\{[^{}]*\bsecrets\b[^{}]*\}\}")
# How settings name a person's home.
_HOME = regex(r"\{+\s*(?:\$?env[:.]|ENV_)?(?i:home(?:dir|_dir)?|user_home)\s*\}+|%\(ENV_HOME\)s")


def judge_settings(call: Call, text: str) -> None:
    """Judge the commands among the values of settings, with the directories that stand beside them."""
    found = list(settings_in(text))
    places = {
        keys[:-1]: values[0] for keys, values in found if keys and _PLACES.fullmatch(keys[-1])
    }
    program = ""
    for keys, values in found:
        key = keys[-1].rpartition(".")[2] if keys else ""
        if key == "repo" and is_foreign(values[0]):
            call.report("run-download", f"runs what a repository holds: {shown(values[0])}")
        above = (keys[:at] for at in range(len(keys), -1, -1))
        here = call.moved(next((places[one] for one in above if one in places), None))
        if _ARGUMENTS.fullmatch(key) and program:
            _try_words(here, [program, *values])
        elif len(values) > 1:
            _try_words(here, values)
        for value in values:
            if starts_itself(call.name, key, value):
                call.report("fork-bomb", f"a task starts itself without end: {shown(key)}")
            _try_text(here, value, is_command=any(map(_COMMANDS.fullmatch, keys)))
            if key.isupper():
                judge_variable(call, key, value, temporary=True)
        if key in ("runArgs", "runargs"):  # of a container for development
            call.run(["docker", "run", *values, "image"])
        if _PROGRAMS.fullmatch(key):
            program = values[0]


def starts_itself(program: str, task: str, code: str) -> bool:
    """True for the code of a task that starts the same task beside itself."""
    again = rf"(?<![\w-]){re.escape(program)}\b\s+(?:run\s+|-\S+\s+)*{re.escape(task)}\b[^&|;\n]*(?:&(?!&)|\|(?!\|))"
    return bool(task) and re.search(again, code) is not None


def _try_words(call: Call, words: list[str]) -> None:
    if len(words) == 2 and " " in words[1] and not words[1].startswith("-"):
        return  # two commands
    if is_worth_trying(words[0]) and call.machine.probe_argv(words, call.shell):
        call.run(words)


def _try_text(call: Call, text: str, *, is_command: bool) -> None:
    """Run a text that reads as a dangerous command: any behind a key for commands, else one that
    begins with a program worth trying.
    """
    text = _GIVEN.sub(lambda one: SECRET if "(" in one[0] else TOKEN, _HOME.sub("$HOME", text))
    text = re.sub(r"^(!|shell[=:]|exec[=:]|\$\(shell )\s*", "", text)
    first = "".join(text.split(None, 1)[:1])
    is_tried = is_command or is_worth_trying(first) or "$" in first
    if is_tried and call.machine.probe_text(text, call.shell):
        run_code(call, text, call.name)
