"""Judges a program by its row: reads its arguments, applies the roles of options and operands,
reports rules.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from hermetic.policy import marks
from hermetic.policy.acts import Deed
from hermetic.policy.call import Call
from hermetic.policy.dynamic_code import execute, run_code, run_program
from hermetic.policy.effects import delete, meaning, read, write
from hermetic.policy.languages.sql import destruction, printed
from hermetic.policy.marks import SECRET, literal_globs, shown
from hermetic.policy.network import check_address, check_sent, land, leave, unpack
from hermetic.policy.options import Options, parse_options
from hermetic.policy.paths import is_secret
from hermetic.policy.shell import Shell
from hermetic.policy.tables import names, regex
from hermetic.policy.variables import is_known_registry, judge_variable

from .generic import report_verbs
from .table import TABLE, Entry, Row, pattern
from .texts import (
    apply_entry,
    chooses_tests,
    given_texts,
    is_action,
    judge_patterns,
    judge_text,
)

_VARIABLE = regex(r"[A-Za-z_]\w*=")
_SHELLS = names("bash sh zsh su dash fish ksh")
_ONE_WORD = str.maketrans(dict.fromkeys(" \t\n", "\x01"))  # a text with blanks is one word


def judge_by_row(call: Call) -> str | None:
    """What the row of a program says of a call of it."""
    row = call.row
    if is_dry(call, row):
        return None
    options = call.options
    entry = report_first(call, row.rules)
    if entry is not None and not entry.rule:
        return None
    if entry is None and row.rules and call.table is TABLE:
        report_verbs(call)
    call = call.moved(options.value(*row.cwd.split()))
    for text in options.values(*row.code.split()):
        run_code(call, text, f"an option of {call.name}")
    for text in options.values(*row.program.split()):
        run_program(call, text.replace("{}", "FILE"), f"an option of {call.name}")
    for text in given_texts(call) if row.language else ():
        judge_text(call, text, row.language)
    held = [read(call, path) for path in options.values(*row.reads.split())]
    for path in options.values(*row.writes.split()):
        write(call, path)
    for path in options.values(*row.sends.split()):
        leave(call, path.lstrip("@"))
    if row.has("sends"):
        check_sent(call, *call.args, call.stdin or "")
    printed = _operands(call, row, options, held)
    if printed is not None:
        return printed
    if entry and not is_action(entry.rule) and "reads secrets" in call.rule(entry.rule).effects:
        return SECRET + "\n"
    return _output(call, row, held)


def is_dry(call: Call, row: Row) -> bool:
    """True when the program would only show its help, or what it would do."""
    if row.dry and pattern(row.dry).search(" ".join(call.args)):
        return True
    helps = row.help.split() if row.rules else ("--help", "--version")
    options = call.args[: call.args.index("--")] if "--" in call.args else call.args
    if row.early and row.operands:  # what stands behind is help of the command it runs
        options = call.args[: len(call.args) - len(call.options.operands)]
    # `-h` may take a value, and a word may name what is acted on.
    asked = [
        at for at, arg in enumerate(options) if arg in helps and (at == 0 or arg.startswith("-"))
    ]
    return any(options[at] != "-h" or at + 1 == len(call.args) for at in asked)


def report_first(call: Call, entries: tuple[Entry, ...]) -> Entry | None:
    """Report the first entry that holds; gives it."""
    for entry in entries:
        if (match := matched(call, entry)) is not None:
            if entry.rule:
                apply_entry(call, entry, match)
            return entry
    return None


def report_all(call: Call) -> None:
    """Report every check of its row that holds."""
    for check in call.row.checks:
        report_first(call, (check,))


def matched(call: Call, entry: Entry) -> re.Match[str] | None:
    """Where the pattern of an entry is found in a call for which its condition holds."""
    over_all = entry.pattern.startswith("!")
    words = call.args if over_all else [word.translate(_ONE_WORD) for word in call.options.operands]
    subject = literal_globs(" ".join(words))
    found = pattern(entry.pattern.removeprefix("!")).search(subject)
    begins = entry.pattern.startswith("^") and "".join(call.args[:1]).startswith("-")
    if found is None and begins and not call.row.values:
        # An option that no row describes may take a value: the verb stands behind it.
        found = pattern(entry.pattern).search(" ".join(call.options.operands[1:]))
    holds = found is not None and (not entry.when or CONDITIONS[entry.when](call, found))
    return found if holds else None


def sets_uid(mode: str) -> bool:
    """True for a mode by which a program runs with its owner's rights."""
    return bool(re.search(r"^0*[2467]\d{3}$|(^|,)([ugoa]*[+=][rwxXt]*s)", mode))


def _foreign_url(call: Call, match: re.Match[str]) -> bool:
    """True for an address in the match's group, or in any argument, that is no registry everybody
    uses.
    """
    named = match[1] if match.re.groups and "://" in (match[1] or "") else " ".join(call.args)
    return any(not is_known_registry(url) for url in re.findall(r"https?://[^\s'\"]+", named))


def _is_downloaded(call: Call, _: re.Match[str]) -> bool:
    sources = [read(call, path) for path in call.options.operands] or [call.stdin or ""]
    return any(marks.NET in source for source in sources)


def _are_own(call: Call, _: re.Match[str]) -> bool:
    words = call.options.operands
    own = names("temp workspace user")
    return bool(words) and all(call.place(word)[1] in own for word in words)


_OWN = names("workspace user startup")
_IMAGE = regex(r"[^-/].*\.(img|qcow2|raw|iso)")
_MANY = regex(r"--all\b|-A\b|--all-namespaces|(^|\s)-l|--selector|--force")
# What a pattern alone cannot say.
CONDITIONS: dict[str, Callable[[Call, re.Match[str]], bool]] = {
    "secret": lambda call, match: is_secret(call.place(match[1])[0], call.shell),
    "input": lambda call, _: call.stdin is not None,
    "set uid": lambda _, match: sets_uid(match[1]),
    "foreign url": _foreign_url,
    "foreign path": lambda call, match: call.place(match[1])[1] not in _OWN,
    "own path": lambda call, match: (
        call.place(match[1])[1] in names("temp workspace user") or match[1] == "."
    ),
    "untrusted": lambda call, match: "://" not in " ".join(call.args) or _foreign_url(call, match),
    "own places": _are_own,
    "one thing": lambda call, _: not _MANY.search(" ".join(call.args)),
    "destructive sql": lambda call, _: any(map(destruction, call.args)),
    "trust store": lambda call, _: call.name != "ldconfig",
    "downloaded": _is_downloaded,
    "system directory": lambda call, _: call.place(".")[1] in ("system", "root", "startup"),
    "tests": lambda call, _: chooses_tests(call),
    "no image": lambda call, _: not any(map(_IMAGE.fullmatch, call.args)),
}


def _operands(call: Call, row: Row, options: Options, held: list[str]) -> str | None:
    """Apply the roles of the operands; gives what a command among them prints."""
    words = list(options.operands)
    for role in row.operands.split():
        if role == "cwd":
            call, words = call.moved("".join(words[:1])), words[1:]
            continue
        if role in ("words", "arguments"):
            text = " ".join(call.args if role == "arguments" else words)
            judge_patterns(call, text, row.language)
            return None
        if role in ("command", "rest", "shell", "text*"):
            words = options.rest if role == "rest" else options.rest or words
            return _hand_on(call, row, role, words)
        count = len(words) if role.endswith("*") else 1
        taken, words = words[:count], words[count:]
        if role == "reads*" and row.operands == "reads* writes" and len(taken) > 1:
            taken, words = taken[:-1], taken[-1:]
        for word in taken:
            content = _ROLES[role.rstrip("*")](call, word)
            if content is not None:
                held.append(content)
    return None


def _formats(call: Call, path: str) -> None:
    """A disk or an image is made anew."""
    full, place = call.place(path)
    if place in ("workspace", "temp"):
        write(call, path)
    else:
        call.report("format-disk", f"destroys what is on a disk: {shown(path)}", full)


def _script(call: Call, path: str) -> None:
    """A file is run, or every file of a directory."""
    content = read(call, path)
    if marks.NET in content:
        execute(call, content, "a script")
    elif call.row.language:
        judge_text(call, content, call.row.language)


def _edits(call: Call, path: str) -> None:
    """A person opens the file in an editor."""
    full, place = call.place(path)
    if place in ("system", "startup"):
        write(call, path)
        call.shell.files.pop(full, None)
    else:
        read(call, path)


def _overwrites(call: Call, path: str) -> None:
    """The content of a file is overwritten or cut."""
    full, place = call.place(path)
    shreds = call.name == "shred"
    deed: Deed = "delete" if shreds and call.options.has("u", "remove") else "write"
    call.machine.note(deed, full, scope="one" if shreds else "")
    rule, reason = meaning("overwritten", place, "one", full)
    if rule:
        call.report(rule, f"{reason}: {shown(path)}", full)
    else:
        write(call, path)


def _renames(call: Call, path: str) -> None:
    full, place = call.place(path)
    call.machine.note("delete", full)
    if place in ("system", "root", "home"):
        call.report("write-system", f"renames system files: {shown(path)}")


def _unpacks(call: Call, path: str) -> None:
    unpack(call, call.options.value(*call.row.folder.split()), read(call, path))


def _deletes(call: Call, path: str) -> None:
    tree = call.row.tree.split()
    delete(call, path, recursive="-" in tree or call.options.has(*tree))


# What happens to an operand; a role that gives text has read it.
_ROLES: dict[str, Callable[[Call, str], str | None]] = {
    "skip": lambda call, word: None,
    "reads": read,
    "writes": lambda call, path: write(call, path),
    "fills": lambda call, path: write(call, path, content=call.input()),
    "renames": _renames,
    "unpacks": _unpacks,
    "deletes": _deletes,
    "overwrites": _overwrites,
    "formats": _formats,
    "script": _script,
    "edits": _edits,
    "lands": lambda call, word: land(call, "./", [word]),
    "reaches": lambda call, word: check_address(call, word),
    "sends": lambda call, path: leave(call, path) if "/" in path else None,
}


_COMMANDS = frozenset({"command", "rest", "shell", "text", "words", "arguments"})
ROLES = _COMMANDS | _ROLES.keys() | {"cwd"}


def _hand_on(call: Call, row: Row, role: str, words: list[str]) -> str | None:
    """Evaluate the command that the operands are: as words, as one text, or as a text each."""
    while role == "command" and words and _VARIABLE.match(words[0]):
        name, _, value = words.pop(0).partition("=")
        judge_variable(call, name, value, temporary=True)
    if not words:
        return None
    shell = call.shell.elsewhere() if row.elsewhere else None
    if row.has("privileged"):
        report_privilege(call, words)
    if words[0] == "-c" and len(words) > 1:
        return run_code(call, words[1], call.name, shell)
    if role == "text*":
        for text in words:
            if row.language:
                judge_text(call, text, row.language)
            else:
                run_code(call, text, call.name, shell)
        return None
    if role == "shell":
        return run_code(call, " ".join(words), call.name, shell)
    return run_words(call, words, shell)


def run_words(call: Call, words: list[str], shell: Shell | None = None) -> str:
    """Run a command that is given as words, or as one text."""
    if len(words) == 1 and " " in words[0].strip():
        return run_code(call, words[0], call.name, shell)
    if call.row.has("packages"):  # a package stands for its program: `@scope/name@1.2`
        words = [re.sub(r"^@[^/]*/|(?<=.)@[^/]*$|(?<=.)[=<>~\[].*", "", words[0]), *words[1:]]
    return call.run(words, shell=shell)


def report_privilege(call: Call, words: list[str]) -> None:
    """Report a command that runs with the rights of another user, and a shell as such."""
    call.report("privilege", "runs with the rights of another user")
    rest = [word for word in words[1:] if word not in ("-", "-l", "-i", "root", "--login")]
    if words[0].rsplit("/", 1)[-1] in _SHELLS and not rest:
        call.report("root-shell", "opens a shell with all rights")


_RUN_VALUES = names("name cwd with python package env-file prefix group extra command run call")


def behind_verb(call: Call, row: Row) -> list[str] | None:
    """The words behind `run`, `exec` and kin; None for any other verb."""
    if not row.run:
        return None
    found: list[str] = []
    phrases = [phrase.split() for phrase in row.run.split(",")]
    args = iter(enumerate(call.args))
    for at, arg in args:
        if arg.startswith("-"):
            if arg.lstrip("-") in (*row.short, *row.long):
                next(args, None)
            continue
        found.append(arg)
        if found in phrases:
            return call.args[at + 1 :]
        if len(found) > 2:
            break
    return None


def run_behind_verb(call: Call, row: Row, words: list[str]) -> str | None:
    """`poetry run`, `bundle exec`, `npm exec` and kin run the command that follows."""
    dashes = words.index("--") if "--" in words else -1
    if dashes > 0 and not words[0].startswith("-") and not row.skip:
        call.run(words)  # a program of its own name, to which the dashes belong
    if dashes >= 0:
        own = all(word.startswith("-") or at < 3 for at, word in enumerate(words[:dashes]))
        words = words[dashes + 1 :] if own else words
    else:
        values = (*_RUN_VALUES, *row.long)
        options = parse_options(words, "ncpe" + row.short, values, stop_early=True)
        if text := options.value("c", "command", "run", "call"):
            return run_code(call, text, call.name)
        words = options.operands[row.skip :]
    shell = call.shell.elsewhere() if row.elsewhere else None
    return run_words(call, words, shell) if words else None


def _output(call: Call, row: Row, held: list[str]) -> str | None:
    if row.prints == "input":
        return call.input()
    if row.prints == "read":
        return "".join(held) or call.input()
    if row.prints == "origin":
        return marks.LOCAL + marks.marks_in("".join(held) or call.input()) + "\n"
    if row.prints == "nothing":
        return ""
    if row.prints == "queries":
        return "".join(map(printed, given_texts(call))) + marks.LOCAL + "\n"
    if not row.prints:
        return None
    return "".join(getattr(marks, name.upper()) for name in row.prints.split()) + "\n"
