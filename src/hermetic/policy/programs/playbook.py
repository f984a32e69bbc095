"""Playbooks: their tasks as commands that have the same effect, by the table `playbook` of texts.toml."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from hermetic.policy.call import Call
from hermetic.policy.dynamic_code import run_code
from hermetic.policy.languages.settings import settings_in
from hermetic.policy.tables import regex

from .table import TABLE, pattern

_PAIR = regex(r"(\w+)=(\"[^\"]*\"|'[^']*'|\S+)")
_REFERENCE = regex(r"\{\{\s*([\w.]+)[^{}]*\}\}")
_LOOP = regex(r"(with_\w+|loop)$")


def judge_playbook(call: Call, text: str) -> None:
    """Judge the tasks of a playbook."""
    for module, given in _tasks(text):
        judge_task(call, module, given)


def judge_task(call: Call, module: str, given: dict[str, str]) -> None:
    """Run what does the same as a module with these arguments."""
    subject = " ".join(f"{name}={value}" for name, value in given.items())
    for entry in TABLE.texts["playbook"]:
        is_meant = pattern(entry.pattern).fullmatch(module) and re.search(entry.when, subject)
        names = re.findall(r"\{(\w+)\}", entry.reason)
        if not is_meant or not all(given.get(name) for name in names):
            continue
        if entry.reason == "{_}":
            run_code(call.moved(given.get("chdir")), given["_"], module)
        else:
            words = {name: _quoted(given[name]) for name in names}
            run_code(call, entry.reason.format(**words), module)


def _quoted(text: str) -> str:
    return "~/" + shlex.quote(text[2:]) if text.startswith("~/") else shlex.quote(text)


def arguments_of(text: str) -> dict[str, str]:
    """The arguments `a=b c=d`, and the whole text as `_`."""
    pairs = {name: value.strip("\"'") for name, value in _PAIR.findall(text)}
    free = re.sub(r"\s*\b(chdir|creates|removes|executable|warn)=\S+", "", text)
    return {**pairs, "_": pairs.get("cmd") or free}


def _is_module(key: str) -> bool:
    name = key.rpartition(".")[2]
    return any(pattern(entry.pattern).fullmatch(name) for entry in TABLE.texts["playbook"])


def _tasks(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Modules with their arguments: references are replaced by variables and by the items of loops
    of the same text.
    """
    found = list(settings_in(text))
    known = {keys[-1]: values[0] for keys, values in found if "vars" in keys[:-1]}
    tasks: list[tuple[str, dict[str, str], list[str]]] = []
    for keys, values in found:
        depth = next((at for at, key in enumerate(keys) if _is_module(key)), None)
        if depth is None:
            if keys and _LOOP.fullmatch(keys[-1]) and tasks:
                tasks[-1][2].extend(values)
            elif keys[-2:-1] == ("args",) and tasks:
                tasks[-1][1][keys[-1]] = values[0]
            continue
        module, rest = keys[depth].rpartition(".")[2], keys[depth + 1 :]
        is_same = rest and tasks and tasks[-1][0] == module and rest[0] not in tasks[-1][1]
        if not is_same:
            tasks.append((module, {}, []))
        if rest:
            joined = shlex.join(values) if len(values) > 1 else values[0]
            tasks[-1][1][{"cmd": "_", "argv": "_"}.get(rest[0], rest[0])] = joined
        else:
            tasks[-1][1].update(arguments_of(values[0]))
    for module, given, items in tasks:
        for item in items or [""]:
            values_of = {**known, "item": item}

            def value(one: re.Match[str], held: dict[str, str] = values_of) -> str:
                return held.get(one[1], one[0])

            yield module, {key: _REFERENCE.sub(value, text) for key, text in given.items()}
