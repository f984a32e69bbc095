"""Whether a call concerns what is there for tests or development, and nobody else needs."""

from __future__ import annotations

import re

from .call import Call
from .paths import classify, resolve
from .tables import names, regex

TESTS = r"(?:tests?|testing|dev(?:elopment)?|ci|e2e|spec|scratch|sandbox|tmp|temp)"
_FOR_TESTS = regex(rf"(?i)(?<![a-z])i?{TESTS}(?![a-z])")
_LIVE = regex(r"(?i)prod|(?<![a-z])(?:live|staging|stage)(?![a-z])")
_HERE = regex(r"(?<![\w.-])(localhost|127\.0\.0\.1|\[?::1\]?)(?![\w.-])")
# Clusters that run on a developer's machine.
_CLUSTER = regex(
    rf"(^|\s)--(kube-)?context[= ]((kind|k3d)-\S+|minikube|docker-desktop|orbstack|colima|rancher-desktop|{TESTS})(\s|$)"
)
_SHARED = names("cloud-destroys sql-destroys read-secret")


def is_for_tests(call: Call, *names: str) -> bool:
    """True where names say that something is there for tests or development, and no word of a call
    says that it is in use.
    """
    words = [*call.args, *call.env.values(), *names]
    return any(map(_FOR_TESTS.search, names)) and not any(map(_LIVE.search, words))


def _chosen(call: Call) -> str:
    """The directory of a description of infrastructure."""
    given = (arg.partition("=")[2] for arg in call.args if arg.startswith(("-chdir=", "--chdir=")))
    return next(given, ".")


def _is_own_redis(call: Call, text: str) -> bool:
    """True for a server here on another port than the usual one, and for one of its numbered databases."""
    options = call.options
    host = options.value("h") or "localhost"
    is_here = _HERE.fullmatch(host) is not None and not options.value("u")
    number = options.value("n") or ""  # by custom the last of the sixteen are for tests
    is_numbered = re.fullmatch("[5-9]|1[0-5]", number) is not None and "flushdb" in text
    return is_here and (is_numbered or options.value("p") not in (None, "6379"))


def is_rehearsal(call: Call, rule: str) -> bool:
    """True where a rule about what others share applies to a cluster of this machine, to a server
    here with a name for tests, or to a repository among temporary files.
    """
    if rule == "rewrite-shared-history":
        path = "".join(call.options.operands[:1]) if call.name == "git-push" else "."
        is_path = path == "." or path.startswith(("/", "./", "../"))
        return is_path and classify(resolve(path, call.shell), call.shell) == "temp"
    text = " ".join(call.args).replace("/dev/", "")
    if call.row.language == "redis" and not _LIVE.search(text):
        return _is_own_redis(call, text.lower())
    if rule not in _SHARED or _LIVE.search(text):
        return False
    if _CLUSTER.search(text):
        return True
    kind, _, *named = (*call.options.operands, "", "")
    if kind == "volume" and any(named):  # of an engine here
        return all(map(_FOR_TESTS.search, filter(None, named)))
    if call.name in ("terraform", "tofu", "terragrunt"):
        inner = resolve(_chosen(call), call.shell).removeprefix(call.shell.workspace + "/")
        return not inner.startswith("/") and is_for_tests(call, inner)
    is_here = rule == "cloud-destroys" or (rule == "sql-destroys" and call.row.hook == "http")
    is_local = re.search(r"(^|\s)--local(\s|$)", text) is not None
    is_named = _HERE.search(text) is not None and _FOR_TESTS.search(text) is not None
    return is_here and (is_local or is_named)
