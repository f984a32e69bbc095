"""Archives and copies of trees: what goes in, what comes out, and where it lands."""

from __future__ import annotations

import itertools
import re

from hermetic.policy.call import Call
from hermetic.policy.dynamic_code import run_program
from hermetic.policy.effects import delete, read, write
from hermetic.policy.marks import DECODED
from hermetic.policy.network import check_sent, is_remote, land, leave, unpack
from hermetic.policy.paths import resolve
from hermetic.policy.programs.hooks.network import check_settings
from hermetic.policy.programs.interpret import judge_by_row
from hermetic.policy.programs.texts import judge_patterns


def judge_rsync(call: Call) -> None:
    """rsync copies trees; --delete removes what the source does not have; -e runs a program."""
    options = call.options
    for program in options.values(*call.row.program.split()):
        run_program(call, program, "a remote shell")
    if options.has("n", "dry-run", "list-only", "help", "version") or len(options.operands) < 2:
        return
    *sources, target = options.operands
    for path in sources if options.has("remove-source-files") else ():
        delete(call, path, recursive=True)
    held = [read(call, path, tree=True) for path in sources if not is_remote(path)]
    deletes = any(re.match(r"del(ete|$)|remove-source-files", name) for name, _ in options.given)
    if is_remote(target):
        check_sent(call, *held)
        if deletes:
            reason = "deletes files on another machine that the source does not have"
            call.report("delete-outside", reason)
    elif deletes:
        own = call.place(target)[1] in ("workspace", "temp", "cache")
        delete(call, target if own else target.rstrip("/") or "/", recursive=True)
    else:
        unpack(call, target, "")
        for path in filter(is_remote, sources):
            name = re.split("[/:]", path.rstrip("/"))[-1]
            full = resolve(target, call.shell)
            call.shell.fetched |= {full, f"{full}/{name}"}


def judge_tar(call: Call) -> str | None:
    """tar packs and unpacks; several options run programs."""
    args = list(call.args)
    # letters without a dash: the value of f is the next word
    if args and re.fullmatch(r"[A-Za-z]+", args[0]):
        args[0] = "-" + args[0].replace("f", "") + "f" * ("f" in args[0])
        call = call.named(call.name, args)
    options = call.options
    for value in options.values(*call.row.program.split()):
        run_program(call, value, "an option")
    for value in options.values("checkpoint-action"):
        if value.startswith("exec="):
            run_program(call, value[5:], "a checkpoint")
    archive, target = options.value("f", "file"), options.value("C", "directory", "cd")
    if options.has("c", "create", "r", "append", "u", "update"):
        inner = call.moved(target)
        held = "".join(read(inner, path, tree=True) for path in options.operands)
        for path in options.operands if options.has("remove-files") else ():
            delete(inner, path, recursive=True)
        if archive and archive != "-":
            write(call, archive, content=held)
            return ""
        return held or None
    if not options.has("x", "extract", "get"):
        return None
    source = read(call, archive) if archive and archive != "-" else call.input()
    if options.has("O", "to-stdout"):
        return DECODED + source
    unpack(call, target, source)
    for member in options.operands if target else ():
        write(call.moved(target), member)
    return None


def judge_cpio(call: Call) -> None:
    """cpio and pax unpack into the current directory."""
    judge_by_row(call)
    options = call.options
    extracts = options.has("i", "extract") and not options.has("t", "list")
    if extracts and call.place(".")[1] != "workspace":
        write(call, ".", tree=True)


def judge_zip(call: Call) -> str | None:
    """zip packs files; -TT runs a program."""
    for flag, value in itertools.pairwise([*call.args, ""]):
        name, equals, glued = flag.partition("=")
        if name in ("-TT", "--unzip-command"):
            run_program(call, (glued if equals else value).replace("{}", "x.zip"), "a test")
    words = call.options.operands
    if call.name in ("7z", "7za", "7zr"):
        for arg in call.args if words[:1] in (["x"], ["e"]) else ():
            if arg.startswith("-o"):
                write(call, arg[2:], tree=True)
        words = words[1:]
    held = "".join(read(call, path, tree=True) for path in words[1:])
    if words[:1] == ["-"]:
        return held
    for path in words[:1]:
        write(call, path, content=held)
    if any(re.fullmatch(r"-\w*m\w*" if call.name == "zip" else "-sdel", arg) for arg in call.args):
        for path in words[1:]:
            delete(call, path, recursive=True)
    return None


def judge_rclone(call: Call) -> str | None:
    """rclone copies to remote storage; credentials among what it sends are reported."""
    verb, *words = call.options.operands or [""]
    local = [path for path in words if ":" not in path]
    if verb in ("copy", "copyto", "sync", "move", "moveto", "rcat") and words and ":" in words[-1]:
        piped = (verb == "rcat" and call.stdin) or ""
        check_sent(call, *(read(call, path, tree=True) for path in local), piped)
    changed = {"sync": words[-1:], "move": words[:1], "moveto": words[:1], "bisync": words}
    changed = changed if len(words) > 1 else {}
    changed |= dict.fromkeys(("purge", "delete", "deletefile", "rmdir", "rmdirs"), words)
    for path in changed.get(verb, ()):
        if ":" not in path:
            call.machine.note("delete", call.place(path)[0], scope="tree")
    return judge_by_row(call)


def judge_scp(call: Call) -> None:
    """scp and sftp copy between machines; -S and -D run a program here."""
    options, words = call.options, call.options.operands
    for program in options.values(*call.row.program.split()):
        run_program(call, program, "a connection")
    check_settings(call)
    if call.name == "sftp":
        batch = options.value("b")
        judge_patterns(call, read(call, batch) if batch else call.stdin or "", "ftp")
        words = [*words, "."] if len(words) == 1 and ":" in words[0] else words
    if len(words) < 2:
        return
    *sources, target = words
    if not is_remote(target):
        land(call, target, [path for path in sources if is_remote(path)])
    for path in sources if is_remote(target) else ():
        if not is_remote(path):
            leave(call, path)
