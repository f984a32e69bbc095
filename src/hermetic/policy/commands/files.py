"""Programs that delete, move, copy and write files, and change who may use them."""

from __future__ import annotations

import re

from hermetic.policy.call import Call, Judge
from hermetic.policy.effects import (
    GIT_DELETE,
    LOG_WIPE,
    OUTSIDE_DELETE,
    ROOT_DELETE,
    SYSTEM_WRITE,
    UNKNOWN_DELETE,
    WORKSPACE_WIPE,
    delete,
    read,
    write,
)
from hermetic.policy.marks import ENDLESS, STAR, has_glob, is_known, shown
from hermetic.policy.options import parse_options
from hermetic.policy.paths import is_secret, resolve
from hermetic.policy.protected import protect, protect_ours
from hermetic.policy.rules import Rule
from hermetic.policy.tables import names

from .permissions import PERMISSION, SET_UID, asks_help, sets_uid
from .unseen import is_wholly_unseen

WIPE = Rule(
    name="overwrite-file",
    category="disk-image",
    label="caution",
    severity=3,
    effects=("writes", "deletes"),
    catches=("truncate -s 0 ./a.log", "shred secrets.txt"),
    spares=("touch a",),
)
RULES = (WIPE,)


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
            call.machine.note("delete" if options.has("u", "remove") else "write", call.place(path)[0], scope="one")
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
    elif place == "unknown":
        call.report(UNKNOWN_DELETE, f"overwrites a path that cannot be known: {shown(path)}", full)
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
        call.machine.note("write", call.place(path)[0])
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
    if target is not None:
        call.shell.moved.update({resolve(target, call.shell): resolve(path, call.shell) for path in sources})
    return ""


def _move_away(call: Call, path: str) -> None:
    full, place = call.place(path)
    name = shown(path)
    call.machine.note("delete", full)
    protect_ours(call, full, name)
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
        if call.shell.is_fetched(resolve(path, call.shell)):
            call.shell.fetched.add(resolve(target, call.shell))


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
    if mode and sets_uid(mode):
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
    if (call.name in ("ln", "link") and not options.has("s", "symbolic")) or options.has("l", "link"):
        for path in sources:  # whoever writes by the new name writes the same file
            protect(call, path)
            write(call, path)
    if call.name in ("ln", "link") and target is not None:
        for path in sources:
            call.shell.links[resolve(target, call.shell)] = resolve(path, call.shell)
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
    if any(arg.startswith("count=") for arg in call.args):
        content = content.replace(ENDLESS, "")
    if target:
        if target.startswith("~"):
            target = call.shell.home + target[1:]
        if is_wholly_unseen(target):
            call.report(UNKNOWN_DELETE, f"overwrites a file or a disk that cannot be known: {shown(target)}")
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
        call.machine.note("write", full)
        if place in ("system", "elsewhere", "startup", "device", "kernel", "disk", "history", "log") and not (
            call.name == "mkdir" and place == "startup"
        ):
            write(call, path)
            call.shell.files.pop(full, None)
        if call.name == "mkfifo" or (call.name == "mknod" and "p" in options.operands[1:2]):
            call.shell.files[full] = "\ue003"
    if call.name == "mknod" and options.operands[1:2] and options.operands[1] in ("b", "c"):
        call.report(PERMISSION, "makes a device node")
    return ""


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
    "split": judge_split,
    "csplit": judge_split,
    "patch": judge_patch,
    **dict.fromkeys(("rename", "prename", "rename.ul", "file-rename"), judge_rename),
}
