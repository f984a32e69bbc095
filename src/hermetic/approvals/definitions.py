"""What a session's shell has defined, read from the text that bash prints."""

import hashlib
import re

from hermetic.contract.verdict import ShellState
from hermetic.policy.shell import SECRET_NAME
from hermetic.policy.shell.quoting import decode_ansi_c

_DOUBLE, _ANSI = r'"[^"\\]*(?:\\.[^"\\]*)*"', r"\$'[^'\\]*(?:\\.[^'\\]*)*'"
_ARRAY = rf"\((?:[^\"'()\\$]+|\\.|{_DOUBLE}|{_ANSI}|\$)*\)"
_VALUE = rf"{_DOUBLE}|{_ANSI}|{_ARRAY}|[^\n]*"
_DECLARATION = re.compile(
    rf"declare -(?P<flags>\S+) (?P<name>[A-Za-z_]\w*)(?:=(?P<value>{_VALUE}))?(?:\n|$)", re.DOTALL
)
_UNREADABLE = "("  # as a function's body: the policy takes what it cannot read for dangerous
_FUNCTION = re.compile(r"^(\S+) \(\) ?$", re.MULTILINE)
# of a function that is exported, behind its brace
_ATTRIBUTES = re.compile(r"\ndeclare -f\w* \S+\Z")
_ALIAS = re.compile(r"^alias (?:-- )?([^\s=]+)=((?:'[^']*'|\\')*)", re.MULTILINE)
_ELEMENT = re.compile(rf"\[({_ANSI}|{_DOUBLE}|[^\]]*)\]=({_ANSI}|{_DOUBLE})", re.DOTALL)
# Ours, or what bash itself sets anew each time; the policy knows what stands for the ids of
# processes.
_SKIPPED = re.compile(
    r"__h|HERMETIC_COMMAND$|BASH(_[A-Z]+|OPTS|PID)?$|FUNCNAME$|PIPESTATUS$|DIRSTACK$|GROUPS$|SHELLOPTS$|PPID$|E?UID$|_$"
    r"|S?RANDOM$|SECONDS$|LINENO$|EPOCH|SHLVL$|PWD$|OPT(ERR|IND)$"
)


def read_definitions(text: str) -> ShellState:
    """The state in the texts of `declare -p`, `declare -f`, `alias -p`, and of traps in pairs, a
    NUL behind each.
    """
    declarations, functions, aliases, *traps = (*text.split("\0"), "", "", "")
    declared = list(_DECLARATION.finditer(declarations))
    values = {one["name"]: one["value"] for one in declared if one["value"] is not None}
    aliased = {one["name"] for one in declared if "n" in one["flags"]}  # other names for variables
    variables = {
        one["name"]: _value(one["value"] or "()", one["flags"])
        for one in declared
        if (one["value"] is not None or "A" in one["flags"])
        and one["name"] not in aliased
        and _counts(one["name"])
    }
    home = variables.pop("HOME", None)
    exports_all = "allexport" in values.get("SHELLOPTS", "")
    secrets = sorted(
        one[0] for one in declared if one["value"] is not None and SECRET_NAME.search(one["name"])
    )
    return ShellState(
        home=home if isinstance(home, str) and home.startswith("/") else None,
        variables=variables,
        functions=_functions(functions),
        aliases={name: _unquoted_alias(value) for name, value in _ALIAS.findall(aliases)},
        traps={name: code for name, code in zip(traps[::2], traps[1::2], strict=False) if name},
        references={name: _unquoted(values.get(name, "")) for name in aliased},
        lastpipe=re.search(r"\blastpipe\b", values.get("BASHOPTS", "")) is not None,
        # Tells one set of secrets from another, and reveals none of them.
        secrets=hashlib.sha256("".join(secrets).encode("utf-8", "surrogatepass")).hexdigest()[:16]
        if secrets
        else "",
        exported=None
        if exports_all
        else tuple(one["name"] for one in declared if "x" in one["flags"]),
    )


def _counts(name: str) -> bool:
    """Whether it is a variable that commands may use, and no secret: none of ours, none that bash
    itself sets.
    """
    is_skipped = _SKIPPED.match(name) and name not in ("BASH_ENV", "BASH_CMDS")
    return not (is_skipped or SECRET_NAME.search(name))


def _value(value: str, flags: str) -> str | list[str] | dict[str, str]:
    if not value.startswith("("):
        return _unquoted(value)
    pairs = {_unquoted(key): _unquoted(text) for key, text in _ELEMENT.findall(value)}
    is_list = "A" not in flags and list(pairs) == list(map(str, range(len(pairs))))
    return list(pairs.values()) if is_list else pairs


def _functions(text: str) -> dict[str, str]:
    """Name → body; bash prints each name on a line of its own, and a brace alone behind it.

    A text inside of a function may look like another one. Then the first is cut where it cannot be
    read, and a name that comes twice cannot be read either.
    """
    starts = [
        found for found in _FUNCTION.finditer(text) if _is_after_function(text, found.start())
    ]
    found: dict[str, str] = {}
    for at, start in enumerate(starts):
        end = starts[at + 1].start() if at + 1 < len(starts) else len(text)
        body = _ATTRIBUTES.sub("", text[start.end() : end].strip())
        found[start[1]] = _UNREADABLE if start[1] in found else body
    return found


def _is_after_function(text: str, at: int) -> bool:
    """Whether a function may begin there: at the start, behind a brace, behind the attributes of an
    exported one.
    """
    before = text[text.rfind("\n", 0, max(at - 1, 0)) + 1 : at]
    if before.startswith("declare -f"):
        at -= len(before)
    return at == 0 or text[at - 2 : at] == "}\n"


def _unquoted_alias(text: str) -> str:
    """An alias as bash prints it: in single quotes, and each of its own as '\\''."""
    pieces = re.findall(r"'[^']*'|\\'", text)
    return "".join(piece.strip("'") if piece.startswith("'") else "'" for piece in pieces)


def _unquoted(word: str) -> str:
    """A value as bash prints it: "…" with backslashes, $'…' with escapes, or bare."""
    if word.startswith("$'"):
        return decode_ansi_c(word, 2)[0]
    if word.startswith('"'):
        return re.sub(r'\\([$`"\\])', r"\1", word[1:-1])
    return word
