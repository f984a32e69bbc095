"""Programs that do what a verb among their arguments says: a small grammar for such tables."""

from __future__ import annotations

import re

import msgspec

from hermetic.policy.call import Call, Judge
from hermetic.policy.rules import Rule
from hermetic.policy.tables import names

from .unseen import UNKNOWN_COMMAND, is_wholly_unseen


class Verbs(msgspec.Struct, frozen=True):
    """A program's verbs: the words before options, and what a match of the joined words means."""

    rules: tuple[tuple[str, Rule, str], ...]  # pattern over the words, rule, reason
    values: str = ""  # options that take a value, separated by blanks
    harmless: str = ""  # pattern over all arguments that makes the call harmless


_VERB_FIRST = names("kubectl oc terraform tofu systemctl git aws gcloud az helm docker podman redis-cli pulumi")
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


def with_known_verbs(judges: dict[str, Judge]) -> dict[str, Judge]:
    """The same judges for programs that can destroy, with a verb nobody can know reported."""

    def joined(judge: Judge) -> Judge:
        def both(call: Call) -> str | None:
            words = words_of(call.args, "-n --namespace --context -C -c --profile --region -H --project")
            verbs = words[:2] if call.name == "aws" else words[:1]
            if any(is_wholly_unseen(verb) for verb in verbs):
                call.report(UNKNOWN_COMMAND, f"does something with {call.name} that cannot be known beforehand")
            return judge(call)

        return both

    return {name: joined(judges[name]) for name in _VERB_FIRST}


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
