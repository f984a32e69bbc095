"""Values that are not real secrets: examples of documentation, templates, words."""

import re

_EXAMPLE = re.compile(
    r"example|x{4}|\*{3}|\.{3}|…|placeholder|dummy|replace|change_?me|insert|redacted|your[_-]|0{8}|1234567|abcdefg|deadbeef"
    r"|eyJzdWIiOiIxMjM0NTY3ODkwIi",
    re.IGNORECASE,
)
_FEWEST_LETTERS = 6  # different ones; a random value of twenty characters has more

# A value that is computed, filled in later, or names where the real one is.
_TEMPLATE = re.compile(
    r"^[<\[{(]|[$%]\{|\$\(|^\$\w|\{\{|^%\w|^%\(|^@\w+@$|^__\w+__$|^!\w|^(?:env|file|vault|secret|ref|op)[:+]"
)
_PLACE = re.compile(
    r"^(?:#[0-9a-fA-F]{3,8}$|/|\./|\.\./|~(?:/|$)|[A-Za-z]:\\|[a-z][a-z0-9+.-]{1,20}://)"
)
_PLAIN = re.compile(
    r"^(?:[A-Za-z][a-z]*|[A-Z]+|[\d.,:-]+|(?:true|false|null|none|nil|undefined|yes|no|on|off))$",
    re.IGNORECASE,
)
_PATH_IN_CODE = re.compile(r"^[A-Za-z_$][\w$]*(?:(?:\.|::|->)[A-Za-z_$][\w$]*)+$")
_IDENTIFIER = re.compile(r"^[A-Za-z_][\w.-]*$")  # token_1, my-secret2: what a program calls it
_BESIDES_LETTERS = re.compile(r"[\d!@#$%^&*+=?~|/]")


def is_example(token: str) -> bool:
    """True for the values that documentation shows in place of a real one."""
    return _EXAMPLE.search(token) is not None or len(set(token)) < _FEWEST_LETTERS


def is_literal(value: str, name: str, *, quoted: bool) -> bool:
    """True when the value of a secret-like name is a secret, not a word, a path, a template or
    code.
    """
    if len(value) < 6 or _TEMPLATE.search(value) or _PLACE.match(value) or _EXAMPLE.search(value):
        return False
    if " " in value or _PLAIN.match(value) or (not quoted and _PATH_IN_CODE.match(value)):
        return False
    if name.lower() in value.lower() and _IDENTIFIER.match(value):
        return False
    return any(char.isalpha() for char in value) and _BESIDES_LETTERS.search(value) is not None
