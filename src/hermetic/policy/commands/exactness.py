"""Filters whose output is computed only for the options that are modelled; with any other it is unknown.

A text folded wrongly would be worse than one that is not known.
"""

import re

from hermetic.policy.call import Call, Judge
from hermetic.policy.marks import LOCAL, UNSET, is_known, unknown_like

# Program → the letters and long names whose meaning is computed. A digit alone is a count.
MODELLED: dict[str, tuple[str, tuple[str, ...]]] = {
    "tr": ("dcC", ("delete", "complement")),
    "cut": ("bcdf", ("delimiter", "fields", "characters", "bytes")),
    "head": ("nc", ("lines", "bytes")),
    "tail": ("nc", ("lines", "bytes")),
    "rev": ("", ()),
    "tac": ("", ()),
    "fold": ("w", ("width",)),
    "sort": ("rof", ("reverse", "output")),
    "uniq": ("", ()),
    "paste": ("sd", ()),
    "sed": ("ne", ("quiet", "silent", "expression")),
    "seq": ("", ()),
}
_NEVER = frozenset({"join", "comm", "shuf", "column", "pr", "nl", "fmt"})


def _is_modelled(call: Call) -> bool:
    letters, long = MODELLED[call.name]
    values = "".join(letter for letter in letters if letter in "bcdfnowe")
    for arg in call.args:
        if arg.startswith("--"):
            if arg != "--" and arg[2:].partition("=")[0] not in long:
                return False
        elif re.match(r"-[A-Za-z]", arg):
            for letter in arg[1:]:
                if letter not in letters:
                    return False
                if letter in values:
                    break
    if call.name == "tr":
        return not any(re.search(r"\[(?!:)", arg) for arg in call.args)
    return not (call.name == "paste" and "-s" not in call.args and not any(a.startswith("-s") for a in call.args))


def exact(judges: dict[str, Judge]) -> dict[str, Judge]:
    """The same judges, whose output is unknown wherever it was not computed by every option given."""

    def checked(judge: Judge) -> Judge:
        def one(call: Call) -> str | None:
            output = judge(call)
            if output is None or not is_known(output) or not output.strip():
                return output
            if call.name not in _NEVER and _is_modelled(call):
                return output
            return unknown_like(output).replace(UNSET, LOCAL) + "\n"

        return one

    return {name: checked(judges[name]) for name in (*MODELLED, *_NEVER) if name in judges}
