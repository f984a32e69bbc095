"""Interpreters: code in an argument, in a file this text wrote, or on standard input."""

from __future__ import annotations

import re

from hermetic.policy.call import Call
from hermetic.policy.dynamic_code import DYNAMIC_CODE, REMOTE_CODE, execute, run_code, run_program
from hermetic.policy.effects import read, write
from hermetic.policy.languages.scripts import judge_code
from hermetic.policy.marks import DECODED, LOCAL, NET, SECRET, is_known, is_plain
from hermetic.policy.paths import resolve
from hermetic.policy.programs.hooks.servers import serve_with
from hermetic.policy.programs.interpret import judge_by_row, report_first
from hermetic.policy.programs.table import TABLE
from hermetic.policy.programs.texts import judge_patterns, judge_text
from hermetic.policy.tables import names, regex

_SUFFIXES = {
    ".py": "python",
    ".pl": "perl",
    ".rb": "ruby",
    ".js": "node",
    ".mjs": "node",
    ".cjs": "node",
}
_SUFFIXES |= {".ts": "node", ".php": "php", ".lua": "lua", ".tcl": "tcl", ".r": "r"}
# our own command line by its file
_OURS = regex(r"(^|/)hermetic(/__main__\.py|/cli/__init__\.py)?/?$")
# Code that computes text which nobody can read in it.
_COMPUTES = regex(
    r"(?i)decode|chr\(|fromhex|unhex|rot.?13|\[::-1\]|pack\b|fromCharCode|atob|\\x[0-9a-f]{2}"
)
_MODULE = regex(r"-[A-Za-z]*?m(.*)")  # in a bundle of letters, with the module glued to it or not


def run_script(call: Call, content: str, path: str) -> str:
    """Evaluate a file's known content in the language its first line or suffix names."""
    language = next((one for suffix, one in _SUFFIXES.items() if path.endswith(suffix)), "")
    if content.startswith("#!"):
        first = content.split("\n", 1)[0].split() or [""]
        name = re.sub(r"[\d.]+$", "", first[-1].rsplit("/", 1)[-1])
        language = name if name in _SUFFIXES.values() else language if name == "env" else ""
    if language:
        judge_text(call, content, language)
        return LOCAL
    shell = call.shell.fork()
    shell.positional = list(call.args)
    shell.name0, shell.scripts = call.argv[0], (*call.shell.scripts, path)
    return call.shell_text(content, shell=shell)


def run_source(call: Call, path: str, language: str) -> str | None:
    """Judge that a file of code is run: its content where this text wrote it, else where it comes
    from.
    """
    full = resolve(path, call.shell)
    held = call.shell.files.get(full)
    if held is None:
        if call.shell.is_fetched(full):
            call.report(REMOTE_CODE, "runs a program that was just downloaded")
        elif not is_known(path) and not is_plain(path.rsplit("/", 1)[-1]):
            call.report(DYNAMIC_CODE, "runs a script whose name cannot be known")
        elif "://" in path:
            call.report(REMOTE_CODE, "runs a program from another machine")
        else:
            read(call, path)
        return None
    if not is_known(held) and execute(call, held, "a script"):
        return LOCAL
    judge_text(call, held, language)
    return None


def _from_input(call: Call, language: str, name: str) -> None:
    if call.stdin is not None and not execute(call, call.stdin, f"{name} code", piped=True):
        judge_text(call, call.stdin, language)


def judge_python(call: Call) -> str | None:
    """python: -c TEXT, -m MODULE, a script, or standard input."""
    args = list(call.args)
    while args and args[0].startswith("-") and len(args[0]) > 1:
        arg = args.pop(0)
        if arg in ("--version", "--help"):
            return None
        for at, letter in enumerate(arg[1:], 1) if not arg.startswith("--") else ():
            rest = arg[at + 1 :]
            if letter == "c":
                return _python_text(call, rest or (args[0] if args else ""))
            if letter == "m":
                return _module(call, rest or (args.pop(0) if args else ""), args)
            if letter in "XW":
                args = args if rest else args[1:]
                break
            if letter in "Vh":
                return None
    if not args or args[0] in ("-", "/dev/stdin", "/dev/fd/0"):
        _from_input(call, "python", "Python")
        return None
    base = args[0].rsplit("/", 1)[-1]
    if _OURS.search(args[0]):
        return call.run(["hermetic", *args[1:]])
    if base == "manage.py":
        judge_django(call.named("manage.py", args[1:]))
    if base == "setup.py" and "upload" in args:
        call.report(DYNAMIC_CODE, "publishes a package")
    return run_source(call, args[0], "python")


def _python_text(call: Call, code: str) -> str | None:
    if call.name.startswith("ipython") and code.startswith("!"):
        return call.shell_text(code[1:])
    judge_text(call, code, "python")
    if re.search(r"print.*os\.environ(?!\s*\[|\.get)", code):
        return SECRET + "\n"
    return DECODED + "\n" if _COMPUTES.search(code) else None


def _module(call: Call, module: str, args: list[str]) -> str | None:
    """`python -m MODULE`."""
    words = [arg for arg in args if not arg.startswith("-")]
    if module.partition(".")[0] == "hermetic":
        return call.run(["hermetic", *args])
    runs = TABLE.row(f"python:{module}").hook == "runner"
    if TABLE.row(module).has("module") and not runs:
        return call.run([module, *args])
    if module == "site" and "--user-site" in args:
        return f"{call.shell.home}/.local/lib/python3/site-packages\n"
    if module in ("http.server", "SimpleHTTPServer", "uploadserver", "pyftpdlib", "twisted"):
        serve_with("python", call, args)
    own = call.shell.files.get(resolve(module.replace(".", "/") + ".py", call.shell))
    if own is not None and NET in own:
        execute(call, own, "a module")
    if module == "timeit":
        judge_text(call, "\n".join(words), "python")
    elif module in ("code", "doctest"):
        if module == "code" and call.stdin is not None:
            judge_text(call, call.stdin, "python")
        return run_source(call, words[0], "python") if words else None
    elif runs:
        if module == "debugpy":
            call.run([module, *args])
        return judge_runner(call.named(f"python:{module}", args))
    elif module in ("zipfile", "tarfile", "zipapp") and args[:1] in (["-e"], ["--extract"]):
        for path in args[2:3]:
            write(call, path, tree=True)
    return call.input() if module == "json.tool" else None


def judge_runner(call: Call) -> str | None:
    """Profilers and debuggers: the module or script behind their own options."""
    name, args, row = call.name.removeprefix("python:"), list(call.args), call.row
    if name == "runpy":
        return call.run(["python3", "-m", *args])
    if name == "IPython" and "--" in args:  # stands between its own options and those of the module
        args.remove("--")
    if name == "coverage" and args[:1] != ["run"]:
        return None
    args = args[name == "coverage" :]
    while args and args[0].startswith("-"):
        arg = args.pop(0)
        if arg == "--module":
            return call.run(["python3", "-m", *args])
        if arg[1:2] in row.short and not arg.startswith("--"):
            value = arg[2:] or (args.pop(0) if args else "")
        elif name != "trace" and (module := _MODULE.fullmatch(arg)):
            return call.run(["python3", "-m" + module[1], *args])
        else:
            value = args.pop(0) if arg[2:] in row.long and args else ""
        if name == "pdb" and value:
            judge_text(call, value.lstrip("!"), "python")
    return call.run(["python3", *args]) if args else None


def judge_django(call: Call) -> str | None:
    """manage.py: rules of its row, code for its shells, SQL for its database."""
    verb = "".join(call.options.operands[:1])
    code = call.options.value("c", "command") or call.stdin or ""
    report_first(call, () if "--dry-run" in call.args else call.row.rules)
    if verb in ("shell", "shell_plus") and is_known(code):
        judge_text(call, code, "python")
        if "delete()" in code:
            call.report("sql-destroys", "deletes records")
        elif code:
            judge_code(call, code, "ruby")
    elif verb == "dbshell":
        call.run(["psql", "-c", code])
    return None


def judge_interpreter(call: Call) -> str | None:
    """perl, ruby, node, php, lua …: options with code, a script, or standard input."""
    if call.name == "nim":  # its options have a colon before their value
        call = call.named(
            "nim", [arg.replace(":", "=", 1) for arg in call.args if arg.startswith("-")]
        )
    row, options = call.row, call.options
    language, words, given = row.language, options.operands, dict(options.given)
    if {"version", "help"}.intersection(given):
        return None
    if "S" in given and language == "php":
        serve_with("php", call, [arg for arg in call.args if arg not in words[:1]])
        return None
    for path in options.values(*row.script.split()):
        run_source(call, path, language)
    texts = options.values(*row.text.split())
    texts += [
        value.partition(";")[2]
        for value in options.values("M", "m")
        if language == "perl" and ";" in value
    ]
    if texts and "-run" in call.args:  # ruby's library of shell commands
        return call.run([texts[-1], *words])
    for text in texts:
        judge_text(call, text, language)
    if texts and language in ("perl", "ruby"):
        _edit(call, words, given, texts[-1])
    if language == "mongo":
        _from_input(call, language, language)
        words = [word for word in words if word.endswith(".js")]
    elif texts:
        return DECODED + "\n" if any(map(_COMPUTES.search, texts)) else None
    base = words[0].rsplit("/", 1)[-1] if words else ""
    if call.name == "crystal" and base == "eval":
        judge_text(call, " ".join(words[1:]), language)
    elif base in ("artisan", "console", "yii", "rails", "rake"):
        return call.run([base, *words[1:]])
    elif words and words[0] != "-":
        return run_source(call, words[0], language)
    elif language != "mongo":
        _from_input(call, language, language)
    return None


def _edit(call: Call, paths: list[str], given: dict[str, str | None], code: str) -> None:
    """Perl and Ruby as filters: -n and -p read files, -i writes them."""
    for path in paths:
        if "i" in given:
            write(call, path)
        elif "n" in given or "p" in given:
            read(call, path)
    if (
        call.stdin
        and ("n" in given or "p" in given)
        and re.search(r"\b(system|exec|eval|qx)\b|`", code)
    ):
        execute(call, call.stdin, "a command", piped=True)


def judge_rails(call: Call) -> str | None:
    """rails: code behind `runner`, input of its console, and tasks."""
    words = call.options.operands
    if words[:1] in (["runner"], ["r"]) and len(words) > 1:
        judge_text(call, words[1], "ruby")
    if words[:1] in (["console"], ["c"]) and call.stdin:
        judge_text(call, call.stdin, "ruby")
    return judge_by_row(call)


def judge_deno(call: Call) -> str | None:
    """deno and bun run scripts, also from addresses."""
    words, texts = call.options.operands, call.options.values(*call.row.text.split())
    texts += words[1:2] if words[:1] == ["eval"] else []
    for text in texts[:1]:
        judge_text(call, text, "deno")
    if texts:
        return None
    for path in words[words[:1] in (["run"], ["install"], ["x"], ["serve"]) :][:1]:
        if path.startswith(("http://", "https://")):
            call.report(REMOTE_CODE, "runs a program from another machine")
        elif path.endswith((".ts", ".js", ".mjs", ".tsx")):
            run_source(call, path, "deno")
    if not words:
        _from_input(call, "deno", "JavaScript")
    return None


_PROGRAMS = names("CC CXX LD AR CMD RM INSTALL PYTHON RUN")
_ELSEWHERE = regex(r"DESTDIR=[^/ ]|DESTDIR=/tmp|(PREFIX|prefix)=(?!/usr|/opt|/$)")


def judge_make(call: Call) -> str | None:
    """make and kin: recipes and variables on the command line, recipes in a file whose content is
    known.
    """
    options, words = call.options, call.options.operands
    texts = options.values("eval", "E")
    shows = options.has("n", "just-print", "dry-run", "recon", "q", "question", "help", "version")
    if shows and not texts:
        return None
    for text in texts:
        judge_patterns(call, text, "make")
    for word in words:
        name, _, value = word.partition("=")
        if name.rstrip(":?+") in ("SHELL", ".SHELLFLAGS") and value not in (
            "/bin/sh",
            "/bin/bash",
            "bash",
            "sh",
        ):
            run_program(call, value, "make's shell")
        if nested := re.search(r"\$\(shell\s+(.*)\)", value):
            run_code(call, nested[1], "make")
        if name in _PROGRAMS and call.machine.probe_text(value, call.shell):
            run_code(call, value, "make")
    _makefile(call.moved(options.value("C", "directory")), options.value(*_MAKEFILES) or "Makefile")
    installs = "install" in words and call.name == "make" and not _ELSEWHERE.search(" ".join(words))
    if installs or "uninstall" in words:
        call.report("package-install", "installs or removes what the makefile names")
        for word in words:
            name, _, value = word.partition("=")
            if name in ("PREFIX", "prefix", "DESTDIR") and value.startswith("/"):
                write(call, value, tree=True)
    return LOCAL


_MAKEFILES = ("f", "file", "makefile", "justfile", "taskfile")


def _makefile(call: Call, path: str) -> None:
    """The lines that the recipes of a known file would run."""
    full = path if path.startswith("/dev/fd/") else resolve(path, call.shell)
    text = call.input() if path in ("-", "/dev/stdin") else call.shell.files.get(full, "")
    if path.startswith(("-", "/dev/")):
        execute(call, text, "a makefile", piped=True)
    judge_patterns(call, text.replace("$$", "$"), "makefile")
