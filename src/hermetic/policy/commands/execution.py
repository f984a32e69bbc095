"""Running code: shells, eval, source, traps, and code nobody can see."""

from __future__ import annotations

from hermetic.policy.call import Call, Judge
from hermetic.policy.effects import read
from hermetic.policy.marks import DECODED, LOCAL, NET, is_known, marks_in, shown
from hermetic.policy.options import parse_options
from hermetic.policy.paths import classify, resolve
from hermetic.policy.shell import Shell
from hermetic.policy.tables import names
from hermetic.policy.traps import EVENTS, keep, signal_name

from .interpreters import run_script
from .unseen import DYNAMIC_CODE, FORK_BOMB, OPAQUE_CODE, REMOTE_CODE, execute, run_code

SHELLS = names(
    """
sh bash dash zsh ksh ash mksh rbash fish csh tcsh yash oksh hush pdksh lksh rzsh posh osh elvish nu xonsh ksh93
rksh
"""
)
_LASTPIPE = frozenset(names("zsh rzsh ksh ksh93 rksh mksh lksh oksh pdksh"))


def _starts_itself(call: Call, full: str) -> bool:
    """True when a script would run itself, which is reported when it does not wait for its copy."""
    if full not in call.shell.scripts:
        return False
    if call.machine.forking:
        call.report(FORK_BOMB, f"a script starts copies of itself without end: {shown(full)}")
    return True


def run_file(call: Call, word: str) -> str | None:
    """Running a file by its path: its content when this text wrote it, None when nothing is known of it."""
    full = resolve(word, call.shell)
    if _starts_itself(call, full):
        return LOCAL
    held = call.shell.files.get(full)
    if full in call.shell.copies:
        return call.run([call.shell.copies[full], *call.args])
    if held is None:
        if call.shell.is_fetched(full):
            call.report(REMOTE_CODE, f"runs a program that was just downloaded: {shown(word)}")
            return LOCAL
        if classify(full, call.shell) == "temp":
            hides = full.startswith("/dev/shm/") or full.rsplit("/", 1)[-1].startswith(".")
            call.report(
                OPAQUE_CODE if hides else DYNAMIC_CODE, f"runs a program from where anyone can write: {shown(word)}"
            )
        return None
    if not is_known(held) and execute(call, held, "a script"):
        return LOCAL
    return run_script(call, held, full)


def _script(call: Call, path: str, args: list[str]) -> str | None:
    """`sh FILE`: the content when known, else whether the file can be trusted."""
    if path == "-" or path in ("/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"):
        return _from_stdin(call, args)
    full = resolve(path, call.shell)
    if _starts_itself(call, full):
        return LOCAL
    if full in call.shell.files or call.shell.is_fetched(full):
        shell = call.shell.fork()
        shell.positional = args
        shell.name0, shell.scripts = path, (*call.shell.scripts, full)
        held = call.shell.files.get(full)
        if held is not None and is_known(held):
            return call.shell_text(held, shell=shell)
        if held is not None and path.startswith("/dev/fd/"):
            execute(call, held, "a script")
            return LOCAL
        return run_file(call, path)
    if not is_known(path) and path.strip("".join(marks_in(path))) == "":
        call.report(DYNAMIC_CODE, "runs a script whose name cannot be known")
    elif classify(full, call.shell) in ("temp", "device"):
        hides = full.startswith("/dev/shm/") or full.rsplit("/", 1)[-1].startswith(".")
        call.report(OPAQUE_CODE if hides else DYNAMIC_CODE, f"runs a script from outside the workspace: {shown(path)}")
    else:
        read(call, path)
    return None


def _from_stdin(call: Call, args: list[str]) -> str | None:
    if call.stdin is None:
        return None
    text = call.stdin
    if execute(call, text, "standard input", piped=True):
        return LOCAL
    if is_known(text):
        shell = call.shell.fork()
        shell.positional = args
        return call.shell_text(text, shell=shell, stdin="")
    return LOCAL


def judge_shell(call: Call) -> str | None:
    """sh, bash and kin: `-c TEXT`, a script, or standard input."""
    args = call.args
    at = 0
    command = False
    reads_stdin = False
    while at < len(args) and args[at][:1] in ("-", "+") and len(args[at]) > 1:
        arg = args[at]
        at += 1
        if arg == "--":
            break
        if arg in ("--version", "--help"):
            return None
        if arg.startswith("--"):
            if arg in ("--rcfile", "--init-file") and at < len(args):
                _script(call, args[at], [])
                at += 1
            elif arg.startswith("--command"):
                command = True
            continue
        if "c" in arg[1:] and arg[0] == "-":
            command = True
        if "s" in arg[1:] and arg[0] == "-":
            reads_stdin = True
        if arg[-1] in "oO" and at < len(args):
            at += 1
        if "n" in arg[1:] and arg[0] == "-" and not command and call.name not in ("csh", "tcsh", "fish"):
            return None
    rest = args[at:]
    call = call.moved(call.shell.cwd)
    call.shell.lastpipe = "lastpipe" in args[:at] or call.name in _LASTPIPE
    if command:
        if not rest:
            return None
        shell = call.shell.fork()
        shell.name0 = rest[1] if len(rest) > 1 else call.argv[0]
        shell.positional = rest[2:]
        return _run_c(call, rest[0], shell)
    if rest and not reads_stdin:
        return _script(call, rest[0], rest[1:])
    return _from_stdin(call, rest)


def _run_c(call: Call, text: str, shell: Shell) -> str:
    marks = marks_in(text)
    known = text.strip("".join(marks) + " \n\"'")
    if marks and (not known or NET in marks or DECODED in marks):
        execute(call, text, "a command")
        if not known:
            return LOCAL
    return call.machine.run_text(text, shell, call.stdin)


def judge_eval(call: Call) -> str | None:
    """eval joins its arguments and runs them in this shell."""
    args = call.args[1:] if call.args[:1] == ["--"] else call.args
    text = " ".join(args)
    marks = marks_in(text)
    if marks and (not text.strip("".join(marks) + " \n\"'") or NET in marks or DECODED in marks):
        execute(call, text, "a command")
        return LOCAL
    return call.shell_text(text, shell=call.shell)


def judge_source(call: Call) -> str | None:
    """source and `.` run a file in this shell."""
    args = [arg for arg in call.args if arg not in ("--",)]
    if not args:
        return None
    path = args[0]
    full = resolve(path, call.shell)
    if path in ("/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"):
        held: str | None = call.input()
    else:
        held = call.shell.files.get(full)
    if held is None:
        return _script(call, path, args[1:])
    if execute(call, held, "a sourced file"):
        return LOCAL
    return call.shell_text(held, shell=call.shell)


def judge_trap(call: Call) -> str | None:
    """trap keeps code for a signal or the shell's end; for DEBUG, ERR and RETURN it is judged at once as well."""
    args = [arg for arg in call.args if arg not in ("--",)]
    if not args or args[0] in ("-l", "-p"):
        return ""
    code, signals = args[0], [signal_name(arg) for arg in args[1:]]
    keep(call.shell, code, signals)
    if code in ("-", "") or not signals:
        return ""
    if marks_in(code) or EVENTS.intersection(signals):
        run_code(call, code, "a trap")
    call.machine.defer(code, call.shell)
    return ""


def judge_command(call: Call) -> str | None:
    """command and builtin run another command in this shell, never a function; `command -v` only looks it up."""
    options = parse_options(call.args, stop_early=True)
    if options.has("v", "V"):
        return "".join(f"/usr/bin/{name}\n" for name in options.operands)
    if not options.operands:
        return ""
    return call.machine.run_argv(options.operands, call.shell, call.stdin, call.env, functions=False)


def judge_exec(call: Call) -> str | None:
    """exec replaces the shell with another program."""
    options = parse_options(call.args, "a", stop_early=True)
    return call.run(options.operands)


def judge_let(call: Call) -> str | None:
    """let computes; a command substitution inside a value would run."""
    for arg in call.args:
        if "$(" in arg or "`" in arg:
            run_code(call, f'echo "{arg}"', "an arithmetic text")
        name, equals, value = arg.partition("=")
        if equals and name.isidentifier():
            call.shell.set(name, value if value.isdigit() else "\ue008")
    return ""


JUDGES: dict[str, Judge] = {
    **dict.fromkeys(SHELLS, judge_shell),
    "eval": judge_eval,
    "source": judge_source,
    ".": judge_source,
    "trap": judge_trap,
    "command": judge_command,
    "builtin": judge_command,
    "exec": judge_exec,
    "let": judge_let,
}
