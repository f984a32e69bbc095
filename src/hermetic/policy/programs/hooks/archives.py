"""Archives and copies of trees: what goes in, what comes out, and where it lands."""

from __future__ import annotations

import itertools
import re

from hermetic.policy.call import Call
from hermetic.policy.dynamic_code import run_program
from hermetic.policy.effects import delete, read, write
from hermetic.policy.marks import DECODED, NET
from hermetic.policy.network import check_sent, is_remote, land, leave
from hermetic.policy.options import parse_options
from hermetic.policy.paths import resolve
from hermetic.policy.programs.hooks.files import sets_uid
from hermetic.policy.programs.hooks.network import check_settings
from hermetic.policy.programs.interpret import judge_by_row
from hermetic.policy.programs.texts import judge_patterns


def judge_rsync(call: Call) -> None:
    """rsync copies trees; --delete removes what the source does not have; -e runs a program."""
    options = call.options
    for program in options.values("e", "rsh")[-1:]:
        run_program(call, program, "a remote shell")
    for program in options.values("rsync-path"):
        call.machine.run_text(program, call.shell.elsewhere(), None)
    if any(
        sets_uid(part.lstrip("DF"))
        for value in options.values("chmod")
        for part in value.split(",")
    ):
        call.report("set-uid", "copies a program that runs with its owner's rights")
    if options.has("daemon"):
        call.report("serve-files", "offers files to whoever connects")
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
            call.report(
                "delete-outside", "deletes files on another machine that the source does not have"
            )
    elif deletes:
        own = call.place(target)[1] in ("workspace", "temp", "cache")
        delete(call, target if own else target.rstrip("/") or "/", recursive=True)
    else:
        unpack(call, target, "")
        for path in filter(is_remote, sources):
            name = re.split("[/:]", path.rstrip("/"))[-1]
            call.shell.fetched |= {
                resolve(target, call.shell) + "/" + name,
                resolve(target, call.shell),
            }


def unpack(call: Call, target: str | None, source: str) -> None:
    """Judge that files of unknown names land in a directory."""
    if target:
        write(call, target, tree=True)
        call.shell.files.pop(resolve(target, call.shell), None)
    if NET in source:
        call.shell.fetched.add(resolve(target or ".", call.shell))


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
    if sets_uid(options.value("mode") or ""):
        call.report("set-uid", "packs programs that run with their owner's rights")
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
    if options.has("P", "absolute-names"):
        call.report("extract-anywhere", "unpacks files to wherever the archive says")
    if options.has("O", "to-stdout"):
        return DECODED + source
    unpack(call, target, source)
    return None


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


def judge_unzip(call: Call) -> str | None:
    """unzip unpacks into -d."""
    options = call.options
    if options.has("l", "t", "v", "Z", "z"):
        return None
    source = "".join(read(call, path) for path in options.operands[:1])
    if options.has("p", "c"):
        return DECODED + source
    unpack(call, options.value("d"), source)
    return None


def judge_cpio(call: Call) -> None:
    """cpio and pax copy trees in and out."""
    options = call.options
    judge_by_row(call)
    if options.has("p", "pass-through") and options.operands:
        write(call, options.operands[-1], tree=True)
    if options.has("i", "extract"):
        if not options.has("t", "list") and call.place(".")[1] != "workspace":
            write(call, ".", tree=True)
        if options.has("absolute-filenames"):
            call.report("extract-anywhere", "unpacks files to wherever the archive says")


def judge_rclone(call: Call) -> str | None:
    """rclone copies to remote storage; credentials among what it sends are reported."""
    verb, *words = call.options.operands or [""]
    local = [path for path in words if ":" not in path]
    if verb in ("copy", "copyto", "sync", "move", "moveto", "rcat") and words and ":" in words[-1]:
        check_sent(
            call,
            *(read(call, path, tree=True) for path in local),
            (verb == "rcat" and call.stdin) or "",
        )
    changed = (
        {"sync": words[-1:], "move": words[:1], "moveto": words[:1], "bisync": words}
        if len(words) > 1
        else {}
    )
    for path in (
        words
        if verb in ("purge", "delete", "deletefile", "rmdir", "rmdirs")
        else changed.get(verb, ())
    ):
        if ":" not in path:
            call.machine.note("delete", call.place(path)[0], scope="tree")
    return judge_by_row(call)


def judge_scp(call: Call) -> None:
    """scp and sftp copy between machines; -S and -D run a program here."""
    options, words = call.options, call.options.operands
    for program in options.values("S", "D"):
        call.run([program])
        call.report("run-unknown", f"runs a program: {program}")
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


def judge_ftp(call: Call) -> str | None:
    """ftp, lftp, tftp, smbclient: their scripts run local commands, send files and fetch them."""
    texts = [
        value for flag, value in itertools.pairwise(call.args) if flag in ("-c", "-e", "--command")
    ]
    words = " ".join(
        word for word in call.args if not word.startswith("-") or word == "-R"
    ).partition(" ")[2]
    if call.name in ("tftp", "atftp") and "-g" in call.args:
        options = parse_options(call.args, "rlp")
        land(call, options.value("l") or "./", options.values("r", "l"))
    elif call.name in ("tftp", "atftp"):
        texts.append(words)
    for text in [*texts, call.stdin or ""]:
        judge_patterns(call, text, "ftp")
    return NET
