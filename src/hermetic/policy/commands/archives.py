"""Archives and trees: what goes in, what comes out, and where it lands."""

from __future__ import annotations

import itertools
import re

from hermetic.policy.call import Call, Judge
from hermetic.policy.effects import (
    OUTSIDE_DELETE,
    delete,
    read,
    write,
)
from hermetic.policy.network import check_sent
from hermetic.policy.options import Options, parse_options
from hermetic.policy.paths import resolve
from hermetic.policy.rules import Rule
from hermetic.policy.tables import names

from .permissions import SET_UID, sets_uid
from .servers import SERVE_FILES
from .unseen import run_program

EXTRACT_ABSOLUTE = Rule(
    name="extract-anywhere",
    category="system-config-write",
    severity=7,
    effects=("writes",),
    catches=("tar xPf x.tar", "tar -xf a.tar --absolute-names"),
    spares=("tar xf x.tar", "tar czf a.tgz src"),
)


def judge_rsync(call: Call) -> str | None:
    """rsync copies trees; --delete removes what the source does not have; -e runs a program."""
    options = parse_options(
        call.args,
        "efBTM@",
        names(
            """
rsh exclude include filter exclude-from include-from files-from log-file rsync-path backup-dir suffix chmod
chown port timeout bwlimit temp-dir compare-dest copy-dest link-dest out-format password-file max-size min-size
partial-dir info debug
"""
        ),
    )
    shell = options.value("e", "rsh")
    if shell:
        run_program(call, shell, "a remote shell")
    for program in options.values("rsync-path"):
        call.machine.run_text(program, call.shell.elsewhere(), None)
    if any(sets_uid(part.lstrip("DF")) for value in options.values("chmod") for part in value.split(",")):
        call.report(SET_UID, "copies a program that runs with its owner's rights")
    if options.has("daemon"):
        call.report(SERVE_FILES, "offers files to whoever connects")
    if options.has("n", "dry-run", "list-only", "help", "version"):
        return None
    operands = options.operands
    if len(operands) < 2:
        return None
    target, sources = operands[-1], operands[:-1]
    if options.has("remove-source-files"):
        for path in sources:
            delete(call, path, recursive=True)
    secrets = [read(call, path, tree=True) for path in sources if not _is_remote(path)]
    deletes = any(
        name.startswith("delete") or name == "del" or name == "remove-source-files" for name, _ in options.given
    )
    if _is_remote(target):
        check_sent(call, *secrets)
        if deletes:
            call.report(OUTSIDE_DELETE, "deletes files on another machine that the source does not have")
        return None
    place = call.place(target)[1]
    if deletes and place in ("workspace", "temp", "cache"):
        delete(call, target, recursive=True)
    elif deletes:
        delete(call, target.rstrip("/") or "/", recursive=True)
    else:
        write(call, target, tree=True)
        call.shell.files.pop(resolve(target, call.shell), None)
        for path in sources:
            if _is_remote(path):
                name = re.split("[/:]", path.rstrip("/"))[-1]
                call.shell.fetched |= {resolve(target, call.shell) + "/" + name, resolve(target, call.shell)}
    return None


def _is_remote(path: str) -> bool:
    return (
        bool(re.match(r"([^/:]+@)?[\w.\-\[\]:]+::?(?!/\\)", path)) and ":" in path.split("/", 1)[0]
    ) or path.startswith(("rsync://", "s3://", "gs://"))


def judge_tar(call: Call) -> str | None:
    """tar packs and unpacks; several options run programs."""
    args = list(call.args)
    if args and not args[0].startswith("-") and re.fullmatch(r"[A-Za-z]+", args[0]):
        args[0] = "-" + args[0]
        if "f" in args[0] and not args[0].endswith("f"):
            args[0] = args[0].replace("f", "") + "f"
    options = parse_options(
        args,
        "fCTXbIHgKLNV",
        names(
            """
file directory files-from exclude exclude-from use-compress-program checkpoint-action to-command info-script
new-volume-script rsh-command rmt-command transform strip-components owner group mode xform newer mtime
index-file
"""
        ),
    )
    for value in options.values(
        "I", "use-compress-program", "to-command", "info-script", "F", "new-volume-script", "rsh-command", "rmt-command"
    ):
        run_program(call, value, "an option")
    for value in options.values("checkpoint-action"):
        if value.startswith("exec="):
            run_program(call, value[5:], "a checkpoint")
    if sets_uid(options.value("mode") or ""):
        call.report(SET_UID, "packs programs that run with their owner's rights")
    archive = options.value("f", "file")
    extracting = options.has("x", "extract", "get")
    creating = options.has("c", "create") or options.has("r", "append") or options.has("u", "update")
    if creating:
        held = "".join(read(_in_directory(call, options), path, tree=True) for path in options.operands)
        if options.has("remove-files"):
            for path in options.operands:
                delete(_in_directory(call, options), path, recursive=True)
        if archive and archive != "-":
            write(call, archive, content=held)
            return ""
        return held or None
    if not extracting:
        return None
    source = read(call, archive) if archive and archive != "-" else call.input()
    if options.has("P", "absolute-names"):
        call.report(EXTRACT_ABSOLUTE, "unpacks files to wherever the archive says")
    if options.has("O", "to-stdout"):
        return "\ue004" + source
    target = options.value("C", "directory", "cd")
    if target:
        write(call, target, tree=True)
        call.shell.files.pop(resolve(target, call.shell), None)
    if "\ue003" in source:
        call.shell.fetched.add(resolve(target or ".", call.shell))
    return None


def _in_directory(call: Call, options: Options) -> Call:
    directory = options.value("C", "directory", "cd")
    if not directory:
        return call
    shell = call.shell.fork()
    shell.cwd = resolve(directory, call.shell)
    other = call.again(call.argv)
    other.shell = shell
    return other


def judge_zip(call: Call) -> str | None:
    """zip packs files; -TT runs a program."""
    given = [*call.args, ""]
    testers = [after for flag, after in itertools.pairwise(given) if flag in ("-TT", "--unzip-command")]
    testers += [arg.partition("=")[2] for arg in call.args if arg.startswith("--unzip-command=")]
    for tester in testers:
        run_program(call, tester.replace("{}", "x.zip"), "a test")
    operands = parse_options(call.args, "btnxi", ("exclude", "include", "temp-path")).operands
    if call.name in ("7z", "7za", "7zr"):
        for arg in call.args if operands[:1] in (["x"], ["e"]) else ():
            if arg.startswith("-o"):
                write(call, arg[2:], tree=True)
        operands = operands[1:]
    held = "".join(read(call, path, tree=True) for path in operands[1:])
    if operands and operands[0] == "-":
        return held
    if operands:
        write(call, operands[0], content=held)
    moves = any(re.fullmatch(r"-\w*m\w*", arg) for arg in call.args) if call.name == "zip" else "-sdel" in call.args
    if moves:
        for path in operands[1:]:
            delete(call, path, recursive=True)
    return None


def judge_unzip(call: Call) -> str | None:
    """unzip unpacks into -d."""
    options = parse_options(call.args, "dxP")
    if options.has("l", "t", "v", "Z", "z"):
        return None
    source = "".join(read(call, path) for path in options.operands[:1])
    if options.has("p", "c"):
        return "\ue004" + source
    target = options.value("d")
    if target:
        write(call, target, tree=True)
        call.shell.files.pop(resolve(target, call.shell), None)
    if "\ue003" in source:
        call.shell.fetched.add(resolve(target or ".", call.shell))
    return None


def judge_cpio(call: Call) -> str | None:
    """cpio and pax copy trees in and out."""
    options = parse_options(call.args, "DCEFHIMORU", ("directory", "file", "rsh-command"))
    if options.value("rsh-command"):
        call.shell_text(options.value("rsh-command") or "")
    passing = options.has("p", "pass-through")
    if passing and options.operands:
        write(call, options.operands[-1], tree=True)
    if options.value("D", "directory"):
        write(call, options.value("D", "directory") or "", tree=True)
    if options.has("i", "extract") and not options.has("t", "list") and call.place(".")[1] != "workspace":
        write(call, ".", tree=True)
    if options.has("i", "extract") and options.has("absolute-filenames"):
        call.report(EXTRACT_ABSOLUTE, "unpacks files to wherever the archive says")
    return None


RULES = (EXTRACT_ABSOLUTE,)

JUDGES: dict[str, Judge] = {
    "rsync": judge_rsync,
    **dict.fromkeys(("tar", "gtar", "bsdtar"), judge_tar),
    **dict.fromkeys(("zip", "7z", "7za", "7zr", "rar"), judge_zip),
    "unzip": judge_unzip,
    "bsdunzip": judge_unzip,
    "cpio": judge_cpio,
    "pax": judge_cpio,
}
