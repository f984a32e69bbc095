"""Whether a rule of the user's applies to something that a text does."""

import re
from fnmatch import fnmatchcase

import msgspec

from hermetic.approvals.settings import RuleSettings
from hermetic.policy.acts import Act
from hermetic.policy.hosts import hosts_in
from hermetic.policy.marks import is_known

# Options before the word that says what a program does, which take the next word as their value.
_VALUED: dict[str, frozenset[str]] = {
    "git": frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env"}),
    "docker": frozenset({"-H", "--host", "-c", "--context", "--config", "-l", "--log-level"}),
    "podman": frozenset({"--connection", "-c", "--root", "--url"}),
    "kubectl": frozenset({"-n", "--namespace", "--context", "--kubeconfig", "--cluster", "--user", "-s", "--server"}),
    "npm": frozenset({"--prefix", "-w", "--workspace"}),
    "helm": frozenset({"-n", "--namespace", "--kube-context", "--kubeconfig"}),
    "terraform": frozenset(),
    "systemctl": frozenset({"-H", "--host", "-M", "--machine", "-t", "--type"}),
}


class Ground(msgspec.Struct, frozen=True):
    """By which a rule's paths are made whole."""

    home: str
    workspace: str


def applies(rule: RuleSettings, act: Act, ground: Ground, *, loosely: bool) -> bool:
    """Whether the rule is about this act. `loosely`: what cannot be known, and words hidden behind options, count."""
    if rule.command:
        return act.deed == "run" and _is_command(rule, act.words, loosely)
    if rule.path:
        if act.deed not in rule.acts:
            return False
        if loosely and act.deed == "delete" and _is_above(act.path, rule.path, ground):
            return True
        return is_below(act.path, rule.path, ground, loosely=loosely)
    return any(_is_host(host, rule.network, loosely) for host in hosts_of(act))


def hosts_of(act: Act) -> list[str]:
    """The hosts that an act reaches."""
    return [act.host] if act.deed == "reach" else hosts_in(act.words) if act.deed == "run" else []


def _is_command(rule: RuleSettings, words: tuple[str, ...], loosely: bool) -> bool:
    readings = [words, _without_options(words)] if loosely else [words]
    return any(_begins(rule, reading, loosely) for reading in readings)


def _begins(rule: RuleSettings, words: tuple[str, ...], loosely: bool) -> bool:
    wanted = rule.command
    if len(words) < len(wanted) or (rule.exact and len(words) != len(wanted)):
        return False
    name = words[0] if "/" in wanted[0] else words[0].rsplit("/", 1)[-1]
    if not fnmatchcase(name, wanted[0]):
        return False
    pairs = zip(words[1 : len(wanted)], wanted[1:], strict=True)
    return all(fnmatchcase(word, pattern) if is_known(word) else loosely for word, pattern in pairs)


def _without_options(words: tuple[str, ...]) -> tuple[str, ...]:
    """The words without the options between a program and what it is told to do."""
    name = words[0].rsplit("/", 1)[-1]
    valued, rest = _VALUED.get(name, frozenset()), list(words[1:])
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option in valued and rest:
            rest.pop(0)
    return (words[0], *rest)


def is_below(path: str, pattern: str, ground: Ground, *, loosely: bool) -> bool:
    """Whether a whole path is what a rule's glob names; `**` stands for any directories."""
    if not is_known(path):
        return loosely
    return bool(_glob(whole(pattern, ground)).fullmatch(path))


def _is_above(path: str, pattern: str, ground: Ground) -> bool:
    """Whether what a rule names lies in a directory, and goes with it."""
    return whole(pattern, ground).startswith(path.rstrip("/") + "/")


def whole(pattern: str, ground: Ground) -> str:
    """A glob from the root: `~` is the home, what is relative lies in the workspace."""
    if pattern == "~" or pattern.startswith("~/"):
        return ground.home + pattern[1:]
    return (
        pattern if pattern.startswith(("/", "**")) else f"{ground.workspace.rstrip('/')}/{pattern.removeprefix('./')}"
    )


def _glob(pattern: str) -> "re.Pattern[str]":
    """`**/` any directories or none, `**` anything, `*` and `?` within a name; a directory covers what is below."""
    out = ""
    for piece in re.split(r"(\*\*/|\*\*|\*|\?)", pattern.removesuffix("/**").rstrip("/")):
        out += {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}.get(piece, re.escape(piece))
    return re.compile(f"{out}(?:/.*)?", re.DOTALL)


def _is_host(host: str, pattern: str, loosely: bool) -> bool:
    if not is_known(host):
        return loosely
    return fnmatchcase(host.lower(), pattern.lower()) or host.lower() == pattern.lower().removeprefix("*.")
