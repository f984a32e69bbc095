"""Programs that do what a verb among their arguments says: a small grammar for such tables."""

from __future__ import annotations

import re

import msgspec

from hermetic.policy.call import Call, Judge
from hermetic.policy.rules import Rule


class Verbs(msgspec.Struct, frozen=True):
    """A program's verbs: the words before options, and what a match of the joined words means."""

    rules: tuple[tuple[str, Rule, str], ...]  # pattern over the words, rule, reason
    values: str = ""  # options that take a value, separated by blanks
    harmless: str = ""  # pattern over all arguments that makes the call harmless


_HELP = re.compile(r"(^|\s)(--help|--version|-h|help)(\s|$)")


def words_of(args: list[str], values: str = "") -> list[str]:
    """The arguments that are not options nor their values."""
    with_value = frozenset(values.split())
    words: list[str] = []
    skip = False
    for arg in args:
        if skip:
            skip = False
        elif arg in with_value:
            skip = True
        elif not arg.startswith("-") or arg == "-":
            words.append(arg)
    return words


def judge_with(table: dict[str, Verbs]) -> dict[str, Judge]:
    """Judges for the programs of a table."""

    def judge(call: Call) -> str | None:
        spec = table[call.name]
        everything = " ".join(call.args)
        if _HELP.search(everything) and not re.search(r"(^|\s)-h\s+\S", everything):
            return None
        if spec.harmless and re.search(spec.harmless, everything):
            return None
        words = " ".join(words_of(call.args, spec.values))
        for pattern, rule, reason in spec.rules:
            subject = everything if pattern.startswith("!") else words
            if re.search(pattern.removeprefix("!"), subject):
                call.report(rule, reason)
                break
        return None

    return dict.fromkeys(table, judge)
