"""The user's rules: checked when they are read, by their own examples, and applied to what a text does."""

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from hermetic.approvals.matching import Directories, applies, is_below, is_inside, words_of
from hermetic.approvals.readings import is_named
from hermetic.approvals.settings import RuleSettings
from hermetic.contract.errors import ConfigError
from hermetic.contract.verdict import Part
from hermetic.policy.acts import Act
from hermetic.policy.assess import Examined, examine_command
from hermetic.policy.marks import shown
from hermetic.policy.shell import DEFAULT_HOME, DEFAULT_WORKSPACE
from hermetic.policy.tables import names

# Programs that do whatever their words say: allowing them as a whole would allow everything.
ANYTHING = frozenset(
    names(
        """
sh bash dash zsh ksh ash fish csh tcsh busybox toybox python python2 python3 ipython perl ruby node nodejs deno bun
php lua Rscript R awk gawk mawk sed tclsh expect sudo doas su pkexec env eval exec command xargs find parallel nohup
timeout nice setsid ssh watch time chroot nsenter unshare systemd-run vim vi ed ld.so npx uvx
"""
    )
)
# Programs that need to be told what to do, and to what: their name, or their name and options, is not enough.
WITH_OPERAND = frozenset(
    names(
        """
git rm rmdir mv cp chmod chown dd ln install rsync scp curl wget tar npm pip pipx cargo docker podman kubectl make
"""
    )
)
_VERSION = re.compile(r"[\d.]+$")
_EXAMPLES = Directories(DEFAULT_HOME, DEFAULT_WORKSPACE)


class Rules:
    """All rules of the user's. Raises ConfigError for one that says too much, or that its own examples contradict."""

    def __init__(self, rules: Sequence[RuleSettings] = (), deny: Sequence[str] = ()) -> None:
        self._rules = tuple(rules)
        self._deny = tuple(glob.lower() for glob in deny)
        for glob in deny:
            if not glob.strip():
                raise ConfigError("approvals.deny holds an empty text; take it out", setting="approvals.deny")
        for number, rule in enumerate(rules, 1):
            _check(rule, f"approvals.rules, number {number}")

    def __repr__(self) -> str:
        return f"<Rules: {len(self._rules)}, and {len(self._deny)} denied globs>"

    @property
    def is_empty(self) -> bool:
        """True when nothing has to be looked at."""
        return not self._rules and not self._deny

    def denied(self, text: str, acts: Sequence[Act], ground: Directories) -> str | None:
        """Why this never runs; None when no rule denies it."""
        if glob := self._denied_glob(text, acts, ground):
            return f"approvals.deny has {glob!r}"
        for act in acts:
            for rule in self._rules:
                if rule.decision == "deny" and (
                    applies(rule, act, ground, loosely=act.is_known or bool(rule.command))
                    or is_inside(rule, act, ground)
                ):
                    return f"your rule denies {rule.named}{f': {rule.reason}' if rule.reason else ''}"
        return None

    def asked(self, acts: Sequence[Act], ground: Directories) -> Iterator[tuple[Act, RuleSettings]]:
        """The acts that somebody wants to be asked about: the first rule that is no denial decides for each."""
        for act in acts:
            for rule in self._rules:
                if rule.decision == "deny":
                    if not act.is_known and applies(rule, act, ground, loosely=True):
                        yield act, rule  # it may be what is denied
                elif applies(rule, act, ground, loosely=rule.decision == "ask"):
                    if rule.decision == "ask":
                        yield act, rule
                    break

    def allows(self, part: Part, ground: Directories) -> bool:
        """Whether a rule allows this part of a command; never what a redirection beside it does."""
        if part.hardline or not self._rules:
            return False
        for rule in self._rules:
            if rule.decision != "allow" or rule.network:
                continue
            if (
                rule.command
                and part.source == "program"
                and applies(rule, Act("run", part.argv), ground, loosely=False)
            ):
                return True
            if rule.path and _only_changes(part) and is_below(part.path, rule.path, ground):
                return True
        return False

    def _denied_glob(self, text: str, acts: Sequence[Act], ground: Directories) -> str | None:
        if not self._deny:
            return None
        programs = [words for act in acts for words in words_of(act, ground)]
        folded = [" ".join(one.lower().split()) for one in (text, *(shown(" ".join(words)) for words in programs))]
        for glob in self._deny:
            if any(fnmatchcase(one, glob) for one in folded) or any(is_named(words, glob) for words in programs):
                return glob
        return None


def _only_changes(part: Part) -> bool:
    """Whether files are all that this part touches."""
    return bool(part.path and part.effects) and set(part.effects) <= {"writes", "deletes"}


def _check(rule: RuleSettings, place: str) -> None:
    named = [bool(rule.command), bool(rule.path), bool(rule.network)]
    if sum(named) != 1:
        raise _wrong(place, "a rule names one of command, path and network")
    if rule.command and not all(rule.command):
        raise _wrong(place, "command holds an empty word")
    if not rule.matches:
        raise _wrong(place, "a rule needs matches: commands that it applies to, by which it is checked")
    if rule.decision == "allow":
        _check_breadth(rule, place)
    for example in rule.matches:
        if not _catches(rule, examine_command(example)):
            raise _wrong(place, f"it does not apply to {example!r}, which it says it matches")
    for example in rule.spares:
        if _catches(rule, examine_command(example)):
            raise _wrong(place, f"it applies to {example!r}, which it says it spares")


def _catches(rule: RuleSettings, examined: Examined) -> bool:
    return any(applies(rule, act, _EXAMPLES, loosely=rule.decision != "allow") for act in examined.acts)


def _check_breadth(rule: RuleSettings, place: str) -> None:
    if rule.path in ("/", "/**", "**", "~", "~/**", "*", "**/*") or rule.network in ("*", "**"):
        raise _wrong(place, "it would allow everything; name a directory or a host")
    if rule.command and (problem := breadth(rule.command, exact=rule.exact)):
        raise _wrong(place, problem)


def breadth(words: tuple[str, ...], *, exact: bool = False) -> str:
    """Why a program with these first words is too much to allow; empty when it is not."""
    name = _VERSION.sub("", words[0].rsplit("/", 1)[-1])
    rest = words[1:]
    if "*" in words[0] or "?" in words[0]:
        return "an allowed program is named whole, without * and ?"
    if name in ANYTHING and not (exact and rest and not any("*" in word or "?" in word for word in rest)):
        return f"{name} runs whatever it is told: allow one exact command (exact = true), not {name} as a whole"
    if name in WITH_OPERAND and not any(not word.startswith("-") and word not in ("*", "**") for word in rest):
        return f"it would allow {name} as a whole; say what it may do, and to what"
    return ""


def _wrong(place: str, problem: str) -> ConfigError:
    return ConfigError(f"{place}: {problem}", setting="approvals.rules")
