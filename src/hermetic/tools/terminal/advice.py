"""Advice for a model on its command: that it will not end, what it leaves running, what its exit
code means.
"""

import itertools
import re
import signal
from collections.abc import Iterator, Mapping, Sequence

from hermetic.tools.base.invocations import Invocation, Statement, last_invocation, statements

# A program and the words that follow it somewhere, in this order: it then runs until it is ended.
_SERVERS = """
    npm run dev,npm run serve,npm run watch,npm start,pnpm run dev,pnpm run serve,pnpm run watch,
    pnpm start,pnpm dev,pnpm serve,pnpm watch,yarn run dev,yarn run serve,yarn run watch,yarn start,
    yarn dev,yarn serve,yarn watch,bun run dev,bun run serve,bun run watch,vite,vite dev,vite preview,
    next dev,next start,nuxt dev,astro dev,remix dev,ng serve,gatsby develop,webpack serve,
    webpack-dev-server,nodemon,live-server,http-server,json-server,python -m http.server,flask run,
    uvicorn,gunicorn,hypercorn,daphne,waitress-serve,fastapi dev,fastapi run,manage.py runserver,
    streamlit run,jupyter notebook,jupyter lab,celery worker,tensorboard,mlflow ui,rails server,
    rails s,puma,php -S,artisan serve,mix phx.server,hugo server,jekyll serve,mkdocs serve,caddy run,
    redis-server,mongod,kubectl port-forward,ngrok,cloudflared tunnel,cargo watch,watch,
    docker compose up,docker-compose up,podman compose up
"""
_FOLLOWERS = """
    tail -f,tail -F,tail --follow,journalctl -f,journalctl --follow,kubectl logs -f,docker logs -f,
    tsc --watch,tsc -w,jest --watch,dmesg -w,dmesg --follow,inotifywait -m
"""
_ENDLESS: dict[str, list[list[str]]] = {}  # by program
for _shape in f"{_SERVERS},{_FOLLOWERS}".split(","):
    _ENDLESS.setdefault(_shape.split()[0], []).append(_shape.split())
# Programs that draw a screen and wait for keys, and the arguments with which they do neither.
_FULL_SCREEN: dict[str, frozenset[str]] = {
    **dict.fromkeys(
        ("vi", "vim", "nvim", "view"), frozenset(str.split("-e -es -Es -s --headless"))
    ),
    "emacs": frozenset(str.split("-batch --batch --daemon")),
    "top": frozenset(("-b",)),
    **dict.fromkeys(str.split("nano pico micro htop btop mc"), frozenset[str]()),
}
# A text in which this finds nothing gets no hint, and need not be parsed for one.
may_get_hint = re.compile(
    "|".join(
        ["&", "nohup", "setsid", "disown", "python", *map(re.escape, (*_ENDLESS, *_FULL_SCREEN))]
    )
).search
_QUESTIONS = frozenset(str.split("--help -h -help help --version -V version -version"))
_DETACHED = frozenset(str.split("-d --detach -D --daemon --daemonize --background"))
# With one of these words the program is not a server.
_ONE_SHOT = {"vite": {"build", "optimize"}, "redis-server": {"--test-memory"}}
_RUNNERS = frozenset(str.split("npx bunx pnpx uvx pipx poetry uv pdm hatch bundle"))

BACKGROUND = "start it with background=true: it gets a session_id, and its output, input and end are the process tool's"

_DENIED = re.compile(
    r"Permission denied|Operation not permitted|Read-only file system|Network is unreachable|Could not resolve host"
    r"|Temporary failure in name resolution|Connection refused|Name or service not known"
)
SANDBOXED = (
    "the sandbox seems to have denied it something; if it has to reach the machine itself, call again with "
    "outside=true, and the user is asked"
)


def foreground_hint(command: str, *, pty: bool = False) -> str | None:
    """Advice on a command that is run in the foreground; None when there is none.

    It is never a reason to refuse.
    """
    found = statements(command)
    calls = [call for statement in found for call in statement.invocations]
    hints = [_on_jobs(found, calls), _on_detaching(calls), _on_servers(found)]
    if not pty:
        hints.append(_on_screens(calls))
    return " ".join(hint for hint in hints if hint) or None


def _on_jobs(found: Sequence[Statement], calls: Sequence[Invocation]) -> str | None:
    """About `&`, unless the command itself waits for its jobs."""
    if all(statement.operator != "&" for statement in found) or any(
        call.name == "wait" for call in calls
    ):
        return None
    hint = f"`&` leaves a job behind that is not waited for; to follow or end it, {BACKGROUND}."
    if any(
        before.operator == "&&" and after.operator == "&"
        for before, after in itertools.pairwise(found)
    ):
        hint += " In `A && B &` the whole chain is the job, A included: a `cd` in it does not change the session."
    return hint


def _on_detaching(calls: Sequence[Invocation]) -> str | None:
    for call in calls:
        for name in (*call.wrappers, call.name):
            if name in ("nohup", "setsid", "disown") and not _is_question(call):
                return f"`{name}` is not needed here: nothing is ended when a call returns. Without it, {BACKGROUND}."
    return None


def _on_servers(found: Sequence[Statement]) -> str | None:
    for statement in found:
        if statement.operator == "&":
            continue
        for call in statement.invocations:
            if not _is_question(call) and (name := _endless(call)):
                return f"`{name}` runs until it is ended, and this call waits until its time is over; {BACKGROUND}."
    return None


def _on_screens(calls: Sequence[Invocation]) -> str | None:
    for call in calls:
        quiet = _FULL_SCREEN.get(call.name)
        if quiet is not None and not quiet & set(call.arguments) and not _is_question(call):
            return (
                f"`{call.name}` draws on a terminal and waits for keys; call it with pty=true, and use the process tool's "
                "screen and keys. Files are changed with patch and write_file"
            )
    return None


def _endless(call: Invocation) -> str | None:
    """What of this runs for ever, as a person would name it; None when it ends by itself."""
    words = [call.name, *call.arguments]
    while len(words) > 1 and (words[0] in _RUNNERS or words[0] == "run"):
        words = [word for word in words[1:] if word not in ("run", "exec", "-y", "--yes", "--")]
    if words[0].startswith("python") and len(words) > 1 and words[1].endswith(".py"):
        words = words[1:]
    words[0] = "python" if words[0].startswith("python") else words[0].rsplit("/", 1)[-1]
    if (
        words[0] == "python"
        and words[1:2] == ["-m"]
        and len(words) > 2
        and words[2] != "http.server"
    ):
        words = words[2:]
    if words[0] == "php" and words[1:2] == ["artisan"]:
        words = words[1:]
    if _DETACHED & set(words) or _ONE_SHOT.get(words[0], set()) & set(words):
        return None
    return next(
        (" ".join(shape) for shape in _ENDLESS.get(words[0], ()) if _fits(shape, words)), None
    )


def _fits(shape: Sequence[str], words: Sequence[str]) -> bool:
    """Whether a shape's words follow the program's name in order."""
    rest = iter(words[1:])
    return all(_leads_to(part, rest) for part in shape[1:])


def _leads_to(part: str, rest: Iterator[str]) -> bool:
    if part.startswith("-") and not part.startswith("--") and len(part) == 2:
        return any(
            word.startswith("-") and not word.startswith("--") and part[1] in word for word in rest
        )
    return any(word == part for word in rest)


def _is_question(call: Invocation) -> bool:
    return bool(_QUESTIONS & set(call.arguments))


def sandbox_hint(exit_code: int | None, output: str) -> str | None:
    """What to do about a command that failed because of its sandbox, as far as what it printed
    tells.
    """
    return SANDBOXED if exit_code and _DENIED.search(output[-4000:]) else None


# -- exit codes
# Programs that share their meanings, and the meanings by code.
_MEANINGS = {
    "grep egrep fgrep zgrep rg ag ack ugrep": {
        1: "no line matched; this is not an error",
        2: "it failed: a pattern or a file cannot be read",
    },
    "diff cmp zdiff colordiff sdiff diff3": {
        1: "the inputs differ; this is not an error",
        2: "it could not compare, for example a file is missing",
    },
    "test [ [[": {
        1: "the condition is false; this is not an error",
        2: "the condition cannot be evaluated",
    },
    "which type command hash pgrep pidof whereis": {1: "not found; this is not an error"},
    "ruff mypy eslint flake8 tsc shellcheck pyright": {
        1: "it ran and reports findings",
        2: "it could not run: its options or configuration",
    },
    "pytest py.test": {
        1: "tests ran and some failed",
        2: "the run was interrupted, or collecting tests failed",
        3: "an internal error of pytest",
        4: "wrong use of the command line",
        5: "no tests were found",
    },
    "find": {1: "some directories could not be read; what it printed is still right"},
    "expr": {1: "the result is empty or 0; this is not an error", 2: "the expression is invalid"},
    "let": {1: "the result is 0; this is not an error"},
    "jq": {
        1: "the last value is false or null (-e)",
        4: "no value came out (-e)",
        5: "the filter failed on its input",
    },
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
    "ssh scp": {255: "ssh itself failed: connection, host key or login"},
    "rsync": {
        23: "some files were not transferred",
        24: "some files vanished while it read them",
        30: "it timed out",
    },
    "tar": {1: "some files differ or changed while they were read", 2: "it failed"},
    "make": {
        1: "a target is not up to date (-q)",
        2: "a recipe failed; its own error stands above",
    },
    "xargs": {
        123: "one of its commands failed",
        124: "one of its commands exited with 255",
        127: "its command was not found",
    },
    "ping": {1: "no answer came", 2: "it failed, for example the name cannot be resolved"},
    "systemctl": {3: "the unit is not active", 4: "there is no such unit"},
    "apt-get apt": {100: "it failed; the reason stands above"},
    "docker podman": {
        125: "the engine failed, not the command",
        126: "the command cannot be run",
        127: "not found in the image",
    },
    "git": {
        128: "a fatal error; the line that begins with `fatal:` says why",
        129: "wrong use of git's options",
    },
}
MEANINGS: Mapping[str, Mapping[int, str]] = {
    program: meanings for programs, meanings in _MEANINGS.items() for program in programs.split()
}
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
_GIT_VALUED = frozenset(str.split("-C -c --git-dir --work-tree --namespace --exec-path"))
_TIMEOUT = {
    124: "`timeout` ended it because its time was over",
    137: "`timeout` ended it with KILL",
}
_SHELLS_OWN = {
    126: "the program was found but cannot be executed: its permissions or its format",
    127: "the program was not found",
}


def exit_code_meaning(command: str, exit_code: int | None) -> str | None:
    """What the code of this command text means, by the program it ended with; None when there is
    nothing to add.
    """
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
    if last.is_certain:
        return sure
    return f"{sure} (if it ran: a command before && may have failed instead)"


def _of_program(invocation: Invocation, exit_code: int) -> str | None:
    if "timeout" in invocation.wrappers and exit_code in _TIMEOUT:
        return _TIMEOUT[exit_code]
    if invocation.name == "git" and exit_code == 1:
        return _GIT.get(_git_verb(invocation))
    if invocation.name in ("python", "python3") and invocation.arguments[:2] == ("-m", "pytest"):
        return MEANINGS["pytest"].get(exit_code)
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
