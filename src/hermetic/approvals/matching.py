"""Whether a rule of the user's applies to an act of a text, in any spelling of the same effect."""

import re
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import cache
from typing import NamedTuple

from hermetic.approvals.settings import RuleSettings
from hermetic.policy.acts import Act
from hermetic.policy.hosts import hosts_in
from hermetic.policy.marks import GLOBS, has_glob, is_known
from hermetic.policy.network import ipv4

# Of a path with globs that is compared with a rule's; a longer one counts as what the rule names.
MOST_PARTS = 64
MOST_CHARACTERS = 64


class Directories(NamedTuple):
    """What `~` and relative paths of rules mean."""

    home: str
    workspace: str

    def whole(self, pattern: str) -> str:
        """A glob from the root: `~` is the home, a relative one lies in the workspace."""
        if pattern == "~" or pattern.startswith("~/"):
            return self.home + pattern[1:]
        if pattern.startswith(("/", "**")):
            return pattern
        return f"{self.workspace.rstrip('/')}/{pattern.removeprefix('./')}"


def applies(rule: RuleSettings, act: Act, directories: Directories, *, loosely: bool) -> bool:
    """Whether the rule is about this act.

    `loosely`: unknown words, and words hidden behind options, count.
    """
    if rule.command:
        return any(
            _is_command(rule, words, loosely)
            for words in words_of(act, directories, loosely=loosely)
        )
    if rule.path:
        if act.deed not in rule.acts:
            return False
        if loosely:
            return _may_touch(act, directories.whole(rule.path))
        return is_below(act.path, rule.path, directories)
    hosts = [act.host] if act.deed == "reach" else hosts_in(act.words) if act.deed == "run" else []
    return any(_is_host(host, rule.network) if is_known(host) else loosely for host in hosts)


def words_of(act: Act, directories: Directories, *, loosely: bool = True) -> list[tuple[str, ...]]:
    """A program's words; loosely also `rm` and its operand for every other way to delete a file."""
    if act.deed == "run":
        return [act.words]
    if act.deed == "delete" and act.scope and loosely:
        inner = act.path.removeprefix(directories.workspace.rstrip("/") + "/")
        return [("rm", "-rf", inner) if act.scope == "tree" else ("rm", inner)]
    return []


def is_named(words: tuple[str, ...], glob: str) -> bool:
    """Whether a glob of command lines names a program's words in any spelling; without `*` at its
    end, all of them.
    """
    name, *wanted = glob.split()
    for reading in _readings(tuple(map(str.lower, words))):
        if fnmatchcase(_name(reading[0]), name):
            found = _ends(reading, wanted)
            if found if glob.endswith("*") else len(reading) in found:
                return True
    return False


def _is_command(rule: RuleSettings, words: tuple[str, ...], loosely: bool) -> bool:
    program, *wanted = rule.command

    def is_program(word: str) -> bool:
        return fnmatchcase(word if "/" in program else _name(word), program)

    if loosely and not rule.exact:
        return any(
            is_program(reading[0]) and bool(_ends(reading, wanted)) for reading in _readings(words)
        )
    if (
        len(words) <= len(wanted)
        or (rule.exact and len(words) != len(rule.command))
        or not is_program(words[0])
    ):
        return False
    pairs = zip(words[1:], wanted, strict=False)
    return all(fnmatchcase(word, pattern) if is_known(word) else loosely for word, pattern in pairs)


def _name(program: str) -> str:
    return program.rsplit("/", 1)[-1]


# -- spellings of one effect
class _Options(NamedTuple):
    """Options before the word that says what a program does. Any other may take a value or not."""

    valued: str = ""
    flags: str = ""


_GIT = _Options(
    "-C -c --git-dir --work-tree --namespace --exec-path --config-env --super-prefix",
    "-p -P --paginate --no-pager --bare --no-replace-objects --literal-pathspecs --no-optional-locks",
)
_DOCKER = _Options(
    "-H --host -c --context --config -l --log-level --connection --root --url --tlscacert --tlscert --tlskey",
    "-D --debug --tls --tlsverify -r --remote",
)
_NPM = _Options(
    "--prefix -w --workspace --loglevel --registry --userconfig --cache --otp --tag --cwd -C --dir --filter -F",
    "-s --silent -q --quiet -d -dd -ddd --verbose -g --global -y --yes -ws --workspaces --dry-run --offline",
)
_KUBE = _Options(
    "-n --namespace --context --kube-context --kubeconfig --cluster --user -s --server -t --type -M -H"
)
_OPTIONS = {
    **dict.fromkeys(("git", "hub"), _GIT),
    **dict.fromkeys(("docker", "podman"), _DOCKER),
    **dict.fromkeys(("npm", "yarn", "pnpm"), _NPM),
    **dict.fromkeys(("kubectl", "helm", "systemctl"), _KUBE),
}
# The usual words for an effect → others for the same. `*` stands for a part of a word.
_SAME = {
    "git push": "git send-pack, git http-push, git subtree push, git lfs push, git svn dcommit, git p4 submit, "
    "hub push, jj git push",
    "npm publish": "npm pub*, yarn npm publish, yarn publish, pnpm publish, bun publish, cnpm publish, lerna publish, "
    "yarn workspace * npm publish, yarn workspace * publish, yarn workspaces foreach npm publish, changeset publish, "
    "jsr publish, semantic-release, np",
    "docker push": "docker image push, docker manifest push",
    "docker rmi": "docker image rm",
    "docker *": "docker container *",
    "podman push": "podman image push, podman manifest push",
    "podman rmi": "podman image rm",
    "podman *": "podman container *",
}
_SPELLINGS = [
    (program, verbs, usual.split())
    for usual, others in _SAME.items()
    for program, *verbs in map(str.split, others.split(", "))
]
# Letters of an option of `git push`, and signs before a ref, that mean a long option.
_LONG = {"f": "--force", "d": "--delete", "+": "--force", ":": "--delete"}


def _readings(words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """A program's words, and the same in the words that most people use for what it does."""
    if not words:
        return
    yield _with_long_options(words)
    name = _name(words[0])
    if name.startswith("git-"):
        name, words = "git", ("git", name[4:], *words[1:])
        yield _with_long_options(words)
    for program, verbs, (usual, verb) in _SPELLINGS:
        for end in _ends(words, verbs) if program == name else ():
            skipped = [word for word in words[1:end] if word.startswith("-")]
            meant = words[end - 1] if verb == "*" else verb
            yield _with_long_options((usual, meant, *skipped, *words[end:]))


def _with_long_options(words: tuple[str, ...]) -> tuple[str, ...]:
    if _name(words[0]) != "git" or not _ends(words, ["push"]):
        return words
    letters = [letter for word in words[1:] for letter in _letters(word)]
    meant = {_LONG[letter] for letter in letters if letter in _LONG}
    return (*words, *sorted(meant.difference(words)))


def _letters(word: str) -> str:
    """The letters of bundled options; the sign before a ref that is forced or deleted."""
    if word.startswith("-"):
        return "" if word.startswith("--") else word[1:]
    return word[0] if len(word) > 1 and word[0] in "+:" else ""


def _ends(words: tuple[str, ...], wanted: Sequence[str]) -> set[int]:
    """Where the wanted words end, with options between them, and wanted options in any position.

    Empty when they do not follow. An unknown word may be any.
    """
    options = _OPTIONS.get(_name(words[0]), _Options())
    ends = {1}
    for pattern in wanted:
        if pattern.startswith("-"):
            if not any(fnmatchcase(word, pattern) for word in words[1:]):
                return set()
            continue
        reached, options = _after_options(options, words, ends), _Options()
        ends = {
            at + 1 for at in reached if not is_known(words[at]) or fnmatchcase(words[at], pattern)
        }
    return ends


def _after_options(options: _Options, words: tuple[str, ...], starts: set[int]) -> set[int]:
    """The positions of the next word that is no option, whether an unknown option takes a value or
    not.
    """
    found: set[int] = set()
    seen: set[int] = set()
    open_positions = list(starts)
    while open_positions:
        at = open_positions.pop()
        if at in seen or at >= len(words):
            continue
        seen.add(at)
        word = words[at]
        if not word.startswith("-") or word == "-":
            found.add(at)
            continue
        if word not in options.valued.split():
            open_positions.append(at + 1)
        if "=" not in word and word != "--" and word not in options.flags.split():
            open_positions.append(at + 2)
    return found


# -- paths
def is_inside(rule: RuleSettings, act: Act, directories: Directories) -> bool:
    """Whether all that an act may touch is what the rule's path names, though not all of the act is
    known.
    """
    if not rule.path or act.deed not in rule.acts:
        return False
    return bool(_glob(directories.whole(rule.path)).fullmatch(act.path))


def is_below(path: str, pattern: str, directories: Directories) -> bool:
    """Whether a whole path is what a rule's glob names; `**` stands for any directories."""
    return is_known(path) and bool(_glob(directories.whole(pattern)).fullmatch(path))


def _glob(pattern: str) -> "re.Pattern[str]":
    """`**/` any directories or none, `**` anything, `*` and `?` within a name; a directory covers
    what is below.
    """
    out = ""
    for piece in re.split(r"(\*\*/|\*\*|\*|\?)", pattern.removesuffix("/**").rstrip("/")):
        out += {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}.get(
            piece, re.escape(piece)
        )
    return re.compile(f"{out}(?:/.*)?", re.DOTALL)


def _may_touch(act: Act, pattern: str) -> bool:
    """Whether an act may touch what a rule's whole glob names.

    Both may hold globs, and the act unknown parts.
    """
    ruled = pattern.removesuffix("/**").strip("/").split("/")
    fixed = next((at for at, part in enumerate(ruled) if "*" in part or "?" in part), len(ruled))
    # a directory goes with what is named in it
    takes_all = act.deed == "delete" and act.scope != "one" and fixed > 0
    if is_known(act.path) and not has_glob(act.path):
        above = takes_all and "/".join(["", *ruled[:fixed], ""]).startswith(
            act.path.rstrip("/") + "/"
        )
        return above or bool(_glob(pattern).fullmatch(act.path))
    # An unknown part of the path may be many.
    acted = ["**" if not is_known(part) else part for part in act.path.strip("/").split("/")]
    if len(acted) > MOST_PARTS:
        return True
    only_below = act.scope == "one" and pattern.endswith("/**") and has_glob(acted[-1])
    below = [*ruled, "*", "**"] if only_below else [*ruled, "**"]
    if _overlap(acted, below, _names_overlap, "**"):
        return True
    return takes_all and _overlap([*acted, "**"], ruled[:fixed], _names_overlap, "**")


def _names_overlap(one: str, other: str) -> bool:
    """Whether there is a name that both match; the shell's globs pass over a leading dot."""
    if not has_glob(one):
        return fnmatchcase(one, other)
    if one[0] in GLOBS and other.startswith("."):
        return False
    if len(one) > MOST_CHARACTERS:
        return True
    return _overlap(_characters(one), _characters(other), lambda a, b: a == b or "?" in (a, b), "*")


def _characters(name: str) -> str:
    """The name with `*` for any characters and `?` for one."""
    plain = re.sub(rf"{GLOBS[2]}[^\]]*\]", "?", name)
    return plain.translate(str.maketrans(GLOBS, "*??"))


def _overlap(
    one: Sequence[str], other: Sequence[str], equal: Callable[[str, str], bool], many: str
) -> bool:
    """Whether two sequences with wildcards have a common instance; takes time in proportion to
    their product.
    """

    @cache
    def from_here(at: int, there: int) -> bool:
        if at < len(one) and one[at] == many:
            return from_here(at + 1, there) or (there < len(other) and from_here(at, there + 1))
        if there < len(other) and other[there] == many:
            return from_here(at, there + 1) or (at < len(one) and from_here(at + 1, there))
        if at == len(one) or there == len(other):
            return at == len(one) and there == len(other)
        return equal(one[at], other[there]) and from_here(at + 1, there + 1)

    return from_here(0, 0)


# -- hosts
def _is_host(host: str, pattern: str) -> bool:
    name, wanted = _plain_host(host), _plain_host(pattern)
    return fnmatchcase(name, wanted) or name == wanted.removeprefix("*.")


def _plain_host(name: str) -> str:
    """A host's name without the dot at its end, an address in the usual spelling."""
    bare = name.lower().rstrip(".")
    numbers = ipv4(bare)
    return bare if numbers is None else ".".join(map(str, numbers))
