"""How a verdict came about: the programs of a text, what is known of each, what was found, and
examples of rows.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from hermetic.contract.verdict import Verdict

from .assess import NOTHING_KNOWN, Surroundings, examine_command
from .extension import Extension
from .marks import shown
from .programs.catalog import HOOKS
from .programs.table import TABLE
from .shell.findings import Step


class FoundRule(msgspec.Struct, frozen=True):
    """A rule that applied."""

    rule: str
    category: str
    label: str
    reason: str


class Command(msgspec.Struct, frozen=True):
    """A program of a text, as it would be run."""

    command: str
    start: int  # where the command that runs it stands in the text, in bytes
    end: int
    depth: int  # 1 for a command of the text itself, more for one that another program runs
    # what judged it: rows by their files, hooks, code, the generic rule, rows of yours
    knowledge: tuple[str, ...]
    effects: tuple[str, ...]  # what it reads, writes, deletes and reaches
    rules: tuple[FoundRule, ...]


class Explanation(msgspec.Struct, frozen=True):
    """A verdict and the commands it is made of."""

    verdict: Verdict
    commands: tuple[Command, ...]


def explain_command(text: str, around: Surroundings = NOTHING_KNOWN) -> Explanation:
    """What a shell text would do, program by program."""
    judged: list[Step] = []
    verdict = examine_command(text, around, judged=judged).verdict
    return Explanation(verdict, tuple(_command(step, around.extension) for step in judged))


def _command(step: Step, extension: Extension | None) -> Command:
    call = step.call
    own = [finding for finding in step.findings if finding.argv in ((), tuple(call.argv))]
    rules = [FoundRule(one.rule.name, one.rule.category, one.rule.label, one.reason) for one in own]
    effects = [f"{act.deed} {act.shown()}" for act in step.acts if act.deed != "run"]
    return Command(
        command=shown(call.text()),
        start=step.span[0],
        end=step.span[1],
        depth=step.depth,
        knowledge=tuple(_knowledge(call.name, step.is_unknown, extension)),
        effects=tuple(dict.fromkeys(effects)),
        rules=tuple(dict.fromkeys(rules)),
    )


def _knowledge(name: str, is_unknown: bool, extension: Extension | None) -> Iterator[str]:
    for source in TABLE.sources.get(name, ()):
        yield f"row of {source}.toml"
    if hook := HOOKS.get(TABLE.row(name).hook):
        yield f"hook {hook.__module__.removeprefix('hermetic.policy.programs.')}"
    if is_unknown:
        yield "generic rule"
    if extension is not None and name in extension:
        yield "row of yours"


def examples_that_fail(extension: Extension) -> Iterator[str]:
    """What the rules of a user say they catch or spare, and do not."""
    around = Surroundings(extension=extension)
    for rule in extension.rules:
        if not rule.catches:
            yield f"rule {rule.name} needs catches: commands that it applies to, by which it is checked"
        wanted_of = dict.fromkeys(rule.spares, False) | dict.fromkeys(rule.catches, True)
        for command, wanted in wanted_of.items():
            parts = examine_command(command, around).verdict.parts
            if any(part.rule == rule.name for part in parts) is not wanted:
                yield f"rule {rule.name} {'misses' if wanted else 'catches'} {command!r}"
