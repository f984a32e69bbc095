"""Programs that delete, move, copy and write files, and change who may use them."""

from __future__ import annotations

import itertools
import re

from hermetic.policy.call import Call, Judge
from hermetic.policy.effects import (
    GIT_DELETE,
    LOG_WIPE,
    OUTSIDE_DELETE,
    ROOT_DELETE,
    SYSTEM_WRITE,
    WORKSPACE_WIPE,
    delete,
    read,
    write,
)
from hermetic.policy.marks import STAR, UNKNOWN, has_glob, is_known, shown
from hermetic.policy.network import check_sent
from hermetic.policy.options import Options, parse_options
from hermetic.policy.paths import is_secret, resolve
from hermetic.policy.rules import Rule
from hermetic.policy.tables import names

from .unseen import run_program

PERMISSION = Rule(
    name="open-permissions",
    category="permission-ownership",
    severity=8,
    effects=("changes shared state",),
    catches=(
        "chmod 777 /etc/shadow",
        "chmod -R 777 /",
        "chown nobody /etc/sudoers",
        "chmod 644 ~/.ssh/id_rsa",
        "setfacl -m u:x:rw /etc/passwd",
    ),
    spares=("chmod 644 README.md", "chmod +x run.sh", "chown --help", "chmod 600 ~/.ssh/id_rsa"),
)
SET_UID = Rule(
    name="set-uid",
    category="permission-ownership",
    severity=9,
    effects=("changes shared state",),
    catches=("chmod u+s /bin/bash", "chmod 4755 ./x", "install -m 4755 /bin/sh /tmp/sh", "setcap cap_setuid+ep ./x"),
    spares=("chmod 755 x", "chmod g-s dir"),
)
PERMISSION_WORKSPACE = Rule(
    name="permissions-in-workspace",
    category="permission",
    label="caution",
    severity=2,
    effects=("writes",),
    catches=("chmod -R 777 .", "chmod 666 data.db", "chown -R me ."),
    spares=("chmod 644 a",),
)
WIPE = Rule(
    name="overwrite-file",
    category="disk-image",
    label="caution",
    severity=3,
    effects=("writes", "deletes"),
    catches=("truncate -s 0 ./a.log", "shred secrets.txt"),
    spares=("touch a",),
)
EXTRACT_ABSOLUTE = Rule(
    name="extract-anywhere",
    category="system-config-write",
    severity=7,
    effects=("writes",),
    catches=("tar xPf x.tar", "tar -xf a.tar --absolute-names"),
    spares=("tar xf x.tar", "tar czf a.tgz src"),
)
RULES = (PERMISSION, SET_UID, PERMISSION_WORKSPACE, WIPE, EXTRACT_ABSOLUTE)

_ASKS_HELP = ("--help", "--version")


def asks_help(call: Call) -> bool:
    """True when the program would only print its help or version."""
    for arg in call.args:
        if arg == "--":
            return False
        if arg in _ASKS_HELP:
            return True
    return False


def judge_rm(call: Call) -> str | None:
    """rm, rmdir, unlink, shred, trash: delete their operands."""
    if asks_help(call):
        return None
    short = {"shred": "ns", "srm": "", "wipe": "Qqlx"}.get(call.name, "")
    options = parse_options(
        call.args, short, ("iterations", "size", "random-source", "interactive") if call.name == "shred" else ()
    )
    recursive = options.has("r", "R", "recursive") or call.name in ("rimraf", "del-cli", "srm", "rd")
    for path in options.operands:
        if call.name == "shred":
            _overwrite(call, path)
        else:
            delete(call, path, recursive=recursive)
    return ""


def _overwrite(call: Call, path: str) -> None:
    full, place = call.place(path)
    if place in ("workspace", "temp"):
        call.report(WIPE, f"overwrites a file: {shown(path)}", full)
    elif place == "log" or place == "history":
        call.report(LOG_WIPE, f"overwrites logs or history: {shown(path)}", full)
    elif place in ("user", "sibling", "cache"):
        call.report(OUTSIDE_DELETE, f"destroys a file outside the workspace: {shown(path)}", full)
    else:
        write(call, path)


def judge_del(call: Call) -> str | None:
    """del and rd of Windows: options begin with a slash."""
    recursive = any(arg.lower() == "/s" for arg in call.args)
    for path in call.args:
        if not re.fullmatch(r"/[A-Za-z](:\S*)?", path):
            delete(call, path.replace("\\", "/"), recursive=recursive)
    return ""


def judge_truncate(call: Call) -> str | None:
    """truncate cuts or grows files."""
    if asks_help(call):
        return None
    options = parse_options(call.args, "srl" if call.name == "fallocate" else "sr", ("size", "reference", "length"))
    for path in options.operands:
        _overwrite(call, path)
    return ""


def judge_mv(call: Call) -> str | None:
    """mv takes its sources away and writes its target."""
    if asks_help(call):
        return None
    options = parse_options(call.args, "tS", ("target-directory", "suffix", "backup"))
    target = options.value("t", "target-directory")
    sources = options.operands
    if target is None and len(sources) > 1:
        target = sources[-1]
        sources = sources[:-1]
    for path in sources:
        if target is not None and call.place(target)[1] == "null":
            delete(call, path, recursive=True)
        else:
            _move_away(call, path)
    _land(call, sources, target)
    return ""


def _move_away(call: Call, path: str) -> None:
    full, place = call.place(path)
    name = shown(path)
    if place == "git":
        call.report(GIT_DELETE, f"takes the repository's history away: {name}", full)
    elif place in ("system", "root", "device", "disk", "kernel", "home"):
        call.report(
            ROOT_DELETE if place == "root" else OUTSIDE_DELETE, f"takes away a part of the system or home: {name}", full
        )
    elif place == "elsewhere" or (
        place == "user" and has_glob(path) and not path.strip("".join((STAR,))).rstrip("/").startswith("./")
    ):
        if place == "elsewhere" or not re.search(r"[^/\ue010]\ue010|\ue010[^/\ue010]", path):
            call.report(OUTSIDE_DELETE, f"takes files outside the workspace away: {name}", full)
    elif place == "startup":
        write(call, path)
    elif place == "log" or place == "history":
        call.report(LOG_WIPE, f"takes logs or history away: {name}", full)
    elif place == "workspace root":
        call.report(WORKSPACE_WIPE, f"takes the whole workspace away: {name}", full)
    elif place in ("unknown",):
        write(call, path)
    if is_secret(full, call.shell):
        read(call, path)


def _land(call: Call, sources: list[str], target: str | None) -> None:
    """Copy or move sources to a target: the target, or a name inside it, is written."""
    if target is None:
        return
    place = call.place(target)[1]
    for path in sources:
        if call.place(path)[1] == "system" and "/bin/" in path:
            name = path.rsplit("/", 1)[-1]
            full = resolve(target, call.shell)
            call.shell.copies[full] = call.shell.copies[f"{full}/{name}"] = name
    for path in sources or [""]:
        held = call.shell.files.get(resolve(path, call.shell)) if path else None
        if place in ("home", "workspace root", "user", "cache", "sibling") or target.endswith("/"):
            inside = target.rstrip("/") + "/" + path.rstrip("/").rsplit("/", 1)[-1]
            write(call, inside if place == "home" or target.endswith("/") else target, content=held or "")
            if place != "workspace root":
                continue
        if held is not None or not path:
            write(call, target, content=held or "")
            continue
        before = dict(call.shell.files)
        write(call, target)
        call.shell.files.clear()
        call.shell.files.update(before)
        if _fetched(call, path):
            call.shell.fetched.add(resolve(target, call.shell))


def _fetched(call: Call, path: str) -> bool:
    full = resolve(path, call.shell)
    return any(full == base or full.startswith(base + "/") for base in call.shell.fetched)


def judge_cp(call: Call) -> str | None:
    """cp, install and ln read sources and write a target."""
    if asks_help(call):
        return None
    short = {"install": "gmotS", "cp": "tS", "ln": "tS", "ditto": "", "pax": ""}.get(call.name, "t")
    options = parse_options(
        call.args,
        short,
        ("target-directory", "suffix", "mode", "owner", "group", "sparse", "reflink", "backup", "strip-program"),
    )
    if call.name == "install" and options.value("strip-program"):
        call.run([options.value("strip-program") or ""])
    mode = options.value("m", "mode")
    if mode and _sets_uid(mode):
        call.report(SET_UID, "installs a program that runs with its owner's rights")
    if call.name == "install" and options.has("d", "directory"):
        for path in options.operands:
            write(call, path)
        return ""
    target = options.value("t", "target-directory")
    sources = options.operands
    if target is None and len(sources) > 1:
        target, sources = sources[-1], sources[:-1]
    if call.name != "ln":
        for path in sources:
            content = read(call, path, tree=options.has("r", "R", "a", "recursive", "archive"))
            full = resolve(path, call.shell)
            if is_known(content) and content:
                call.shell.files.setdefault(full, content)
    if call.name == "ln" and target is None and sources:
        target = "./" + sources[0].rstrip("/").rsplit("/", 1)[-1]
    _land(call, sources, target)
    return ""


def judge_dd(call: Call) -> str | None:
    """dd copies if= to of=."""
    if asks_help(call):
        return None
    source, target = None, None
    for arg in call.args:
        name, _, value = arg.partition("=")
        if name == "if":
            source = value
        elif name == "of":
            target = value
    if source and source.startswith("~"):
        source = call.shell.home + source[1:]
    content = read(call, source) if source else call.input()
    if target:
        if target.startswith("~"):
            target = call.shell.home + target[1:]
        write(call, target, content=content)
        return ""
    return content


def judge_tee(call: Call) -> str | None:
    """tee writes its input to files and passes it on."""
    options = parse_options(call.args)
    text = call.input()
    for path in options.operands:
        write(call, path, content=text)
    return text


def judge_touch(call: Call) -> str | None:
    """touch, mkdir, mkfifo, mknod make names."""
    if asks_help(call):
        return None
    options = parse_options(
        call.args, "drtm" if call.name == "touch" else "mZ", ("date", "reference", "mode", "time", "context")
    )
    operands = options.operands[:1] if call.name == "mknod" else options.operands
    for path in operands:
        full, place = call.place(path)
        if place in ("system", "elsewhere", "startup", "device", "kernel", "disk", "history") and not (
            call.name == "mkdir" and place == "startup"
        ):
            write(call, path)
            call.shell.files.pop(full, None)
        if call.name == "mkfifo" or (call.name == "mknod" and "p" in options.operands[1:2]):
            call.shell.files[full] = "\ue003"
    if call.name == "mknod" and options.operands[1:2] and options.operands[1] in ("b", "c"):
        call.report(PERMISSION, "makes a device node")
    return ""


def _sets_uid(mode: str) -> bool:
    if re.fullmatch(r"0*[2467]\d{3}", mode):
        return mode.lstrip("0")[0] in "4627"
    return bool(re.search(r"(^|,)([ugoa]*[+=][rwxXt]*s)", mode))


def _widens(mode: str) -> bool:
    if re.fullmatch(r"\d+", mode):
        return mode[-1] in "2367"
    return bool(re.search(r"(^|,)([oa]|[ugoa]*[oa][ugoa]*|)[+=][rxXst]*w", mode)) and not mode.startswith(
        ("u+", "g+", "u=", "+x")
    )


def judge_chmod(call: Call) -> str | None:
    """chmod, chown, chgrp, chattr, setfacl change who may use a file."""
    if asks_help(call):
        return None
    options = _permission_options(call)
    recursive = options.has("R", "recursive", "r")
    reference = options.value("reference")
    operands = options.operands
    mode = ""
    if reference is None and operands and call.name not in ("setfacl", "chattr"):
        mode, operands = operands[0], operands[1:]
    elif call.name == "chattr":
        mode, operands = (operands[0], operands[1:]) if operands else ("", [])
    if call.name == "chmod" and _sets_uid(mode):
        call.report(SET_UID, f"lets a program run with its owner's rights: {shown(mode)}")
    for path in operands:
        _permission(call, path, mode, recursive)
    return ""


def _permission_options(call: Call) -> Options:
    args = call.args
    if call.name == "chmod":
        modes = [arg for arg in args if re.fullmatch(r"-[rwxXst]+", arg) and not re.fullmatch(r"-[Rvfc]+", arg)]
        args = [arg for arg in args if arg not in modes]
        if modes:
            args = [modes[0].replace("-", "a-"), *args]
    if call.name == "chattr":
        args = [
            arg.replace("-", "=", 1)
            if re.fullmatch(r"-[aAcCdDeijsStTu]+", arg) and arg not in ("-R", "-V", "-f")
            else arg
            for arg in args
        ]
    return parse_options(
        args, "mMxX" if call.name == "setfacl" else "", ("reference", "modify", "remove", "set", "from", "restore")
    )


def _permission(call: Call, path: str, mode: str, recursive: bool) -> None:
    full, place = call.place(path)
    name = shown(path)
    if place in ("root", "system", "elsewhere", "kernel", "device", "disk", "home", "log", "unknown"):
        if place == "unknown" and not recursive and path[:1] in UNKNOWN:
            return
        call.report(PERMISSION, f"changes the rights on a shared or system path: {name}", full)
    elif is_secret(full, call.shell):
        if not re.fullmatch(r"0?[4-7]00|go-\w+|og-\w+|u=\w*,go=", mode):
            call.report(PERMISSION, f"changes the rights on credentials: {name}", full)
    elif place in ("hook", "git") and "x" in mode:
        call.report(PERMISSION_WORKSPACE, f"makes a git hook run: {name}", full)
    elif (recursive and (call.name != "chmod" or _widens(mode))) or (
        call.name == "chmod" and (_widens(mode) or not is_known(mode))
    ):
        call.report(PERMISSION_WORKSPACE, f"opens files to everyone, or gives them away: {name}", full)


def judge_setcap(call: Call) -> str | None:
    """setcap gives a program rights of root."""
    if call.args and not asks_help(call) and call.args[0] != "-v":
        call.report(SET_UID, "gives a program some of root's rights")
    return ""


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
    archive = options.value("f", "file")
    extracting = options.has("x", "extract", "get")
    creating = options.has("c", "create") or options.has("r", "append") or options.has("u", "update")
    if creating:
        held = "".join(read(_in_directory(call, options), path, tree=True) for path in options.operands)
        if options.has("remove-files"):
            for path in options.operands:
                delete(call, path, recursive=True)
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
        operands = operands[1:]
    held = "".join(read(call, path, tree=True) for path in operands[1:])
    if operands and operands[0] == "-":
        return held
    if operands:
        write(call, operands[0], content=held)
    if any(re.fullmatch(r"-\w*m\w*", arg) for arg in call.args) and call.name == "zip":
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
    if options.has("i", "extract") and options.has("absolute-filenames"):
        call.report(EXTRACT_ABSOLUTE, "unpacks files to wherever the archive says")
    return None


def judge_split(call: Call) -> str | None:
    """split and csplit write pieces; --filter runs a command for each."""
    options = parse_options(
        call.args, "abClnt", ("filter", "bytes", "lines", "number", "suffix-length", "additional-suffix")
    )
    if options.value("filter"):
        call.shell_text(
            options.value("filter") or "",
            stdin="".join(read(call, path) for path in options.operands[:1]) or call.input(),
        )
    else:
        for path in options.operands[:1]:
            read(call, path)
        if len(options.operands) > 1:
            write(call, options.operands[1])
    return None


def judge_patch(call: Call) -> str | None:
    """patch changes files below a directory."""
    options = parse_options(call.args, "bBdDFgiopPrxVYz", ("directory", "input", "output", "strip"))
    if options.has("dry-run", "help", "version"):
        return None
    target = options.value("d", "directory")
    if target:
        write(call, target, tree=True)
    for path in options.operands[:1]:
        write(call, path)
    if options.value("o", "output"):
        write(call, options.value("o", "output") or "")
    return None


def judge_rename(call: Call) -> str | None:
    """rename moves many files by a pattern; perl's variant runs code."""
    operands = [arg for arg in call.args if not arg.startswith("-")]
    for path in operands[1 if call.name != "rename.ul" else 2 :]:
        place = call.place(path)[1]
        if place in ("system", "root", "home"):
            call.report(SYSTEM_WRITE, f"renames system files: {shown(path)}")
    if operands and re.search(r"\b(system|exec|unlink|qx)\b|`", operands[0]):
        call.run(["perl", "-e", operands[0]])
    return None


JUDGES: dict[str, Judge] = {
    **dict.fromkeys(
        names(
            """
rm rmdir unlink shred srm wipe trash trash-put rimraf del-cli grm safe-rm rip
"""
        ),
        judge_rm,
    ),
    **dict.fromkeys(("del", "erase", "rd", "deltree"), judge_del),
    "truncate": judge_truncate,
    "fallocate": judge_truncate,
    "mv": judge_mv,
    "gmv": judge_mv,
    **dict.fromkeys(("cp", "install", "ln", "ditto", "gcp", "link"), judge_cp),
    "dd": judge_dd,
    "gdd": judge_dd,
    "dcfldd": judge_dd,
    "dc3dd": judge_dd,
    "tee": judge_tee,
    "sponge": judge_tee,
    **dict.fromkeys(("touch", "mkdir", "mkfifo", "mknod"), judge_touch),
    **dict.fromkeys(("chmod", "chown", "chgrp", "chattr", "setfacl", "chflags", "chcon"), judge_chmod),
    "setcap": judge_setcap,
    "rsync": judge_rsync,
    **dict.fromkeys(("tar", "gtar", "bsdtar"), judge_tar),
    **dict.fromkeys(("zip", "7z", "7za", "7zr", "rar"), judge_zip),
    "unzip": judge_unzip,
    "bsdunzip": judge_unzip,
    "cpio": judge_cpio,
    "pax": judge_cpio,
    "split": judge_split,
    "csplit": judge_split,
    "patch": judge_patch,
    **dict.fromkeys(("rename", "prename", "rename.ul", "file-rename"), judge_rename),
}
