"""awk: what its programs run, read and write."""

from __future__ import annotations

import re

from hermetic.policy.call import Call, Judge
from hermetic.policy.effects import read, write
from hermetic.policy.marks import DECODED, LOCAL, NET, UNSET, is_known, unknown_like
from hermetic.policy.network import REVERSE_SHELL
from hermetic.policy.options import parse_options

from .unseen import FORK_BOMB, OPAQUE_CODE, UNKNOWN_COMMAND, execute, is_wholly_unseen, run_code

_AWK_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_AWK_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*"|/(?:[^/\\\n]|\\.)+/)|#[^\n]*')
_AWK_SYSTEM = re.compile(r'"(?:[^"\\]|\\.)*"|\b(system)\s*\(')


def judge_awk(call: Call) -> str | None:
    """awk: system(), pipes and redirections in the program."""
    options = parse_options(
        call.args,
        "FvfEeiolLWD",
        ("field-separator", "assign", "file", "exec", "source", "include", "load"),
        stop_early=True,
    )
    operands = options.operands
    programs = options.values("e", "source")
    for path in options.values("f", "file", "E", "exec"):
        content = read(call, path)
        if is_known(content):
            programs.append(content)
        elif any(mark in content for mark in (NET, DECODED)):
            call.report(OPAQUE_CODE, "runs an awk program that cannot be seen")
    if options.values("l", "load") and call.name == "gawk":
        call.report(UNKNOWN_COMMAND, "loads a library into awk")
    if not programs and not options.values("f", "file", "E", "exec") and operands:
        programs, operands = [operands[0]], operands[1:]
    if "inplace" in options.values("i", "include"):
        for path in operands:
            write(call, path)
    text = "".join(read(call, path) for path in operands if "=" not in path) or call.input()
    variables = dict(value.partition("=")[::2] for value in options.values("v", "assign"))
    for program in programs:
        if is_wholly_unseen(program):
            execute(call, program, "an awk program")
        _awk_program(call, program, text, variables)
    if programs == ["1"] or (programs and re.fullmatch(r"\s*\{?\s*print(\s+\$0)?\s*;?\s*\}?\s*", programs[0])):
        return text
    printed = _awk_print(programs[0] if programs else "")
    if printed is not None:
        return printed
    return unknown_like(text).replace(UNSET, LOCAL) + "\n"


def _awk_print(program: str) -> str | None:
    fields = re.fullmatch(r'[^{]*\{\s*print\s+((?:"[^"\\]*"|\$\w+|\s)+?)\s*;?\s*\}\s*', program)
    if fields and '"' in fields[1]:
        parts = re.finditer(r'"([^"]*)"|\$\w+', fields[1])
        return "".join(part[1] if part[1] is not None else LOCAL for part in parts) + "\n"
    match = re.fullmatch(r'\s*BEGIN\s*\{\s*print(f)?\s*\(?\s*("(?:[^"\\]|\\.)*")\s*\)?\s*;?\s*\}\s*', program)
    if match is None:
        return None
    return match[2][1:-1].replace("\\n", "\n").replace('\\"', '"') + ("" if match[1] else "\n")


def _awk_program(call: Call, program: str, text: str, variables: dict[str, str]) -> None:
    program = _AWK_COMMENT.sub(lambda match: match[1] or "", program)
    strings = [match[0][1:-1].replace('\\"', '"') for match in _AWK_STRING.finditer(program)]
    bare = _AWK_STRING.sub(
        '""', re.sub(r"/(?:[^/\\\n]|\\.)+/", "//", program) if not _AWK_STRING.search(program) else program
    )
    variables = {**dict(re.findall(r'\b([A-Za-z_]\w*)\s*=\s*"((?:[^"\\]|\\.)*)"', program)), **variables}
    if re.search(r"@[A-Za-z_]\w*\s*\(", bare):
        call.report(UNKNOWN_COMMAND, "calls a function of awk whose name is hidden")
    if any(re.match(r"/inet[46]?/(tcp|udp)/", one) for one in strings):
        call.report(REVERSE_SHELL, "opens a connection to another machine from awk")
    for match in _AWK_SYSTEM.finditer(program):
        if match[1]:
            _awk_command(call, program[match.end() :], variables)
    for match in re.finditer(r'("(?:[^"\\]|\\.)*"|\b[A-Za-z_]\w*+|\$\d+|\$0)\s*+\|&?\s*+getline', program):
        _awk_command(call, match[1] + ")", variables)
    for match in re.finditer(r'\bprint(?:f)?\b[^;|}\n]*?\|&?\s*(?!\|)("(?:[^"\\]|\\.)*"|[A-Za-z_]\w*)', program):
        target = match[1]
        if target.strip('"') in ("sh", "bash", "/bin/sh", "/bin/bash", "zsh"):
            printed = re.search(r'print(?:f)?\s*\(?\s*"((?:[^"\\]|\\.)*)"', match[0])
            if printed and "%" not in printed[1]:
                run_code(call, printed[1].replace("\\n", "\n"), "awk's output")
            else:
                call.report(OPAQUE_CODE, "runs what awk prints as commands")
        else:
            _awk_command(call, target + ")", variables)
    for match in re.finditer(r'\bprint(?:f)?\b[^;|}\n]*?>>?\s*("(?:[^"\\]|\\.)*"|[A-Za-z_]\w*|\$\d)', program):
        target = match[1]
        path = target[1:-1] if target.startswith('"') else variables.get(target, UNSET)
        if path.startswith("/dev/std") or path == "":
            continue
        if path != UNSET or "if" not in match[0]:
            write(call, path)
    for match in re.finditer(r'getline\s*\w*\s*<\s*"((?:[^"\\]|\\.)*)"', program):
        read(call, match[1])
    if re.search(r"(while\s*\(\s*1\s*\)|for\s*\(\s*;\s*;\s*\))[^}]*system\s*\(", bare) and "&" in "".join(strings):
        call.report(FORK_BOMB, "starts processes again and again without end")
    if re.search(r"@load|extension\s*\(", bare):
        call.report(UNKNOWN_COMMAND, "loads a library into awk")


def _awk_command(call: Call, rest: str, variables: dict[str, str]) -> None:
    """The string expression up to the closing parenthesis: constants joined by blanks."""
    out = ""
    while rest:
        rest = rest.lstrip()
        match = _AWK_STRING.match(rest)
        if match:
            out += match[0][1:-1].replace('\\"', '"').replace("\\n", "\n")
            rest = rest[match.end() :]
            continue
        name = re.match(r"[A-Za-z_]\w*|\$\w+|\$\(?\w+\)?", rest)
        if name:
            out += variables.get(name[0], UNSET)
            rest = rest[name.end() :]
            continue
        break
    if not out.strip(UNSET + " "):
        call.report(UNKNOWN_COMMAND, "runs a command that awk makes from its input")
    else:
        call.shell_text(out)


JUDGES: dict[str, Judge] = {
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk", "original-awk", "goawk", "frawk", "igawk"), judge_awk),
}
