"""Shells and their commands that run code, and programs that run a command as another user or in
another place.
"""

from __future__ import annotations

import re
import shlex

from hermetic.policy.call import Call
from hermetic.policy.dynamic_code import execute, run_code
from hermetic.policy.effects import read
from hermetic.policy.marks import DECODED, LOCAL, NET, SECRET, is_known, marks_in, shown
from hermetic.policy.paths import classify, resolve
from hermetic.policy.programs.hooks.interpreters import run_script
from hermetic.policy.programs.interpret import report_privilege
from hermetic.policy.shell.expansion import Folder
from hermetic.policy.shell.traps import EVENTS, keep, signal_name
from hermetic.policy.variables import import_function, judge_variable

_INPUTS = ("/dev/stdin", "/dev/fd/0", "/proc/self/fd/0")


def _starts_itself(call: Call, full: str) -> bool:
    """True when a script would run itself, which is reported when it does not wait for its copy."""
    if full not in call.shell.scripts:
        return False
    if call.machine.forking:
        call.report("fork-bomb", f"a script starts copies of itself without end: {shown(full)}")
    return True


def _report_place(call: Call, full: str, reason: str) -> None:
    """Report code from a place where anyone can write; a hidden file is worse."""
    hides = full.startswith("/dev/shm/") or full.rsplit("/", 1)[-1].startswith(".")
    call.report("run-decoded" if hides else "run-local-output", reason)


def run_file(call: Call, word: str) -> str | None:
    """Running a file by its path: its content when this text wrote it, None when nothing is known
    of it.
    """
    full = resolve(word, call.shell)
    if _starts_itself(call, full):
        return LOCAL
    held = call.shell.files.get(full)
    if full in call.shell.copies:
        return call.run([call.shell.copies[full], *call.args])
    if held is None:
        if call.shell.is_fetched(full):
            call.report("run-download", f"runs a program that was just downloaded: {shown(word)}")
            return LOCAL
        if classify(full, call.shell) == "temp":
            _report_place(call, full, f"runs a program from where anyone can write: {shown(word)}")
        return None
    if not is_known(held) and execute(call, held, "a script"):
        return LOCAL
    return run_script(call, held, full)


def _script(call: Call, path: str, args: list[str]) -> str | None:
    """`sh FILE`: the content when known, else whether the file can be trusted."""
    if path == "-" or path in _INPUTS:
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
        call.report("run-local-output", "runs a script whose name cannot be known")
    elif classify(full, call.shell) in ("temp", "device"):
        _report_place(call, full, f"runs a script from outside the workspace: {shown(path)}")
    elif NET in read(call, path):
        call.report("run-download", f"runs a script from another machine: {shown(path)}")
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
    args = [re.sub(r"^\+(?=o$)", "-", arg) for arg in call.args]
    call = call.named(call.name, [arg for arg in args if not re.fullmatch(r"\+[A-Za-z]+", arg)])
    options, rest, command = call.options, call.options.operands, call.options.has("c", "command")
    for path in options.values("rcfile", "init-file"):
        _script(call, path, [])
    if options.has("n") and not command and call.name not in ("csh", "tcsh", "fish"):
        return None
    call = call.moved(call.shell.cwd)
    call.shell.lastpipe = "lastpipe" in options.values("O", "o") or call.row.has("lastpipe")
    if not command:
        is_script = rest and not options.has("s")
        return _script(call, rest[0], rest[1:]) if is_script else _from_stdin(call, rest)
    rest = [*options.values("command"), *rest]
    if not rest:
        return None
    shell = call.shell.fork()
    shell.name0, shell.positional = rest[1] if len(rest) > 1 else call.argv[0], rest[2:]
    if _is_unseen(rest[0]):
        execute(call, rest[0], "a command")
        if not rest[0].strip(marks_in(rest[0]) + " \n\"'"):
            return LOCAL
    return call.machine.run_text(rest[0], shell, call.stdin)


def _is_unseen(text: str) -> bool:
    """True for code of which nothing is known, or that another machine or a decoder gives."""
    marks = marks_in(text)
    return bool(marks) and (not text.strip(marks + " \n\"'") or NET in marks or DECODED in marks)


def judge_eval(call: Call) -> str | None:
    """eval joins its arguments and runs them in this shell."""
    text = " ".join(call.args[call.args[:1] == ["--"] :])
    if _is_unseen(text):
        execute(call, text, "a command")
        return LOCAL
    return call.shell_text(text, shell=call.shell)


def judge_source(call: Call) -> str | None:
    """source and `.` run a file in this shell."""
    args = [arg for arg in call.args if arg != "--"]
    if not args:
        return None
    full, is_input = resolve(args[0], call.shell), args[0] in _INPUTS
    held = call.input() if is_input else call.shell.files.get(full)
    if held is None:
        return _script(call, args[0], args[1:])
    if execute(call, held, "a sourced file"):
        return LOCAL
    return call.shell_text(held, shell=call.shell)


def judge_trap(call: Call) -> str | None:
    """trap keeps code for a signal or the shell's end; for DEBUG, ERR and RETURN it is judged at
    once as well.
    """
    args = [arg for arg in call.args if arg != "--"]
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
    """command and builtin run another command in this shell, never a function; `command -v` only
    looks it up.
    """
    words = call.options.operands
    if call.options.has("v", "V"):
        return "".join(f"/usr/bin/{name}\n" for name in words)
    if not words:
        return ""
    return call.machine.run_argv(words, call.shell, call.stdin, call.env, functions=False)


def judge_let(call: Call) -> str | None:
    """let computes; a command substitution inside a value would run."""
    for arg in call.args:
        if "$(" in arg or "`" in arg:
            run_code(call, f'echo "{arg}"', "an arithmetic text")
        Folder(call.machine, call.shell).calculate(arg)
    return ""


def judge_env(call: Call) -> str | None:
    """env sets variables and runs a command; -S splits a text into one; alone it shows the
    environment.
    """
    options = call.options
    call = call.moved(options.value("C", "chdir"))
    if options.rest:
        text, *args = options.rest
        return run_code(call, " ".join([text, *map(shlex.quote, args)]), "env")
    args = options.operands[options.operands[:1] == ["-"] :]
    while args and re.match(r"[^\s=/-][^\s=/]*=", args[0]):
        name, _, value = args.pop(0).partition("=")
        call = import_function(call, name, value)
        judge_variable(call, name, value, temporary=True)
        call.env = {**call.env, name: value}
    if args:
        return call.run(args)
    if not options.has("help", "version"):
        call.report("show-environment", "shows the environment, which may hold credentials")
        return SECRET
    return None


def judge_start_stop(call: Call) -> str | None:
    """start-stop-daemon starts a program."""
    call = call.named(call.name, [arg for arg in call.args if arg != "--start"])
    program = call.options.value(*call.row.program.split())
    moved = call.moved(call.options.value("d", "chdir"))
    return moved.run([program, *call.options.operands]) if program else None


def judge_sudo(call: Call) -> str | None:
    """sudo runs a command as another user."""
    options, words = call.options, list(call.options.operands)
    call = call.moved(options.value("D", "chdir"))
    while words and re.match(r"[A-Za-z_]\w*=", words[0]):
        name, _, value = words.pop(0).partition("=")
        judge_variable(call, name, value, temporary=True)
    if options.has("S", "stdin"):  # its input may also be typed later, when it runs as a process
        call.report("sudo-password-on-stdin", "lets sudo read a password from its input")
    if options.has("e", "edit"):
        return call.run(["sudoedit", *words])
    is_shell, is_login = options.has("i", "s", "login", "shell"), options.has("i", "login")
    if not words:
        if is_shell and call.stdin is not None:
            return judge_shell(call.again(["sh"]))
        if is_shell:
            call.report("root-shell", "opens a shell with all rights")
        elif not options.has("k", "K", "v", "l", "V", "h", "version", "help", "list", "validate"):
            call.report("privilege", "runs with the rights of another user")
        return None
    report_privilege(call, words)
    shell = call.shell.fork() if is_login else call.shell
    shell.cwd = "/root" if is_login else shell.cwd
    if is_shell:
        return call.machine.run_text(" ".join(words), shell, call.stdin)
    return call.run(words, shell=shell)


def judge_su(call: Call) -> str | None:
    """su and runuser run a shell, or `-c TEXT`, or a command."""
    options = call.options
    call.report("privilege", "runs with the rights of another user")
    text = options.value("c", "command", "session-command")
    if text is not None:
        return run_code(call, text, call.name)
    if call.name == "runuser" and options.value("u", "user"):
        return call.run(options.operands) if options.operands else None
    if call.stdin is not None:
        return judge_shell(call.again(["sh"]))
    if not options.has("help", "version", "h", "V"):
        call.report("root-shell", "opens a shell of another user")
    return None
