"""What deleting, writing and reading a path means, by the kind of place it is."""

from __future__ import annotations

import re
from functools import cache

from hermetic.policy.programs.table import TABLE
from hermetic.policy.tables import names, regex

from . import marks
from .budget import copying
from .call import Call
from .deception import DECEPTIVE, deception_in_file, deception_in_path
from .marks import DEVICE, ENDLESS, FILE, GLOBS, NET, SECRET, UNKNOWN, has_glob, is_known, shown
from .paths import Place, below_home, classify, follow, is_env_file, is_secret, resolve
from .protected import protect_ours

_SHARED_TOOLS = frozenset(names("sudo ls git ssh python python3 bash sh cat ps su npm node"))


def meaning(act: str, place: Place, size: str, full: str) -> tuple[str, str]:
    """The rule and the reason for a path that is deleted, written or taken; empty for what is
    harmless.
    """
    subject = f"{place.replace(' ', '-')} {size} {full}"
    return next((rule, reason) for shape, rule, reason in _table(act) if shape.fullmatch(subject))


@cache
def _table(act: str) -> list[tuple[re.Pattern[str], str, str]]:
    entries = TABLE.texts[act]
    return [(re.compile(one.pattern, re.DOTALL), one.rule, one.reason) for one in entries]


def delete(call: Call, path: str, *, recursive: bool) -> None:
    """Judge that the program deletes a path."""
    if not path:
        return
    full, place = call.place(path)
    behind = follow(full, call.shell)
    if behind != full and (path.endswith("/") or full not in call.shell.links):
        # a link itself may go, what lies behind it is deleted with `link/`
        full, place = call.place(behind)
    if full in call.shell.moved:  # it is what it was, wherever it was put before it goes
        full, place = call.place(call.shell.moved[full])
    call.machine.note("delete", full, scope="tree" if recursive else "one")
    protect_ours(call, full, shown(path))
    rule, reason = _deleted(call, path, full, place, recursive)
    if rule:
        call.report(rule, f"{reason}: {shown(path)}", full)


def _deleted(call: Call, path: str, full: str, place: Place, recursive: bool) -> tuple[str, str]:
    """The rule and the reason for a path that is deleted; empty for what is harmless."""
    if place in ("unknown", "root") and path[:1] in UNKNOWN:
        known = is_known(path.lstrip(UNKNOWN))
        what = "with an unknown beginning" if known else "that cannot be known"
        return "delete-unknown", f"deletes a path {what}"
    inner = full[len(call.shell.workspace) :].strip("/")
    if recursive and place in ("workspace", "env file") and not is_known(inner[:1]):
        return "delete-unknown", "deletes a part of the workspace that cannot be known"
    size = "tree" if recursive else "glob" if has_glob(path) else "one"
    return meaning("deleted", place, size, full)


def write(call: Call, path: str, *, content: str = "", tree: bool = False) -> None:
    """Judge that the program writes a path; `content` is remembered for what runs later in the same
    text.
    """
    if not path:
        return
    full = follow(resolve(path, call.shell), call.shell)
    place = classify(full, call.shell)
    call.machine.note("write", full)
    protect_ours(call, full, shown(path))
    hold(call, full, content)
    rule, reason = _written(call, full, place, tree)
    if rule and not (place == "hook" and _is_plain_hook(call, content)):
        call.report(rule, f"{reason}: {shown(path)}", full)


# What a hook of one's own has no need of: other machines, hidden code, what goes on when it ends.
_UNLIKE_HOOKS = regex(
    r"(?i)\b(curl|wget|nc|ncat|socat|ssh|scp|rsync|eval|source|base64|openssl|xxd|perl|python\d?|ruby|node|php|crontab|nohup"
    r"|setsid|disown|sudo|chmod|git\s+(push|remote|config))\b|/dev/|(?<![&>])&\s*($|[^&>\s\d])|(^|[\s;&|])[.~]?/(?!usr/bin|bin)\w"
)


def _is_plain_hook(call: Call, content: str) -> bool:
    """True for a git hook whose whole content is known, and that only runs tools of the project."""
    first, _, rest = content.partition("\n")
    is_shell = re.fullmatch(r"#!\s*(/usr/bin/env )?(/usr)?(/bin/)?(ba|da)?sh( -\w+)*", first)
    if not is_shell or not rest.strip() or not is_known(content) or _UNLIKE_HOOKS.search(rest):
        return False
    return not call.machine.probe_text(rest, call.shell)


def hold(call: Call, full: str, content: str) -> None:
    """Remember what a file holds for what runs later in the same text."""
    call.shell.files[full] = content
    check_deception(call, full, content)
    if ENDLESS in content and classify(full, call.shell) != "null":
        call.report("use-everything-up", f"fills the disk without end: {shown(full)}", full)


def check_deception(call: Call, full: str, content: str = "") -> None:
    """Report a file whose name or content looks other than it is."""
    reason = deception_in_file(full) or deception_in_file(content)
    reason = reason or deception_in_path(full, content)
    if reason and classify(full, call.shell) != "null":  # a terminal is there to be moved in
        call.report(DECEPTIVE, f"writes {reason}: {shown(full)}")


def _written(call: Call, full: str, place: Place, tree: bool) -> tuple[str, str]:
    """The rule and the reason for a path that is written; empty for what is harmless."""
    is_wide = has_glob(full)
    if place in ("sibling", "cache") or (place in ("user", "home") and not is_wide):
        return _written_home(call, full, place)
    return meaning("written", place, "glob" if is_wide else "tree" if tree else "one", full)


def _written_home(call: Call, full: str, place: Place) -> tuple[str, str]:
    inner, home = below_home(full, call.shell) or "", call.shell.home
    if not f"{full}/".startswith(home + "/") and not call.shell.remote and place != "sibling":
        return "write-outside", "writes into another user's home"
    if inner.startswith((".local/bin/", "bin/")) and inner.rsplit("/", 1)[-1] in _SHARED_TOOLS:
        return "write-startup", "puts a program in front of a system one"
    return ("write-home", "writes outside the workspace") if place != "cache" else ("", "")


_ADDRESS = regex(r"(https?|ftps?|sftp|scp|dav)://")


def read(call: Call, path: str, *, tree: bool = False) -> str:
    """Judge that the program shows or copies a path's content; gives the content as far as known."""
    if not path or path in ("-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"):
        return call.input() if path else ""
    if _ADDRESS.match(path):  # editors and libraries open these like files
        return NET
    full = follow(resolve(path, call.shell), call.shell)
    call.machine.note("read", full)
    held = call.shell.files.get(full)
    if held is not None:
        call.machine.spend(copying(held))
        return held
    if call.shell.is_fetched(full):
        return NET
    if is_secret(full, call.shell):
        call.report("read-secret", f"reads credentials: {shown(path)}", full)
        return SECRET
    place = call.place(path)[1]
    if is_env_file(full) or place == "history":
        call.report("read-env-file", f"reads a file that may hold credentials: {shown(path)}", full)
        return SECRET
    if full in ("/proc/mounts", "/proc/partitions", "/proc/self/mounts", "/etc/mtab", "/etc/fstab"):
        return FILE + DEVICE
    if full in ("/dev/zero", "/dev/urandom", "/dev/random", "/dev/full"):
        return FILE + ENDLESS
    if full.endswith(".pid") and full.startswith(("/run/", "/var/run/")):
        return marks.PIDS  # a service's id is enough to end it
    if full.startswith("/proc/" + marks.STAR):
        return FILE + marks.PIDS
    if tree and place == "home" and not full.rstrip("/").endswith(tuple(GLOBS)):
        return SECRET + FILE
    return FILE + (marks.STAR if has_glob(full) else "")
