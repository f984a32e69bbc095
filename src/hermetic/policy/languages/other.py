"""What shows in a script as a whole, where its calls are not read one by one."""

from __future__ import annotations

import re

from hermetic.policy.call import Call
from hermetic.policy.effects import delete
from hermetic.policy.paths import is_secret, resolve

from .tokens import Token

_MONGO = re.compile(
    r"\b(dropDatabase|dropIndexes|dropUser|dropAllUsers|dropRole|shutdownServer)\(|\.(drop)\(\)"
    r"|\.(deleteMany|remove|deleteOne|updateMany)\((\{\})?[,)]|\{(dropDatabase|drop|shutdown|dropAllUsersFromDatabase):"
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


def empties_database(tokens: list[Token]) -> bool:
    """True for a script of a document or key-value database's shell that deletes its content."""
    bare = "".join('""' if one.kind in ("string", "template") else one.text for one in tokens)
    strings = {one.text.upper() for one in tokens if one.kind in ("string", "template")}
    return _MONGO.search(bare) is not None or not strings.isdisjoint({"FLUSHALL", "FLUSHDB"})


# Names of what speaks to other machines, and beginnings of paths that only the script knows.
_SPEAKS = re.compile(
    r"(?i)(^|[^a-z])(socket|tcp|udp|connect|https?|fetch|request|post|upload|send|net|dial|url|uri|curl|smtp|ftp|ws)"
    r"([^a-z]|$|client|stream|listener|conn)"
)
_HOME = re.compile(r"^(~|\$?\{[^}]*\}|%s|#\{[^}]*\}|\$\w+(\{\w+\}|->\{\w+\})?)?/?(?=\.)")


def names_secret(call: Call, tokens: list[Token]) -> bool:
    """True for a script with the path of credentials below a home directory, perhaps in parts."""
    parts: list[str] = []
    for token in tokens:
        if token.kind in ("string", "template"):
            parts.append(token.text)
            for path in (token.text, "/".join(parts[-2:]), "/".join(parts[-3:])):
                inner = _HOME.sub("", path, count=1)
                full = f"{call.shell.home}/{inner}" if inner[:1] == "." else inner
                if full.startswith("/") and is_secret(resolve(full, call.shell), call.shell):
                    return True
        elif token.text not in (",", "+", ".", "/", "(", ")"):
            parts.clear()
    return False


def judge_strings(call: Call, tokens: list[Token], language: str) -> None:
    """Report strings that are commands in a script that starts programs, and paths given to what
    deletes.
    """
    words = [one.text for one in tokens if one.kind == "name"]
    strings = [one.text for one in tokens if one.kind in ("string", "template")]
    if any(map(_EVALS.fullmatch, words)) and any(map(_DECODES.fullmatch, words)):
        call.report("run-decoded", f"runs {language} code that only a decoder shows")
    if any(map(_SPEAKS.search, words)) and names_secret(call, tokens):
        call.report("send-secret", "sends credentials to another machine")
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
    for at, token in enumerate(tokens):
        if token.kind == "name" and _DELETES.search(token.text):
            near = (
                one.text for one in tokens[at + 1 : at + 9] if one.kind in ("string", "template")
            )
            given = next(near, "")
            if given.startswith(("/", "~")):
                delete(call, given, recursive=True)
