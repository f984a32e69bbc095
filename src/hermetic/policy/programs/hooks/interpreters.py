"""Interpreters and clients of databases: code in an argument, in a file this text wrote, or on
standard input.
"""

from __future__ import annotations

import re

from hermetic.policy.call import Call
from hermetic.policy.dynamic_code import DYNAMIC_CODE, REMOTE_CODE, execute, run_code, run_program
from hermetic.policy.effects import read, write
from hermetic.policy.languages.makefile import commands_of
from hermetic.policy.marks import DECODED, LOCAL, NET, SECRET, is_known, is_plain
from hermetic.policy.network import check_served
from hermetic.policy.paths import resolve
from hermetic.policy.programs.carriers import starts_itself
from hermetic.policy.programs.hooks.network import served
from hermetic.policy.programs.interpret import judge_by_row
from hermetic.policy.programs.table import TABLE
from hermetic.policy.programs.texts import judge_patterns, judge_text
from hermetic.policy.tables import names, regex

_SUFFIXES = dict(pair.split(":") for pair in TABLE.words("suffixes"))
# our own command line by its file
_OURS = regex(r"(^|/)hermetic(/__main__\.py|/cli/__init__\.py)?/?$")
# Code that computes text which is not visible in it.
_COMPUTES = regex(
    r"(?i)decode|chr\(|fromhex|unhex|rot.?13|\[::-1\]|pack\b|fromCharCode|atob|\\x[0-9a-f]{2}"
)


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
    options, words = call.options, call.options.operands
    if options.rest:
        text, *args = options.rest
        return _module(call, text, args) if options.has("m") else _python_text(call, text)
    if not words or words[0] in ("-", "/dev/stdin", "/dev/fd/0"):
        _from_input(call, "python", "Python")
        return None
    if _OURS.search(words[0]):
        return call.run(["hermetic", *words[1:]])
    base = words[0].rsplit("/", 1)[-1]
    if base in ("manage.py", "setup.py"):
        judge_by_row(call.named(base, words[1:]))
    return run_source(call, words[0], "python")


def _python_text(call: Call, code: str) -> str | None:
    if call.name.startswith("ipython") and code.startswith("!"):
        return call.shell_text(code[1:])
    judge_text(call, code, "python")
    if re.search(r"print.*os\.environ(?!\s*\[|\.get)", code):
        return SECRET + "\n"
    return DECODED + "\n" if _COMPUTES.search(code) else None


def _module(call: Call, module: str, args: list[str]) -> str | None:
    """`python -m MODULE` where no row describes the module as such."""
    if module.partition(".")[0] == "hermetic":
        return call.run(["hermetic", *args])
    own = call.shell.files.get(resolve(module.replace(".", "/") + ".py", call.shell))
    if own is not None and NET in own:
        execute(call, own, "a module")
    return call.run([module, *args]) if TABLE.row(module).has("module") else None


def judge_runner(call: Call) -> str | None:
    """Profilers and debuggers: the module or script behind their own options."""
    if "coverage" in call.name:
        call = call.named(call.name, call.args[1:] if call.args[:1] == ["run"] else [])
    for text in call.options.values(*call.row.text.split()):
        judge_text(call, text.lstrip("!"), "python")
    words = [word for word in call.options.operands if word != "--"]
    module = call.options.rest or (words if call.name.endswith("runpy") else [])
    if module[1:2] == ["--"]:  # stands between the options of IPython and those of the module
        module = [module[0], *module[2:]]
    words = ["-m", *module] if module else words
    return call.run(["python3", *words]) if words else None


def judge_interpreter(call: Call) -> str | None:
    """perl, ruby, node, php, lua …: options with code, a script, or standard input."""
    if call.name == "nim":  # its options have a colon before their value
        call = call.named(call.name, [re.sub(r"^(--\w+):", r"\1=", arg) for arg in call.args])
    row, options = call.row, call.options
    language, words, given = row.language, options.operands, dict(options.given)
    if "S" in given and language == "php":
        check_served(call, served([arg for arg in call.args if arg not in words[:1]], ("-t",)))
        return None
    if "S" in given and language in ("ruby", "elixir", "perl") and words:
        return call.run(words)
    for path in options.values(*row.script.split()):
        run_source(call, path, language)
    texts = options.values(*row.text.split())
    if words[:1] and words[0] in row.evals.split():
        texts.append(" ".join(words[1:]))
    if language == "perl":
        texts += [value.partition(";")[2] for value in options.values("M", "m") if ";" in value]
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
    words = words[bool(words) and row.has("runs") and words[0] in _RUNS :]
    base = words[0].rsplit("/", 1)[-1] if words else ""
    if base in ("artisan", "console", "yii", "rails", "rake"):
        return call.run([base, *words[1:]])
    if words and words[0] != "-":
        return run_source(call, words[0], language)
    if language != "mongo":
        _from_input(call, language, language)
    return None


_RUNS = ("run", "install", "x", "serve")


def _edit(call: Call, paths: list[str], given: dict[str, str | None], code: str) -> None:
    """Perl and Ruby as filters: -n and -p read files, -i writes them."""
    filters = "n" in given or "p" in given
    for path in paths if filters or "i" in given else ():
        write(call, path) if "i" in given else read(call, path)
    if call.stdin and filters and re.search(r"\b(system|exec|eval|qx)\b|`", code):
        execute(call, call.stdin, "a command", piped=True)


_PROGRAMS = names("CC CXX LD AR CMD RM INSTALL PYTHON RUN")
_SHELLS = regex("(/bin/)?(ba)?sh")
_ELSEWHERE = regex(r"DESTDIR=[^/ ]|DESTDIR=/tmp|(PREFIX|prefix)=(?!/usr|/opt|/$)")


def judge_make(call: Call) -> None:
    """make and kin: recipes and variables on the command line, recipes in a file whose content is
    known.
    """
    options, words = call.options, call.options.operands
    texts = options.values("eval", "E")
    shows = options.has("n", "just-print", "dry-run", "recon", "q", "question", "help", "version")
    if shows and not texts:
        return
    for text in texts:
        judge_patterns(call, text, "make")
    settings = [word.partition("=")[::2] for word in words if "=" in word]
    for name, value in settings:
        if name.rstrip(":?+") in ("SHELL", ".SHELLFLAGS") and not _SHELLS.fullmatch(value):
            run_program(call, value, "make's shell")
        if nested := re.search(r"\$\(shell\s+(.*)\)", value):
            run_code(call, nested[1], "make")
        if name in _PROGRAMS and call.machine.probe_text(value, call.shell):
            run_code(call, value, "make")
    named = options.value("f", "file", "makefile", "justfile", "taskfile")
    here = call.moved(options.value("C", "directory"))
    targets = [word for word in words if "=" not in word]
    for path in [named] if named else _MAKEFILES:
        _makefile(here, path, targets, dict(settings))
    installs = "install" in words and call.name == "make" and not _ELSEWHERE.search(" ".join(words))
    if installs or "uninstall" in words:
        call.report("package-install", "installs or removes what the makefile names")
        for name, value in settings:
            if name in ("PREFIX", "prefix", "DESTDIR") and value.startswith("/"):
                write(call, value, tree=True)


_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")


def _makefile(call: Call, path: str, targets: list[str], settings: dict[str, str]) -> None:
    """The lines that the recipes of a known file would run."""
    full = path if path.startswith("/dev/fd/") else resolve(path, call.shell)
    text = call.input() if path in ("-", "/dev/stdin") else call.shell.files.get(full, "")
    if path.startswith(("-", "/dev/")):
        execute(call, text, "a makefile", piped=True)
    for target, recipe in re.findall(r"(?m)^([\w.-]+)\s*:[^=\n]*((?:\n[\t ]+[^\n]+)+)", text):
        if starts_itself("make", target, re.sub(r"\$[({]MAKE[)}]", "make", recipe)):
            call.report("fork-bomb", f"a target makes itself without end: {target}")
    for code in commands_of(text, targets, settings, "\t " if call.name == "just" else "\t"):
        run_code(call, code, call.name)
