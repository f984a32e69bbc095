"""Which judge speaks for which program: side aspects, then a hook, a row, or the generic rule."""

from __future__ import annotations

from hermetic.policy.call import Call, Judge
from hermetic.policy.hermetic_cli import judge_hermetic
from hermetic.policy.marks import LOCAL
from hermetic.policy.rules import Rule
from hermetic.policy.tables import names, regex

from .aspects import exact_output, judge_aspects
from .generic import judge_anything
from .hooks import (
    archives,
    builtins,
    files,
    filters,
    git,
    interpreters,
    network,
    platforms,
    processes,
    searching,
    shells,
    text_tools,
)
from .interpret import behind_verb, is_dry, judge_by_row, run_behind_verb
from .table import TABLE, alternatives

FALLBACK = judge_anything
_MODULES = (
    *(archives, builtins, files, filters, git, interpreters, network, platforms),
    *(processes, searching, shells, text_tools),
)
# The functions `judge_NAME` of hooks, by the names under which rows have them.
HOOKS: dict[str, Judge] = {
    name.removeprefix("judge_"): judge
    for module in _MODULES
    for name, judge in vars(module).items()
    if name.startswith("judge_") and judge.__module__ == module.__name__
} | {"hermetic": judge_hermetic}
# Hooks of programs of which nothing is judged where they show their help, or what they would do.
_REHEARSED = frozenset(names("mv cp dd touch chmod cloud kubectl ansible http"))
# Ends of names: a version, or the kind of a build.
_VERSION = regex(r"(.+?)([-_.@]?)v?\d[\d.]*")
_BUILD = regex(r"[-.](legacy|nft|static|real|orig|original|distrib|bin)(?=-|$)")
_VERSIONED = alternatives("versioned")


def find_judge(call: Call) -> Judge:
    """The judge of a program by its name; a version or the kind of a build at the name's end is
    taken off.
    """
    if call.argv[0].startswith(("/etc/init.d/", "/etc/rc.d/")):
        return lambda call: judge_program(call.again(["service", *call.argv]))
    if call.name not in TABLE:
        name = _BUILD.sub("", call.name)
        match = _VERSION.fullmatch(name)
        if match and (match[2] or _VERSIONED.fullmatch(match[1])):
            name = match[1]
        if name not in TABLE:
            return FALLBACK
        call.name = name
    return judge_program


def judge_program(call: Call) -> str | None:
    """What is known of a program."""
    row = call.row
    judge_aspects(call, row)
    if row.has("modules") and call.options.has("m") and call.options.rest:
        module, *args = call.options.rest
        if f"python:{module}" in TABLE:
            return judge_program(call.named(f"python:{module}", args))
    words = behind_verb(call, row)
    if words is not None:
        return run_behind_verb(call, row, words)
    if row.hook in _REHEARSED and is_dry(call, row):
        return None
    judge = HOOKS.get(row.hook) or (judge_by_row if call.name in TABLE.known else FALLBACK)
    output = exact_output(call, row, judge(call))
    return (output or LOCAL) + call.printed if call.printed else output


def all_rules() -> tuple[Rule, ...]:
    """Every rule with its examples."""
    return tuple(TABLE.rules.values())
