"""What scripts in Perl, Ruby, JavaScript, PHP … take from other machines, delete there, or ask of the kernel."""

import re

from .call import Call
from .commands.unseen import FORK_BOMB, REMOTE_CODE, UNKNOWN_COMMAND
from .destroys import CLOUD_DESTROYS
from .marks import NET
from .network import EXFIL, is_local
from .paths import resolve
from .script_tokens import Token

# Words that run what follows them, when that is an address.
_LOADS = re.compile(
    r"""\b(include|include_once|require|require_once|import|source|sys\.source|load|run|use|doFile|importScripts)\b"""
    r"""\s*\(?\s*(download\s*\(\s*|url\s*\(\s*|URI\s*\(\s*)?(["'])(https?|ftp|data)://?[^"']*"""
    r"""|\b(include|require)\b[^;]*["']data:|(eval-buffer|load-file|load)\b.*https?://|https?://.*\beval-buffer"""
)
_SAVES = re.compile(r"\b(getstore|mirror|download_file|urlretrieve|download\.file|copyURLToFile)\b")
_SYSCALL = re.compile(
    r"\bsyscall\s*\(|\bSYS_(unlink|rmdir|reboot|kill|rename|mount)\b|Fiddle|FFI::cdef|\bffi\.(C|cdef)\b"
)
_COPIES_ITSELF = re.compile(r"\bfork\s*\(\s*(__filename|process\.argv|import\.meta)|spawn\s*\([^)]*\b__filename")
# Libraries that speak to clouds and databases, and the calls by which they delete.
_CLIENTS = re.compile(r"(aws-sdk|@(aws-sdk|google-cloud|azure|kubernetes|octokit)/|mongodb|mongoose|redis|ioredis)")
_DESTROYS = re.compile(
    r"\.(delete|destroy|terminate|drop|purge|flush)(?!One\b)[A-Za-z]*\s*\(|new\s+(Delete|Terminate)\w*Command"
)
_WHOLE_ENVIRONMENT = re.compile(r"%ENV\b|\bENV\.(to_a|to_h|inspect)|getenv\s*\(\s*\)|Sys\.getenv\s*\(\s*\)")


def judge_networks(call: Call, text: str, tokens: list[Token], network: bool) -> None:
    """Report code and calls of a script that reach beyond this machine, or below its libraries."""
    strings = [token.text for token in tokens if token.kind == "string"]
    remote = [one for one in strings if re.match(r"(https?|ftp)://", one) and not is_local(one)]
    if _LOADS.search(text):
        call.report(REMOTE_CODE, "runs code that an address names")
    if _SYSCALL.search(text):
        call.report(UNKNOWN_COMMAND, "calls the kernel or a library directly")
    if _COPIES_ITSELF.search(text):
        call.report(FORK_BOMB, "starts copies of itself")
    if remote and (re.search(r"\bNet::HTTP::Delete\b|\.delete\s*\(", text) or "DELETE" in strings):
        call.report(CLOUD_DESTROYS, "deletes something on another machine by HTTP")
    if any(_CLIENTS.match(one) for one in strings) and _DESTROYS.search(text):
        call.report(CLOUD_DESTROYS, "deletes shared resources")
    if (network or remote) and _WHOLE_ENVIRONMENT.search(text):
        call.report(EXFIL, "may send the environment to another machine")
    if remote and _SAVES.search(text):
        for one in strings:
            if "://" not in one and one:
                call.shell.files[resolve(one, call.shell)] = NET
