"""Interpreters: code in an argument, in a file this text wrote, or on standard input."""

from __future__ import annotations

import itertools
import re

import msgspec

from hermetic.policy.call import Call, Judge
from hermetic.policy.destroys import SQL_DESTROYS, SQL_LOCAL
from hermetic.policy.effects import read, write
from hermetic.policy.marks import DECODED, LOCAL, NET, SECRET, is_known, is_plain
from hermetic.policy.options import parse_options
from hermetic.policy.paths import resolve
from hermetic.policy.python_code import judge_python as judge_python_text
from hermetic.policy.script_code import judge_code
from hermetic.policy.tables import names

from .hermetic_cli import judge_import
from .python_runners import MODULES, run_other
from .servers import serve_with
from .unseen import DYNAMIC_CODE, REMOTE_CODE, execute

SCRIPT_SUFFIXES = {
    ".py": "python",
    ".pl": "perl",
    ".rb": "ruby",
    ".js": "node",
    ".mjs": "node",
    ".cjs": "node",
    ".php": "php",
    ".lua": "lua",
    ".ts": "node",
    ".tcl": "tcl",
    ".r": "r",
}


class Interpreter(msgspec.Struct, frozen=True):
    """How an interpreter takes code: letters and names whose value is code, letters with other values."""

    language: str
    code: str = "e"
    code_long: tuple[str, ...] = ()
    values: str = ""
    values_long: tuple[str, ...] = ()
    glued: str = ""  # letters that take the rest of their word


_I = Interpreter
INTERPRETERS: dict[str, Interpreter] = {
    "perl": _I("perl", "eE", glued="MmI0FiCxVDl"),
    "ruby": _I("ruby", "e", glued="rIi0FKCExT"),
    "jruby": _I("ruby", "e", glued="rI"),
    "node": _I("node", "ep", ("eval", "print"), "r", ("require", "import", "loader", "input-type", "conditions")),
    "nodejs": _I("node", "ep", ("eval", "print"), "r", ("require",)),
    "php": _I("php", "rBRE", ("run",), "dcfzt"),
    "lua": _I("lua", "e", (), "l"),
    "luajit": _I("lua", "e", (), "lj"),
    "Rscript": _I("r", "e"),
    "R": _I("r", "e", (), "f"),
    "julia": _I("julia", "eE", ("eval", "print"), "pLJt"),
    "tclsh": _I("tcl", ""),
    "wish": _I("tcl", ""),
    "expect": _I("tcl", "c"),
    "groovy": _I("groovy", "e"),
    "scala": _I("scala", "e"),
    "elixir": _I("elixir", "e", ("eval",), "r"),
    "erl": _I("erlang", "", (), "", ()),
    "guile": _I("scheme", "c"),
    "sbcl": _I("lisp", "", ("eval",), "", ("load",)),
    "clojure": _I("clojure", "e", ("eval",)),
    "clj": _I("clojure", "e"),
    "bb": _I("clojure", "e"),
    "osascript": _I("applescript", "e"),
    "rails": _I("ruby", ""),
    "irb": _I("ruby", "", (), "rI"),
    "pry": _I("ruby", "e"),
    "ghc": _I("haskell", "e"),
    "runghc": _I("haskell", ""),
    "swift": _I("swift", "e"),
    "jshell": _I("java", ""),
    "octave": _I("octave", "", ("eval",)),
    "gnuplot": _I("gnuplot", "e"),
    "rakudo": _I("perl", "e"),
    "raku": _I("perl", "e"),
    "crystal": _I("ruby", ""),
    "ocaml": _I("ocaml", "e"),
    "racket": _I("scheme", "e"),
    "qjs": _I("node", "e", ("eval",)),
    "d8": _I("node", "e"),
    "tsx": _I("node", "ep", ("eval", "print")),
    "ts-node": _I("node", "ep", ("eval", "print")),
    "mongosh": _I("mongo", "", ("eval",)),
    "mongo": _I("mongo", "", ("eval",)),
    "bpftrace": _I("bpf", "e"),
    "zx": _I("node", "", ("eval",)),
    "hy": _I("lisp", "c"),
    "coffee": _I("node", "e", ("eval",)),
    "nim": _I("nim", "", ("eval",)),
    "janet": _I("lisp", "e"),
    "fennel": _I("lisp", "e"),
    "newlisp": _I("lisp", "e"),
    "gsi": _I("scheme", "e"),
    "csi": _I("scheme", "e"),
    "kotlin": _I("java", "e"),
}
_PYTHON_FLAGS_WITH_VALUE = "XW"
_OURS = re.compile(r"(^|/)hermetic(/__main__\.py|/cli/__init__\.py)?/?$")  # our own command line by its file
# Code that computes text which nobody can read in it.
_COMPUTES = re.compile(
    r"decode|chr\(|fromhex|unhex|rot.?13|\[::-1\]|pack\b|fromCharCode|atob|\\x[0-9a-f]{2}", re.IGNORECASE
)


def judge_python(call: Call, code: str) -> None:
    """Judge Python code, and what it does with Hermetic itself."""
    judge_import(call, code)
    judge_python_text(call, code)


def run_script(call: Call, content: str, path: str) -> str:
    """Evaluate a file's known content in the language its first line or suffix names."""
    first = content.split("\n", 1)[0]
    language = next((lang for suffix, lang in SCRIPT_SUFFIXES.items() if path.endswith(suffix)), "")
    if first.startswith("#!"):
        name = (first.rsplit("/", 1)[-1].split() or [""])[-1]
        language = (
            "python"
            if name.startswith("python")
            else {"perl": "perl", "ruby": "ruby", "node": "node", "php": "php", "lua": "lua"}.get(
                name, language if name == "env" else ""
            )
        )
    if language == "python":
        judge_python(call, content)
    elif language:
        judge_code(call, content, language)
    else:
        shell = call.shell.fork()
        shell.positional = list(call.args)
        shell.name0, shell.scripts = call.argv[0], (*call.shell.scripts, path)
        return call.shell_text(content, shell=shell)
    return LOCAL


def judge_python_program(call: Call) -> str | None:
    """python: -c TEXT, -m MODULE, a script, or standard input."""
    args = list(call.args)
    while args and args[0].startswith("-") and len(args[0]) > 1:
        arg = args.pop(0)
        if arg.startswith("--"):
            if arg in ("--version", "--help"):
                return None
            continue
        for at, letter in enumerate(arg[1:], 1):
            rest = arg[at + 1 :]
            if letter == "c":
                code = rest or (args[0] if args else "")
                if call.name.startswith("ipython") and code.startswith("!"):
                    return call.shell_text(code[1:])
                judge_python(call, code)
                if re.search(r"print.*os\.environ(?!\s*\[|\.get)", code):
                    return SECRET + "\n"
                return DECODED + "\n" if _COMPUTES.search(code) else None
            if letter == "m":
                return _module(call, rest or (args.pop(0) if args else ""), args)
            if letter in _PYTHON_FLAGS_WITH_VALUE:
                if not rest and args:
                    args.pop(0)
                break
            if letter in "Vh":
                return None
    if not args or args[0] == "-" or args[0] in ("/dev/stdin", "/dev/fd/0"):
        if call.stdin is not None and not execute(call, call.stdin, "Python code", piped=True):
            judge_python(call, call.stdin)
        return None
    if _OURS.search(args[0]):
        return call.run(["hermetic", *args[1:]])
    if args[0].rsplit("/", 1)[-1] == "manage.py":
        _django(call, args[1:])
    if args[0].rsplit("/", 1)[-1] == "setup.py" and "upload" in args:
        call.report(DYNAMIC_CODE, "publishes a package")
    return _file(call, args[0], "python")


def _module(call: Call, module: str, args: list[str]) -> str | None:
    if module in names(
        """
pip pipx venv ensurepip poetry pytest ansible uv conda twine
"""
    ):
        return call.run([module, *args])
    if module.partition(".")[0] == "hermetic":
        return call.run(["hermetic", *args])
    if module == "site" and "--user-site" in args:
        return f"{call.shell.home}/.local/lib/python3/site-packages\n"
    if module in ("http.server", "SimpleHTTPServer", "uploadserver", "pyftpdlib", "twisted"):
        serve_with("python", call, args)
    if module in ("debugpy", "jupyter", "notebook", "jupyterlab"):
        call.run([module, *args])
    own = call.shell.files.get(resolve(module.replace(".", "/") + ".py", call.shell))
    if own is not None and NET in own:
        execute(call, own, "a module")
    if module == "code" and call.stdin is not None:
        judge_python(call, call.stdin)
    if module == "timeit":
        judge_python(call, "\n".join(arg for arg in args if not arg.startswith("-")))
        return None
    if module in ("code", "doctest"):
        paths = [arg for arg in args if not arg.startswith("-")]
        return _file(call, paths[0], "python") if paths else None
    if module in MODULES:
        for flag, value in itertools.pairwise(args):
            if module == "pdb" and flag in ("-c", "--command"):
                judge_python(call, value.lstrip("!"))
        return run_other(call, module, args)
    if module in ("zipfile", "tarfile", "zipapp") and args[:1] in (["-e"], ["--extract"]):
        for path in args[2:3]:
            write(call, path, tree=True)
    if module == "base64":
        return call.run(["base64", *args])
    if module in ("gzip", "compileall", "json.tool") and module == "json.tool":
        return call.input()
    return None


def _django(call: Call, args: list[str]) -> None:
    verb = next((arg for arg in args if not arg.startswith("-")), "")
    if (
        verb
        in ("flush", "reset_db", "sqlflush", "dropdb", "clean_db", "delete_all", "drop_test_database", "clear_index")
        and "--dry-run" not in args
        and verb != "sqlflush"
    ):
        call.report(SQL_DESTROYS, "deletes everything in the application's database")
    elif verb == "migrate" and "zero" in args:
        call.report(SQL_LOCAL, "undoes all migrations")
    elif verb in ("shell", "shell_plus"):
        code = next((value for flag, value in itertools.pairwise(args) if flag in ("-c", "--command")), None)
        if code is None and call.stdin is not None and is_known(call.stdin):
            judge_python(call, call.stdin)
        if code:
            judge_python(call, code)
            judge_code(call, code, "ruby") if "delete()" not in code else call.report(SQL_DESTROYS, "deletes records")
    elif verb == "dbshell":
        code = next(
            (value for flag, value in itertools.pairwise(args) if flag in ("-c", "--command")),
            call.stdin or "",
        )
        call.run(["psql", "-c", code])


def _file(call: Call, path: str, language: str) -> str | None:
    full = resolve(path, call.shell)
    held = call.shell.files.get(full)
    if held is None:
        if call.shell.is_fetched(full):
            call.report(REMOTE_CODE, "runs a program that was just downloaded")
        elif not is_known(path) and not is_plain(path.rsplit("/", 1)[-1]):
            call.report(DYNAMIC_CODE, "runs a script whose name cannot be known")
        elif "://" in path:
            call.report(REMOTE_CODE, "runs a program from another machine")
        else:
            read(call, path)
        return None
    if not is_known(held) and execute(call, held, "a script"):
        return LOCAL
    if language == "python":
        judge_python(call, held)
    else:
        judge_code(call, held, language)
    return None


def judge_interpreter(call: Call) -> str | None:
    """perl, ruby, node, php, lua …"""
    spec = INTERPRETERS[call.name]
    args = list(call.args)
    code: list[str] = []
    flags = ""
    if call.name == "rails":
        return _rails(call)
    if call.name == "erl":
        for flag, value in itertools.pairwise(args):
            if flag in ("-eval", "-s"):
                judge_code(call, value, "erlang")
        return None
    if call.name == "nim" and args and not args[0].startswith("-"):
        args.pop(0)
    while args and args[0].startswith("-") and len(args[0]) > 1:
        arg = args.pop(0)
        if arg == "--":
            break
        if arg.startswith("--"):
            name, equals, value = arg[2:].replace(":", "=", 1).partition("=")
            if name in spec.code_long:
                code.append(value if equals else args.pop(0) if args else "")
            elif name in ("version", "help"):
                return None
            elif name in spec.values_long and not equals and args:
                value = args.pop(0)
                if name in ("require", "import", "loader", "load") and call.name != "php":
                    _file(call, value, spec.language)
            continue
        flags += _letters(arg, args, spec, code)
    if call.name == "php" and "S" in flags:
        serve_with("php", call, [arg for arg in call.args if arg not in args[:1]])
        return None
    if code and "-run" in call.args:  # ruby's library of shell commands
        return call.run([code[-1], *args])
    if code:
        for text in code:
            judge_code(call, text, spec.language)
        _operands(call, args, flags, spec)
        if (
            spec.language == "perl"
            and call.stdin
            and re.search(r"[np]", flags)
            and re.search(r"\b(system|exec|eval|qx)\b|`", code[-1])
        ):
            execute(call, call.stdin, "a command", piped=True)
        return DECODED + "\n" if any(_COMPUTES.search(text) for text in code) else None
    if spec.language == "mongo":
        for text in parse_options(
            call.args, "upho", ("eval", "username", "password", "host", "port", "authenticationDatabase")
        ).values("eval"):
            judge_code(call, text, "mongo")
        if call.stdin is not None:
            judge_code(call, call.stdin, "mongo")
        for path in args:
            if path.endswith(".js"):
                _file(call, path, "mongo")
        return None
    if call.name == "crystal" and args[:1] == ["eval"]:
        judge_code(call, " ".join(args[1:]), "ruby")
        return None
    if args and args[0].rsplit("/", 1)[-1] in ("artisan", "console", "yii", "rails", "rake"):
        return call.run([args[0].rsplit("/", 1)[-1], *args[1:]])
    if args and args[0] != "-":
        return _file(call, args[0], spec.language)
    if call.stdin is not None and not execute(call, call.stdin, f"{spec.language} code", piped=True):
        judge_code(call, call.stdin, spec.language)
    return None


def _letters(arg: str, args: list[str], spec: Interpreter, code: list[str]) -> str:
    flags = ""
    for at, letter in enumerate(arg[1:], 1):
        rest = arg[at + 1 :]
        if letter in spec.code:
            code.append(rest or (args.pop(0) if args else ""))
            return flags
        if letter in spec.glued:
            flags += letter
            if letter in "Mm" and ";" in rest:
                code.append(rest.partition(";")[2])
            if letter in "i0l" and spec.language in ("perl", "ruby") and rest[:1].isalpha() and letter != "i":
                continue
            if letter == "i" and rest[:1] in spec.code and len(rest) == 1:
                continue
            if letter in "Ir" and not rest and args and spec.language == "ruby":
                args.pop(0)
            return flags
        if letter in spec.values:
            if not rest and args:
                args.pop(0)
            return flags
        flags += letter
    return flags


def _operands(call: Call, args: list[str], flags: str, spec: Interpreter) -> None:
    if spec.language not in ("perl", "ruby"):
        return
    for path in args:
        if "i" in flags:
            write(call, path)
        elif "n" in flags or "p" in flags:
            read(call, path)


def _rails(call: Call) -> str | None:
    args = [arg for arg in call.args if not arg.startswith("-")]
    if args[:1] in (["runner"], ["r"]) and len(args) > 1:
        judge_code(call, args[1], "ruby")
    for arg in args:
        if arg in (
            "db:drop",
            "db:reset",
            "db:truncate_all",
            "db:purge",
            "db:schema:load",
            "db:drop:all",
            "db:migrate:reset",
        ):
            call.report(SQL_DESTROYS, "drops the application's database")
    if args[:1] in (["console"], ["c"]) and call.stdin:
        judge_code(call, call.stdin, "ruby")
    return None


def judge_rake(call: Call) -> str | None:
    """rake and artisan drop databases by task name."""
    words = [arg for arg in call.args if not arg.startswith("-")]
    if any(
        re.fullmatch(
            (
                r"db:(drop|reset|purge|truncate\w*|drop:\w+|migrate:reset|schema:load|wipe)|migrate[:/](fresh|reset|down)"
                r"|doctrine:(database|schema):drop|orm:schema-tool:drop"
            ),
            word,
        )
        for word in words
    ):
        call.report(SQL_DESTROYS, "drops the application's database")
    if "tinker" in words or call.name == "artisan":
        code = next(
            (value for flag, value in zip(call.args, call.args[1:], strict=False) if flag.startswith("--execute")), None
        ) or next((arg.partition("=")[2] for arg in call.args if arg.startswith("--execute=")), None)
        if code:
            judge_code(call, code, "php")
    return None


def judge_deno(call: Call) -> str | None:
    """deno and bun run scripts, also from addresses."""
    args = [arg for arg in call.args if not arg.startswith("-")]
    if args[:1] in (["eval"],) or any(arg in ("-e", "--eval", "-p", "--print") for arg in call.args):
        code = (
            args[1]
            if args[:1] == ["eval"] and len(args) > 1
            else next(
                (v for f, v in zip(call.args, call.args[1:], strict=False) if f in ("-e", "--eval", "-p", "--print")),
                "",
            )
        )
        judge_code(call, code, "deno")
        return None
    paths = args[1:] if args[:1] in (["run"], ["install"], ["x"], ["serve"]) else args
    for path in paths[:1]:
        if path.startswith(("http://", "https://", "npm:", "jsr:")):
            if path.startswith("http"):
                call.report(REMOTE_CODE, "runs a program from another machine")
        elif path.endswith((".ts", ".js", ".mjs", ".tsx")):
            _file(call, path, "deno")
    if not args and call.stdin is not None and not execute(call, call.stdin, "JavaScript code", piped=True):
        judge_code(call, call.stdin, "deno")
    return None


def judge_java(call: Call) -> str | None:
    """java and kin run archives; one that was just downloaded is unseen code."""
    options = parse_options(call.args, "", ("jar", "cp", "classpath"), single_dash_long=True, stop_early=True)
    jar = options.value("jar")
    if jar:
        _file(call, jar, "java")
    return None


JUDGES: dict[str, Judge] = {
    **dict.fromkeys(
        names(
            """
python python3 python2 pypy pypy3 ipython ipython3 py micropython jython bpython sage pythonw
"""
        ),
        judge_python_program,
    ),
    **dict.fromkeys(INTERPRETERS, judge_interpreter),
    "rake": judge_rake,
    "artisan": judge_rake,
    "console": judge_rake,
    "yii": judge_rake,
    "deno": judge_deno,
    "bun": judge_deno,
    "java": judge_java,
}
