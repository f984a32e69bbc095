"""Whether a rule of the user's applies to something that a text does."""

import re
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase

import msgspec

from hermetic.approvals.readings import ends, readings
from hermetic.approvals.settings import RuleSettings
from hermetic.policy.acts import Act
from hermetic.policy.hosts import hosts_in
from hermetic.policy.marks import GLOBS, STAR, has_glob, is_known
from hermetic.policy.network import ipv4

# Of a path with globs that is compared with a rule's; a longer one counts as what the rule names.
MOST_PARTS = 64
MOST_CHARACTERS = 64


class Directories(msgspec.Struct, frozen=True):
    """By which a rule's paths are made whole."""

    home: str
    workspace: str


def applies(rule: RuleSettings, act: Act, ground: Directories, *, loosely: bool) -> bool:
    """Whether the rule is about this act. `loosely`: what cannot be known, and words hidden behind options, count."""
    if rule.command:
        return any(_is_command(rule, words, loosely) for words in words_of(act, ground, loosely=loosely))
    if rule.path:
        if act.deed not in rule.acts:
            return False
        return _may_touch(act, whole(rule.path, ground)) if loosely else is_below(act.path, rule.path, ground)
    return any(_is_host(host, rule.network, loosely) for host in hosts_of(act))


def is_inside(rule: RuleSettings, act: Act, ground: Directories) -> bool:
    """Whether all that an act may touch is what the rule's path names, though not all of the act is known."""
    return bool(rule.path) and act.deed in rule.acts and bool(_glob(whole(rule.path, ground)).fullmatch(act.path))


def words_of(act: Act, ground: Directories, *, loosely: bool = True) -> list[tuple[str, ...]]:
    """A program's words; loosely also `rm` and its operand for every other way to delete a file."""
    if act.deed == "run":
        return [act.words]
    if act.deed == "delete" and act.scope and loosely:
        inner = act.path.removeprefix(ground.workspace.rstrip("/") + "/")
        return [("rm", "-rf", inner) if act.scope == "tree" else ("rm", inner)]
    return []


def hosts_of(act: Act) -> list[str]:
    """The hosts that an act reaches."""
    return [act.host] if act.deed == "reach" else hosts_in(act.words) if act.deed == "run" else []


def _is_command(rule: RuleSettings, words: tuple[str, ...], loosely: bool) -> bool:
    if rule.exact or not loosely:
        return _begins(rule, words, loosely)
    return any(
        _is_name(reading[0], rule.command[0]) and bool(ends(reading, rule.command[1:])) for reading in readings(words)
    )


def _is_name(word: str, pattern: str) -> bool:
    return fnmatchcase(word if "/" in pattern else word.rsplit("/", 1)[-1], pattern)


def _begins(rule: RuleSettings, words: tuple[str, ...], loosely: bool) -> bool:
    wanted = rule.command
    if len(words) < len(wanted) or (rule.exact and len(words) != len(wanted)) or not _is_name(words[0], wanted[0]):
        return False
    pairs = zip(words[1 : len(wanted)], wanted[1:], strict=True)
    return all(fnmatchcase(word, pattern) if is_known(word) else loosely for word, pattern in pairs)


def is_below(path: str, pattern: str, ground: Directories) -> bool:
    """Whether a whole path is what a rule's glob names; `**` stands for any directories."""
    return is_known(path) and bool(_glob(whole(pattern, ground)).fullmatch(path))


def whole(pattern: str, ground: Directories) -> str:
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


# -- two patterns that may meet
def _may_touch(act: Act, pattern: str) -> bool:
    """Whether an act may touch what a rule's whole glob names. Both may hold globs, and the act unknown parts."""
    ruled = pattern.removesuffix("/**").strip("/").split("/")
    fixed = next((at for at, part in enumerate(ruled) if "*" in part or "?" in part), len(ruled))
    takes_all = act.deed == "delete" and act.scope != "one" and fixed > 0  # a directory goes with what is named in it
    if is_known(act.path) and not has_glob(act.path):
        above = takes_all and "/".join(["", *ruled[:fixed], ""]).startswith(act.path.rstrip("/") + "/")
        return above or bool(_glob(pattern).fullmatch(act.path))
    acted = _parts(act.path)
    if len(acted) > MOST_PARTS:
        return True
    only_below = act.scope == "one" and pattern.endswith("/**") and bool(acted) and has_glob(acted[-1])
    return _meet(acted, [*ruled, *(["*"] if only_below else []), "**"]) or (
        takes_all and _meet([*acted, "**"], ruled[:fixed])
    )


def _parts(path: str) -> list[str]:
    """The parts of a path; one that cannot be known may be many."""
    return ["**" if not is_known(part) else part for part in path.strip("/").split("/")]


def _meet(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether there is a path that both patterns name; `**` stands for any number of names."""
    return _overlap(one, other, _names_meet, "**")


def _names_meet(one: str, other: str) -> bool:
    """Whether there is a name that both name; the shell's globs pass over a leading dot."""
    if not has_glob(one):
        return fnmatchcase(one, other)
    if one[0] in GLOBS and other.startswith("."):
        return False
    if len(one) > MOST_CHARACTERS:
        return True
    return _overlap(_characters(one), _characters(other), lambda a, b: a == b or "?" in (a, b), "*")


def _characters(name: str) -> list[str]:
    """Its characters, with `*` for any and `?` for one."""
    return list(
        re.sub(rf"{GLOBS[2]}[^\]]*\]", "?", name).replace(STAR, "*").replace(GLOBS[1], "?").replace(GLOBS[2], "?")
    )


def _overlap(one: Sequence[str], other: Sequence[str], equal: Callable[[str, str], bool], many: str) -> bool:
    """Whether two sequences with wildcards have a common instance; takes time in proportion to their product."""
    reached = {(0, 0)}
    open_places = [(0, 0)]

    def go(place: tuple[int, int]) -> None:
        if place not in reached:
            reached.add(place)
            open_places.append(place)

    while open_places:
        at, there = open_places.pop()
        if at == len(one) and there == len(other):
            return True
        if at < len(one) and one[at] == many:
            go((at + 1, there))
            if there < len(other):
                go((at, there + 1))
        if there < len(other) and other[there] == many:
            go((at, there + 1))
            if at < len(one):
                go((at + 1, there))
        if (
            at < len(one)
            and there < len(other)
            and many not in (one[at], other[there])
            and equal(one[at], other[there])
        ):
            go((at + 1, there + 1))
    return False


def _is_host(host: str, pattern: str, loosely: bool) -> bool:
    if not is_known(host):
        return loosely
    name, wanted = _host(host), _host(pattern)
    return fnmatchcase(name, wanted) or name == wanted.removeprefix("*.")


def _host(name: str) -> str:
    """A host's name without the dot at its end, an address in the usual spelling."""
    bare = name.lower().rstrip(".")
    numbers = ipv4(bare)
    return bare if numbers is None else ".".join(map(str, numbers))
