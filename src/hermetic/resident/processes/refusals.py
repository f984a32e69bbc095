"""Exit code and reason of a program that did not start, as in bash."""

from __future__ import annotations

import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NOT_FOUND, NOT_EXECUTABLE = 127, 126  # exit codes
FIRST_LINE_BYTES = 256  # of a script, as the kernel reads it


def refusal(
    error: BaseException, argv: Sequence[str], environ: Mapping[str, str]
) -> tuple[int, str]:
    """The exit code, and the program with the reason, after a failed exec.

    A directory of PATH that cannot be searched says nothing about a program behind it or nowhere.
    """
    program = argv[0]
    if "/" not in program:
        found = find(program, os.get_exec_path(environ))
        if found is None:
            return NOT_FOUND, f"{program}: command not found"
        program = found
        try:
            os.execve(program, [*argv], environ)  # fails for a reason of its own
        except OSError as its_own:
            error = its_own
    if not isinstance(error, OSError) or error.errno is None:
        return NOT_FOUND, f"{program}: {error}"
    reason = os.strerror(error.errno)
    is_there = os.path.isfile(program)
    line = first_line(program) if is_there else ""
    interpreter = interpreter_of(line)
    if error.errno == errno.ENOENT:
        missing = (
            f"its interpreter {interpreter} is missing" if interpreter else "its loader is missing"
        )
        return NOT_FOUND, f"{program}: {missing if is_there else reason}"
    if error.errno == errno.EACCES and os.path.isdir(program):
        reason = os.strerror(errno.EISDIR)
    elif error.errno == errno.EACCES and interpreter and os.access(program, os.X_OK):
        reason = f"its interpreter {interpreter}: {reason}"
    elif error.errno == errno.ENOEXEC and line.isprintable():
        reason += "; without a line #! it needs its interpreter as a word before it"
    return NOT_EXECUTABLE, f"{program}: {reason}"


def find(name: str, folders: list[str]) -> str | None:
    """The file that a shell runs by this name: an executable one, else the first of all."""
    files = [path for folder in folders if os.path.isfile(path := os.path.join(folder, name))]
    return next((path for path in files if os.access(path, os.X_OK)), files[0] if files else None)


def first_line(path: str) -> str:
    """What the kernel reads of a script's first line; empty where that is not allowed."""
    try:
        with open(path, "rb", buffering=0) as file:
            return os.fsdecode(file.read(FIRST_LINE_BYTES)).partition("\n")[0]
    except OSError:
        return ""


def interpreter_of(line: str) -> str | None:
    """The program that the first line of a script names; quoted where it would not show."""
    words = line[2:].replace("\t", " ").strip(" ").split(" ") if line.startswith("#!") else [""]
    return (words[0] if words[0].isprintable() else repr(words[0])) if words[0] else None
