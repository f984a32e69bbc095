"""Makefiles: the lines that the recipes of targets hand to a shell, with make's own variables put in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from hermetic.policy.tables import regex

MAX_NESTED = 8
_ASSIGNMENT = regex(r"(?:export\s+|override\s+)*([\w.-]+)\s*(?:[:?+]|::)?=\s*(.*)")
_SHELL = regex(r"\$[({]shell\s+(.*)[)}]|^[\w.-]+\s*!=\s*(.*)")
_RULE = regex(r"([^\s#=][^=#]*?)\s*::?(?!=)\s*([^;#]*)(?:;(.*))?")
# A reference: `$$`, `$x`, or one in brackets without others inside.
_REFERENCE = regex(r"\$(?:(\$)|([@<^*?+%\w])|\(([^()${}]*)\)|\{([^()${}]*)\})")
_SUBSTITUTED = regex(r"([\w.-]+):(\S*)=(\S*)")
_PATTERN = regex(r"patsubst\s+([^,]*),([^,]*),(.*)")
_TAKEN = regex(r"(?:wildcard|sort|strip|abspath|realpath|dir|notdir|basename|firstword|or)\s+(.*)")


def commands_of(
    text: str, words: list[str], settings: Mapping[str, str], indents: str = "\t"
) -> Iterator[str]:
    """Shell code that make runs for the targets among `words`, or for all targets where none of
    them has a rule; `settings` are variables of the command line, `indents` begin the lines of a
    recipe.
    """
    variables: dict[str, str] = {}
    indents += "".join(re.findall(r"(?m)^\.RECIPEPREFIX\s*[:?+]*=\s*(\S)", text))
    rules: list[tuple[list[str], list[str], list[str]]] = []  # targets, what they need, recipe
    for line in text.replace("\\\n", " ").split("\n"):
        if line[:1] in indents and line.strip() and rules:
            rules[-1][2].append(line[1:].strip())
        elif found := _SHELL.search(line):
            yield _filled(found[1] or found[2], {**variables, **settings}, "")
        elif match := _ASSIGNMENT.fullmatch(line.strip()):
            variables[match[1]] = match[2]
        elif match := _RULE.fullmatch(line.rstrip()):
            rules.append((match[1].split(), match[2].split(), [match[3]] if match[3] else []))
    variables.update(settings)
    wanted = _wanted(rules, words)
    for targets, _, recipe in rules:
        if not wanted or wanted.intersection(targets) or "%" in "".join(targets):
            for line in recipe:
                yield _filled(line.lstrip("@-+ "), variables, targets[0].replace("%", "*"))


def _wanted(rules: list[tuple[list[str], list[str], list[str]]], words: list[str]) -> set[str]:
    """The targets asked for, with those that they need; none where one of them has no rule."""
    needs: dict[str, list[str]] = {}
    for targets, needed, _ in rules:
        for target in targets:
            needs.setdefault(target, []).extend(needed)
    found, left = set[str](), list(words)
    while left:
        if (target := left.pop()) not in found:
            found.add(target)
            left += needs.get(target, ())
    return found if all(word in needs for word in words) else set()


def _filled(text: str, variables: Mapping[str, str], target: str) -> str:
    """Text with make's references replaced; those to variables that the file does not set are the
    shell's.
    """

    def value(match: re.Match[str]) -> str:
        name = match[2] or match[3] or match[4] or ""
        if name.startswith("shell "):
            return f"\0({name[6:]})"
        if match[1] or name[:1] in tuple("@<^*?+%"):
            return "\0" if match[1] else target
        if found := _SUBSTITUTED.fullmatch(name):
            return variables.get(found[1], "").replace(found[2] or "\0", found[3])
        if found := _PATTERN.fullmatch(name):
            return found[2].replace("%", "*")
        if found := _TAKEN.fullmatch(name):
            return found[1]
        return variables.get(name, f"${{{name}}}" if name.isidentifier() else "\0{NOT_SEEN}")

    for _ in range(MAX_NESTED):
        before, text = text, _REFERENCE.sub(value, text)
        if text == before:
            break
    return text.replace("\0", "$")
