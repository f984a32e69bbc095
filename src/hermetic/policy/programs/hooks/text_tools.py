"""sed, awk, grep, jq and vi: programs for text whose scripts can run commands and write files."""

from __future__ import annotations

import itertools
import re

from hermetic.policy import marks
from hermetic.policy.budget import MAX_TEXT, joined
from hermetic.policy.call import Call
from hermetic.policy.dynamic_code import execute, is_wholly_unseen, run_code, run_program
from hermetic.policy.effects import check_deception, read, write
from hermetic.policy.marks import is_known, is_plain, marks_in, unknown_like
from hermetic.policy.paths import resolve
from hermetic.policy.programs.table import TABLE
from hermetic.policy.programs.texts import judge_patterns
from hermetic.policy.shell.quoting import decode_backslashes
from hermetic.policy.tables import names, regex

_SUBSTITUTE = regex(
    r"(?s)(?:^|[;\n{}/\d$,\s])s(.)((?:(?!\1)[^\\]|\\.)*)\1((?:(?!\1)[^\\]|\\.)*)\1([gpiImMe0-9]*)(?:w\s*([^\n;]+))?"
)
_CREDENTIALS = regex(r"(?i)passw|secret|token|api.?key|AKIA|private.key|credential|BEGIN")


def _programs(call: Call) -> tuple[list[str], list[str]]:
    """The scripts by options, in files, or as the first operand; and the operands that remain."""
    row, options = call.row, call.options
    scripts, files = options.values(*row.text.split()), options.values(*row.script.split())
    for content in [read(call, path) for path in files]:
        if is_known(content):
            scripts.append(content)
        elif marks.NET in content or marks.DECODED in content:
            call.report("run-decoded", f"runs a script of {call.name} that cannot be seen")
    first = not scripts and not files
    return (scripts or options.operands[:1] if first else scripts), options.operands[first:]


def judge_sed(call: Call) -> str | None:
    """sed: scripts that execute or write, and -i."""
    scripts, paths = _programs(call)
    in_place = any(re.fullmatch(r"i(?!gnore$).*", name) for name, _ in call.options.given)
    text = ""
    for path in paths:
        if in_place:
            held = call.shell.files.get(resolve(path, call.shell))
            write(call, path, content=_sed_output(scripts, held, False) if held else "")
            check_deception(call, path, "".join(map(_added, scripts)))
        else:
            text += read(call, path)
    text = text or call.input()
    for script in scripts:
        judge_patterns(call, script, "sed")
        for _, _, replacement, flags, target in _SUBSTITUTE.findall(script):
            if "e" in flags:
                lone = "&" in replacement and "&&" not in replacement
                one, other = ("&", marks.UNSET) if lone else ("\\n", "\n")
                call.shell_text(replacement.replace(one, other))
            if target:
                write(call, target.strip())
    return "" if in_place else _sed_output(scripts, text, call.options.has("n", "quiet", "silent"))


def _added(script: str) -> str:
    """The text that a script puts into lines, or between them."""
    replaced = [found[2] for found in _SUBSTITUTE.findall(script)]
    return "".join([*replaced, *re.findall(r"(?:^|[\d$/;])\s*[iac]\\?\s*(.*)", script)])


def _sed_output(scripts: list[str], text: str, quiet: bool) -> str:
    """The output of a plain substitution on known text; otherwise unknown text of the same origin."""
    script = scripts[0] if scripts else ""
    match = re.fullmatch(r"s(.)((?:(?!\1)[^\\]|\\.)*)\1((?:(?!\1)[^\\]|\\.)*)\1(g?)", script)
    special = match and re.search(r"[\\*+?\[\]().^$&{}].*\0|\0.*[\\&]", f"{match[2]}\0{match[3]}")
    if match and not special and len(scripts) == 1 and is_plain(text) and not quiet:
        if (text.count(match[2]) + 1) * len(match[3]) > MAX_TEXT:
            return unknown_like(text)
        most = -1 if match[4] else 1
        return "\n".join(line.replace(match[2], match[3], most) for line in text.split("\n"))
    if match and match[2] == "^" and not re.search(r"[\\&]", match[3]):
        return "".join(match[3] + line for line in text.splitlines(keepends=True))
    if marks_in(text):
        return text if not re.search(r"[sy][/|#,]", script) else unknown_like(text)
    changes = bool(text.strip()) or re.search(r"(^|;)\s*[sy]\W", script)
    return (marks.DECODED if changes else marks.LOCAL) + "\n"


_STRING = r'"(?:[^"\\]|\\.)*"'
_COMMENT = regex(rf"({_STRING}|/(?:[^/\\\n]|\\.)+/)|#[^\n]*")
_SYSTEM = regex(rf"{_STRING}|\b(system)\s*\(")
_GETLINE = regex(rf"({_STRING}|\b[A-Za-z_]\w*+|\$\d+|\$0)\s*+\|&?\s*+getline\b\s*(\w*)")
_PIPED = regex(rf"\bprint(?:f)?\b[^;|}}\n]*?\|&?\s*(?!\|)({_STRING}|[A-Za-z_]\w*)")
_WRITTEN = regex(rf"\bprint(?:f)?\b[^;|}}\n]*?>>?\s*({_STRING}|[A-Za-z_]\w*|\$\d)")
_PICKS = regex(r"(^|&&|\|\||\()\s*(\$\d+\s*~\s*)?/[^/]*[A-Za-z]{2}[^/]*/")  # lines by a name
_BEGIN = regex(rf"\s*BEGIN\s*\{{\s*print(f)?\s*\(?\s*({_STRING})\s*\)?\s*;?\s*\}}\s*")


def judge_awk(call: Call) -> str | None:
    """awk: system(), pipes and redirections in the program."""
    options = call.options
    programs, paths = _programs(call)
    if options.values("l", "load") and call.name == "gawk":
        call.report("run-unknown", "loads a library into awk")
    for path in paths if "inplace" in options.values("i", "include") else ():
        write(call, path)
    text = "".join(read(call, path) for path in paths if "=" not in path) or call.input()
    for program in programs:
        if is_wholly_unseen(program):
            execute(call, program, "an awk program")
        given = (value.partition("=")[::2] for value in options.values("v", "assign"))
        _awk_program(call, program, dict(given))
    first = "".join(programs[:1])
    if re.fullmatch(r"1|\s*\{?\s*print(\s+\$0)?\s*;?\s*\}?\s*", first):
        return text
    picked = [match[0] for one in programs if (match := _PICKS.search(one))]
    if any(_picks_few(call, one) for one in picked):
        text = text.replace(marks.PIDS, marks.LOCAL)
    unseen = unknown_like(text).replace(marks.UNSET, marks.LOCAL) + "\n"
    return unseen if (printed := _awk_print(first)) is None else printed


def _awk_print(program: str) -> str | None:
    fields = re.fullmatch(r'[^{]*\{\s*print\s+((?:"[^"\\]*"|\$\w+|\s)+?)\s*;?\s*\}\s*', program)
    if fields and '"' in fields[1]:
        parts = re.finditer(r'"([^"]*)"|\$\w+', fields[1])
        return "".join(marks.LOCAL if part[1] is None else part[1] for part in parts) + "\n"
    match = _BEGIN.fullmatch(program)
    end = "" if match and match[1] else "\n"
    return match and decode_backslashes(match[2][1:-1], octal_needs_zero=False)[0] + end


def _awk_program(call: Call, program: str, given: dict[str, str]) -> None:
    program = _COMMENT.sub(lambda match: match[1] or "", program)
    strings = [one[1:-1].replace('\\"', '"') for one in re.findall(_STRING, program)]
    bare = program if strings else re.sub(r"/(?:[^/\\\n]|\\.)+/", "//", program)
    bare = re.sub(_STRING, '""', bare)
    variables = dict(re.findall(r'\b([A-Za-z_]\w*)\s*=\s*"((?:[^"\\]|\\.)*)"', program)) | given
    if re.search(r"@[A-Za-z_]\w*\s*\(", bare):
        call.report("run-unknown", "calls a function of awk whose name is hidden")
    if any(re.match(r"/inet[46]?/(tcp|udp)/", one) for one in strings):
        call.report("reverse-shell", "opens a connection to another machine from awk")
    for match in _GETLINE.finditer(program):
        variables[match[2] or "$0"] = _awk_command(call, match[1] + ")", variables).rstrip("\n")
    for match in _SYSTEM.finditer(program):
        if match[1]:
            _awk_command(call, program[match.end() :], variables)
    for match in _PIPED.finditer(program):
        if not re.fullmatch(r'"(/bin/)?(ba|z)?sh"', match[1]):
            _awk_command(call, match[1] + ")", variables)
        elif printed := re.search(r'printf?\s*\(?\s*"((?:[^"\\%]|\\.)*)"', match[0]):
            run_code(call, printed[1].replace("\\n", "\n"), "awk's output")
        else:
            call.report("run-decoded", "runs what awk prints as commands")
    for match in _WRITTEN.finditer(program):
        path = match[1][1:-1] if match[1].startswith('"') else variables.get(match[1], marks.UNSET)
        is_text = path == marks.UNSET and "if" in match[0]
        if path and not path.startswith("/dev/std") and not is_text:
            write(call, path)
    for path in re.findall(r'getline\s*\w*\s*<\s*"((?:[^"\\]|\\.)*)"', program):
        read(call, path)
    if _WRITTEN.search(program):
        text = decode_backslashes("".join(strings), octal_needs_zero=False)[0]
        check_deception(call, resolve("awk", call.shell), text)
    loops = re.search(r"(while\s*\(\s*1\s*\)|for\s*\(\s*;\s*;\s*\))[^}]*system\s*\(", bare)
    if loops and "&" in "".join(strings):
        call.report("fork-bomb", "starts processes again and again without end")
    if re.search(r"@load|extension\s*\(", bare):
        call.report("run-unknown", "loads a library into awk")


def _awk_command(call: Call, rest: str, variables: dict[str, str]) -> str:
    """Run the string expression up to the closing parenthesis, constants joined by blanks; gives
    what it prints.
    """
    out = ""
    while match := re.match(rf"\s*(?:({_STRING})|([A-Za-z_]\w*|\$\(?\w+\)?))", rest):
        known = (match[1] or "")[1:-1].replace('\\"', '"').replace("\\n", "\n")
        out += known if match[1] else variables.get(match[2], marks.UNSET)
        rest = rest[match.end() :]
    if not out.strip(marks.UNSET + " "):
        call.report("run-unknown", "runs a command that awk makes from its input")
        return marks.LOCAL
    return call.shell_text(out)


_DEEP = names("rg ag ack rgrep")
# Names that pick many of the lines of a list of processes, or those that the system needs.
_MANY = frozenset((*TABLE.words("vital"), "root", "PID", "TTY"))


def _picks_few(call: Call, text: str) -> bool:
    """True for a pattern with a name that few processes have."""
    words = set(re.findall(r"[A-Za-z][\w-]+", text))
    return words not in (set(), {call.shell.user}) and words.isdisjoint(_MANY)


def judge_grep(call: Call) -> str | None:
    """grep and kin print matching lines; rg can start a preprocessor."""
    row, options = call.row, call.options
    for program in options.values(*row.program.split()):
        run_program(call, program, "a preprocessor")
    words, patterns = options.operands, options.values(*row.text.split())
    if not patterns and not options.has("f", "file", "files"):
        patterns, words = words[:1], words[1:]
    for path in options.values("f", "file"):
        read(call, path)
    deep = options.has("r", "R")
    quiet = not deep and options.has("q", "quiet", "l", "files-with-matches", "c", "count")
    recursive = deep or options.has("recursive", "dereference-recursive") or call.name in _DEEP
    text = ""
    for path in words:
        place = call.place(path)[1]
        if recursive and place in ("home", "root") and any(map(_CREDENTIALS.search, patterns)):
            call.report("hunt-secrets", "searches everything a person has for credentials")
            text += marks.SECRET
        elif not quiet or place != "env file":
            text += read(call, path)
    if quiet:
        return marks.LOCAL + "\n"
    text = text or call.input()
    if not options.has("v", "invert-match") and any(_picks_few(call, one) for one in patterns):
        text = text.replace(marks.PIDS, marks.LOCAL)
    if not is_known(text):
        return text + marks.LOCAL
    return _matching(call, text, patterns)


def _matching(call: Call, text: str, patterns: list[str]) -> str:
    """What grep prints of a known text for a literal pattern."""
    given = {name for name, _ in call.options.given}
    simple = call.name in ("grep", "egrep", "fgrep") and given <= set("oveFEha")
    if not simple or len(patterns) != 1 or not re.fullmatch(r"[\w /:,=-]+", patterns[0]):
        return marks.LOCAL + "\n"
    lines = text.splitlines()
    if "o" in given:
        return joined(f"{patterns[0]}\n" * line.count(patterns[0]) for line in lines)
    return "".join(f"{line}\n" for line in lines if (patterns[0] in line) != ("v" in given))


_SAVES = regex(
    r"(w|wq|wqa|wa|x|xa|xit|up|update|ZZ|exit|wn|wqall|wall)!?|(?!%?s/).*\b(wq|x|w|update)!?['\"]?"
)
_OPENS = regex(r"(?:e(?:dit)?|r(?:ead)?|vi(?:ew)?|sp(?:lit)?|tabe\w*)!?\s+([^\s!]\S*)")
_MODIFIERS = regex(r"^[:\s]*(?:(?:sil\w*|verb\w*|noa\w*|kee\w*|lockm\w*)!?\s+)*(?!!)")


_NO_SCRIPTS = names("NONE NORC NORE DEFAULTS")


def judge_vim(call: Call) -> None:
    """vi, vim, nvim, ex: commands by -c, + and --cmd; :! runs a shell, :w writes."""
    options, words = call.options, call.options.operands
    is_line_editor = call.name in ("ed", "red", "ex")
    scripts = options.values("S", "u")
    if not is_line_editor:
        scripts += [value for flag, value in itertools.pairwise(call.args) if flag == "-s"]
    commands = options.values("c", "cmd") + [word[1:] for word in words if word.startswith("+")]
    for path in scripts:
        held = call.shell.files.get(resolve(path, call.shell), "")
        commands += held.split("\n") if is_known(held) else []
        commands += [f"source {path}"] if path not in _NO_SCRIPTS and not held else []
    files = [word for word in words if not word.startswith("+")]
    is_script = is_line_editor or {"-es", "-e", "-s", "-Es"}.intersection(call.args)
    commands += (call.stdin or "").split("\n") if is_script else []
    saves = False
    for command in commands:
        if is_wholly_unseen(command):
            execute(call, command, "an editor's command")
        for part in command.split("|") if "!" not in command else [command]:
            part = _MODIFIERS.sub("", part.strip())
            judge_patterns(call, part, "vim")
            if opened := _OPENS.match(part):
                name = call.shell.home + opened[1][1:] if opened[1].startswith("~/") else opened[1]
                read(call, name)
                files.append(name)
            saves = saves or bool(_SAVES.fullmatch(part))
    for path in files:
        write(call, path) if saves else read(call, path)
