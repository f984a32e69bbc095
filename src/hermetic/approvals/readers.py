"""Which language a program that reads takes its input for, by its name and words."""

import re
from collections.abc import Sequence

from hermetic.approvals.typed import Language

_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "mksh", "rbash"})
_PYTHON = re.compile(r"(i?python|pypy)[\d.]*$")
_VALUED = ("-o", "+o", "-O", "+O", "--rcfile", "--init-file", "-X", "-W")
_CODE_MODULES = frozenset({"IPython", "code", "pdb", "ptpython", "bpython", "asyncio"})


def language_of(program: str, argv: Sequence[str]) -> Language | None:
    """The language whose code it would run when it reads a line; None for anything else."""
    names = {program, argv[0].lstrip("-").rsplit("/", 1)[-1] if argv else ""}
    if names & _SHELLS:
        return "shell" if _reads_code(argv[1:], "c") else None
    if any(_PYTHON.match(name) for name in names):
        return "python" if _reads_code(argv[1:], "cm") else None
    return None


def may_read_code(program: str) -> bool:
    """Whether a program of that name could run what it reads, now or later; one without a name is just starting."""
    return not program or program in _SHELLS or bool(_PYTHON.match(program))


def _reads_code(words: Sequence[str], elsewhere: str) -> bool:
    """Whether its code comes from its input: not where an option or an operand says where else it comes from."""
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word in _VALUED:
            rest[:1] = []
        elif word in ("-", "--"):
            return word == "-" or not rest
        elif word.startswith("--"):
            continue
        elif word.startswith(("-", "+")):
            letters = word[1:]
            if "i" in letters and elsewhere == "cm":
                return True
            if "s" in letters and elsewhere == "c":
                return True
            if "m" in letters and elsewhere == "cm":
                return bool(rest) and rest[0] in _CODE_MODULES
            if "c" in letters:
                return False
        else:
            return False
    return True
