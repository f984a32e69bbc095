"""Which files a search covers: globs, ignore files, and hidden files. The rules are ripgrep's."""

from __future__ import annotations

import re

from ..wire.fields import invalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Tuple

    # of paths; whether they are kept; whether only directories match
    Rule = Tuple["re.Pattern[str]", bool, bool]

MOST_BRACES = 8  # nested
_STAR = "[^/]*"
IGNORE_FILES = (".rgignore", ".ignore", ".gitignore")  # earlier files take precedence


def glob_pattern(glob: str) -> str:
    """A regular expression for whole paths:

    `*` and `?` stop at a slash, `**` does not. Raises re.error.
    """
    parts = _parts(glob)
    if "**" in glob or "{" in glob:
        return "".join(parts)
    # Each star matches as little as possible up to the next one. Otherwise many stars would
    # backtrack exponentially.
    stars = [at for at, part in enumerate(parts) if part == _STAR]
    for number in range(len(stars) - 1):
        at, end = stars[number], stars[number + 1]
        parts[at] = "(?=(?P<s%d>%s?" % (number, _STAR)
        parts[end - 1] += "))(?P=s%d)" % number
    return "".join(parts)


def _parts(glob: str) -> list[str]:
    out, at, depth = [], 0, 0
    while at < len(glob):
        char = glob[at]
        at += 1
        if char == "*" and glob.startswith("*", at):
            at += 1
            if glob.startswith("/", at) and (at == 2 or glob[at - 3] == "/"):
                at += 1
                out.append("(?:.*/)?")
            else:
                out.append(".*")
        elif char == "*":
            out.append(_STAR)
        elif char == "?":
            out.append("[^/]")
        elif char == "[" and (end := _class_end(glob, at)) > 0:
            inner = glob[at:end].replace("\\", "\\\\")
            out.append(
                "[%s]" % ("^" + inner[1:] if inner[0] in "!^" else inner).replace("[", "\\[")
            )
            at = end + 1
        elif char == "{":
            depth += 1
            if depth > MOST_BRACES:
                raise re.error("more than %d braces in each other" % MOST_BRACES)
            out.append("(?:")
        elif char == "}" and depth:
            depth -= 1
            out.append(")")
        elif char == "," and depth:
            out.append("|")
        elif char == "\\" and at < len(glob):
            out.append(re.escape(glob[at]))
            at += 1
        else:
            out.append(re.escape(char))
    return [*out, ")" * depth]


def _class_end(glob: str, at: int) -> int:
    """Index of the end of a class that starts here; -1 if it has none."""
    start = at + 1 if glob[at : at + 1] in ("!", "^") else at
    return glob.find("]", start + 1)


class Glob:
    """A caller's glob: for names if it has no slash, else for whole paths below the searched
    directory.
    """

    def __init__(self, glob: str) -> None:
        self.text = glob
        self.has_slash = "/" in glob
        try:
            self.pattern = re.compile(glob_pattern(glob.lstrip("/")), re.DOTALL)
        except (re.error, OverflowError, RecursionError) as error:
            message = "%s is no glob: %s; escape what is meant literally with a backslash" % (
                glob[:100],
                error,
            )
            raise invalid("glob", message) from error

    def matches(self, path: str) -> bool:
        return (
            self.pattern.fullmatch(path if self.has_slash else path.rpartition("/")[2]) is not None
        )


def read_rules(text: str) -> list[Rule]:
    """The rules of an ignore file, for paths relative to its directory."""
    rules = []
    for line in text.split("\n"):
        line = line.rstrip("\r")
        while line.endswith(" ") and not line.endswith("\\ "):
            line = line[:-1]
        if not line or line.startswith("#"):
            continue
        keeps = line.startswith("!")
        line = line[1:] if keeps else line
        directories = line.endswith("/")
        line = line.rstrip("/") if directories else line
        if not line:
            continue
        anchored = "/" in line
        line = line.lstrip("/").replace("{", "\\{").replace("}", "\\}")
        body = glob_pattern(line[:-3]) + "/.+" if line.endswith("/**") else glob_pattern(line)
        try:
            rules.append(
                (re.compile(body if anchored else "(?:.*/)?" + body, re.DOTALL), keeps, directories)
            )
        except re.error:
            continue
    return rules


class Ignores:
    """Ignore rules of a directory and its parents."""

    def __init__(self, above: Ignores | None = None, name: str = "") -> None:
        self.above, self.name = above, name
        self.rules: dict[str, list[Rule]] = {}  # by ignore file
        self.is_repository = False  # .gitignore files above it do not apply

    def add(self, file: str, text: str) -> None:
        self.rules[file] = read_rules(text)

    def verdict(self, name: str, is_directory: bool) -> bool | None:
        """True: ignored. False: kept, even if hidden. None: no rule matches."""
        for file in IGNORE_FILES:
            level: Ignores | None = self
            path = name
            while level is not None:
                found = _judge(level.rules.get(file, ()), path, is_directory)
                if found is not None:
                    return found
                path = level.name + "/" + path
                level = None if level.is_repository and file == ".gitignore" else level.above
        return None


def _judge(rules: Sequence[Rule], path: str, is_directory: bool) -> bool | None:
    for pattern, keeps, directories in reversed(rules):
        if (is_directory or not directories) and pattern.fullmatch(path):
            return not keeps
    return None


def is_wanted(ignores: Ignores, name: str, is_directory: bool, glob: Glob | None) -> bool:
    """Whether a search covers a file or enters a directory.

    A glob for names also covers hidden files.
    """
    said = ignores.verdict(name, is_directory)
    if said:
        return False
    if not is_directory and glob is not None and not glob.has_slash:
        return glob.matches(name)
    return said is False or not name.startswith(".")
