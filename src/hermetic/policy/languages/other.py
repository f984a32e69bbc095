"""Languages and calls that are not read call by call:

Tcl, gnuplot, AppleScript, and texts as a whole.
"""

from __future__ import annotations

import itertools
import re

from hermetic.policy.call import Call
from hermetic.policy.dynamic_code import run_code
from hermetic.policy.effects import delete
from hermetic.policy.network import check_address, is_local
from hermetic.policy.programs.table import rule

from .tokens import Token

_SCRIPT = re.compile(r'(?i)do (?:shell )?script\s+"((?:[^"\\]|\\.)*)"')
# What AppleScript tells applications to do → rule and reason.
_TELLS = {
    r"(?i)\b(shut ?down|restart|sleep|log ?out)\b(?!\s*\")": (
        "power",
        "stops or restarts the machine",
    ),
    r"(?i)\bmake\b.*\blogin item\b": ("enable-service", "makes something start by itself"),
    r"(?i)\b(delete|empty)\b.*\b(trash|items?|files?|folders?|disk|home)\b": (
        "delete-outside",
        "deletes files by the Finder",
    ),
    r"(?i)\b(keystroke|key code)\b": ("run-unknown", "types into other windows"),
}
_MONGO = re.compile(
    r"\b(dropDatabase|dropIndexes|dropUser|dropAllUsers|dropRole|shutdownServer)\(|\.(drop)\(\)"
    r"|\.(deleteMany|remove|deleteOne|updateMany)\((\{\})?[,)]|\{(dropDatabase|drop|shutdown|dropAllUsersFromDatabase):"
)
_RECORDS = re.compile(
    r"\b(delete_all|destroy_all|truncate_all|drop_table|drop_database|purge)\b|\.flush(all|db)\b"
)
# Words that run what an address behind them names.
_LOADS = re.compile(
    r"""\b(include|include_once|require|require_once|import|source|load|run|use|doFile|importScripts)\b\s*\(?\s*"""
    r"""((download|url|URI)\s*\(\s*)?(["'])(https?|ftp|data)://?|(eval-buffer|load-file|load)\b.*https?://"""
    r"""|https?://.*\beval-buffer"""
)
_SYSCALL = re.compile(
    r"\bSYS_(unlink|rmdir|reboot|kill|rename|mount)\b|FFI::cdef|\bffi\.(C|cdef)\b"
)
_NETWORK = re.compile(
    r"(net|tls|https?|dgram|socket|node:net|/inet\d?/(tcp|udp)/.*|open-uri|axios)$|(https?|ftp)://"
)
# A name, or a string taken for one, by which a script starts something.
_STARTS = re.compile(
    r"(?i)(^|[^a-z])(system|exec\w*|spawn\w*|shell\w*|sh|popen\w*|command|run-?program|run|process|create-?process|"
    r"open-?process|call-?process|uiop|launch|subprocess|backtick|child_process)([^a-z]|$)"
)
_DELETES = re.compile(
    r"(?i)(^|[^a-z])(remove-?(item|dir\w*|tree|path|file|all)?|delete-?(tree|dir\w*|file\w*|path|recursively)?|rm-?r?f?|"
    r"rmtree|unlink|erase|deltree|removedir\w*)([^a-z]|$)"
)
_EVALS = re.compile(
    r"(?i)(eval|instance_eval|load|loadstring|exec|compile|read-from-string|Function)"
)
_DECODES = re.compile(
    r"(?i)(pack|unpack\w*|decode\w*|from_?char_?code|atob|fromhex|hex2bin|rot13|unescape|b64\w*)"
)
_HARMFUL = re.compile(
    r"\s*(/\S*/)?(rm|dd|shred|mkfs\S*|chmod|chown|curl|wget|nc|mv|kill|reboot|shutdown|sh|bash|find)\b"
)


def judge_other(call: Call, text: str, language: str) -> bool:
    """Judge a text whose language has no calls; False for all others."""
    if language == "tcl":
        _judge_tcl(call, text)
    elif language == "gnuplot":
        for command in re.findall(r"(?m)(?:^|;)\s*!\s*([^\n;]+)", text):
            call.shell_text(command)
    elif language == "applescript":
        _judge_applescript(call, text)
    return language in ("applescript",)


def _judge_applescript(call: Call, text: str) -> None:
    for match in _SCRIPT.finditer(text):
        run_code(call, match[1].replace('\\"', '"'), "a script")
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', '""', text)
    for pattern, (name, reason) in _TELLS.items():
        if re.search(r"(?i)\btell\s+(app|application)\b", text) and re.search(pattern, bare):
            call.report(rule(name), reason)


def _judge_tcl(call: Call, text: str) -> None:
    """Tcl is words on lines: `exec`, `spawn` and `file delete` at the head of a command."""
    for command in re.split(r"[;\n\[\]{}]", text):
        words = [word.strip('"') for word in command.split()]
        plain = [word for word in words[2:] if not word.startswith("-")]
        if words[:1] in (["exec"], ["spawn"], ["system"]) and len(words) > 1:
            call.shell_text(command.split(None, 1)[1].strip('"'))
        elif words[:1] == ["eval"] and not words[1:]:  # of what brackets or variables give
            call.report(rule("run-decoded"), "runs Tcl code that cannot be seen beforehand")
        elif words[:2] == ["file", "delete"]:
            for path in plain:
                delete(call, path, recursive=True)
        elif words[:2] in (["file", "rename"], ["file", "copy"]):
            call.run(["mv" if words[1] == "rename" else "cp", *plain])


def judge_whole(call: Call, text: str, tokens: list[Token], language: str, network: bool) -> None:
    """Report what shows in a text as a whole: addresses, databases, calls of the kernel."""
    strings = [one.text for one in tokens if one.kind in ("string", "template")]
    if network or any(map(_NETWORK.match, strings)):
        for one in strings:
            check_address(call, one)
    if _LOADS.search(text):
        call.report(rule("run-download"), "runs code that an address names")
    if _SYSCALL.search(text):
        call.report(rule("run-unknown"), "calls the kernel or a library directly")
    is_away = any(re.match(r"(https?|ftp)://", one) and not is_local(one) for one in strings)
    if is_away and (re.search(r"\bNet::HTTP::Delete\b|\.delete\s*\(", text) or "DELETE" in strings):
        call.report(rule("cloud-destroys"), "deletes something on another machine by HTTP")
    bare = "".join('""' if one.kind in ("string", "template") else one.text for one in tokens)
    if language in ("mongo", "redis"):
        words = {one.upper() for one in strings}
        if _MONGO.search(bare) or words & {"FLUSHALL", "FLUSHDB"}:
            call.report(rule("sql-destroys"), "deletes a database's content")
    elif _RECORDS.search(bare):
        call.report(rule("sql-destroys"), "deletes every record")


def judge_strings(call: Call, tokens: list[Token], language: str) -> None:
    """Report strings that are commands in a script that starts programs, and paths given to what
    deletes.
    """
    words = [one.text for one in tokens if one.kind == "name"]
    strings = [one.text for one in tokens if one.kind in ("string", "template")]
    if any(map(_EVALS.fullmatch, words)) and any(map(_DECODES.fullmatch, words)):
        call.report(rule("run-decoded"), f"runs {language} code that only a decoder shows")
    shape = " ".join(one.text if one.kind == "symbol" else '""' for one in tokens)
    if re.search(r"[)\]]\s*\(\s*\"\"", shape) or any(map(_STARTS.search, [*words, *strings])):
        for at, text in enumerate(strings):
            if not _HARMFUL.match(text):
                continue
            argv = [text.strip(), *strings[at + 1 :]]
            if " " in argv[0]:
                call.machine.probe_text(text, call.shell) and call.shell_text(text)
            elif len(argv) > 1 and call.machine.probe_argv(argv, call.shell):
                call.run(argv)
    for name, path in itertools.pairwise(strings):
        if re.fullmatch(r"(rm|unlink|rmdir|remove)(Sync|_rf|_r)?", name) and path.startswith(
            ("/", "~")
        ):
            delete(call, path, recursive=True)
    for at, token in enumerate(tokens):
        if token.kind == "name" and _DELETES.search(token.text):
            near = (
                one.text for one in tokens[at + 1 : at + 9] if one.kind in ("string", "template")
            )
            given = next(near, "")
            if given.startswith(("/", "~")):
                delete(call, given, recursive=True)
