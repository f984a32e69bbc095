"""What a text in Perl, Ruby, JavaScript, PHP, Lua … would do, by the calls in it and their constant arguments."""

from __future__ import annotations

import re

from hermetic.policy.tables import names

from .call import Call
from .commands.scripting import judge_applescript
from .commands.unseen import FORK_BOMB, OPAQUE_CODE, REMOTE_CODE, UNKNOWN_COMMAND, execute
from .destroys import SQL_DESTROYS
from .effects import delete, read, write
from .marks import SECRET, UNSET, marks_in
from .network import EXFIL, REVERSE_SHELL, check_address
from .script_networks import judge_networks
from .script_paths import fold_paths
from .script_strings import judge_strings
from .script_tokens import Token, TooLong, tokens_of
from .sql import destruction

_SHELL = frozenset(
    names(
        """
system exec execSync popen passthru shell_exec proc_open popen2 popen3 popen2e capture2 capture2e capture3
pipeline execute spawn spawnSync execFile execFileSync execa execaSync pcntl_exec sh cmd qx run_command shell
command Command popen4 system2 startProcess execvp execv execve
"""
    )
)
_SHELL_OWNED = frozenset({"sh", "cmd", "command", "Command", "execute", "pipeline", "shell"})
_OWNERS = names(
    """
os io IO Open3 Deno Bun System Process Kernel child_process cp zx Runtime sys clojure.java.shell shelljs
subprocess
"""
)
_DELETE = {
    "unlink": False,
    "unlinkSync": False,
    "rmSync": True,
    "rmdirSync": True,
    "rmtree": True,
    "remove_tree": True,
    "rm_rf": True,
    "rm_r": True,
    "rm_f": False,
    "rmdir": False,
    "removeSync": True,
    "emptyDirSync": True,
    "remove_entry_secure": True,
    "remove_dir": True,
    "rimraf": True,
    "rimrafSync": True,
    "delTree": True,
    "removeDirectory": True,
    "deleteDirectory": True,
    "delete_dir": True,
    "unlinkat": False,
    "deltree": True,
    "remove_entry": True,
    "secure_unlink": False,
    "emptyDir": True,
    "trash": False,
    "rm_rf!": True,
    "file_delete": False,
}
_DELETE_OWNED = {"rm": True, "remove": True, "delete": False, "removeAll": True, "rm!": True}
_DELETE_OWNERS = names(
    """
fs fsp File FileUtils Deno os Dir Pathname fse promises IO file shell shelljs Files Filesystem
"""
)
_WRITE = frozenset(
    names(
        """
writeFileSync writeFile appendFileSync appendFile createWriteStream file_put_contents outputFileSync
writeTextFileSync writeTextFile binwrite spurt writeLines write_file
"""
    )
)
_READ = frozenset(
    names(
        """
readFileSync readFile file_get_contents createReadStream readfile readlines slurp readTextFileSync readTextFile
binread read_file readLines copyFileSync copy
"""
    )
)
_NETWORK = re.compile(
    r"\b(net|tls|http|https|dgram|axios|fetch|got|superagent|WebSocket|IO::Socket|Net::HTTP|Net::FTP|LWP|HTTP::Tiny|fsockopen|stream_socket_client|curl_exec|curl_init|socket_create|socket_connect|TCPSocket|UDPSocket|URI\.open|OpenURI|open-uri|"
    r"socket|inet|Socket|HTTParty|Faraday|RestClient|WWW::Mechanize|XMLHttpRequest|ztcp|Net\.Socket|gen_tcp|httpc|socket\.tcp|luasocket)\b|https?://"
)
_MONGO = re.compile(
    r"\b(dropDatabase|dropIndexes|dropUser|dropAllUsers|dropRole|shutdownServer)\s*\(|\.(drop)"
    r"\s*\(\s*\)|\.(deleteMany|remove|deleteOne|updateMany)\s*\(\s*(\{\s*\}\s*)?[,)]"
    r"|\{(dropDatabase|drop|shutdown|dropAllUsersFromDatabase):"
)
_ORM = re.compile(
    r"\b(delete_all|destroy_all|truncate_all|drop_table|drop_database|purge)\b|\.flushall\b|"
    r"\.flushdb\b|deleteMany\(\s*(\{\s*\})?\s*\)|FLUSHALL|FLUSHDB"
)
_EVAL = frozenset(
    names(
        """
eval instance_eval class_eval module_eval runInThisContext runInNewContext loadstring Function assert
create_function load execScript importScripts string-to-expr runInContext
"""
    )
)


def judge_code(call: Call, text: str, language: str, *, depth: int = 0) -> None:
    """Report what the script would do."""
    marks = marks_in(text)
    if marks and not text.strip("".join(marks) + " \n"):
        execute(call, text, f"{language} code")
        return
    if ("\ue003" in marks or "\ue004" in marks) and execute(call, text, f"{language} code"):
        return
    if language == "tcl":
        _judge_tcl(call, text)
    elif language == "gnuplot":
        for command in re.findall(r"(?m)(?:^|;)\s*!\s*([^\n;]+)", text):
            call.shell_text(command)
    elif language == "applescript":
        judge_applescript(call, text)
        return
    if language in ("mongo", "node"):
        text = re.sub(r"""\[\s*(["'])(\w+)\1\s*\]\s*(?=[\[.(])""", r".\2", text)
    text = fold_paths(text, call.shell.home)
    try:
        tokens = tokens_of(text, language)
    except TooLong:
        call.report(UNKNOWN_COMMAND, f"runs {language} code too long to be read")
        return
    masked = " ".join(token.text if token.kind not in ("string", "command") else '""' for token in tokens)
    network = bool(_NETWORK.search(masked)) or any(
        token.kind == "string"
        and re.match(r"(net|tls|https?|dgram|socket|node:net|/inet\d?/tcp/.*|open-uri|axios)$", token.text)
        for token in tokens
    )
    # What `=~ s`, `tr` and `y` change is no constant any more.
    constants = {} if re.search(r"=~\s*(s|tr|y)\W", text) else _constants(tokens)
    for at, token in enumerate(tokens):
        call.machine.spend(1)
        if token.kind == "command":
            _run_shell(call, token.text, network)
        elif token.kind == "name":
            _judge_name(call, tokens, at, language, network, constants, depth)
        elif token.kind == "string":
            if network:
                check_address(call, token.text)
            if language in ("groovy", "scala") and _is_executed(tokens, at):
                _run_shell(call, token.text, network)
        elif token.kind == "substitution":
            judge_code(call, token.text, language, depth=depth + 1)
    _judge_whole(call, tokens, masked, network, language)
    judge_networks(call, text, tokens, network)
    if language not in ("mongo", "redis", "awk"):
        judge_strings(call, tokens, _joined_strings(tokens, constants), language)


def _joined_strings(tokens: list[Token], constants: dict[str, str]) -> list[str]:
    """Every constant string of a script, with those joined that it joins."""
    found: list[str] = []
    at = 0
    while at < len(tokens):
        if tokens[at].kind != "string":
            at += 1
            continue
        text, after = _string_at(tokens, at, constants)
        found.append(text or "")
        at = max(after, at + 1)
    return found


def _is_executed(tokens: list[Token], at: int) -> bool:
    """`"rm x".execute()` of Groovy and `"rm x".!` of Scala."""
    following = [token.text for token in tokens[at + 1 : at + 3]]
    return following[:1] == ["."] and following[1:2] in (["execute"], ["!"], ["!!"])


def _judge_tcl(call: Call, text: str) -> None:
    """Tcl is words on lines: `exec`, `spawn` and `file delete` at the head of a command."""
    for command in re.split(r"[;\n\[\]{}]", text):
        words = [word.strip('"') for word in command.split()]
        if words[:1] in (["exec"], ["spawn"], ["system"]) and len(words) > 1:
            call.shell_text(command.split(None, 1)[1].strip('"'))
        elif words[:2] == ["file", "delete"]:
            for path in words[2:]:
                if not path.startswith("-"):
                    delete(call, path, recursive=True)
        elif words[:2] in (["file", "rename"], ["file", "copy"]):
            call.run(
                ["mv" if words[1] == "rename" else "cp", *[word for word in words[2:] if not word.startswith("-")]]
            )
        elif words[:1] == ["open"] and len(words) > 1:
            _judge_open(call, "open", words[1:])


def _constants(tokens: list[Token]) -> dict[str, str]:
    """Variables that are set to one string."""
    found: dict[str, str] = {}
    for at in range(len(tokens) - 2):
        if tokens[at].kind == "name" and tokens[at + 1].text == "=" and tokens[at + 2].kind in ("string", "number"):
            found[tokens[at].text] = _string_at(tokens, at + 2, found)[0] or ""
    return found


def _string_at(tokens: list[Token], at: int, constants: dict[str, str]) -> tuple[str | None, int]:
    """A constant string expression beginning at a token, strings joined by + or . or ..; None when not constant."""
    out = ""
    unknown = False
    while at < len(tokens):
        token = tokens[at]
        if token.kind in ("string", "number"):
            out += token.text
        elif token.kind == "name" and token.text in constants:
            out += constants[token.text]
        elif token.kind == "name" or token.text in "($@":
            unknown = True
            at = _skip_expression(tokens, at)
            out += UNSET
            if at < len(tokens) and tokens[at].text in ("+", "."):
                at += 1
                continue
            break
        else:
            return (None, at) if not out else (out, at)
        at += 1
        if (at < len(tokens) and tokens[at].text in ("+", ".")) or (
            at + 1 < len(tokens) and tokens[at].text == "." and tokens[at + 1].text == "."
        ):
            at += 1
            while at < len(tokens) and tokens[at].text == ".":
                at += 1
            continue
        break
    return out if out or not unknown else UNSET, at


def _skip_expression(tokens: list[Token], at: int) -> int:
    level = 0
    while at < len(tokens):
        text = tokens[at].text if tokens[at].kind == "symbol" else ""
        if text in ("(", "[", "{"):
            level += 1
        elif text in (")", "]", "}"):
            if level == 0:
                return at
            level -= 1
        elif level == 0 and text in (",", ";", "+"):
            return at
        at += 1
    return at


def _arguments(tokens: list[Token], at: int, constants: dict[str, str]) -> list[str]:
    """The constant arguments of the call whose name is at `at`; a mark for each that is not constant."""
    at += 1
    if at < len(tokens) and tokens[at].text == "(":
        at += 1
    out: list[str] = []
    while at < len(tokens) and len(out) < 16:
        token = tokens[at]
        if token.kind == "symbol" and token.text in (")", ";", "}"):
            break
        if token.kind == "symbol" and token.text in (",", "[", "]", "{", "=", ">", ":", "&"):
            at += 1
            continue
        value, after = _string_at(tokens, at, constants)
        out.append(UNSET if value is None else value)
        at = max(after, at + 1)
    return out


def _judge_name(
    call: Call, tokens: list[Token], at: int, language: str, network: bool, constants: dict[str, str], depth: int
) -> None:
    full = tokens[at].text
    parts = re.split(r"::|\.|->|:", full.lstrip("$@%&"))
    last = parts[-1]
    owner = parts[-2] if len(parts) > 1 else _owner_before(tokens, at)
    following = tokens[at + 1].text if at + 1 < len(tokens) else ""
    if full.startswith("$") and len(parts) == 1:
        if following != "(" or constants.get(full) not in _SHELL:
            return
        last = constants[full]
    before = tokens[at - 1].text if at else ""
    callback = before in ("(", ",") and following == ")"
    if language in ("node", "deno", "bun", "php") and following != "(" and not callback and last not in _EVAL:
        return
    if language in ("perl", "ruby") and following in ("", "}", ")", ",") and last in _SHELL:
        return
    if following == "=" and at + 2 < len(tokens) and tokens[at + 2].text != "=":
        return
    if (
        last in _SHELL
        and (last not in _SHELL_OWNED or owner in _OWNERS)
        and not (
            last == "exec"
            and owner
            and owner not in (*_OWNERS, "require")
            and language in ("node", "deno", "bun")
            and not _child_process(tokens)
        )
    ):
        if last == "exec" and language in ("node",) and owner in ("re", "regex", "pattern", "rx"):
            return
        _judge_exec(call, _arguments(tokens, at, constants), network, language, last)
    elif last in (
        "array_map",
        "array_walk",
        "call_user_func",
        "call_user_func_array",
        "array_filter",
        "register_shutdown_function",
    ):
        given = _arguments(tokens, at, constants)
        if given and given[0] in _SHELL | frozenset(_DELETE):
            if given[0] in _DELETE:
                delete(call, UNSET, recursive=True)
            else:
                _judge_exec(call, given[1:], network, language, given[0])
    elif last in _DELETE or (
        last in _DELETE_OWNED and (owner in _DELETE_OWNERS or (language in ("julia", "swift") and not owner))
    ):
        recursive = _DELETE.get(last, _DELETE_OWNED.get(last, False))
        for path in _arguments(tokens, at, constants)[: None if language in ("perl", "ruby") else 1] or [UNSET]:
            if path not in ("recursive", "force", "true"):
                delete(call, _home(path, call), recursive=recursive)
    elif last in _WRITE or (last in ("write", "open", "fopen", "new") and owner in ("File", "IO", "io", "")):
        _judge_open(call, last, _arguments(tokens, at, constants))
    elif last in _READ or (last == "read" and owner in ("File", "IO")):
        for path in _arguments(tokens, at, constants)[:1]:
            content = read(call, _home(path, call)) if "://" not in path else ""
            if SECRET in content and network:
                call.report(EXFIL, "sends credentials to another machine")
        if last in ("copyFileSync", "copy"):
            for path in _arguments(tokens, at, constants)[1:2]:
                write(call, _home(path, call))
    elif last in names(
        """
rename renameSync symlink symlinkSync link cp mv move copy_file cp_r cpSync ln_s
"""
    ) and (owner in _DELETE_OWNERS or language == "perl"):
        found = _arguments(tokens, at, constants)
        if len(found) > 1:
            call.run(["mv" if last.startswith(("rename", "m")) else "cp", _home(found[0], call), _home(found[1], call)])
    elif last in ("chmod", "chmodSync", "chmod_R", "chown", "chownSync", "chown_R"):
        given = _arguments(tokens, at, constants)
        mode = next((one.lower().replace("o", "") for one in given if re.fullmatch(r"0o?[0-7]{3,5}", one)), "777")
        for path in given:
            if not re.fullmatch(r"0?o?\d+", path):
                call.run(["chmod" if "chmod" in last else "chown", mode, _home(path, call)])
    elif last == "kill":
        if "-1" in re.sub(r"\s", "", "".join(token.text for token in tokens[at : at + 8])):
            call.run(["kill", "-9", "--", "-1"])
    elif last in ("truncate", "truncateSync") and owner in ("fs", "File", ""):
        for path in _arguments(tokens, at, constants)[:1]:
            write(call, _home(path, call))
    elif last in _EVAL and following not in ("{", "=>", ":", "") and owner not in ("_", "self"):
        _judge_eval(call, _arguments(tokens, at, constants), network, language, depth)
    elif last in ("query", "execute", "do", "raw", "exec_query") or last.startswith("mysql"):
        for text in _arguments(tokens, at, constants)[:2]:
            reason = destruction(text)
            if reason:
                call.report(SQL_DESTROYS, reason)


def _child_process(tokens: list[Token]) -> bool:
    return any(token.kind == "string" and token.text in ("child_process", "node:child_process") for token in tokens)


def _owner_before(tokens: list[Token], at: int) -> str:
    if at < 2 or tokens[at - 1].text not in (".", "->", ":"):
        return ""
    for token in reversed(tokens[max(0, at - 6) : at - 1]):
        if token.kind == "string" and re.fullmatch(
            r"(node:)?(fs|fs/promises|child_process|fs-extra|os|shelljs)", token.text
        ):
            return token.text.removeprefix("node:").split("/")[0].replace("fs-extra", "fs")
        if token.kind == "name" and token.text not in ("require", "promises"):
            return re.split(r"::|\.|->", token.text)[-1]
    return ""


def _home(path: str, call: Call) -> str:
    return call.shell.home + path[1:] if path == "~" or path.startswith("~/") else path


def _judge_exec(call: Call, given: list[str], network: bool, language: str, name: str) -> None:
    if not given:
        given = [UNSET]
    argv = [one for one in given if one not in ("stdio", "inherit", "encoding", "utf8", "utf-8")]
    if network and argv and re.search(r"(^|/)(ba|z|da|k)?sh\b|^cmd", argv[0]):
        call.report(REVERSE_SHELL, "connects a shell to another machine")
    if len(argv) > 1 and name not in ("execSync", "popen", "shell_exec", "passthru", "execute"):
        call.run(argv, stdin="")
    elif argv:
        _run_shell(call, argv[0], network)


def _run_shell(call: Call, text: str, network: bool) -> None:
    marks = marks_in(text)
    if marks and not text.strip("".join(marks) + " "):
        if network:
            call.report(REMOTE_CODE, "runs what another machine sends")
        else:
            call.report(UNKNOWN_COMMAND, "runs a command that cannot be known beforehand")
        return
    call.shell_text(text)


def _judge_open(call: Call, name: str, given: list[str]) -> None:
    if not given:
        return
    if name in _WRITE or name == "write":
        write(call, _home(given[0], call))
        return
    words = [one for one in given if one]
    for at, word in enumerate(words):
        pipe = re.match(r"\s*\|\s*(.+)|(.+?)\s*\|\s*$", word, re.DOTALL)
        if pipe:
            _run_shell(call, pipe[1] or pipe[2], False)
            return
        redirected = re.match(r"\s*\+?>{1,2}\s*(.+)", word)
        if redirected:
            write(call, _home(redirected[1], call))
            return
        if word in (">", ">>", "+>", "+<", "-|", "|-") and at + 1 < len(words):
            if "|" in word:
                _run_shell(call, words[at + 1], False)
            else:
                write(call, _home(words[at + 1], call))
            return
        if re.fullmatch(r"[wa]b?\+?|r\+b?", word) and at:
            write(call, _home(words[at - 1], call))
            return
    path = words[0] if words else ""
    if "/" in path and "://" not in path:
        read(call, _home(path.lstrip("< "), call))


def _judge_eval(call: Call, given: list[str], network: bool, language: str, depth: int) -> None:
    text = given[-1] if given and language in ("node", "deno", "bun") else given[0] if given else ""
    if network:
        call.report(REMOTE_CODE, "runs code that another machine sends")
    elif text and not marks_in(text):
        if depth < 5:
            judge_code(call, text, language, depth=depth + 1)
    elif text:
        call.report(OPAQUE_CODE, "runs code that cannot be seen beforehand")


def _judge_whole(call: Call, tokens: list[Token], masked: str, network: bool, language: str) -> None:
    if (
        re.search(r"\bfork\b", masked)
        and re.search(r"\b(while|until|loop|for|forever)\b", masked)
        and re.search(r"fork\s*(\(\s*\))?\s*(while|until|if)|(while|loop|until|for)[^;]*fork", masked)
    ):
        call.report(FORK_BOMB, "starts processes without end")
    if (
        network
        and re.search(r"process . env\b|process\.env(?!\.)|\$ENV|%ENV|\bENV\b|\$_ENV|getenv", masked)
        and re.search(r"post|request|fetch|write|send|get", masked)
    ) and not re.search(r"process\.env\.(PORT|HOST|NODE_ENV|DEBUG)", masked):
        call.report(EXFIL, "may send the environment to another machine")
    if language in ("mongo", "redis") and _MONGO.search(masked.replace(" ", "")):
        call.report(SQL_DESTROYS, "deletes a database's content")
    if _ORM.search(masked) or (
        language in ("redis",)
        and any(token.kind == "string" and token.text.upper() in ("FLUSHALL", "FLUSHDB") for token in tokens)
    ):
        call.report(SQL_DESTROYS, "deletes every record")
