"""awk, sed, grep and editors: programs for text whose scripts can run commands and write files."""

from __future__ import annotations

import re

from hermetic.policy.budget import MAX_TEXT, joined
from hermetic.policy.call import Call, Judge
from hermetic.policy.effects import SECRET_READ, read, write
from hermetic.policy.marks import DECODED, LOCAL, SECRET, UNSET, is_known, is_plain, marks_in, unknown_like
from hermetic.policy.options import Options, parse_options
from hermetic.policy.paths import resolve
from hermetic.policy.rules import Rule
from hermetic.policy.tables import names

from .unseen import UNKNOWN_COMMAND, execute, is_wholly_unseen, run_code

SECRET_HUNT = Rule(
    name="hunt-secrets",
    category="secret-read",
    severity=7,
    effects=("reads secrets",),
    catches=("grep -r password ~", "grep -rE 'AKIA|SECRET' /home"),
    spares=("grep -r password src", "grep -rn TODO ~/project"),
)
RULES = (SECRET_HUNT,)


def judge_sed(call: Call) -> str | None:
    """sed: scripts that execute or write, and -i."""
    options = parse_options(call.args, "efl", ("expression", "file", "line-length"))
    operands = options.operands
    scripts = options.values("e", "expression")
    for path in options.values("f", "file"):
        content = read(call, path)
        if is_known(content):
            scripts.append(content)
    if not scripts and not options.values("f", "file") and operands:
        scripts, operands = [operands[0]], operands[1:]
    in_place = any(
        name == "i" or (name.startswith("i") and name != "ignore") or ("in-place".startswith(name) and len(name) > 1)
        for name, _ in options.given
    )
    text = ""
    for path in operands:
        if in_place:
            held = call.shell.files.get(resolve(path, call.shell))
            write(call, path, content=_sed_output(scripts, held, False) if held else "")
        else:
            text += read(call, path)
    text = text or call.input()
    for script in scripts:
        _sed_script(call, script, text)
    if in_place:
        return ""
    return _sed_output(scripts, text, options.has("n", "quiet", "silent"))


def _sed_script(call: Call, script: str, text: str) -> None:
    for command in re.split(r"[;\n]", script):
        match = re.match(
            (
                r"\s*+(?:(?:\d+|\$|/(?:[^/\\]|\\.)*/)(?:~\d+)?(?:,(?:\d+|\$|\+\d+|/(?:[^/\\]|\\.)*/))?)"
                r"?\s*+!?\s*+\{?\s*+([a-zA-Z])\s*(.*)"
            ),
            command,
            re.DOTALL,
        )
        if match is None:
            continue
        letter, rest = match[1], match[2].rstrip("} ")
        if letter == "e":
            if rest:
                call.shell_text(rest)
            else:
                call.report(UNKNOWN_COMMAND, "runs the lines of its input as commands")
        elif letter in ("w", "W") and rest:
            write(call, rest)
        elif letter in ("r", "R") and rest:
            read(call, rest)
    for match in re.finditer(
        (
            r"(?:^|[;\n{}/\d$,\s])s(.)((?:(?!\1)[^\\]|\\.)*)\1((?:(?!\1)[^\\]|\\.)*)\1([gpiImMe0-9]*)"
            r"(?:w\s*([^\n;]+))?"
        ),
        script,
        re.DOTALL,
    ):
        if "e" in match[4]:
            replacement = match[3].replace("\\" + match[1], match[1]).replace("\\n", "\n")
            call.shell_text(
                replacement.replace("&", UNSET) if "&" in replacement and "&&" not in replacement else replacement
            )
        if match[5]:
            write(call, match[5].strip())


def _sed_output(scripts: list[str], text: str, quiet: bool) -> str:
    """The output of a plain substitution on known text; otherwise unknown text of the same origin."""
    if len(scripts) == 1 and is_plain(text) and not quiet:
        match = re.fullmatch(r"s(.)((?:(?!\1)[^\\]|\\.)*)\1((?:(?!\1)[^\\]|\\.)*)\1(g?)", scripts[0])
        if match and not re.search(r"[\\*+?\[\]().^$&{}]", match[2]) and not re.search(r"[\\&]", match[3]):
            lines = text.split("\n")
            if (text.count(match[2]) + 1) * len(match[3]) > MAX_TEXT:
                return unknown_like(text)
            return "\n".join(line.replace(match[2], match[3], -1 if match[4] else 1) for line in lines)
    if marks_in(text):
        return text if not re.search(r"[sy][/|#,]", scripts[0] if scripts else "") else unknown_like(text)
    if is_known(text) and text.strip():
        return DECODED + "\n"
    return DECODED + "\n" if scripts and re.search(r"(^|;)\s*[sy]\W", scripts[0]) else LOCAL + "\n"


def judge_grep(call: Call) -> str | None:
    """grep and kin print matching lines; rg can start a preprocessor."""
    short = {"rg": "eEfgjmMrtTABCd", "ag": "ABCGmpW", "ack": "ABCgm", "ugrep": "eABCfmgDJK"}.get(call.name, "efmABCdD")
    options = parse_options(
        call.args,
        short,
        names(
            """
regexp file max-count include exclude exclude-dir color colour context after-context before-context label pre
pre-glob glob type type-not ignore-file hostname-bin binary-files directories replace sort iglob max-depth
threads pager filter view
"""
        ),
    )
    for name, value in options.given:
        if (
            name in ("pre", "hostname-bin", "pager", "filter", "view")
            and value
            and call.name in ("rg", "ag", "ack", "ugrep", "ug")
        ):
            call.run(["sh", "-c", value])
            if "/" in value:
                call.report(UNKNOWN_COMMAND, f"runs a program on every file: {value}")
    operands = options.operands
    patterns = options.values("e", "regexp")
    if not patterns and not options.has("f", "file", "files") and operands:
        patterns, operands = [operands[0]], operands[1:]
    for path in options.values("f", "file"):
        read(call, path)
    quiet = options.has("q", "quiet", "l", "files-with-matches", "c", "count") and not options.has("r", "R")
    recursive = options.has("r", "R", "recursive", "dereference-recursive") or call.name in ("rg", "ag", "ack", "rgrep")
    text = ""
    for path in operands:
        if (
            recursive
            and call.place(path)[1] in ("home", "root")
            and any(
                re.search(r"(?i)passw|secret|token|api.?key|AKIA|private.key|credential|BEGIN", pattern)
                for pattern in patterns
            )
        ):
            call.report(SECRET_HUNT, "searches everything a person has for credentials")
            text += SECRET
        elif not quiet or call.place(path)[1] != "env file":
            text += read(call, path)
    if quiet:
        return LOCAL + "\n"
    text = text or call.input()
    if not is_known(text):
        return text + LOCAL
    kept = _matching(text, patterns, options) if call.name in ("grep", "egrep", "fgrep") else None
    return LOCAL + "\n" if kept is None else kept


def _matching(text: str, patterns: list[str], options: Options) -> str | None:
    """What grep prints of a known text for a literal pattern; None where that is not simple."""
    given = {name for name, _ in options.given}
    if (
        len(patterns) != 1
        or not given <= {"o", "v", "e", "F", "E", "h", "a"}
        or not re.fullmatch(r"[\w /:,=-]+", patterns[0])
    ):
        return None
    lines = text.splitlines()
    if "o" in given:
        return joined(f"{patterns[0]}\n" * line.count(patterns[0]) for line in lines)
    return "".join(f"{line}\n" for line in lines if (patterns[0] in line) != ("v" in given))


def judge_jq(call: Call) -> str | None:
    """jq and yq read files; yq -i writes them."""
    options = parse_options(call.args, "fL", ("arg", "argjson", "slurpfile", "rawfile", "from-file", "indent"))
    in_place = options.has("i", "inplace", "in-place") and call.name in ("yq", "dasel", "xmlstarlet", "crudini")
    text = ""
    for path in options.operands[1:]:
        if in_place:
            write(call, path)
        else:
            text += read(call, path)
    text = text or call.input()
    program = options.operands[0] if options.operands else ""
    if re.search(r"\benv\b|\$ENV", program):
        return SECRET
    return (DECODED if "@base64d" in program else LOCAL) + marks_in(text) + "\n"


def judge_vim(call: Call) -> str | None:
    """vi, vim, nvim, ex: commands by -c, + and --cmd; :! runs a shell, :w writes."""
    args = list(call.args)
    commands: list[str] = []
    files: list[str] = []
    while args:
        arg = args.pop(0)
        if arg == "-s" and call.name in ("ed", "red", "ex"):
            continue
        if arg in ("-c", "--cmd", "-S", "-s", "-u", "-i", "-T", "-w", "-W") and args:
            value = args.pop(0)
            if arg in ("-c", "--cmd"):
                commands.append(value)
            elif arg in ("-S", "-u", "-s") and value not in ("NONE", "NORC", "NORE", "DEFAULTS"):
                read(call, value)
        elif re.match(r"-[A-Za-z]*c.", arg) and not arg.startswith("--") and " " in arg:
            commands.append(arg.partition("c")[2])
        elif re.fullmatch(r"-\w*c", arg) and args:
            commands.append(args.pop(0))
        elif arg.startswith("+"):
            commands.append(arg[1:])
        elif not arg.startswith("-"):
            files.append(arg)
    if call.stdin is not None and (
        call.name in ("ex", "ed", "red") or any(a in ("-es", "-e", "-s", "-Es") for a in call.args)
    ):
        commands += call.stdin.split("\n")
    saves = False
    for command in commands:
        if is_wholly_unseen(command):
            execute(call, command, "an editor's command")
        for part in command.split("|") if "!" not in command else [command]:
            saves = _vim_command(call, part.strip(), files) or saves
    for path in files:
        if saves:
            write(call, path)
        else:
            read(call, path)
    return None


_VIM_STARTS = re.compile(r"\b(?:system|systemlist|job_start|term_start|jobstart|termopen|libcall)\s*\(")
_VIM_PROGRAM = re.compile(
    r"(?:set?(?:l\w*|g\w*)?\s+|let\s+&(?:[lg]:)?)"
    r"(?:makeprg|mp|grepprg|gp|equalprg|ep|formatprg|fp|keywordprg|kp|shell|sh)\s*=\s*(.+)"
)


def _vim_command(call: Call, command: str, files: list[str]) -> bool:
    """Judge one editor command; True when it saves the file."""
    command = re.sub(r"^(?:(?:sil\w*|verb\w*|noa\w*|kee\w*|lockm\w*)!?\s+)+(?!!)", "", command.lstrip(": "))
    program = _VIM_PROGRAM.match(command)
    if program:  # what :make, :grep, = and K will run
        call.shell_text(re.sub(r"\\(.)", r"\1", program[1]).strip("'\""))
        return False
    if made := re.match(r"l?mak?e?!?(?:\s+(.*))?$", command):
        call.shell_text(f"make {made[1] or ''}")
        return False
    shell = re.match(
        (
            r"(?:silent!?\s+|exe(?:cute)?\s+['\"]?:?|au\w*\s.*?\s|%|\d+(?:,\d+)?|\.|\$)*\s*(?:r(?:ead)"
            r"?\s*|w(?:rite)?\s+)?!\s*(.+)"
        ),
        command,
    )
    if shell:
        call.shell_text(shell[1].strip("'\""))
        return False
    if started := _VIM_STARTS.search(command):
        text = re.match(r"\s*(['\"])(.*?)\1", command[started.end() :])
        listed = re.match(r"\s*\[([^\]]*)\]", command[started.end() :])
        words = re.findall(r"'([^']*)'|\"([^\"]*)\"", listed[1]) if listed else []
        if words:
            call.run([single or double for single, double in words])
        else:
            run_code(call, text[2] if text else UNSET, "an editor's command")
        return False
    if re.match(r"(py(thon)?3?|pyx|lua|perl|ruby|tcl|mz\w*)\s", command):
        language, _, code = command.partition(" ")
        call.run(
            [
                "python3" if language.startswith("py") else language,
                "-c" if language.startswith("py") else "-e",
                code.replace("vim.api.nvim_command", "").strip(),
            ]
        )
        return False
    if re.match(r"(call\s+)?delete\s*\(\s*['\"](.*?)['\"]", command):
        path = re.search(r"['\"](.*?)['\"]", command)
        call.run(["rm", "-rf" if "rf" in command else "-f", path[1] if path else UNSET])
    if re.match(r"(call\s+)?writefile\s*\(", command):
        path = re.search(r",\s*['\"](.*?)['\"]", command)
        write(call, path[1] if path else UNSET)
    target = re.match(r"(?:%|\d+(?:,\d+)?)?(?:w(?:rite|q)?|sav(?:eas)?|up(?:date)?|x(?:it)?)!?\s+([^\s!].*)", command)
    if target:
        write(call, target[1].strip())
        return False
    opened = re.match(r"(?:e(?:dit)?|r(?:ead)?|vi(?:ew)?|sp(?:lit)?|tabe\w*)!?\s+(\S+)", command)
    if opened:
        name = call.shell.home + opened[1][1:] if opened[1].startswith("~/") else opened[1]
        read(call, name)
        files.append(name)
    if re.match(r"so(urce)?\s+(\S+)", command):
        read(call, command.split()[-1])
    return (
        bool(re.fullmatch(r"(w|wq|wqa|wa|x|xa|xit|up|update|ZZ|exit|wn|wqall|wall)!?", command))
        or bool(re.search(r"\b(wq|x|w|update)!?['\"]?$", command) and not re.match(r"%?s/", command))
        or bool(re.search(r"\|\s*(x|w|wq)$", command))
    )


def judge_m4(call: Call) -> str | None:
    """m4 runs the commands of syscmd and esyscmd in what it reads."""
    for text in [call.input(), *(read(call, arg) for arg in call.args if not arg.startswith("-"))]:
        for command in re.findall(r"syscmd\(\s*[`]?([^)']*)", text):
            run_code(call, command, "m4")
    return None


def judge_dc(call: Call) -> str | None:
    """dc runs what follows an exclamation mark."""
    for text in [*call.args, call.stdin or ""]:
        for command in re.findall(r"!\s*([^\s<>=][^\n]*)", text):
            run_code(call, command, "dc")
    return None


def judge_emacs(call: Call) -> str | None:
    """emacs --eval runs Lisp: shell-command, delete-file, write-region."""
    for flag, value in zip(call.args, [*call.args[1:], ""], strict=False):
        name, equals, glued = flag.partition("=")
        if name not in ("--eval", "-eval", "--execute", "-f", "--funcall", "-e"):
            continue
        code = glued if equals else value
        if is_wholly_unseen(code):
            execute(call, code, "Lisp code")
        if not re.search(r"eval|read|funcall|apply|load", code):
            code = re.sub(r'"\((?:[^"\\]|\\.)*"', '""', code)  # a list inside a string is only text
        for match in re.finditer(
            (
                r"\((?:shell-command(?:-to-string)?|call-process(?:-shell-command)?|start-process\w*|async-shell-c"
                r'ommand|compile)\s+"((?:[^"\\]|\\.)*)"'
            ),
            code,
        ):
            rest = re.findall(r'"((?:[^"\\]|\\.)*)"', code[match.end() :])
            call.shell_text(" ".join([match[1], *rest]) if "process" in match[0] else match[1])
        for match in re.finditer(
            (
                r"\((delete-file|delete-directory|write-region|write-file|find-file|insert-file-contents)"
                r'\s[^"]*"((?:[^"\\]|\\.)*)"'
            ),
            code,
        ):
            path = call.shell.home + match[2][1:] if match[2].startswith("~/") else match[2]
            if match[1].startswith("delete"):
                call.run(["rm", "-rf" if "directory" in match[1] else "-f", path])
            elif match[1].startswith("write"):
                write(call, path)
            else:
                read(call, path)
    return None


def judge_man(call: Call) -> str | None:
    """man -P runs a pager; man -H a browser."""
    options = parse_options(call.args, "PpCRLmMSseEHr", ("pager", "preprocessor", "config-file", "html"))
    for value in options.values("P", "pager", "H", "html"):
        run_code(call, value, "a pager")
    return None


def judge_editor(call: Call) -> str | None:
    """Editors for people open their operands."""
    if call.name == "visudo" and not any(arg in ("-c", "--check", "-V", "-h", "--help") for arg in call.args):
        write(call, "/etc/sudoers")
    for path in call.args:
        if not path.startswith(("-", "+")):
            full, place = call.place(path)
            if place in ("system", "startup") and call.name not in ("view",):
                write(call, path)
                call.shell.files.pop(full, None)
            else:
                read(call, path)
    return None


def judge_secret_tool(call: Call) -> str | None:
    """Programs made to show credentials."""
    text = " ".join(call.args)
    shows = {
        "security": r"\b(dump-keychain|find-(generic|internet)-password|export)\b",
        "secret-tool": r"\b(lookup|search)\b",
        "pass": r"^(?!ls|list|find|help|git|generate|init|--version).+",
        "gopass": r"\b(show|cat)\b",
        "op": r"\b(read|item get|inject|document get)\b",
        "bw": r"\b(get|export|list)\b",
        "lpass": r"\b(show|export)\b",
        "vault": r"\b(kv get|read|token create|print)\b",
        "keyring": r"\bget\b",
        "kwallet-query": r".",
        "ssh-add": r"\B-L\b(?!)",
        "getent": r"\b(shadow|gshadow)\b",
        "mimikatz": r".",
        "laZagne": r".",
        "chainbreaker": r".",
        "unshadow": r".",
        "john": r".",
        "hashcat": r".",
        "defaults": r"read .*(password|login)",
        "ansible-vault": r"^(view|decrypt|edit)\b",
        "sops": r"^(-d|--decrypt|decrypt|edit|exec-env)\b",
        "gopasspw": r".",
    }.get(call.name, r"(?!)")
    if re.search(shows, text):
        call.report(SECRET_READ, "shows stored credentials")
        return SECRET
    return None


JUDGES: dict[str, Judge] = {
    "m4": judge_m4,
    "gm4": judge_m4,
    "dc": judge_dc,
    **dict.fromkeys(("sed", "gsed", "ssed"), judge_sed),
    **dict.fromkeys(
        names(
            """
grep egrep fgrep zgrep rgrep rg ag ack ggrep ugrep ug pcregrep pcre2grep zegrep
"""
        ),
        judge_grep,
    ),
    **dict.fromkeys(("jq", "yq", "gojq", "dasel", "fx"), judge_jq),
    **dict.fromkeys(
        names(
            """
vi vim nvim ex ed red gvim rvim view vimdiff nvi elvis rview
"""
        ),
        judge_vim,
    ),
    **dict.fromkeys(("emacs", "emacsclient"), judge_emacs),
    "man": judge_man,
    **dict.fromkeys(
        names(
            """
nano pico micro joe jed mcedit kate gedit code subl hx kak visudo
"""
        ),
        judge_editor,
    ),
    **dict.fromkeys(
        names(
            """
security secret-tool pass gopass op bw lpass keyring kwallet-query getent mimikatz laZagne chainbreaker unshadow
john hashcat ansible-vault sops
"""
        ),
        judge_secret_tool,
    ),
}
