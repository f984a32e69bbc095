"""What an exit code means where the number alone misleads: `grep` that found nothing has not failed."""

import signal
from collections.abc import Mapping

from hermetic.tools.terminal.invocations import Invocation, last_invocation

_NO_MATCH = {1: "no line matched; this is not an error", 2: "it failed: a pattern or a file cannot be read"}
_DIFFERENT = {1: "the inputs differ; this is not an error", 2: "it could not compare, for example a file is missing"}
_FALSE = {1: "the condition is false; this is not an error", 2: "the condition cannot be evaluated"}
_NOT_FOUND = {1: "not found; this is not an error"}
_FINDINGS = {1: "it ran and reports findings", 2: "it could not run: its options or configuration"}
_ENGINE = {125: "the engine failed, not the command", 126: "the command cannot be run", 127: "not found in the image"}
_TESTS = {
    1: "tests ran and some failed",
    2: "the run was interrupted, or collecting tests failed",
    3: "an internal error of pytest",
    4: "wrong use of the command line",
    5: "no tests were found",
}

MEANINGS: Mapping[str, Mapping[int, str]] = {
    **dict.fromkeys(("grep", "egrep", "fgrep", "zgrep", "rg", "ag", "ack", "ugrep"), _NO_MATCH),
    **dict.fromkeys(("diff", "cmp", "zdiff", "colordiff", "sdiff", "diff3"), _DIFFERENT),
    **dict.fromkeys(("test", "[", "[["), _FALSE),
    **dict.fromkeys(("which", "type", "command", "hash", "pgrep", "pidof", "whereis"), _NOT_FOUND),
    **dict.fromkeys(("ruff", "mypy", "eslint", "flake8", "tsc", "shellcheck", "pyright"), _FINDINGS),
    **dict.fromkeys(("pytest", "py.test"), _TESTS),
    "find": {1: "some directories could not be read; what it printed is still right"},
    "expr": {1: "the result is empty or 0; this is not an error", 2: "the expression is invalid"},
    "let": {1: "the result is 0; this is not an error"},
    "jq": {1: "the last value is false or null (-e)", 4: "no value came out (-e)", 5: "the filter failed on its input"},
    "curl": {
        1: "the protocol is not supported",
        3: "the URL is malformed",
        5: "the proxy's name cannot be resolved",
        6: "the host's name cannot be resolved",
        7: "the connection was refused or failed",
        18: "the transfer ended early",
        22: "the server answered with a code of 400 or above (-f)",
        23: "the output cannot be written",
        28: "it timed out",
        35: "the TLS handshake failed",
        47: "too many redirects",
        52: "the server sent nothing",
        55: "sending failed",
        56: "receiving failed: the connection was cut",
        60: "the server's certificate is not trusted",
    },
    "wget": {
        3: "a file cannot be written",
        4: "the network failed",
        5: "the server's certificate is not trusted",
        6: "the server wants a login",
        8: "the server answered with an error",
    },
    "ssh": {255: "ssh itself failed: connection, host key or login"},
    "scp": {255: "ssh itself failed: connection, host key or login"},
    "rsync": {23: "some files were not transferred", 24: "some files vanished while it read them", 30: "it timed out"},
    "tar": {1: "some files differ or changed while they were read", 2: "it failed"},
    "make": {1: "a target is not up to date (-q)", 2: "a recipe failed; its own error stands above"},
    "xargs": {
        123: "one of its commands failed",
        124: "one of its commands exited with 255",
        127: "its command was not found",
    },
    "ping": {1: "no answer came", 2: "it failed, for example the name cannot be resolved"},
    "systemctl": {3: "the unit is not active", 4: "there is no such unit"},
    "apt-get": {100: "it failed; the reason stands above"},
    "apt": {100: "it failed; the reason stands above"},
    **dict.fromkeys(("docker", "podman"), _ENGINE),
    "git": {128: "a fatal error; the line that begins with `fatal:` says why", 129: "wrong use of git's options"},
}  # fmt: skip

_GIT = {
    "diff": "there are differences; this is not an error (--exit-code)",
    "grep": "no line matched; this is not an error",
    "merge": "there are conflicts to resolve, or nothing was merged",
    "rebase": "it stopped, most often on conflicts to resolve",
    "cherry-pick": "it stopped on conflicts to resolve",
    "revert": "it stopped on conflicts to resolve",
    "stash": "it could not be applied, or there is nothing to stash",
    "commit": "nothing was committed: nothing is staged, or a hook refused",
    "merge-base": "not an ancestor; this is not an error",
    "show-ref": "no such reference; this is not an error",
    "ls-remote": "no such reference; this is not an error",
    "ls-files": "a file is not known to git",
    "check-ignore": "not ignored; this is not an error",
    "config": "the key is not set; this is not an error",
}
_GIT_VALUED = frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path"})
_TIMEOUT = {124: "`timeout` ended it because its time was over", 137: "`timeout` ended it with KILL"}
_SHELLS_OWN = {
    126: "the program was found but cannot be executed: its permissions or its format",
    127: "the program was not found",
}


def exit_code_meaning(command: str, exit_code: int | None) -> str | None:
    """What the code of this command text means, by the program it ended with; None when there is nothing to add."""
    if not exit_code or exit_code < 0:
        return None
    last = last_invocation(command)
    if last is None:
        return _of_the_shell(exit_code)
    if last.is_negated:
        return "the command after ! succeeded; this is not an error" if exit_code == 1 else None
    meaning = _of_program(last.invocation, exit_code)
    if meaning is None:
        return _of_the_shell(exit_code)
    sure = f"{last.invocation.name}: {meaning}"
    return sure if last.is_certain else f"{sure} (if it ran: a command before && may have failed instead)"


def _of_program(invocation: Invocation, exit_code: int) -> str | None:
    if "timeout" in invocation.wrappers and exit_code in _TIMEOUT:
        return _TIMEOUT[exit_code]
    if invocation.name == "git" and exit_code == 1:
        return _GIT.get(_git_verb(invocation))
    if invocation.name in ("python", "python3") and invocation.arguments[:2] == ("-m", "pytest"):
        return _TESTS.get(exit_code)
    return MEANINGS.get(invocation.name, {}).get(exit_code)


def _git_verb(invocation: Invocation) -> str:
    words = iter(invocation.arguments)
    for word in words:
        if word in _GIT_VALUED:
            next(words, None)
        elif not word.startswith("-"):
            return word
    return ""


def _of_the_shell(exit_code: int) -> str | None:
    if exit_code in _SHELLS_OWN:
        return _SHELLS_OWN[exit_code]
    try:
        name = signal.Signals(exit_code - 128).name
    except ValueError:
        return None
    return f"128 + {exit_code - 128}: a program was ended by {name}"
