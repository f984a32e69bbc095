"""Small hooks, one function each."""

from __future__ import annotations

import re

from hermetic.policy.call import Call
from hermetic.policy.dynamic_code import run_code
from hermetic.policy.effects import read, write
from hermetic.policy.marks import LOCAL, PIDS, STAR
from hermetic.policy.options import parse_options
from hermetic.policy.paths import resolve
from hermetic.policy.programs.texts import given_texts, judge_patterns, judge_text


def judge_at(call: Call) -> str | None:
    """at and batch keep commands for later."""
    options = parse_options(call.args, "qftd", ())
    if options.has("l", "c", "V") or (options.has("d", "r") and call.name == "at"):
        return None
    call.report("deferred-job", "starts something later, when nobody watches")
    if call.stdin is not None:
        call.run(["sh"])
    return None


def judge_keygen(call: Call) -> str | None:
    """ssh-keygen writes keys; -y reads one."""
    options = parse_options(call.args, "abCEFfImNnOPRrSsTtVWYzZ", ())
    path = options.value("f")
    if path and not options.has("y", "l", "F", "e", "B"):
        if call.place(path)[1] == "startup":
            write(call, path)
    elif path and options.has("y"):
        read(call, path)
    return None


def judge_multicall(call: Call) -> str | None:
    """busybox, toybox and coreutils hold many programs; the first word says which."""
    own = ("--list", "--list-full", "--install", "-s")
    words = [arg.removeprefix("--coreutils-prog=") for arg in call.args if arg not in own]
    return call.run(words) if words else None


def judge_ls(call: Call) -> str | None:
    """ls prints names: of its operands with -d, else of what is in them."""
    names = call.options.operands or ["."]
    if any(resolve(name, call.shell) == "/proc" for name in names):
        return PIDS + "\n"
    if call.options.has("d", "directory"):
        return "".join(f"{name}\n" for name in names)
    return "".join(
        f"{name}\n" if re.search(rf"\.\w+$|{STAR}\.\w", name) else f"{STAR}\n" for name in names
    )


def judge_fd(call: Call) -> str | None:
    """fd PATTERN ROOT prints what is below the root; -x COMMAND runs it on each match."""
    args = call.args
    at = next(
        (at for at, arg in enumerate(args) if arg in ("-x", "-X", "--exec", "--exec-batch")),
        len(args),
    )
    words = [arg for arg in args[:at] if not arg.startswith("-")]
    found = [f"{root.rstrip('/')}/{STAR}" for root in words[1:] or ["."]]
    command = [arg for arg in args[at + 1 :] if arg not in (";", "\\;")]
    for path in found[:4] if command else ():
        filled = [part.replace("{}", path) for part in command]
        call.run(filled if filled != command else [*command, path], stdin="")
    return None if command else "".join(f"{path}\n" for path in found)


def judge_typing(call: Call) -> str | None:
    """Typing into other windows runs what is typed there."""
    words = [arg for arg in call.args if not arg.startswith("-")]
    types = ("type", "send-text", "write-chars", "send-keys")
    at = next((at for at, word in enumerate(words) if word in types), -1)
    if call.name == "wtype" or at >= 0:
        run_code(call, " ".join(words[at + 1 :]).replace("\\n", "\n"), "typed text")
    return None


def judge_words(call: Call) -> str | None:
    """A program whose words as a whole are code of its language, beside what it reads."""
    is_whole = call.row.language == "powershell"  # its options are part of the code
    words = [arg for arg in call.args if is_whole or not arg.startswith("-")]
    judge_patterns(call, " ".join(words), call.row.language)
    if call.stdin is not None:
        judge_patterns(call, call.stdin, call.row.language)
    return LOCAL + "\n"


def judge_gdb(call: Call) -> str | None:
    """gdb and lldb: commands by options, in files and on standard input; `--args` has a program."""
    at = next(
        (at for at, arg in enumerate(call.args) if arg in ("--args", "-args", "--")), len(call.args)
    )
    for text in given_texts(call.again(call.argv[: at + 1])):
        judge_text(call, text, "gdb")
    if {"run", "r", "-ex"}.intersection(call.args):
        call.run(call.args[at + 1 :])
    return None


def judge_windows(call: Call) -> str | None:
    """cmd /c TEXT runs a command of Windows."""
    at = next(
        (at for at, arg in enumerate(call.args) if arg.lower() in ("/c", "/k")), len(call.args)
    )
    return call.run(" ".join(call.args[at + 1 :]).split())
