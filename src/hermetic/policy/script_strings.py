"""What the strings of a script would do if it ran them, in languages whose calls are not all known by name."""

import itertools
import re

from .call import Call
from .commands.unseen import OPAQUE_CODE
from .effects import delete
from .script_tokens import Token

# A name, or a string that is taken for one, by which a script starts something.
_STARTS = re.compile(
    r"(?i)(^|[^a-z])(system|exec\w*|spawn\w*|shell\w*|sh|popen\w*|command|run-?program|run|process|create-?process|"
    r"open-?process|call-?process|uiop|launch|subprocess|backtick|child_process)([^a-z]|$)"
)
_DELETES = re.compile(
    r"(?i)(^|[^a-z])(remove-?(item|dir\w*|tree|path|file|all)?|delete-?(tree|dir\w*|file\w*|path|recursively)?|rm-?r?f?|"
    r"rmtree|unlink|erase|deltree|removedir\w*)([^a-z]|$)"
)
_EVALS = re.compile(r"(?i)^(eval|instance_eval|load|loadstring|exec|compile|read-from-string|Function)$")
_DECODES = re.compile(
    r"(?i)(^|\W)(pack|unpack\w*|decode\w*|from_?char_?code|atob|fromhex|hex2bin|rot13|unescape|b64\w*)$"
)
_HARMFUL = re.compile(
    r"\s*(/\S*/)?(rm|dd|shred|mkfs\S*|chmod|chown|curl|wget|nc|mv|kill|reboot|shutdown|sh|bash|find)\b"
)


def judge_strings(call: Call, tokens: list[Token], strings: list[str], language: str) -> None:
    """Report strings that are commands in a script that starts programs, and paths given to what deletes."""
    words = [token.text for token in tokens if token.kind == "name"]
    if any(_EVALS.match(word.rsplit(".", 1)[-1]) for word in words) and any(_DECODES.search(word) for word in words):
        call.report(OPAQUE_CODE, f"runs {language} code that only a decoder shows")
    shape = " ".join(token.text if token.kind == "symbol" else '""' for token in tokens)
    computed = re.search(r"[)\]]\s*\(\s*\"\"", shape)
    if computed or any(_STARTS.search(word) for word in [*words, *strings]):
        for at, text in enumerate(strings):
            if _HARMFUL.match(text):
                argv = [text.strip(), *strings[at + 1 :]]
                if " " in text.strip():
                    call.machine.probe_text(text, call.shell) and call.shell_text(text)
                elif len(argv) > 1 and call.machine.probe_argv(argv, call.shell):
                    call.run(argv)
    for name, path in itertools.pairwise(strings):
        if re.fullmatch(r"(rm|unlink|rmdir|remove)(Sync|_rf|_r)?", name) and path.startswith(("/", "~")):
            delete(call, path, recursive=True)
    for at, token in enumerate(tokens):
        if token.kind == "name" and _DELETES.search(token.text):
            given = next((other.text for other in tokens[at + 1 : at + 9] if other.kind == "string"), "")
            if given.startswith(("/", "~")):
                delete(call, given, recursive=True)
