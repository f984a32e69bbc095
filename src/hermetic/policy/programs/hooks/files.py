"""Programs that move, copy and write files, change who may use them, and tell names of them."""

from __future__ import annotations

import re

from hermetic.policy.call import Call
from hermetic.policy.dynamic_code import is_wholly_unseen
from hermetic.policy.effects import check_deception, delete, meaning, read, write
from hermetic.policy.marks import (
    DECODED,
    ENDLESS,
    LOCAL,
    NET,
    STAR,
    UNKNOWN,
    has_glob,
    is_known,
    shown,
)
from hermetic.policy.options import Options, parse_options
from hermetic.policy.paths import is_secret, resolve
from hermetic.policy.programs.interpret import judge_by_row, sets_uid
from hermetic.policy.protected import protect, protect_ours
from hermetic.policy.tables import names, regex

_HERE = regex(rf"[^/{STAR}]{STAR}|{STAR}[^/{STAR}]")  # a star beside other letters
_PROGRAMS = regex(r"/s?bin/")
_MANY = names("busybox toybox coreutils")  # which program these are says the name of a link
# Programs that everywhere run with root's rights: a file that takes their mode takes that too.
_SET_UID_PROGRAMS = regex(
    r"/bin/(sudo|su|passwd|mount|umount|newgrp|chsh|chfn|gpasswd|pkexec|ping|fusermount3?)$"
)


def judge_del(call: Call) -> str | None:
    """del and rd of Windows: options begin with a slash."""
    recursive = any(arg.lower() == "/s" for arg in call.args)
    for path in call.args:
        if not re.fullmatch(r"/[A-Za-z](:\S*)?", path):
            delete(call, path.replace("\\", "/"), recursive=recursive)
    return ""


def _source_and_target(options: Options) -> tuple[list[str], str | None]:
    target, sources = options.value("t", "target-directory"), options.operands
    return (sources[:-1], sources[-1]) if target is None and len(sources) > 1 else (sources, target)


def judge_mv(call: Call) -> str | None:
    """mv takes its sources away and writes its target."""
    sources, target = _source_and_target(call.options)
    for path in sources:
        if target is not None and call.place(target)[1] == "null":
            delete(call, path, recursive=True)
        else:
            _move_away(call, path)
    _land(call, sources, target)
    if target is not None:
        for path in sources:
            call.shell.moved[resolve(target, call.shell)] = resolve(path, call.shell)
    return ""


def _move_away(call: Call, path: str) -> None:
    full, place = call.place(path)
    call.machine.note("delete", full)
    protect_ours(call, full, shown(path))
    lone = not _HERE.search(path) and not path.startswith("./")
    is_wide = place == "user" and has_glob(path) and lone
    if place in ("startup", "unknown"):
        write(call, path)
    else:
        rule, reason = meaning("taken", "elsewhere" if is_wide else place, "one", full)
        if rule:
            call.report(rule, f"{reason}: {shown(path)}", full)
    if is_secret(full, call.shell):
        read(call, path)


def _land(call: Call, sources: list[str], target: str | None) -> None:
    """Copy or move sources to a target: the target, or a name inside it, is written."""
    if target is None:
        return
    shell, full, place = call.shell, *call.place(target)
    into = place in ("home", "workspace root", "user", "cache", "sibling") or target.endswith("/")
    for path in sources or [""]:
        name = path.rstrip("/").rsplit("/", 1)[-1]
        if call.place(path)[1] == "system" and _PROGRAMS.search(path):
            is_many = name in _MANY
            shell.copies[full] = full.rpartition("/")[2] if is_many else name
            shell.copies[f"{full}/{name}"] = name
        held = shell.files.get(resolve(path, shell)) if path else None
        if into:
            inside = place == "home" or target.endswith("/")
            landed = f"{target.rstrip('/')}/{name}" if inside else target
            write(call, landed, content=held or "")
        if into and place != "workspace root":
            continue
        before = dict(shell.files)
        write(call, target, content=held or "")
        if held is None and path:  # what the target held is not known to be gone
            shell.files.clear()
            shell.files.update(before)
            if shell.is_fetched(resolve(path, shell)):
                shell.fetched.add(full)


def judge_cp(call: Call) -> str | None:
    """cp, install and ln read sources and write a target."""
    options, shell, is_link = call.options, call.shell, call.name in ("ln", "link")
    for program in options.values(*call.row.program.split()):
        call.run([program])
    if call.name == "install" and options.has("d", "directory"):
        for path in options.operands:
            write(call, path)
        return ""
    sources, target = _source_and_target(options)
    for path in sources if call.name != "ln" else ():
        content = read(call, path, tree=options.has("r", "R", "a", "recursive", "archive"))
        if is_known(content) and content:
            shell.files.setdefault(resolve(path, shell), content)
    if call.name == "ln" and target is None and sources:
        target = "./" + sources[0].rstrip("/").rsplit("/", 1)[-1]
    _land(call, sources, target)
    if (is_link and not options.has("s", "symbolic")) or options.has("l", "link"):
        for path in sources:  # a write by the new name writes the same file
            protect(call, path)
            write(call, path)
    if is_link and target is not None:
        shell.links.update({resolve(target, shell): resolve(path, shell) for path in sources})
    return ""


def judge_dd(call: Call) -> str | None:
    """dd copies if= to of=."""
    given = dict(re.sub("=~", f"={call.shell.home}", arg).partition("=")[::2] for arg in call.args)
    content = read(call, given["if"]) if given.get("if") else call.input()
    content = content.replace(ENDLESS, "") if "count" in given else content
    if "skip" in given and not is_known(content):
        content += DECODED  # a piece that no reader would see as such
    if not (target := given.get("of")):
        return content
    if is_wholly_unseen(target):
        reason = f"overwrites a file or a disk that cannot be known: {shown(target)}"
        call.report("delete-unknown", reason)
    write(call, target, content=content)
    return ""


# Places where a new name alone does something.
_MADE = names("system elsewhere startup device kernel disk history log")


def judge_touch(call: Call) -> str | None:
    """touch, mkdir, mkfifo, mknod make names."""
    words = call.options.operands
    kind = "".join(words[1:2]) if call.name == "mknod" else ""
    for path in words[:1] if call.name == "mknod" else words:
        full, place = call.place(path)
        call.machine.note("write", full)
        check_deception(call, full)
        if place in _MADE and not (call.name == "mkdir" and place == "startup"):
            write(call, path)
            call.shell.files.pop(full, None)
        if call.name == "mkfifo" or kind == "p":
            call.shell.files[full] = NET
    if kind in ("b", "c"):
        call.report("open-permissions", "makes a device node")
    return ""


def judge_split(call: Call) -> str | None:
    """split feeds the pieces of a file to --filter, or writes them."""
    text = "".join(read(call, path) for path in call.options.operands[:1])
    call.stdin = text if text and call.options.has("filter") else call.stdin
    return judge_by_row(call)


def _widens(mode: str) -> bool:
    if mode.isdigit():
        return mode[-1] in "2367"
    wide = re.search(r"(^|,)([oa]|[ugoa]*[oa][ugoa]*|)[+=][rxXst]*w", mode)
    return bool(wide) and not mode.startswith(("u+", "g+", "u=", "+x"))


def judge_chmod(call: Call) -> str | None:
    """chmod, chown, chgrp, chattr, setfacl change who may use a file."""
    options = parse_options(_without_modes(call), call.row.short, call.row.long)
    reference, words, mode = options.value("reference"), options.operands, ""
    if (reference is None and call.name != "setfacl") or call.name == "chattr":
        mode, words = "".join(words[:1]), words[1:]
    if call.name == "chmod" and (sets_uid(mode) or _SET_UID_PROGRAMS.search(reference or "")):
        call.report("set-uid", f"lets a program run with its owner's rights: {shown(mode)}")
    for path in words:
        call.machine.note("write", call.place(path)[0])
        _permission(call, path, mode, options.has("R", "recursive", "r"))
    return ""


def _without_modes(call: Call) -> list[str]:
    """The arguments with a mode that begins with a dash as an operand."""
    if call.name == "chattr":
        return [re.sub("^-(?=[aAcCdDeijsStTu]+$)", "=", arg) for arg in call.args]
    modes = [arg for arg in call.args if call.name == "chmod" and re.fullmatch(r"-[rwxXst]+", arg)]
    rest = [arg for arg in call.args if arg not in modes]
    return [modes[0].replace("-", "a-"), *rest] if modes else rest


_SHARED = names("root system elsewhere kernel device disk home log unknown")


def _permission(call: Call, path: str, mode: str, recursive: bool) -> None:
    full, place = call.place(path)
    rule, reason = "open-permissions", ""
    if place in _SHARED:
        if place != "unknown" or recursive or path[:1] not in UNKNOWN:
            reason = "changes the rights on a shared or system path"
    elif is_secret(full, call.shell):
        if not re.fullmatch(r"0?[4-7]00|go-\w+|og-\w+|u=\w*,go=", mode):
            reason = "changes the rights on credentials"
    elif place == "startup" and call.name == "chmod" and _widens(mode):
        reason = "lets others change what runs at login or who may log in"
    elif place in ("hook", "git") and "x" in mode:
        rule, reason = "permissions-in-workspace", "makes a git hook run"
    elif recursive if call.name != "chmod" else _widens(mode) or not is_known(mode):
        rule, reason = "permissions-in-workspace", "opens files to everyone, or gives them away"
    if reason:
        call.report(rule, f"{reason}: {shown(path)}", full)


def judge_path_part(call: Call) -> str | None:
    """basename, dirname, realpath, readlink and pwd work on names."""
    options, words = call.options, call.options.operands
    if call.name == "pwd":
        return call.shell.cwd + "\n"
    if call.name == "basename":
        suffix = words[1] if len(words) > 1 else options.value("s", "suffix") or ""
        bases = [word.rstrip("/").rsplit("/", 1)[-1] for word in words[:1]]
        return "".join(base.removesuffix(suffix) + "\n" for base in bases)
    if call.name == "dirname":
        parents = [word.rstrip("/").rpartition("/") for word in words]
        return "".join((parent or slash or ".") + "\n" for parent, slash, _ in parents)
    return "".join(resolve(word, call.shell) + "\n" for word in words)


def judge_mktemp(call: Call) -> str | None:
    """mktemp gives a fresh name below the temporary directory."""
    options = call.options
    template = "".join(options.operands[:1]) or "tmp.XXXXXXXXXX"
    parent = "" if "/" in template else f"{options.value('p', 'tmpdir') or '/tmp'}/"
    return LOCAL + "\n" if options.has("u") else f"{parent}{template}\n"


def judge_which(call: Call) -> str | None:
    """which looks programs up."""
    return "".join(f"/usr/bin/{name}\n" for name in call.options.operands)


def judge_whoami(call: Call) -> str | None:
    """whoami and logname tell the user."""
    return call.shell.user + "\n"
