"""The spellings of one effect: the words by which a rule of the user's may name what a program does."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

import msgspec

from hermetic.policy.marks import is_known


class Program(msgspec.Struct, frozen=True):
    """Options that stand before the word which says what a program does. Any other may take a value or not."""

    valued: str = ""
    flags: str = ""


_GIT = Program(
    "-C -c --git-dir --work-tree --namespace --exec-path --config-env --super-prefix",
    "-p -P --paginate --no-pager --bare --no-replace-objects --literal-pathspecs --no-optional-locks",
)
_DOCKER = Program(
    "-H --host -c --context --config -l --log-level --connection --root --url --tlscacert --tlscert --tlskey",
    "-D --debug --tls --tlsverify -r --remote",
)
_NPM = Program(
    "--prefix -w --workspace --loglevel --registry --userconfig --cache --otp --tag --cwd -C --dir --filter -F",
    "-s --silent -q --quiet -d -dd -ddd --verbose -g --global -y --yes -ws --workspaces --dry-run --offline",
)
_KUBE = Program("-n --namespace --context --kube-context --kubeconfig --cluster --user -s --server -t --type -M -H")
_PROGRAMS = {
    "git": _GIT, "hub": _GIT, "docker": _DOCKER, "podman": _DOCKER, "npm": _NPM, "yarn": _NPM, "pnpm": _NPM,
    "kubectl": _KUBE, "helm": _KUBE, "systemctl": _KUBE,
}  # fmt: skip
_UNKNOWN = Program()

# Other words for the same effect. `*` stands for a part of a word.
_SAME: tuple[tuple[str, str], ...] = (
    ("git send-pack", "git push"),
    ("git http-push", "git push"),
    ("git subtree push", "git push"),
    ("git lfs push", "git push"),
    ("git svn dcommit", "git push"),
    ("git p4 submit", "git push"),
    ("hub push", "git push"),
    ("jj git push", "git push"),
    ("npm pub*", "npm publish"),
    ("yarn npm publish", "npm publish"),
    ("yarn publish", "npm publish"),
    ("pnpm publish", "npm publish"),
    ("bun publish", "npm publish"),
    ("cnpm publish", "npm publish"),
    ("lerna publish", "npm publish"),
    ("docker image push", "docker push"),
    ("docker manifest push", "docker push"),
    ("docker image rm", "docker rmi"),
    ("docker container *", "docker *"),
    ("podman image push", "podman push"),
    ("podman manifest push", "podman push"),
    ("podman image rm", "podman rmi"),
    ("podman container *", "podman *"),
)
# Letters of an option, and words, that mean a long option.
_LONG = {"git push": {"f": "--force", "d": "--delete", "+": "--force", ":": "--delete"}}


def _by_program(
    same: tuple[tuple[str, str], ...],
) -> dict[str, list[tuple[tuple[str, ...], tuple[str, ...]]]]:
    """Program → its other spellings: the words behind its name, and the usual ones for the whole."""
    found: dict[str, list[tuple[tuple[str, ...], tuple[str, ...]]]] = {}
    for spelling, usual in same:
        program, *behind = spelling.split()
        found.setdefault(program, []).append((tuple(behind), tuple(usual.split())))
    return found


_SPELLINGS = _by_program(_SAME)


def readings(words: tuple[str, ...]) -> list[tuple[str, ...]]:
    """A program's words, and the same in the words that most people use for what it does."""
    if not words:
        return []
    name = words[0].rsplit("/", 1)[-1]
    found = [words]
    if name.startswith("git-"):
        name, words = "git", ("git", name[4:], *words[1:])
        found.append(words)
    for spelling, usual in _SPELLINGS.get(name, ()):
        found += _respelled(words, spelling, usual)
    return [*dict.fromkeys(_with_long_options(reading) for reading in found)]


def _respelled(words: tuple[str, ...], spelling: tuple[str, ...], usual: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for end in ends(words, spelling):
        verb = words[end - 1] if usual[-1] == "*" else usual[-1]
        skipped = [word for word in words[1:end] if word.startswith("-")]
        yield (*usual[:-1], verb, *skipped, *words[end:])


def _with_long_options(words: tuple[str, ...]) -> tuple[str, ...]:
    for usual, letters in _LONG.items():
        name, verb = usual.split()
        if words[0].rsplit("/", 1)[-1] == name and ends(words, (verb,)):
            meant = {letters.get(letter) for word in words[1:] for letter in _letters(word)} - {None}
            return (*words, *sorted(str(one) for one in meant if one not in words))
    return words


def _letters(word: str) -> str:
    """The letters of bundled options; the sign before a ref that is forced or deleted."""
    if word.startswith("--"):
        return ""
    return word[1:] if word.startswith("-") else word[:1] if word[:1] in ("+", ":") and len(word) > 1 else ""


def ends(words: tuple[str, ...], wanted: tuple[str, ...]) -> set[int]:
    """Where the words end that are wanted next, with options between them, and options in any place.

    Empty when they do not follow. A word that cannot be known may be any.
    """
    program = _PROGRAMS.get(words[0].rsplit("/", 1)[-1], _UNKNOWN)
    places = {1}
    for pattern in wanted:
        if pattern.startswith("-"):
            if not any(fnmatchcase(word, pattern) for word in words[1:]):
                return set()
            continue
        reached, program = skipping(program, words, places), _UNKNOWN
        places = {at + 1 for at in reached if not is_known(words[at]) or fnmatchcase(words[at], pattern)}
    return places


def skipping(program: Program, words: tuple[str, ...], places: set[int]) -> set[int]:
    """The places of the next word that is no option, whether an unknown option takes a value or not."""
    found: set[int] = set()
    seen: set[int] = set()
    open_places = list(places)
    while open_places:
        at = open_places.pop()
        if at in seen or at >= len(words):
            continue
        seen.add(at)
        word = words[at]
        if not word.startswith("-") or word == "-":
            found.add(at)
            continue
        if word not in program.valued.split():
            open_places.append(at + 1)
        if "=" not in word and word != "--" and word not in program.flags.split():
            open_places.append(at + 2)
    return found


def is_named(words: tuple[str, ...], glob: str) -> bool:
    """Whether a glob of command lines names a program's words in any spelling; without `*` at its end, all of them."""
    name, *wanted = glob.split()
    for reading in readings(tuple(map(str.lower, words))):
        if fnmatchcase(reading[0].rsplit("/", 1)[-1], name):
            found = ends(reading, tuple(wanted))
            if found if glob.endswith("*") else len(reading) in found:
                return True
    return False
