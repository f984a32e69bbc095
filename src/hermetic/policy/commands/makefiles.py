"""make and kin: recipes on the command line, on standard input, or in a file this text wrote."""

from __future__ import annotations

import re

from hermetic.policy.call import Call, Judge
from hermetic.policy.effects import write
from hermetic.policy.marks import LOCAL
from hermetic.policy.options import Options, parse_options
from hermetic.policy.paths import resolve
from hermetic.policy.tables import names

from .packages import INSTALL
from .unseen import execute, run_code, run_program

_PROGRAMS = names("CC CXX LD AR CMD RM INSTALL PYTHON RUN")
_ELSEWHERE = re.compile(r"DESTDIR=[^/ ]|DESTDIR=/tmp|(PREFIX|prefix)=(?!/usr|/opt|/$)")


def judge_make(call: Call) -> str | None:
    """make: --eval and variables that are programs; -n only shows."""
    options = parse_options(
        call.args,
        "CfIjloWE",
        names(
            """
eval directory file makefile justfile taskfile include-dir jobs load-average old-file what-if
"""
        ),
    )
    shows = options.has("n", "just-print", "dry-run", "recon", "q", "question", "help", "version")
    if shows and not options.values("eval", "E"):
        return None
    for text in options.values("eval", "E"):
        _evaluate(call, text)
    for word in options.operands:
        _variable(call, word)
    _recipes(call.moved(options.value("C", "directory")), options)
    _install(call, options)
    return LOCAL


def _evaluate(call: Call, text: str) -> None:
    for match in re.finditer(r"\$\(shell\s+(.*)\)|(?:^|\n|;|:)\s*@?-?\s*([^:=\n]+)$|!=\s*(.*)", text):
        body = match[1] or match[2] or match[3]
        if body:
            run_code(call, body.strip().lstrip("@-\t"), "make")


def _variable(call: Call, word: str) -> None:
    """A variable set on the command line: the shell of the recipes, a program, or a text that calls one."""
    name, equals, value = word.partition("=")
    if not equals:
        return
    if name.rstrip(":?+") in ("SHELL", ".SHELLFLAGS") and value not in ("/bin/sh", "/bin/bash", "bash", "sh"):
        run_program(call, value, "make's shell")
    if "$(shell" in value:
        nested = re.search(r"\$\(shell\s+(.*)\)", value)
        run_code(call, nested[1] if nested else "", "make")
    if name in _PROGRAMS and call.machine.probe_text(value, call.shell):
        run_code(call, value, "make")


def _recipes(call: Call, options: Options) -> None:
    """The lines that the recipes of a known file would run."""
    path = options.value("f", "file", "makefile", "justfile", "taskfile")
    if path in ("-", "/dev/stdin"):
        text = call.input()
    elif path and path.startswith("/dev/fd/"):
        text = call.shell.files.get(path, "")
    else:
        text = call.shell.files.get(resolve(path or "Makefile", call.shell), "")
    if path and path.startswith(("-", "/dev/")):
        execute(call, text, "a makefile", piped=True)
    for line in text.split("\n"):
        recipe = re.search(r"\$\(shell\s+(.*)\)|:\s*;\s*(.+)", line)
        if line.startswith(("\t", " ")):
            run_code(call, line.strip().lstrip("@-").replace("$$", "$"), "make")
        elif recipe:
            run_code(call, recipe[1] or recipe[2], "make")


def _install(call: Call, options: Options) -> None:
    installs = "install" in options.operands and call.name == "make"
    if "uninstall" not in options.operands and (not installs or _ELSEWHERE.search(" ".join(options.operands))):
        return
    call.report(INSTALL, "installs or removes what the makefile names")
    for setting in options.operands:
        name, _, value = setting.partition("=")
        if name in ("PREFIX", "prefix", "DESTDIR") and value.startswith("/"):
            write(call, value, tree=True)


JUDGES: dict[str, Judge] = dict.fromkeys(("make", "gmake", "bmake", "just", "task", "ninja", "remake"), judge_make)
