"""find, fd, ls, xargs and parallel: names that are found, and commands run on what was found or read."""

from __future__ import annotations

import itertools
import re

from hermetic.policy import marks
from hermetic.policy.call import Call
from hermetic.policy.dynamic_code import run_code
from hermetic.policy.effects import delete, read, write
from hermetic.policy.marks import is_known, is_plain, marks_in, unknown_like
from hermetic.policy.paths import RECORD, resolve
from hermetic.policy.shell.expansion import split_ifs
from hermetic.policy.tables import names


def judge_xargs(call: Call) -> str | None:
    """xargs appends its input to a command, or puts it where -I says."""
    options = call.options
    source = options.value("a", "arg-file")
    text = read(call, source) if source else call.input() if call.stdin is not None else marks.INPUT
    endless = marks.ENDLESS in text or marks.NUMBER * 2 in text
    if options.value("P", "max-procs") == "0" and endless:
        call.report("fork-bomb", "starts processes again and again without end")
    command = options.operands or ["echo"]
    replace = options.value("I", "J", "replace") or "{}" * options.has("i", "replace")
    if options.has("0", "null"):
        items = [item for item in text.split("\0") if item]
    elif options.value("d", "delimiter"):
        delimiter = (options.value("d", "delimiter") or " ").replace("\\n", "\n")
        delimiter = delimiter.replace("\\0", "\0").replace("\\t", "\t")
        items = [item for item in text.rstrip("\n").split(delimiter[:1] or " ") if item]
    elif replace:
        items = [line.strip() for line in text.split("\n") if line.strip()]
    else:
        unquoted = re.sub("['\"]", "", text) if is_known(text) else text
        items = split_ifs(unquoted, " \t\n")
    if not items:
        items = [marks_in(text)] if marks_in(text) else []
    if replace:
        if replace in command[0] and items:
            call.report("run-decoded", "runs programs whose names it reads")
        filled = ([word.replace(replace, item) for word in command] for item in _bounded(items, 50))
        return "".join(call.run(words, stdin="") for words in filled)
    if not items and options.has("r", "no-run-if-empty"):
        return ""
    return call.run([*command, *_bounded(items, 500)], stdin="")


def _bounded(items: list[str], most: int) -> list[str]:
    """The first items; the rest are one that is unknown."""
    return items if len(items) <= most else [*items[:most], unknown_like(*items[most:])]


def judge_parallel(call: Call) -> None:
    """GNU parallel: a command, then ::: and its arguments, or arguments on standard input."""
    options = call.options
    call = call.moved(options.value("wd", "workdir"))
    rest = options.operands
    cut = next((at for at, word in enumerate(rest) if word in (":::", ":::+", "::::")), len(rest))
    if rest[cut : cut + 1] == ["::::"]:
        lines = "".join(read(call, path) for path in rest[cut + 1 :]).split("\n")
        rest = [*rest[:cut], ":::", *lines]
    command, sources = rest[:cut], [word for word in rest[cut + 1 :] if not word.startswith(":::")]
    text = " ".join(command)
    endless = marks.ENDLESS in call.input() or marks.NUMBER * 2 in call.input()
    if options.value("j", "jobs") == "0" and endless and not sources:
        call.report("fork-bomb", "starts processes again and again without end")
    if not sources:
        source = options.value("a", "arg-file")
        lines = (read(call, source) if source else call.input()).split("\n")
        sources = [line for line in lines if line]
    for item in _bounded(sources, 50) or [marks.LOCAL]:
        filled = re.sub(r"\{[./#]*\}", item.replace("\\", "\\\\"), text)
        line = filled if "{" in text else f"{text} {item}"
        run_code(call, line.strip(), "parallel")


_BATCH = ["{}", "+"]
_ABOVE_RECORDS = frozenset(names("/ /tmp /tmp/ /run /run/ /run/user /run/user/"))


def judge_find(call: Call) -> str | None:
    """find: starting points, then tests and actions; -exec runs commands, -delete deletes, -fprint
    writes.
    """
    roots, tests = _find_parts(call)
    picks = ("-name", "-iname", "-path", "-wholename", "-ipath", "-regex")
    triples = zip(["", *tests], tests, tests[1:], strict=False)
    patterns = [three for one, two, three in triples if two in picks and one not in ("!", "-not")]
    found = _found(roots, patterns, tests)
    at = 0
    while at < len(tests):
        word = tests[at]
        at += 1
        if word in ("-exec", "-execdir", "-ok", "-okdir"):
            end = at
            while tests[end : end + 1] not in ([], [";"]) and tests[end - 1 : end + 1] != _BATCH:
                end += 1
            command = tests[at:end]
            at = end + 1
            for path in found[:8]:
                call.run([part.replace("{}", path) for part in command], stdin="")
        elif word == "-delete":
            for path in found:
                delete_found(call, path, bool(patterns) or path not in roots)
        elif word in ("-fprint", "-fprint0", "-fls", "-fprintf") and at < len(tests):
            write(call, tests[at])
    if "/proc" in roots:
        return marks.PIDS + "\n"
    if "-printf" in tests or "-exec" in tests:
        return marks.LOCAL + "\n"
    separator = "\0" if "-print0" in tests else "\n"
    return "".join(path + separator for path in found)


def _find_parts(call: Call) -> tuple[list[str], list[str]]:
    args = list(call.args)
    while args and (args[0] in ("-H", "-L", "-P") or args[0].startswith(("-O", "-D"))):
        args.pop(0)
    at = 0
    while at < len(args) and not args[at].startswith("-") and args[at] not in ("(", "!", ")", ","):
        at += 1
    return args[:at] or ["."], args[at:]


def _found(roots: list[str], patterns: list[str], tests: list[str]) -> list[str]:
    """The paths find comes across: the pattern below each root, or the root and anything in it."""
    if patterns and is_plain(patterns[0]) and patterns[0] not in ("*", ".*"):
        pattern = patterns[0].replace("*", marks.STAR).replace("?", marks.STAR).rsplit("/", 1)[-1]
        found = [f"{root.rstrip('/')}/{pattern}" for root in roots]
        if pattern == RECORD and not _ABOVE_RECORDS.isdisjoint(roots):
            found.append(f"/tmp/{marks.STAR}/{RECORD}")
        return found
    value = dict(itertools.pairwise(tests))
    if value.get("-maxdepth") == "0":
        return list(roots)
    narrows = value.get("-mindepth", "0") != "0" or value.get("-type") == "f"
    top = [] if narrows or not _PICKS.isdisjoint(tests) else roots
    return [*top, *(f"{root.rstrip('/')}/{marks.STAR}" for root in roots)]


# Tests that the starting point itself is not expected to pass.
_PICKS = frozenset(names("-mtime -size -newer -mmin -atime -ctime -empty -user -perm"))


def delete_found(call: Call, path: str, filtered: bool) -> None:
    """Judge find's own deletion: everything below a root, or what a test picked there."""
    full, place = call.place(path)
    root, _, name = full.rpartition("/")
    if filtered:  # at any depth
        call.machine.note("delete", f"{root}/{marks.UNSET}/{name}", scope="tree")
    named = filtered and not path.rstrip("/").endswith(marks.STAR)
    if place == "workspace root" and (named or _PICKS.intersection(call.args)):
        call.report("delete-in-workspace", "deletes matching files in the workspace", full)
        return
    delete(call, path, recursive=True)


def judge_ls(call: Call) -> str | None:
    """ls prints names: of its operands with -d, else of what is in them."""
    words = call.options.operands or ["."]
    if any(resolve(name, call.shell) == "/proc" for name in words):
        return marks.PIDS + "\n"
    if call.options.has("d", "directory"):
        return "".join(f"{name}\n" for name in words)
    shown = (name if re.search(rf"\.\w+$|{marks.STAR}", name) else marks.STAR for name in words)
    return "".join(f"{name}\n" for name in shown)


_INDEXES = names("locate plocate mlocate mdfind")


def judge_fd(call: Call) -> str | None:
    """fd PATTERN ROOT prints what is below the root; -x COMMAND runs it on each match."""
    pattern, *roots = [*call.options.operands, "", ""][:1] + call.options.operands[1:]
    roots = ["/"] if call.name in _INDEXES else roots or ["."]
    name = re.sub(r"^[\^*/]+|[$*]+$|\\", "", pattern)
    name = name if re.fullmatch(r"[\w./-]+", name) else marks.STAR
    found = [f"{root.rstrip('/')}/{marks.STAR * (root == '/')}/{name}" for root in roots]
    if call.name in _INDEXES:
        return "".join(f"{path}\n" for path in found)
    command = [word for word in call.options.rest if word not in (";", "\\;")]
    for path in found[:4] if command else ():
        filled = [part.replace("{}", path) for part in command]
        call.run(filled if filled != command else [*command, path], stdin="")
    return None if command else "".join(f"{path}\n" for path in found)
