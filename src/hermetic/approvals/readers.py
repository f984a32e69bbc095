"""Which language a program that reads takes its input for, and what was typed into a process so
far.
"""

import asyncio
import re
from collections.abc import Sequence

from hermetic.approvals.typed_input import Language, Transcript
from hermetic.policy.tables import names

_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "mksh", "rbash"})
_PYTHON = re.compile(r"(i?python|pypy)[\d.]*$")
_VERSION = re.compile(r"[\d.]+$|\.(?:basic|tiny|nox|gtk3)$")  # lua5.4, vim.basic
_VALUED = ("-o", "+o", "-O", "+O", "--rcfile", "--init-file", "-X", "-W")
# Programs whose input the policy judges: code of a language, commands of a database, lines with an
# escape to a shell.
_INPUT = frozenset(
    names(
        """
node nodejs deno bun ruby irb pry php lua luajit perl R julia Rscript tclsh sqlite3 psql mysql mariadb redis-cli
mongosh mongo ed sftp ftp lftp gdb lldb dc octave guile xonsh nu pwsh expect awk gawk mawk nawk sed parallel socat
"""
    )
)
_SCRIPTED = frozenset(
    names(
        """
node nodejs deno bun ruby php lua luajit perl julia Rscript tclsh octave guile xonsh nu pwsh expect awk gawk mawk
nawk sed
"""
    )
)
_STDIN = frozenset({"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})
# Programs that take keys, and run a shell's command behind an escape.
_KEYS = frozenset(names("vim vi nvim view ex vimdiff rvim less more most man"))
_CODE_MODULES = frozenset({"IPython", "code", "pdb", "ptpython", "bpython", "asyncio"})


def language_of(program: str, argv: Sequence[str]) -> Language | None:
    """The language whose code it would run when it reads a line; None for anything else."""
    if argv and argv[0].endswith("busybox"):
        argv = argv[1:]
    called = {program, argv[0].lstrip("-").rsplit("/", 1)[-1] if argv else ""}
    called |= {_VERSION.sub("", name) for name in called}
    if called & _SHELLS:
        return "shell" if _reads_code(argv[1:], is_python=False) else None
    if any(_PYTHON.match(name) for name in called):
        return "python" if _reads_code(argv[1:], is_python=True) else None
    if called & _INPUT:
        return None if called & _SCRIPTED and _has_script(argv[1:]) else "input"
    return "keys" if called & _KEYS else None


def _has_script(words: Sequence[str]) -> bool:
    """Whether an operand names the code: what it reads is data then, unless it is interactive all
    the same.
    """
    return (
        "-i" not in words
        and "--interactive" not in words
        and _STDIN.isdisjoint(words)
        and any(not word.startswith("-") for word in words)
    )


def may_read_code(program: str) -> bool:
    """Whether a program of that name could run what it reads, now or later; one without a name is
    just starting.
    """
    return not program or program in _SHELLS or bool(_PYTHON.match(program))


def _reads_code(words: Sequence[str], *, is_python: bool) -> bool:
    """Whether its code comes from its input: not where an option or an operand says where else it
    comes from.
    """
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word in _VALUED:
            rest[:1] = []
        elif word == "--":
            return not rest or rest[0] in _STDIN
        elif word in _STDIN:
            return True
        elif word.startswith("--"):
            continue
        elif word.startswith(("-", "+")):
            if ("i" if is_python else "s") in word:
                return True
            if is_python and "m" in word:
                return bool(rest) and rest[0] in _CODE_MODULES
            if "c" in word:
                return False
        else:
            return False
    return True


class ProcessInput:
    """What was typed into one process so far."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()  # one input is judged after the other
        self.transcript: Transcript | None = None
        self._pid = 0  # of the program that reads

    def of_reader(
        self,
        pid: int,
        language: Language,
        *,
        terminal: bool,
        ahead: bool = False,
        argv: Sequence[str] = (),
    ) -> Transcript:
        """What that program has been typed so far; a new one begins anew."""
        before = self.transcript
        if before is None or (self._pid, before.language, before.is_ahead) != (
            pid,
            language,
            ahead,
        ):
            # The program that reads the rest of a line reads its beginning, and lines that came
            # before it.
            half, ran = (before.half, before.ahead) if before is not None else ("", "")
            ran = ran if language == "shell" else ""
            before = Transcript(
                language, terminal=terminal, ahead=ahead, half=half, ran=ran, argv=argv
            )
            self._pid, self.transcript = pid, before
        return before
