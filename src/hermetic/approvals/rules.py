"""The user's rules: checked by their own examples when they are read, and applied to the acts of a
text.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from hermetic.approvals.matching import (
    Directories,
    applies,
    is_below,
    is_inside,
    is_named,
    words_of,
)
from hermetic.approvals.settings import RuleSettings
from hermetic.contract.errors import ConfigError
from hermetic.contract.verdict import Part
from hermetic.policy.acts import Act
from hermetic.policy.assess import examine_command
from hermetic.policy.explain import examples_that_fail
from hermetic.policy.extension import SETTING, Extension
from hermetic.policy.marks import shown
from hermetic.policy.shell import DEFAULT_HOME, DEFAULT_WORKSPACE
from hermetic.policy.tables import names

# Programs that do whatever their words say: a rule for the program as a whole would allow
# everything.
ANYTHING = frozenset(
    names(
        """
sh bash dash zsh ksh ash fish csh tcsh busybox toybox python python2 python3 ipython perl ruby node nodejs deno bun
php lua Rscript R awk gawk mawk sed tclsh expect sudo doas su pkexec env eval exec command xargs find parallel nohup
timeout nice setsid ssh watch time chroot nsenter unshare systemd-run vim vi ed ld.so npx uvx
"""
    )
)
# Programs whose operands say what they do, and to what: their name, or their name and options, is
# not enough.
WITH_OPERAND = frozenset(
    names(
        """
git rm rmdir mv cp chmod chown dd ln install rsync scp curl wget tar npm pip pipx cargo docker podman kubectl make
"""
    )
)
EVERYTHING = ("/", "/**", "**", "~", "~/**", "*", "**/*")
_VERSION = re.compile(r"[\d.]+$")
_EXAMPLES = Directories(DEFAULT_HOME, DEFAULT_WORKSPACE)


class Rules:
    """All rules of the user's.

    Raises ConfigError for one that says too much, or that its own examples contradict.
    """

    def __init__(self, rules: Sequence[RuleSettings] = (), deny: Sequence[str] = ()) -> None:
        self._rules = tuple(rules)
        self._deny = tuple(glob.lower() for glob in deny)
        self.is_empty = not (rules or deny)
        if not all(glob.strip() for glob in deny):
            raise ConfigError(
                "approvals.deny holds an empty text; take it out", setting="approvals.deny"
            )
        for number, rule in enumerate(rules, 1):
            if problem := _problem(rule):
                raise ConfigError(
                    f"approvals.rules, number {number}: {problem}", setting="approvals.rules"
                )

    def __repr__(self) -> str:
        return f"<Rules: {len(self._rules)}, and {len(self._deny)} denied globs>"

    def denied(self, text: str, acts: Sequence[Act], directories: Directories) -> str | None:
        """Why this never runs; None when no rule denies it."""
        if glob := self._denied_glob(text, acts, directories):
            return f"approvals.deny has {glob!r}"
        for act in acts:
            for rule in self._rules:
                if rule.decision == "deny" and (
                    applies(rule, act, directories, loosely=act.is_known or bool(rule.command))
                    or is_inside(rule, act, directories)
                ):
                    return (
                        f"your rule denies {rule.named}{f': {rule.reason}' if rule.reason else ''}"
                    )
        return None

    def asked(
        self, acts: Sequence[Act], directories: Directories
    ) -> Iterator[tuple[Act, RuleSettings]]:
        """The acts that need an approval by a rule: the first rule that is no denial decides for
        each.
        """
        for act in acts:
            for rule in self._rules:
                if rule.decision == "deny":
                    if not act.is_known and applies(rule, act, directories, loosely=True):
                        yield act, rule  # it may be what is denied
                elif applies(rule, act, directories, loosely=rule.decision == "ask"):
                    if rule.decision == "ask":
                        yield act, rule
                    break

    def allows(self, part: Part, directories: Directories) -> bool:
        """Whether a rule allows this part of a command; never what a redirection beside it does."""
        only_files = bool(part.effects) and set(part.effects) <= {"writes", "deletes"}
        for rule in self._rules:
            if part.hardline or rule.decision != "allow":
                continue
            if (
                rule.path
                and part.path
                and only_files
                and is_below(part.path, rule.path, directories)
            ):
                return True
            run = Act("run", part.argv)
            if (
                rule.command
                and part.source == "program"
                and applies(rule, run, directories, loosely=False)
            ):
                return True
        return False

    def _denied_glob(self, text: str, acts: Sequence[Act], directories: Directories) -> str | None:
        if not self._deny:
            return None
        programs = [words for act in acts for words in words_of(act, directories)]
        folded = [
            " ".join(one.lower().split())
            for one in (text, *(shown(" ".join(words)) for words in programs))
        ]
        for glob in self._deny:
            if any(fnmatchcase(one, glob) for one in folded) or any(
                is_named(words, glob) for words in programs
            ):
                return glob
        return None


def extension_of(layers: Sequence[Mapping[str, Any]]) -> Extension | None:
    """The rows of the settings.

    Raises ConfigError for one that cannot be used, or that its own examples contradict.
    """
    if not layers:
        return None
    extension = Extension(layers)
    for problem in examples_that_fail(extension):
        raise ConfigError(f"{SETTING}: {problem}", setting=SETTING)
    return extension


def _problem(rule: RuleSettings) -> str:
    """What is wrong with a rule; empty when nothing is."""
    if sum(map(bool, (rule.command, rule.path, rule.network))) != 1:
        return "a rule names one of command, path and network"
    if not all(rule.command):
        return "command holds an empty word"
    if not rule.matches:
        return "a rule needs matches: commands that it applies to, by which it is checked"
    if rule.decision == "allow":
        if rule.path in EVERYTHING or rule.network in ("*", "**"):
            return "it would allow everything; name a directory or a host"
        if rule.command and (problem := breadth(rule.command, exact=rule.exact)):
            return problem
    for example in rule.matches:
        if not _catches(rule, example):
            return f"it does not apply to {example!r}, which it says it matches"
    for example in rule.spares:
        if _catches(rule, example):
            return f"it applies to {example!r}, which it says it spares"
    return ""


def _catches(rule: RuleSettings, example: str) -> bool:
    acts = examine_command(example).acts
    return any(applies(rule, act, _EXAMPLES, loosely=rule.decision != "allow") for act in acts)


def breadth(words: tuple[str, ...], *, exact: bool = False) -> str:
    """Why a program with these first words is too much to allow; empty when it is not."""
    name = _VERSION.sub("", words[0].rsplit("/", 1)[-1])
    rest = words[1:]
    if "*" in words[0] or "?" in words[0]:
        return "an allowed program is named whole, without * and ?"
    if name in ANYTHING and not (
        exact and rest and not any("*" in word or "?" in word for word in rest)
    ):
        return f"{name} runs whatever it is told: allow one exact command (exact = true), not {name} as a whole"
    if name in WITH_OPERAND and not any(
        not word.startswith("-") and word not in ("*", "**") for word in rest
    ):
        return f"it would allow {name} as a whole; say what it may do, and to what"
    return ""
