"""Side aspects of programs, judged beside their row or hook: where they write, what they carry, run
and bring here.
"""

from __future__ import annotations

import itertools
import re
from fnmatch import fnmatch

from hermetic.policy.call import Call
from hermetic.policy.dynamic_code import execute, is_wholly_unseen
from hermetic.policy.effects import write
from hermetic.policy.marks import LOCAL, NET, UNSET, is_known, shown, unknown_like
from hermetic.policy.network import land
from hermetic.policy.options import dashed, parse_options
from hermetic.policy.paths import resolve
from hermetic.policy.tables import names, regex

from .generic import report_code_url, report_hidden
from .interpret import report_all
from .table import TABLE, Row, alternatives
from .texts import judge_text

_GUARDED = names("root system disk startup kernel device hook log history elsewhere home")
_LOOKS = frozenset(TABLE.words("looks"))


_CONTEXTS = names("namespace context profile region project")


def judge_aspects(call: Call, row: Row) -> None:
    """Report what a call does beside its main purpose."""
    if row.verbs:
        words = parse_options(call.args, "nCcH", _CONTEXTS).operands
        if any(is_wholly_unseen(verb) for verb in words[: row.verbs]):
            reason = f"does something with {call.name} that cannot be known beforehand"
            call.report("run-unknown", reason)
    report_all(call)
    report_code_url(call)
    _deceptive_addresses(call)
    if row.has("console") and call.stdin and not call.options.operands:
        for line in call.stdin.splitlines():
            call.run([call.name, *line.split()], stdin="")
    if row.output or row.outputs:
        _outputs(call, row)
    if row.has("fetches"):
        _fetches(call)
    if row.has("carries") and not any(arg in ("--help", "--version") for arg in call.args):
        _carries(call)
    if row.has("compiles"):
        _sources(call)
    if (row.picks or row.has("loads")) and not _LOOKS.intersection(call.args[:2]):
        _downloads(call, row)
        _foreign_code(call, row)
    take_patch(call)


_ADDRESS = regex(r"(?:^|[\s=+'\"(])\w+://([^\s/?#'\"]+)")
# A name before `@` that is that of a host, a known host below another, letters of two alphabets, or their code.
_LOOKALIKE = regex(
    r"^[^@]*(\.(com|org|net|io|dev)|%2[fF])[^@]*@|\b(github|gitlab|google|googleapis|npmjs|pypi|githubusercontent|microsoft|amazonaws)"
    r"\.(com|org)\.[\w.-]*\w|(^|\.)xn--|[A-Za-z](?:[\xd0\xd1][\x80-\xbf])|[\xd0\xd1][\x80-\xbf][A-Za-z]"
)


def _deceptive_addresses(call: Call) -> None:
    """Report an address that looks like that of another machine."""
    for arg in call.args if not call.row.has("data") or call.name in ("open", "xdg-open") else ():
        for host in _ADDRESS.findall(arg) if "://" in arg else ():
            if _LOOKALIKE.search(host):
                call.report("deceptive-text", f"an address that looks like another: {shown(host)}")


def _outputs(call: Call, row: Row) -> None:
    """Report what the program would overwrite outside the workspace."""
    if row.needs and not any(arg.startswith(tuple(row.needs.split())) for arg in call.args):
        return
    options = tuple(one if one[0] == "-" else dashed(one) for one in row.output.split())
    short = tuple(option for option in options if len(option) == 2)
    paths, words, args = list[str](), list[str](), iter(call.args)
    for arg in args:
        name, equals, value = arg.partition("=")
        if name in options:
            paths.append(value if equals else next(args, ""))
        elif short and arg.startswith(short):
            paths.append(arg[2:])
        elif not arg.startswith("-"):
            words.append(arg)
    paths += words[1:][-1:] if row.outputs == "last" else words if row.outputs == "all" else []
    for path in paths:
        if path and not path.startswith("-") and call.place(path)[1] in _GUARDED:
            write(call, path)


_FROM_AFAR, _FETCHES, _PROGRAMS = map(
    alternatives, ("remote-addresses", "fetching-verbs", "program-options")
)


def _fetches(call: Call) -> None:
    """Remember what a cloud's, an engine's or a repository's client brings here."""
    words = [arg for arg in call.args if not arg.startswith("-")]
    if not any(map(_FETCHES.fullmatch, re.findall(r"\w+", " ".join(words[:3])))):
        return
    long = ("file", "output", "dir", "local-dir", "destination", "pattern", "path")
    for name, value in parse_options(call.args, "fodDp", long).given:
        if value and name in ("p", "pattern"):
            land(call, "./", [value])
        elif value and name in ("f", "o", "D", *long) and not value.startswith("/"):
            call.shell.fetched.add(resolve(value, call.shell))
    remote = [word for word in words if _FROM_AFAR.match(word)]
    if remote and len(words) > 1:
        target = words[-1] if words[-1] is not remote[-1] else "./"
        if not _FROM_AFAR.match(target):
            land(call, target if target != "." else "./", remote)


_UNSEEN = regex(r"(?!/(usr/)?(local/)?s?bin/)(\.{0,2}/|~)")


def _carries(call: Call) -> None:
    """Report a dangerous command among the arguments, and an unknown program in an option that
    runs one.
    """
    args = call.args
    if call.row.has("own-arguments") and args[:1] in (["run"], ["test"], ["bench"]):
        return  # they go to the workspace's own program
    for arg, following in itertools.pairwise([*args, ""]):
        name, equals, value = arg.partition("=")
        program = value if equals else following
        if arg.startswith("-") and _PROGRAMS.fullmatch(name) and _UNSEEN.match(program):
            reason = f"makes {call.name} run or load {shown(program.split()[0])}"
            call.report("option-runs-program", reason)
    report_hidden(call, texts=True)


_SOURCES = dict(pair.split(":") for pair in TABLE.words("sources"))


def _sources(call: Call) -> None:
    """Judge the program text a compiler is given: files of this text, those that it names or all
    that it finds by itself, or standard input.
    """
    files = call.shell.files
    named = [full for arg in call.args if (full := resolve(arg, call.shell)).endswith((*_SOURCES,))]
    for full in named or list(files):
        if text := files.pop(full, "") if full.endswith((*_SOURCES,)) else "":
            _source(call, text, _SOURCES["." + full.rpartition(".")[2]])
            files.setdefault(full, text)  # one that runs the tool again has ended there
    if "-" in call.args and call.stdin:
        _source(call, call.stdin, "c")


def _source(call: Call, text: str, language: str) -> None:
    if is_known(text) or not execute(call, text, "a program"):
        judge_text(call, text, language)


def _downloads(call: Call, row: Row) -> None:
    """Report a file that was just downloaded and that this tool runs, installs or loads."""
    shell = call.shell
    pairs = [arg.partition("=") for arg in call.args] if row.has("loads") else []
    values = [value for name, _, value in pairs] + ["".join(parts) for parts in pairs]
    picked = [resolve(value, shell) for value in values if value and not value.startswith("-")]
    picks = row.picks.split()
    for path in (*shell.files, *shell.fetched):
        if any(fnmatch(path.rsplit("/", 1)[-1], name) for name in picks):
            picked.append(path)
    for path in picked:
        if NET in shell.files.get(path, "") or path in shell.fetched:
            reason = f"runs or installs a file that was just downloaded: {shown(path)}"
            call.report("run-download", reason)
            return


def _foreign_code(call: Call, row: Row) -> None:
    """Report a tool that runs what a directory holds, where that is code of a stranger."""
    here = f"{resolve('.', call.shell)}/"
    is_foreign = any(here.startswith(f"{one}/") for one in call.shell.foreign)
    if row.picks and call.name != "git" and is_foreign:
        call.report("run-download", "runs code of a repository that nobody has vouched for")


def take_patch(call: Call) -> None:
    """Note that a program puts changes of another machine into the current directory."""
    if call.row.has("patches"):
        held = (call.shell.files.get(resolve(arg, call.shell), "") for arg in call.args)
        if NET in "".join([call.stdin or "", *held]):
            call.shell.foreign.add(resolve(".", call.shell))


def exact_output(call: Call, row: Row, output: str | None) -> str | None:
    """A filter's output where it was computed by every option given; a text folded wrongly would be
    worse than none.
    """
    if not row.exact or output is None or not is_known(output) or not output.strip():
        return output
    unseen = unknown_like(output).replace(UNSET, LOCAL) + "\n"
    return output if _is_computed(call, row.exact.split()) else unseen


def _is_computed(call: Call, known: list[str]) -> bool:
    """True when all options are among those whose meaning is computed. A digit alone is a count."""
    is_set = call.name == "tr" and any(re.search(r"\[(?!:)", arg) for arg in call.args)
    if known == ["-"] or is_set:
        return False
    given = [name for name, _ in call.options.given if not name.isdigit()]
    return all(name in known for name in given) and (call.name != "paste" or "s" in given)
