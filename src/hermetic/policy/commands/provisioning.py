"""Tools that bring a machine into a described state: puppet, chef and salt, by the resources in their texts."""

from __future__ import annotations

import re

from hermetic.policy.call import Call, Judge
from hermetic.policy.effects import delete, write
from hermetic.policy.marks import LOCAL
from hermetic.policy.rules import Rule

from .unseen import run_code

PROVISION = Rule(
    name="provision-machine",
    category="service-stop",
    severity=7,
    effects=("changes shared state",),
    catches=("puppet apply -e 'service{\"nginx\":ensure=>stopped}'", "salt-call --local service.stop nginx"),
    spares=("puppet --version", "salt-call --local test.ping"),
)
RULES = (PROVISION,)

_RESOURCE = re.compile(r"\b(\w+)\s*\{\s*['\"]?([^'\":{}]+)['\"]?\s*:([^}]*)\}?", re.DOTALL)
_BLOCK = re.compile(r"\b(\w+)\s*\(?['\"]([^'\"]+)['\"]\)?(.*?)(?:\bend\b|$)", re.DOTALL)
_GONE = re.compile(r"ensure\s*(=>|=)?\s*['\"]?(absent|purged|stopped)|:(delete|remove|purge|stop|disable)\b")
_SALT = re.compile(r"\b(cmd|file|service|pkg|user|system|disk|mount)\.(\w+)\s*(.*)", re.DOTALL)
_STATEFUL = frozenset({"service", "package", "user", "group", "pkg", "mount", "cron", "system", "disk"})


def _resource(call: Call, kind: str, name: str, body: str) -> None:
    """Judge one resource: a file, a command, a service, a package, an account."""
    gone = bool(_GONE.search(body))
    if kind in ("file", "directory", "template", "cookbook_file", "remote_file", "link", "remote_directory"):
        delete(call, name, recursive=True) if gone else write(call, name)
    elif kind in ("exec", "execute", "bash", "script", "powershell_script"):
        command = re.search(r"(?:command|code)\s*(?:=>|=)?\s*['\"]([^'\"]+)['\"]", body)
        run_code(call, command[1] if command else name, call.name)
    elif kind in _STATEFUL and (gone or kind in ("user", "group", "cron", "disk")):
        call.report(PROVISION, f"stops or removes a {kind}: {name}")


def judge_puppet(call: Call) -> str | None:
    """puppet apply -e TEXT, and puppet resource TYPE NAME ATTRIBUTE=VALUE."""
    words = [arg for arg in call.args if not arg.startswith("-")]
    for flag, value in zip(call.args, call.args[1:], strict=False):
        if flag in ("-e", "--execute"):
            for match in _RESOURCE.finditer(value):
                _resource(call, match[1], match[2].strip(), match[3])
    if words[:1] == ["resource"] and len(words) > 3:
        _resource(call, words[1], words[2], " ".join(words[3:]))
    return LOCAL + "\n"


def judge_chef(call: Call) -> str | None:
    """chef-apply -e TEXT: blocks of Ruby that name a resource."""
    texts = [value for flag, value in zip(call.args, call.args[1:], strict=False) if flag in ("-e", "--execute")]
    if call.stdin is not None and any(arg in ("-s", "--stdin") for arg in call.args):
        texts.append(call.stdin)
    for text in texts:
        for match in _BLOCK.finditer(text):
            _resource(call, match[1], match[2], match[3])
    return LOCAL + "\n"


def judge_salt(call: Call) -> str | None:
    """salt-call MODULE.FUNCTION ARGUMENTS on this machine."""
    words = [arg for arg in call.args if not arg.startswith("-")]
    match = _SALT.search(" ".join(words))
    if match is None:
        return LOCAL + "\n"
    module, function, rest = match[1], match[2], match[3]
    first = rest.split()[0] if rest.split() else ""
    if module == "cmd":
        run_code(call, rest, call.name)
    elif module == "file" and function in ("remove", "rename", "move"):
        delete(call, first, recursive=True)
    elif module == "file" and re.match(r"(write|append|touch|copy|replace|line|symlink|blockreplace)", function):
        write(call, first)
    elif re.match(r"(stop|disable|remove|purge|delete|kill|reboot|shutdown|halt|poweroff|format|add|chg)", function):
        call.report(PROVISION, f"stops or removes something: {module}.{function}")
    return LOCAL + "\n"


JUDGES: dict[str, Judge] = {
    "puppet": judge_puppet,
    **dict.fromkeys(("chef-apply", "chef-client", "chef-solo"), judge_chef),
    "salt-call": judge_salt,
}
